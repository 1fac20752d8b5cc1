//! Totals over the events of a process; the events themselves are not kept.

use std::collections::HashMap;

use dlio_schemas::native::columns::Events;
use dlio_schemas::native::tally::Row;
use dlio_schemas::ops::{Class, Layer, Op};
use dlio_schemas::record::Record;
use foldhash::fast::RandomState;

/// Calls of one operation on one file. Exact totals are integers; estimates from a sample are not.
#[derive(Clone, Copy, Default, Debug, PartialEq)]
pub struct Count {
    pub calls: f64,
    pub failed: f64,
    pub bytes: f64,
    pub ticks: f64,
}

impl Count {
    pub fn add(&mut self, other: &Count, times: f64) {
        self.calls += other.calls * times;
        self.failed += other.failed * times;
        self.bytes += other.bytes * times;
        self.ticks += other.ticks * times;
    }
}

/// An operation, and the process's number for the file.
pub type Call = (Op, u32);

/// Name and category of a span, as numbers of the process.
pub type Span = (u32, u32);

/// A completed span, as start and length in ticks.
pub type Stretch = (u64, u64);

/// Totals over some events of a process.
#[derive(Clone, Default, Debug)]
pub struct Counts {
    /// Calls, spans, instants and counters.
    pub events: f64,
    pub calls: HashMap<Call, Count, RandomState>,
    pub spans: HashMap<Span, Vec<Stretch>, RandomState>,
    /// Calls that a thread could not record for lack of space, by its own count.
    pub lost: f64,
}

impl Counts {
    pub fn add_records(&mut self, records: &[Record]) {
        for r in records {
            self.add_event(r.op(), (r.file, r.fd), (r.start, r.duration()), r.a, r.ret);
        }
    }

    pub fn add_events(&mut self, events: &Events) {
        for i in 0..events.len() {
            let (subject, time) = ((events.file[i], events.fd[i]), (events.start[i], events.duration[i]));
            self.add_event(Op(events.op[i]), subject, time, events.a[i], events.ret[i]);
        }
    }

    #[inline(always)]
    fn add_event(&mut self, op: Op, (file, fd): (u32, i32), (start, length): Stretch, a: i64, ret: i64) {
        let Some(info) = op.info() else { return };
        match op {
            Op::META => return,
            Op::LOST => {
                self.lost += a.max(0) as f64;
                return;
            }
            Op::SPAN => self.spans.entry((file, fd as u32)).or_default().push((start, length)),
            _ if info.layer == Layer::App => {}
            _ => {
                let count = self.calls.entry((op, file)).or_default();
                count.calls += 1.0;
                count.failed += f64::from(ret < 0 && info.class != Class::Wait);
                count.bytes += if info.moves_bytes() { ret.max(0) as f64 } else { 0.0 };
                count.ticks += length as f64;
            }
        }
        self.events += 1.0;
    }

    /// Adds totals, scaled by `times`.
    pub fn add(&mut self, other: Counts, times: f64) {
        self.events += other.events * times;
        self.lost += other.lost;
        for (call, count) in other.calls {
            self.calls.entry(call).or_default().add(&count, times);
        }
        for (span, stretches) in other.spans {
            self.spans.entry(span).or_default().extend(stretches);
        }
    }
}

/// Totals of a counter table or of the records in a ring at one point in time. Only their growth since the previous
/// snapshot is reported.
#[derive(Clone, Default, Debug)]
pub struct Standing {
    pub events: f64,
    pub calls: HashMap<Call, Count, RandomState>,
    /// Ticks within completed spans, if a counter table records them.
    pub spans: HashMap<Span, f64, RandomState>,
}

impl Standing {
    pub fn add_rows(&mut self, rows: &[Row]) {
        for row in rows {
            self.events += row.count as f64;
            let count = Count {
                calls: row.count as f64,
                failed: row.failed as f64,
                bytes: row.bytes as f64,
                ticks: row.ticks as f64,
            };
            match (row.category, row.op.info()) {
                (Some(category), _) if row.op == Op::SPAN => {
                    *self.spans.entry((row.subject, category)).or_default() += count.ticks;
                }
                (_, Some(info)) if info.layer != Layer::App => {
                    self.calls.entry((row.op, row.subject)).or_default().add(&count, 1.0);
                }
                _ => {}
            }
        }
    }

    pub fn add_counts(&mut self, counts: &Counts) {
        self.events += counts.events;
        for (call, count) in &counts.calls {
            self.calls.entry(*call).or_default().add(count, 1.0);
        }
    }

    /// Returns the difference to an earlier snapshot. It is negative for records that moved from the ring into a block,
    /// by the block's count.
    pub fn since(&self, before: &Standing) -> Standing {
        let mut added = self.clone();
        added.events -= before.events;
        for (call, count) in &before.calls {
            added.calls.entry(*call).or_default().add(count, -1.0);
        }
        for (span, ticks) in &before.spans {
            *added.spans.entry(*span).or_default() -= ticks;
        }
        added.calls.retain(|_, count| *count != Count::default());
        added
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dlio_schemas::record::word;

    fn record(op: Op, file: u32, ret: i64) -> Record {
        Record { word: word(op, 0, false, 10), start: 100, file, fd: 3, a: 5, ret, ..Record::default() }
    }

    #[test]
    fn calls_add_up_by_operation_and_file() {
        let mut counts = Counts::default();
        let records = [(Op::READ, 1, 100), (Op::READ, 1, 50), (Op::READ, 2, 7), (Op::OPEN, 1, -2), (Op::OPEN, 1, 3)];
        counts.add_records(&records.map(|(op, file, ret)| record(op, file, ret)));
        assert_eq!(counts.events, 5.0);
        let count = |calls, failed, bytes, ticks| Count { calls, failed, bytes, ticks };
        assert_eq!(counts.calls[&(Op::READ, 1)], count(2.0, 0.0, 150.0, 20.0));
        assert_eq!(counts.calls[&(Op::OPEN, 1)], count(2.0, 1.0, 0.0, 20.0));
    }

    #[test]
    fn what_belongs_to_events_is_none_and_a_wait_that_times_out_has_not_failed() {
        let mut counts = Counts::default();
        let records = [record(Op::META, 1, 0), record(Op::LOST, 0, 0), record(Op::SEM_TIMEDWAIT, 0, -110)];
        counts.add_records(&records);
        counts.add_records(&[record(Op::SPAN, 1, 0), record(Op::INSTANT, 1, 0)]);
        assert_eq!((counts.events, counts.lost), (3.0, 5.0));
        assert_eq!(counts.calls[&(Op::SEM_TIMEDWAIT, 0)].failed, 0.0);
        assert_eq!(counts.spans[&(1, 3)], [(100, 10)]);
    }

    #[test]
    fn what_stands_is_told_by_what_was_added() {
        let mut counts = Counts::default();
        counts.add_records(&[record(Op::READ, 1, 100), record(Op::OPEN, 1, 3)]);
        let (mut before, mut now) = (Standing::default(), Standing::default());
        before.add_counts(&counts);
        counts.add_records(&[record(Op::READ, 1, 11)]);
        now.add_counts(&counts);
        let added = now.since(&before);
        assert_eq!((added.events, added.calls.len(), added.calls[&(Op::READ, 1)].bytes), (1.0, 1, 11.0));
        // The new block contains the records that left the ring, so their sum is unchanged.
        let gone = before.since(&now);
        assert_eq!((gone.events, gone.calls[&(Op::READ, 1)].calls), (-1.0, -1.0));
    }
}
