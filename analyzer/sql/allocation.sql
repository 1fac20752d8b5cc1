-- Allocation: hosts, processes and threads that took part. Lost events count for every selected process: their kind is unknown.
with selected as (
  -- With a filter, only processes with events: hosts counts these. Without a filter, all processes.
  select * from processes
  where events > 0 or (select sum(processes) from hosts) = (select count(*) from processes)
)
select
  (select count(*) from hosts) as hosts,
  (select count(*) from selected) as processes,
  (select count(*) from (select distinct host, pid, start_ts from selected)) as pids,
  (select count(*) from selected where ended = 'killed') as killed,
  (select count(*) from (select distinct host, pid, tid from events)) as threads,
  (select count(*) from (select distinct host, pid, tid from events
     where layer not in ('app', 'hdf5', 'mpi') and class in ('read', 'write', 'metadata', 'sync') and (file is null or file not like '<%')
       or layer = 'app' and cat = 'object')) as io_threads,
  (select count(*) from (select distinct host, pid, tid from events
     where layer = 'app' and class = 'compute')) as compute_threads,
  (select count(*) from events) as events,
  (select coalesce(sum(lost), 0) from processes) as lost,
  (select coalesce(sum(aggregated), 0) from processes) as aggregated,
  (select coalesce(sum(filtered), 0) from processes) as filtered,
  (select coalesce(sum(names_lost), 0) from processes) as names_lost,
  (select coalesce(sum(misused_spans), 0) from processes) as misused_spans,
  (select count(*) from (select distinct host, pid from events where file = '<io_uring>' and layer not in ('app', 'hdf5', 'mpi'))) as uring,
  (select coalesce(sum(ret), 0) from events where layer = 'posix' and name = 'io_uring_unseen') as uring_requests;
