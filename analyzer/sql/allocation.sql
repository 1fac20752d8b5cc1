-- Allocation: who took part. With a filter, hosts and processes are those with events.
select
  (select count(*) from hosts) as hosts,
  (select count(*) from processes) as processes,
  (select count(*) from (select distinct host, pid, start_ts from processes)) as pids,
  (select count(*) from processes where ended = 'killed') as killed,
  (select count(*) from (select distinct host, pid, tid from events)) as threads,
  (select count(*) from (select distinct host, pid, tid from events
     where layer <> 'app' and class in ('read', 'write', 'metadata', 'sync') and (file is null or file not like '<%')
       or layer = 'app' and cat = 'object')) as io_threads,
  (select count(*) from (select distinct host, pid, tid from events
     where layer = 'app' and class = 'compute')) as compute_threads,
  (select count(*) from events) as events,
  (select sum(lost) from processes) as lost,
  (select sum(aggregated) from processes) as aggregated,
  (select sum(filtered) from processes) as filtered,
  (select sum(names_lost) from processes) as names_lost,
  (select sum(misused_spans) from processes) as misused_spans;
