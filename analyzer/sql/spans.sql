-- Spans, instants and counters: what the program said of itself.
-- percentile_cont knows the place of a quantile between two values to a millionth of their distance.
select name, cat, class,
  count(*) as count, count(*) filter (where ret < 0) as failed, sum(dur) as time_ns,
  min(dur) as "duration_ns.min",
  percentile_cont(0.25) within group (order by dur) as "duration_ns.p25",
  avg(dur) as "duration_ns.mean",
  percentile_cont(0.5) within group (order by dur) as "duration_ns.median",
  percentile_cont(0.75) within group (order by dur) as "duration_ns.p75",
  percentile_cont(0.95) within group (order by dur) as "duration_ns.p95",
  percentile_cont(0.99) within group (order by dur) as "duration_ns.p99",
  max(dur) as "duration_ns.max"
from events where layer = 'app'
group by name, cat, class order by time_ns desc, name;
