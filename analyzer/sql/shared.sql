-- Shared files: used by two program images or more. The report knows the ranks too of those that copied from a file, which
-- the table events does not.
select path, processes, events, opens, bytes_read, bytes_written, time_ns
from files where processes > 1 and path not like '<%'
order by time_ns desc, path limit 100;
