-- Ranks: the sums over the process images of each rank. span_ns is that of the longest image.
with beneath as (
  -- The time of an MPI-IO call is that of the calls beneath it, if the trace has them.
  select distinct proc, file_id from events where layer not in ('app', 'mpiio', 'hdf5', 'mpi') and class in ('read', 'write') and bytes > 0
),
selected as (
  -- With a filter, only processes with events: hosts counts these. Without a filter, all processes.
  select * from processes
  where events > 0 or (select sum(processes) from hosts) = (select count(*) from processes)
),
each as (
  select p.proc, p.rank, p.host, p.pid, p.start_ts, p.events, p.bytes_read, p.bytes_written,
    count(*) filter (where e.ret < 0 and e.class <> 'wait') as failed,
    coalesce(sum(e.dur) filter (where e.on_file and not e.is_above and e.class = 'read'), 0) as read_ns,
    coalesce(sum(e.dur) filter (where e.on_file and not e.is_above and e.class = 'write'), 0) as write_ns,
    coalesce(sum(e.dur) filter (where e.on_file and e.class = 'metadata'), 0) as metadata_ns,
    coalesce(sum(e.dur) filter (where e.on_file and e.class = 'sync'), 0) as sync_ns,
    coalesce(sum(e.dur) filter (where e.layer = 'app' and e.class = 'compute'), 0) as compute_ns,
    coalesce(sum(e.dur) filter (where e.layer not in ('app', 'hdf5', 'mpi') and not e.on_file and e.class = 'read'
    or e.class = 'wait' and e.name not like '%sleep'), 0) as wait_ns,
    coalesce(max(e.ts + e.dur) - min(e.ts), 0) as span_ns
  from selected p left join (
    select v.*, v.layer not in ('app', 'hdf5', 'mpi') and (v.file is null or v.file not like '<%') as on_file,
      v.layer = 'mpiio' and b.proc is not null as is_above
    from events v left join beneath b on v.layer = 'mpiio' and b.proc = v.proc and b.file_id = v.file_id
  ) e on e.proc = p.proc
  where p.rank is not null
  group by p.proc, p.rank, p.host, p.pid, p.start_ts, p.events, p.bytes_read, p.bytes_written
)
select rank, count(*) as processes, count(distinct concat(host, ' ', pid, ' ', start_ts)) as pids,
  sum(events) as events, sum(failed) as failed, sum(bytes_read) as bytes_read, sum(bytes_written) as bytes_written,
  sum(read_ns) as read_ns, sum(write_ns) as write_ns, sum(metadata_ns) as metadata_ns, sum(sync_ns) as sync_ns,
  sum(compute_ns) as compute_ns, sum(wait_ns) as wait_ns, max(span_ns) as span_ns
from each group by rank order by rank;
