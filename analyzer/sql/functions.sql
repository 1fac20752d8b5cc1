-- Metrics by function. The quantiles of a long trace take memory: they keep every value.
select name, cat, class, count(*) as count, count(errno) as failed, sum(dur) as time_ns,
  min(dur) as dur_min, avg(dur) as dur_mean, max(dur) as dur_max,
  sum(bytes) as bytes, min(bytes) as size_min, percentile_cont(0.25) within group (order by bytes) as size_p25,
  avg(bytes) as size_mean, percentile_cont(0.5) within group (order by bytes) as size_median,
  percentile_cont(0.75) within group (order by bytes) as size_p75, max(bytes) as size_max
from events where cat in ('posix', 'stdio', 'process')
group by name, cat, class order by time_ns desc, name;
