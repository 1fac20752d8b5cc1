-- Split of time: lengths of unions of intervals. The union of a set is computed in order of start times: a new part begins where no
-- earlier interval reaches. The intersection of two sets is |a| + |b| - |a union b|.
with known as (
  -- A training step without its forward: the visible part of compute is not all of it.
  select count(*) as parts from events
  where layer = 'app' and cat = 'pipeline' and name in ('backward', 'optimizer.step', 'optimizer.part')
),
parts as (
  select ts, ts + dur as te,
    case
      when layer = 'app' and class = 'compute' and known.parts = 0 then 'compute'
      when layer = 'app' and class in ('read', 'write') then 'app_io'
      when layer not in ('app', 'hdf5', 'mpi') and class in ('read', 'write', 'metadata', 'sync')
        and (file is null or file not like '<%') then 'io'
      when layer = 'app' and cat = 'object' then 'io'
    end as part
  from events cross join known
),
sets as (
  select part as name, ts, te from parts where part is not null
  union all select 'compute_or_io', ts, te from parts where part in ('compute', 'io')
  union all select 'compute_or_app_io', ts, te from parts where part in ('compute', 'app_io')
),
reach as (
  select name, ts, te,
    max(te) over (partition by name order by ts, te rows between unbounded preceding and 1 preceding) as before
  from sets
),
unions as (
  select name, sum(greatest(te - greatest(ts, coalesce(before, ts)), 0)) as ns from reach group by name
),
figures as (
  select
    (select min(ts) from events) as start_ts,
    (select max(ts + dur) from events) as end_ts,
    max(ns) filter (where name = 'compute') as compute_ns,
    max(ns) filter (where name = 'app_io') as app_io_ns,
    coalesce(max(ns) filter (where name = 'io'), 0) as io_ns,
    coalesce(max(ns) filter (where name = 'compute_or_io'), 0) as compute_or_io_ns,
    coalesce(max(ns) filter (where name = 'compute_or_app_io'), 0) as compute_or_app_io_ns
  from unions
)
-- Values that need compute or the I/O of the application are null if no span shows it.
select start_ts, end_ts, end_ts - start_ts as total_ns, compute_ns, app_io_ns, io_ns,
  case when app_io_ns is not null then compute_or_app_io_ns - compute_ns end as unoverlapped_app_io_ns,
  case when compute_ns is not null then compute_or_app_io_ns - app_io_ns end as unoverlapped_app_compute_ns,
  case when compute_ns is not null then compute_or_io_ns - compute_ns end as unoverlapped_io_ns,
  case when compute_ns is not null then compute_or_io_ns - io_ns end as unoverlapped_compute_ns,
  end_ts - start_ts - compute_or_io_ns as other_ns
from figures;
