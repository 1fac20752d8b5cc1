-- Dataset: the files that calls named. Pipes, sockets and terminals count only with their bytes.
-- In summary mode, `(other files)` represents files that were counted together; their number is unknown.
with stored as (select * from files where path not like '<%'),
  single as (select * from stored where path <> '(other files)'),
  extents as (select cast(bytes_read as double) / size as reads, size, sum(size) over (order by cast(bytes_read as double) / size, path) as below,
    sum(size) over () as whole from single where size > 0 and bytes_read > 0)
select
  (select count(*) > 0 from stored where path = '(other files)') as at_least,
  (select coalesce(sum(events), 0) from stored where path = '(other files)') as other_events,
  (select count(*) from single) as files,
  (select count(*) from single where bytes_read > 0) as files_read,
  (select count(*) from single where bytes_written > 0) as files_written,
  (select coalesce(sum(bytes_read), 0) from stored) as bytes_read,
  (select coalesce(sum(bytes_written), 0) from stored) as bytes_written,
  (select coalesce(sum(size), 0) from single) as bytes_reached,
  (select count(*) from single where processes > 1) as files_shared,
  (select count(*) from single where opens > 0 and bytes_read + bytes_written = 0) as files_unused,
  (select coalesce(sum(opens), 0) from single where bytes_read + bytes_written = 0) as opens_unused,
  (select count(*) from events where name = 'mmap' and regexp_like(file, '^/dev/shm/(torch_|psm_|pym-|sem[.]|joblib_)')) as memory_maps,
  greatest((select coalesce(sum(greatest(bytes_read - size, 0)), 0) from single where size is not null)
    - (select coalesce(sum(bytes), 0) from events where layer not in ('app', 'hdf5', 'mpi') and class = 'read' and bytes > 0 and pos is null
      and file_id is not null and file not like '<%'), 0) as bytes_reread,
  (select coalesce(sum(cast(cast(time_ns as double) * (cast(bytes_read - size as double) / bytes_read) as bigint)), 0)
    from single where bytes_read > size) as reread_ns,
  (select min(reads) from extents where 2 * below >= whole) as usual_reads,
  (select coalesce(sum(bytes_read), 0) from files where path like '<%') as elsewhere_read,
  (select coalesce(sum(bytes_written), 0) from files where path like '<%') as elsewhere_written;
