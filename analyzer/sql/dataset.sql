-- Dataset: the files that calls named, pipes, sockets and terminals left out but for what went through them.
select
  count(*) as files,
  count(*) filter (where bytes_read > 0) as files_read,
  count(*) filter (where bytes_written > 0) as files_written,
  sum(bytes_read) as bytes_read,
  sum(bytes_written) as bytes_written,
  sum(size) as bytes_reached,
  (select coalesce(sum(bytes_read), 0) from files where path like '<%') as elsewhere_read,
  (select coalesce(sum(bytes_written), 0) from files where path like '<%') as elsewhere_written
from files where path not like '<%';
