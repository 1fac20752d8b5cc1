//! Computes the depth of events in texts that do not contain it: the number of open spans of their thread when they
//! start.
//!
//! Spans come in any order, for example after their children if they are written when they end. So all spans of a file
//! are collected before the first depth is computed. A span takes 24 bytes here, a fraction of its text.

use std::cmp::Reverse;
use std::collections::HashMap;

use foldhash::fast::RandomState;

use crate::batch::Batch;
use crate::catalog::{Catalog, Origin};

/// The spans of a file, by process and thread.
#[derive(Default)]
pub struct Nesting {
    threads: HashMap<(u32, i32), Spans, RandomState>,
    spans: SpanKinds,
}

#[derive(Default)]
struct Spans {
    /// Start and end, in order; among equal starts the longest first.
    open: Vec<(i64, Reverse<i64>)>,
    /// All ends, in order.
    ends: Vec<i64>,
}

/// The kinds of events that are spans, by number.
#[derive(Clone, Default)]
pub struct SpanKinds(Vec<bool>);

impl SpanKinds {
    fn has(&mut self, kind: u32, catalog: &Catalog) -> bool {
        if kind as usize >= self.0.len() {
            self.0.extend(catalog.kinds_from(self.0.len()).iter().map(|kind| kind.origin == Origin::Span));
        }
        self.0.get(kind as usize).copied().unwrap_or(false)
    }
}

impl Nesting {
    /// Adds the spans of a batch.
    pub fn add(&mut self, batch: &Batch, catalog: &Catalog) {
        let thread = self.threads.entry((batch.proc, batch.tid)).or_default();
        for (row, &kind) in batch.kind.iter().enumerate() {
            // An instant encloses nothing.
            if batch.dur[row] > 0 && self.spans.has(kind, catalog) {
                let end = end(batch, row);
                thread.open.push((batch.ts[row], Reverse(end)));
                thread.ends.push(end);
            }
        }
    }

    /// Merges the spans of several parts of a file.
    pub fn of(parts: impl IntoIterator<Item = Nesting>) -> Nesting {
        let mut all = Nesting::default();
        for (thread, spans) in parts.into_iter().flat_map(|part| part.threads) {
            let known = all.threads.entry(thread).or_default();
            known.open.extend(spans.open);
            known.ends.extend(spans.ends);
        }
        for spans in all.threads.values_mut() {
            spans.open.sort_unstable();
            spans.ends.sort_unstable();
        }
        all
    }

    /// Returns the known kinds that are spans, for [`Nesting::fill_depths`].
    pub fn kinds(&self) -> SpanKinds {
        self.spans.clone()
    }

    /// Writes the depths of a batch.
    pub fn fill_depths(&self, batch: &mut Batch, kinds: &mut SpanKinds, catalog: &Catalog) {
        let Some(spans) = self.threads.get(&(batch.proc, batch.tid)) else { return };
        for row in 0..batch.len() {
            let is_span = kinds.has(batch.kind[row], catalog);
            batch.depth[row] = spans.enclosing_spans(batch.ts[row], end(batch, row), is_span).min(u8::MAX.into()) as u8;
        }
    }
}

impl Spans {
    /// Returns the number of spans that are open when an event starts. A span with an equal start encloses the event if
    /// it is longer, or equally long and the event is not a span.
    fn enclosing_spans(&self, ts: i64, end: i64, is_span: bool) -> usize {
        let before = self.open.partition_point(|(start, _)| *start < ts);
        let ended = self.ends.partition_point(|ended| *ended <= ts);
        let longer = |open: i64| open > end || open == end && !is_span;
        let together = self.open[before..].partition_point(|(start, Reverse(open))| *start == ts && longer(*open));
        before - ended + together
    }
}

fn end(batch: &Batch, row: usize) -> i64 {
    batch.ts[row].saturating_add(batch.dur[row].max(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_counts_spans_open_at_the_start() {
        let spans = [(0, 100), (0, 50), (10, 20), (20, 30), (90, 110)];
        let mut open: Vec<_> = spans.map(|(start, end)| (start, Reverse(end))).into();
        let mut ends: Vec<_> = spans.map(|(_, end)| end).into();
        open.sort_unstable();
        ends.sort_unstable();
        let spans_of = Spans { open, ends };
        assert_eq!(spans.map(|(start, end)| spans_of.enclosing_spans(start, end, true)), [0, 1, 2, 2, 1]);
        let call = |ts, end| spans_of.enclosing_spans(ts, end, false);
        assert_eq!(
            [call(0, 100), call(0, 50), call(0, 101), call(20, 20), call(99, 99), call(100, 105), call(110, 120)],
            [1, 2, 0, 3, 2, 1, 0]
        );
    }
}
