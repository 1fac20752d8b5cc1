-- Allocation: who took part. With a filter, processes are those with events: add `where events > 0`.
select
  (select count(*) from hosts) as hosts,
  (select count(*) from processes) as processes,
  (select count(*) from (select distinct host, pid, start_ts from processes)) as pids,
  (select count(*) from processes where ended = 'killed') as killed,
  (select count(*) from (select distinct host, pid, tid from events)) as threads,
  (select count(*) from (select distinct host, pid, tid from events
     where class in ('read', 'write', 'metadata', 'sync') and cat in ('posix', 'stdio')
       and (file is null or file not like '<%'))) as io_threads,
  (select count(*) from (select distinct host, pid, tid from events where class = 'compute')) as compute_threads,
  (select count(*) from events) as events,
  (select sum(lost) from processes) as lost,
  (select sum(filtered) from processes) as filtered;
