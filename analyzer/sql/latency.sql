-- Latency: times of single file calls; reads and writes by the bytes they moved. The report's quantiles are approximate (within
-- 0.4 %).
-- percentile_cont interpolates a quantile between two values to a millionth of their distance.
with timed as (
  select class, dur,
    case when class in ('metadata', 'sync') then null when bytes = 0 then 0 when bytes < 4096 then 1
      when bytes < 65536 then 4096 when bytes < 1048576 then 65536 when bytes < 16777216 then 1048576
      else 16777216 end as low
  from events
  where layer not in ('app', 'hdf5', 'mpi') and (class in ('metadata', 'sync') or class in ('read', 'write') and bytes is not null)
    and (file is null or file not like '<%')
)
select class, low as "from",
  case low when 0 then 1 when 1 then 4096 when 4096 then 65536 when 65536 then 1048576 when 1048576 then 16777216 end as "to",
  count(*) as count, sum(dur) as time_ns,
  quantiles(dur) as duration_ns
from timed group by class, low
order by case class when 'read' then 0 when 'write' then 1 when 'metadata' then 2 else 3 end, low;
