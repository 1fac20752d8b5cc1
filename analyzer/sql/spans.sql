-- Spans: what the program said of itself.
select name, cat, class, count(*) as count, sum(dur) as time_ns, min(dur) as dur_min, avg(dur) as dur_mean,
  max(dur) as dur_max
from events where cat not in ('posix', 'stdio', 'process')
group by name, cat, class order by time_ns desc, name;
