-- By directory.
select directory, count(*) as files, sum(events) as events, sum(opens) as opens, sum(bytes_read) as bytes_read,
  sum(bytes_written) as bytes_written, sum(time_ns) as time_ns
from files where path not like '<%'
group by directory order by time_ns desc;
