-- Shared files: files that two or more process images used. The report also has the ranks that copied from a file; the table events
-- does not.
select path, processes, events, opens, bytes_read, bytes_written, time_ns
from files where processes > 1 and path not like '<%'
order by time_ns desc, path limit 100;
