-- Directories: the file calls in each directory.
select
  case when path = '(other files)' then path else coalesce(directory, '.') end as directory,
  count(*) filter (where path <> '(other files)') as files,
  sum(events) as events, sum(opens) as opens, sum(bytes_read) as bytes_read, sum(bytes_written) as bytes_written,
  sum(time_ns) as time_ns
from files where path not like '<%'
group by 1 order by time_ns desc, directory;
