-- By process.
-- Bytes of MPI-IO calls are in it too; the report leaves them out where calls beneath them moved the same bytes.
select p.host, p.pid, p.rank, p.program, p.ended, p.threads, p.lost, p.events,
  count(e.errno) as failed,
  coalesce(sum(e.bytes) filter (where e.class = 'read'), 0) as bytes_read,
  coalesce(sum(e.bytes) filter (where e.class = 'write'), 0) as bytes_written,
  coalesce(sum(e.dur) filter (where e.class = 'read'), 0) as read_ns,
  coalesce(sum(e.dur) filter (where e.class = 'write'), 0) as write_ns,
  coalesce(sum(e.dur) filter (where e.class = 'metadata'), 0) as metadata_ns,
  coalesce(sum(e.dur) filter (where e.class = 'sync'), 0) as sync_ns
from processes p left join (select * from events where cat in ('posix', 'stdio', 'process')) e on e.proc = p.proc
group by p.proc, p.host, p.pid, p.rank, p.program, p.ended, p.threads, p.lost, p.events
order by p.proc;
