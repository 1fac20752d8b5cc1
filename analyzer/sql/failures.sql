-- Failures: file calls that failed, by function and error.
select name, cat, class, errno, count(*) as count, sum(dur) as time_ns, first_value(file order by ts) as file
from events
where layer not in ('app', 'hdf5', 'mpi') and class in ('read', 'write', 'metadata', 'sync') and ret < 0 and (file is null or file not like '<%')
group by name, cat, class, errno order by count desc, name, cat, errno nulls first;
