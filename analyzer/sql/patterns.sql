-- Names: files by the pattern of their path, with # for digits. If there are more patterns, the report adds one row for the rest.
select regexp_replace(path, '[0-9]+', '#', 'g') as pattern,
  count(*) filter (where path <> '(other files)') as files, sum(processes) as users,
  sum(events) as events, sum(opens) as opens, sum(bytes_read) as bytes_read, sum(bytes_written) as bytes_written,
  sum(time_ns) as time_ns
from files where path not like '<%'
group by 1 order by time_ns desc, pattern limit 100;
