-- Processes: one row per process image.
with beneath as (
  -- The time of an MPI-IO call is that of the calls beneath it, if the trace has them.
  select distinct proc, file_id from events where layer not in ('app', 'mpiio', 'hdf5', 'mpi') and class in ('read', 'write') and bytes > 0
),
selected as (
  -- With a filter, only processes with events: hosts counts these. Without a filter, all processes.
  select * from processes
  where events > 0 or (select sum(processes) from hosts) = (select count(*) from processes)
)
select p.proc, p.host, p.pid, p.rank, coalesce(p.program, '') as program, p.ended, p.threads, p.lost, p.events,
  count(*) filter (where e.ret < 0 and e.class <> 'wait') as failed, p.bytes_read, p.bytes_written,
  coalesce(sum(e.dur) filter (where e.on_file and not e.is_above and e.class = 'read'), 0) as read_ns,
  coalesce(sum(e.dur) filter (where e.on_file and not e.is_above and e.class = 'write'), 0) as write_ns,
  coalesce(sum(e.dur) filter (where e.on_file and e.class = 'metadata'), 0) as metadata_ns,
  coalesce(sum(e.dur) filter (where e.on_file and e.class = 'sync'), 0) as sync_ns,
  coalesce(sum(e.dur) filter (where e.layer = 'app' and e.class = 'compute'), 0) as compute_ns,
  coalesce(sum(e.dur) filter (where e.layer not in ('app', 'hdf5', 'mpi') and not e.on_file and e.class = 'read'
    or e.class = 'wait' and e.name not like '%sleep'), 0) as wait_ns,
  coalesce(max(e.ts + e.dur) - min(e.ts), 0) as span_ns, min(e.ts) as first_ts
from selected p left join (
    select v.*, v.layer not in ('app', 'hdf5', 'mpi') and (v.file is null or v.file not like '<%') as on_file,
      v.layer = 'mpiio' and b.proc is not null as is_above
    from events v left join beneath b on v.layer = 'mpiio' and b.proc = v.proc and b.file_id = v.file_id
  ) e on e.proc = p.proc
group by p.proc, p.host, p.pid, p.rank, p.program, p.ended, p.threads, p.lost, p.events, p.bytes_read, p.bytes_written
order by p.proc;
