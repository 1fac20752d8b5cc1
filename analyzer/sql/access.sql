-- Access patterns: compares each call that moved bytes of a file with the previous call of its pass. A pass contains the reads (or
-- writes) of one thread and layer between opening and closing the file. A request from the first byte of an object also starts a pass.
with calls as (
  select proc, tid, file_id, ts, dur, class, pos, bytes,
    case when layer in ('posix', 'stdio') then layer else 'other' end as layer,
    (class in ('read', 'write') and bytes > 0) as moves,
    case when coalesce(ret, 0) >= 0 and name in ('open', 'openat', 'creat', 'mkstemp', 'fopen', 'freopen',
      'MPI_File_open', 'io_uring_openat', 'io_uring_openat2', 'close', 'fclose', 'io_uring_close') or layer = 'object' and pos = 0 and bytes > 0 then 1 else 0 end as bound
  from events
  where layer not in ('app', 'hdf5', 'mpi') and class in ('read', 'write', 'metadata', 'sync') and file_id is not null and file not like '<%'
),
passes as (
  select *, sum(bound) over (partition by proc, tid, file_id order by ts, dur rows unbounded preceding) as pass from calls
),
related as (
  select layer, class, pos, bytes,
    lag(pos) over w as start_before, lag(pos + bytes) over w as end_before
  from passes where moves and pos is not null
  window w as (partition by proc, tid, file_id, layer, class, pass order by ts, dur)
),
named as (
  select layer, class, pos, bytes,
    case when end_before is null then 'first' when pos = end_before then 'consecutive' when pos > end_before then 'forward'
      when pos = start_before then 'repeated' else 'backward' end as relation
  from related
  union all
  select layer, class, pos, bytes, 'unknown' from passes where moves and pos is null
)
select layer, class,
  count(*) filter (where relation = 'first') as "calls.first",
  count(*) filter (where relation = 'consecutive') as "calls.consecutive",
  count(*) filter (where relation = 'forward') as "calls.forward",
  count(*) filter (where relation = 'backward') as "calls.backward",
  count(*) filter (where relation = 'repeated') as "calls.repeated",
  count(*) filter (where relation = 'unknown') as "calls.unknown",
  coalesce(sum(bytes) filter (where relation = 'first'), 0) as "bytes.first",
  coalesce(sum(bytes) filter (where relation = 'consecutive'), 0) as "bytes.consecutive",
  coalesce(sum(bytes) filter (where relation = 'forward'), 0) as "bytes.forward",
  coalesce(sum(bytes) filter (where relation = 'backward'), 0) as "bytes.backward",
  coalesce(sum(bytes) filter (where relation = 'repeated'), 0) as "bytes.repeated",
  coalesce(sum(bytes) filter (where relation = 'unknown'), 0) as "bytes.unknown",
  count(*) filter (where pos % 4096 <> 0) as off_start,
  count(*) filter (where pos is not null and bytes % 4096 <> 0) as off_size,
  count(*) filter (where pos % 4096 <> 0 and bytes % 4096 <> 0) as off_both
from named group by layer, class
order by case layer when 'posix' then 0 when 'stdio' then 1 else 2 end, class;
