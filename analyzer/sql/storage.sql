-- Storage: files by the first directory of their path, objects by their bucket.
with metadata_calls as (
  select file_id, sum(dur) as ns from events where layer not in ('app', 'hdf5', 'mpi') and class = 'metadata' and file_id is not null group by file_id
)
select
  case when path = '(other files)' then path
    when path like '%://%' and path not like '/%'
      then split_part(path, '://', 1) || '://' || split_part(substr(path, strpos(path, '://') + 3), '/', 1)
    when path like '/%/%' then '/' || split_part(path, '/', 2)
    when path like '/%' then '/' else '.' end as place,
  count(*) filter (where path <> '(other files)') as files, sum(opens) as opens, sum(bytes_read) as bytes_read,
  sum(bytes_written) as bytes_written, sum(time_ns) as time_ns, coalesce(sum(metadata_calls.ns), 0) as asked_ns
from files left join metadata_calls on metadata_calls.file_id = files.file_id
where path not like '<%'
group by 1 order by time_ns desc, place;
