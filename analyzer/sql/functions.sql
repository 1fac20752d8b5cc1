-- Metrics by function. The quantiles of a long trace need memory for every value.
-- percentile_cont interpolates a quantile between two values to a millionth of their distance.
select name, cat, class,
  count(*) as count, count(*) filter (where ret < 0) as failed, sum(dur) as time_ns,
  quantiles(dur) as duration_ns,
  sum(bytes) as bytes,
  quantiles(bytes) as size
from events where layer not in ('app', 'hdf5', 'mpi') and class <> 'wait' and (file is null or file not like '<%')
group by name, cat, class order by time_ns desc, name;
