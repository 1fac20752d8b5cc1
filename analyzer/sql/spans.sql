-- Spans, instants and counters of the program.
-- percentile_cont interpolates a quantile between two values to a millionth of their distance.
select name, cat, class,
  count(*) as count, count(*) filter (where ret < 0) as failed, sum(dur) as time_ns,
  quantiles(dur) as duration_ns
from events where layer = 'app'
group by name, cat, class order by time_ns desc, name;
