-- Hosts. With a filter, those of which something passed.
select host, cores, memory, processes, clock_spread_ns from hosts;
