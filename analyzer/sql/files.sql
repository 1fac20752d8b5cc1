-- Files: the calls on each file.
select path, events, opens, bytes_read, bytes_written, time_ns
from files where path not like '<%'
order by time_ns desc, path limit 100;
