-- Checkpoints: their spans, and files with 1 MiB or more of writes, without logs, generated data sets and files that another process reads.
with made as (select min(ts) as start, max(ts + dur) as stop from events where layer = 'app' and name = 'generate'),
shared as (select file from events where file is not null and class in ('read', 'write') and bytes > 0
  group by file having count(distinct proc) > 1),
saved as (select files.* from files cross join made where bytes_written >= 1048576 and bytes_written >= 4096 * events and path not like '<%'
  and (bytes_read = 0 or path not in (select file from shared))
  and (start is null or first_ts < start or first_ts >= stop)),
spans as (select count(*) as n, coalesce(sum(dur), 0) as ns from events where layer = 'app' and class = 'write')
select n = 0 as inferred, n as spans, ns as span_ns,
  (select count(*) from saved) as files,
  (select coalesce(sum(bytes_written), 0) from saved) as bytes_written,
  (select coalesce(sum(time_ns), 0) from saved) as time_ns
from spans;
