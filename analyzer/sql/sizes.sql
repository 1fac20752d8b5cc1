-- Access sizes: reads and writes of files by the bytes they moved, in powers of two. Calls that moved nothing are in a separate row.
with moved as (
  select class, bytes, dur, case when bytes = 0 then 0 else cast(power(2, floor(log2(bytes))) as bigint) end as low
  from events
  where layer not in ('app', 'hdf5', 'mpi') and class in ('read', 'write') and bytes is not null and (file is null or file not like '<%')
)
select class, low as "from", case when low = 0 then 1 else 2 * low end as "to",
  count(*) as count, sum(bytes) as bytes, sum(dur) as time_ns
from moved group by class, low order by class, low;
