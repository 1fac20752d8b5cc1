-- Hosts. With a filter, only hosts with matching events.
select host, cores, memory, processes, clock_spread_ns from hosts;
