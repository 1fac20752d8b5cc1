-- Checkpoints: spans that say so, and the files of which 1 MiB or more was written.
with spans as (select count(*) as n, coalesce(sum(dur), 0) as ns from events where layer = 'app' and class = 'write')
select n = 0 as inferred, n as spans, ns as span_ns,
  (select count(*) from files where bytes_written >= 1048576 and path not like '<%') as files,
  (select coalesce(sum(bytes_written), 0) from files where bytes_written >= 1048576 and path not like '<%') as bytes_written,
  (select coalesce(sum(time_ns), 0) from files where bytes_written >= 1048576 and path not like '<%') as time_ns
from spans;
