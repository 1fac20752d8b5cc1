-- Calls not on files: calls on pipes, sockets and terminals, and calls that wait. The quantiles of a long trace need memory for every
-- value.
-- percentile_cont interpolates a quantile between two values to a millionth of their distance.
select name, cat, class,
  count(*) as count, count(*) filter (where ret < 0) as failed, sum(dur) as time_ns,
  quantiles(dur) as duration_ns,
  sum(bytes) as bytes,
  quantiles(bytes) as size
from events where layer <> 'app' and (class = 'wait' or file like '<%' or layer in ('hdf5', 'mpi'))
group by name, cat, class order by time_ns desc, name;
