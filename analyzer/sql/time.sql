-- Split of time: lengths of unions of intervals. The union of a set is found by walking it in order of start and
-- beginning a new piece wherever no earlier interval reaches; what two sets share is |a| + |b| - |a and b together|.
with parts as (
  select ts, ts + dur as te,
    case
      when class = 'compute' then 'compute'
      when class in ('read', 'write') and cat not in ('posix', 'stdio', 'process') then 'app_io'
      when class in ('read', 'write', 'metadata', 'sync') and cat in ('posix', 'stdio')
        and (file is null or file not like '<%') then 'io'
    end as part
  from events where dur > 0
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
    (select max(ts + dur) - min(ts) from events) as total_ns,
    coalesce(max(ns) filter (where name = 'compute'), 0) as compute_ns,
    coalesce(max(ns) filter (where name = 'app_io'), 0) as app_io_ns,
    coalesce(max(ns) filter (where name = 'io'), 0) as io_ns,
    coalesce(max(ns) filter (where name = 'compute_or_io'), 0) as compute_or_io_ns,
    coalesce(max(ns) filter (where name = 'compute_or_app_io'), 0) as compute_or_app_io_ns
  from unions
)
select total_ns, compute_ns, app_io_ns, io_ns,
  compute_or_app_io_ns - compute_ns as unoverlapped_app_io_ns,
  compute_or_app_io_ns - app_io_ns as unoverlapped_app_compute_ns,
  compute_or_io_ns - compute_ns as unoverlapped_io_ns,
  compute_or_io_ns - io_ns as unoverlapped_compute_ns,
  total_ns - compute_or_io_ns as other_ns
from figures;
