-- By rank.
-- Bytes of MPI-IO calls are in it too; the report leaves them out where calls beneath them moved the same bytes.
select p.rank, count(distinct p.proc) as processes, count(*) as events,
  coalesce(sum(e.bytes) filter (where e.class = 'read'), 0) as bytes_read,
  coalesce(sum(e.bytes) filter (where e.class = 'write'), 0) as bytes_written,
  coalesce(sum(e.dur) filter (where e.class = 'compute'), 0) as compute_ns
from processes p join events e on e.proc = p.proc
where p.rank is not null
group by p.rank order by p.rank;
