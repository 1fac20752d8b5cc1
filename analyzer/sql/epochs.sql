-- Epochs: one row per epoch number of spans. The bytes read during an epoch are not in this query; the report takes them from its
-- timeline.
with numbered as (
  select epoch, name, ts, dur, ts + dur as end_ts, class,
    class <> 'compute' and (starts_with(name, 'fetch') or starts_with(name, 'enumerate(DataLoader)')
      or starts_with(name, '[_TrainingEpochLoop].train_dataloader_next')) as is_wait
  from events where epoch is not null
)
select epoch, min(ts) as start_ts, max(end_ts) - min(ts) as total_ns,
  count(*) filter (where is_wait and name <> 'fetch.end') as batches,
  coalesce(sum(dur) filter (where is_wait), 0) as wait_ns,
  coalesce(sum(dur) filter (where class = 'compute'), 0) as compute_ns,
  min(end_ts) filter (where is_wait and name <> 'fetch.end') - min(ts) as first_batch_ns
from numbered group by epoch order by epoch limit 4096;
