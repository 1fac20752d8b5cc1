-- Dataset: the files that calls named, pipes and sockets left out.
select
  count(*) as files,
  count(*) filter (where bytes_read > 0) as files_read,
  count(*) filter (where bytes_written > 0) as files_written,
  sum(bytes_read) as bytes_read,
  sum(bytes_written) as bytes_written,
  sum(size) as bytes_reached
from files where path not like '<%';
