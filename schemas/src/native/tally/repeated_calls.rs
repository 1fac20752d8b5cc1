//! Consecutive events that are alike: calls of one function on one file, as in a loop. They are summed first and
//! added to the table together, for a third of the cost of adding each separately.
//!
//! The result is what [`Tally::add`] would have produced for one after another; a test verifies that.

use std::sync::atomic::{Ordering::SeqCst, compiler_fence};

use super::*;

/// The number of events added together: enough to amortize the cost of an addition, and few enough to limit the damage
/// if a kill during an addition leaves them partly counted.
pub const TOGETHER_MAX: usize = 64;

impl Tally<'_> {
    /// Counts events of a thread, and reports after each addition how many they were.
    pub fn add_all(
        &mut self,
        tid: u32,
        records: &[Record],
        is_stored: impl Fn(u32) -> bool,
        mut counted: impl FnMut(usize),
    ) {
        let mut rest = records;
        self.0[head::ADDING] = 1;
        compiler_fence(SeqCst);
        while let [first, ..] = rest {
            let (alike, behind) = rest.split_at(count_alike(rest));
            let is_call = |info: &&OpInfo| info.layer != Layer::App && first.op() != Op::LOST;
            match first.op().info().filter(|info| alike.len() > 1 && is_call(info)) {
                Some(info) => self.add_alike(tid, alike, &Event::of(first, info, &is_stored)),
                None => alike.iter().for_each(|record| self.add(tid, record, &is_stored)),
            }
            counted(alike.len());
            rest = behind;
        }
        compiler_fence(SeqCst);
        self.0[head::ADDING] = 0;
    }

    /// Counts calls that are like the first one: in few short loops, most of the time in one.
    fn add_alike(&mut self, tid: u32, records: &[Record], first: &Event) {
        let even = Even::of(records);
        let sums = even.as_ref().map_or_else(|| Sums::of(records), |even| even.sums(records));
        let at = self.row(first);
        let number = (self.0[at + row::CATEGORY] >> 32) as usize;
        if let Some(row) = self.0[at..].first_chunk_mut() {
            sums.add_to_row(row, first.info);
            if first.info.moves_bytes() && first.info.a == Arg::Position {
                match &even {
                    Some(even) if even.is_consecutive => even.add_places(row, records),
                    _ => add_places(row, records),
                }
            }
        }
        if (1..=SHAPES).contains(&number)
            && let Some(shape) = self.0[SHAPES_AT + (number - 1) * shape::WORDS..].first_chunk_mut()
        {
            sums.add_to_shape(shape, records, first.info);
        }
        self.add_to_bins(&sums, records, first);
        if first.is_io() {
            self.add_to_intervals(records, &even);
        }
        self.thread(tid, first.is_io().then_some(0), sums.count);
        self.0[head::EVENTS] += sums.count;
    }

    fn add_to_bins(&mut self, sums: &Sums, records: &[Record], first: &Event) {
        // The first event may start the bins, the last one may double them.
        self.bin_of(first.start);
        let last = records.last().map(|record| self.bin_of(record.start));
        let at = self.bin_of(first.start);
        if sums.is_in_order
            && last == Some(at)
            && let Some(bin) = self.0[at..].first_chunk_mut()
        {
            let bytes = if first.info.moves_bytes() { sums.bytes } else { 0 };
            return first.add_to(bin, sums.count, bytes, sums.ticks);
        }
        let bytes = |record: &Record| if first.info.moves_bytes() { record.ret.max(0) as u64 } else { 0 };
        for record in records {
            let at = self.bin_of(record.start);
            if let Some(bin) = self.0[at..].first_chunk_mut() {
                first.add_to(bin, 1, bytes(record), record.duration());
            }
        }
    }

    fn add_to_intervals(&mut self, records: &[Record], even: &Option<Even>) {
        let mut last = self.last_interval();
        if even.as_ref().is_some_and(|even| last.as_mut().is_some_and(|last| last.takes_all(even))) {
            return self.keep_last(&last);
        }
        for (start, ticks) in records.iter().map(|record| (record.start, record.duration())) {
            if ticks > 0 && !last.as_mut().is_some_and(|last| last.takes(start, ticks)) {
                self.keep_last(&last);
                self.insert(0, start, start.saturating_add(ticks));
                last = self.last_interval();
            }
        }
        self.keep_last(&last);
    }

    /// Returns the last interval of I/O, if there is one and space after it.
    fn last_interval(&self) -> Option<Last> {
        let count = self.0[head::INTERVALS] as usize;
        let at = BUSY_AT.wrapping_add(count.wrapping_sub(1).wrapping_mul(interval::WORDS));
        let [start, end, busy] = *self.0.get(at..)?.first_chunk()?;
        (1..INTERVALS).contains(&count).then_some(Last { at, start, end, busy, gap: self.0[head::GAP] })
    }

    fn keep_last(&mut self, last: &Option<Last>) {
        if let Some(Last { at, start, end, busy, .. }) = *last {
            self.0[at..at + interval::WORDS].copy_from_slice(&[start, end, busy]);
        }
    }
}

/// An interval of the table to which calls are added.
struct Last {
    at: usize,
    start: u64,
    end: u64,
    busy: u64,
    gap: u64,
}

impl Last {
    /// Merges a call that started after all previous ones, and not after a gap that is kept. Returns `false` for any
    /// other.
    #[inline(always)]
    fn takes(&mut self, start: u64, ticks: u64) -> bool {
        let follows = start >= self.end && self.end.saturating_add(self.gap) >= start;
        if follows {
            self.end = start.saturating_add(ticks);
            self.busy = self.busy.saturating_add(ticks).min(self.end - self.start);
        }
        follows
    }

    /// Merges consecutive calls like [`takes`](Self::takes), if each of them can be merged.
    #[inline(always)]
    fn takes_all(&mut self, even: &Even) -> bool {
        let pause = even.pause.max(even.first.wrapping_sub(self.end));
        let fits = self.end.checked_sub(self.start).is_some_and(|length| self.busy <= length);
        let takes = fits && even.first >= self.end && pause <= self.gap && even.shortest > 0;
        if takes {
            self.end = even.end;
            self.busy += even.ticks;
        }
        takes
    }
}

/// Consecutive calls with equal results, as nearly all similar calls are: fewer numbers are enough for their sums.
struct Even {
    ticks: u64,
    shortest: u64,
    longest: u64,
    first: u64,
    end: u64,
    /// The longest time between two of them.
    pause: u64,
    ret: u64,
    /// `true` if each started where the previous one ended, and all positions are known.
    is_consecutive: bool,
}

impl Even {
    /// No clock reaches this time; below it, the end of a call always fits into a number.
    const MOMENTS: u64 = 1 << 62;

    /// Returns `None` for calls that failed, differ in their results or overlap.
    #[inline(always)]
    fn of(records: &[Record]) -> Option<Even> {
        let first = records.first()?;
        let (mut ticks, mut shortest, mut longest) = (0, u64::MAX, 0);
        let (mut end, mut next, mut pause) = (first.start, first.a, 0);
        let (mut backward, mut starts, mut others, mut apart, mut words) = (false, 0, 0, 0, u64::MAX);
        for record in records {
            let lasted = record.duration();
            ticks += lasted;
            shortest = shortest.min(lasted);
            longest = longest.max(lasted);
            backward |= record.start < end;
            pause = pause.max(record.start.wrapping_sub(end));
            starts |= record.start;
            end = record.start.wrapping_add(lasted);
            others |= record.ret ^ first.ret;
            apart |= record.a ^ next;
            next = record.a.wrapping_add(first.ret);
            words &= record.word;
        }
        let is_even = !backward && starts < Even::MOMENTS && others == 0 && first.ret >= 0;
        let is_known = Record { word: words, ..*first }.known();
        // A number beyond the largest one wraps to a negative number.
        let is_consecutive = is_known && apart == 0 && first.a >= 0 && next >= 0;
        let (first, ret) = (first.start, first.ret as u64);
        is_even.then_some(Even { ticks, shortest, longest, first, end, pause, ret, is_consecutive })
    }

    fn sums(&self, records: &[Record]) -> Sums {
        let count = records.len() as u64;
        Sums {
            count,
            failed: 0,
            ticks: self.ticks,
            first: self.first,
            end: self.end,
            shortest: self.shortest,
            longest: self.longest,
            bytes: count.wrapping_mul(self.ret),
            smallest: self.ret,
            largest: self.ret,
            is_in_order: true,
        }
    }

    fn add_places(&self, row: &mut [u64; row::WORDS], records: &[Record]) {
        let [first, .., last] = records else { return };
        let (count, position) = (records.len() as u64, first.a as u64);
        let follows = row[row::PLACED] > 0;
        row[row::SEQUENTIAL] += count - 1 + (follows && position >= row[row::NEXT]) as u64;
        row[row::CONSECUTIVE] += count - 1 + (follows && position == row[row::NEXT]) as u64;
        row[row::PLACED] += count;
        row[row::NEXT] = last.a as u64 + self.ret;
        if self.ret > 0 {
            row[row::REACHED] = row[row::REACHED].max(row[row::NEXT]);
        }
    }
}

/// The sums of several calls. Results are treated as bytes, which for some functions they are not.
struct Sums {
    count: u64,
    failed: u64,
    ticks: u64,
    first: u64,
    end: u64,
    shortest: u64,
    longest: u64,
    bytes: u64,
    smallest: u64,
    largest: u64,
    is_in_order: bool,
}

impl Sums {
    #[inline(always)]
    fn of(records: &[Record]) -> Sums {
        let mut sums = Sums {
            count: records.len() as u64,
            failed: 0,
            ticks: 0,
            first: u64::MAX,
            end: 0,
            shortest: u64::MAX,
            longest: 0,
            bytes: 0,
            smallest: u64::MAX,
            largest: 0,
            is_in_order: true,
        };
        let mut before = 0;
        for record in records {
            let (start, ticks) = (record.start, record.duration());
            sums.is_in_order &= start >= before;
            before = start;
            sums.ticks += ticks;
            sums.first = sums.first.min(start);
            sums.end = sums.end.max(start.saturating_add(ticks));
            sums.shortest = sums.shortest.min(ticks);
            sums.longest = sums.longest.max(ticks);
            sums.failed += (record.ret < 0) as u64;
            // Results of failed calls, as unsigned numbers, are larger than all others.
            sums.smallest = sums.smallest.min(record.ret as u64);
            let bytes = record.ret.max(0) as u64;
            sums.bytes = sums.bytes.wrapping_add(bytes);
            sums.largest = sums.largest.max(bytes);
        }
        sums
    }

    fn sized(&self) -> u64 {
        self.count - self.failed
    }

    fn add_to_row(&self, row: &mut [u64; row::WORDS], info: &OpInfo) {
        row[row::COUNT] += self.count;
        row[row::FAILED] += self.failed;
        row[row::TICKS] += self.ticks;
        row[row::FIRST] = row[row::FIRST].min(self.first);
        row[row::LAST] = row[row::LAST].max(self.end);
        if info.moves_bytes() {
            row[row::SIZED] += self.sized();
            row[row::BYTES] += self.bytes;
        }
    }

    fn add_to_shape(&self, shape: &mut [u64; shape::WORDS], records: &[Record], info: &OpInfo) {
        shape[shape::SHORTEST] = shape[shape::SHORTEST].min(self.shortest);
        shape[shape::LONGEST] = shape[shape::LONGEST].max(self.longest);
        let buckets = &mut shape[shape::DURATIONS..shape::DURATIONS + BUCKETS];
        for ticks in records.iter().map(Record::duration) {
            buckets[bucket(ticks)] += 1;
        }
        if !info.moves_bytes() || self.sized() == 0 {
            return;
        }
        shape[shape::SMALLEST] = shape[shape::SMALLEST].min(self.smallest);
        shape[shape::LARGEST] = shape[shape::LARGEST].max(self.largest);
        if self.smallest == self.largest {
            // A loop usually reads chunks of one size.
            shape[shape::SIZES + bucket(self.smallest)] += self.sized();
            return;
        }
        let sizes = records.iter().filter(|record| record.ret >= 0).map(|record| record.ret as u64);
        sizes.for_each(|bytes| shape[shape::SIZES + bucket(bytes)] += 1);
    }
}

fn add_places(row: &mut [u64; row::WORDS], records: &[Record]) {
    let [mut next, mut reached] = [row::NEXT, row::REACHED].map(|at| row[at]);
    let (mut placed, mut sequential, mut consecutive) = (0, 0, 0);
    // The first call on a file has no predecessor.
    let mut follows = (row[row::PLACED] > 0) as u64;
    for record in records.iter().filter(|record| record.known() && record.a >= 0 && record.ret >= 0) {
        let position = record.a as u64;
        sequential += follows & (position >= next) as u64;
        consecutive += follows & (position == next) as u64;
        next = position.saturating_add(record.ret as u64);
        reached = reached.max(if record.ret > 0 { next } else { 0 });
        placed += 1;
        follows = 1;
    }
    row[row::PLACED] += placed;
    row[row::SEQUENTIAL] += sequential;
    row[row::CONSECUTIVE] += consecutive;
    [row[row::NEXT], row[row::REACHED]] = [next, reached];
}

/// Returns how many of the first records are calls of one function on one file.
fn count_alike(records: &[Record]) -> usize {
    let [first, others @ ..] = records else { return 0 };
    let is_other = |record: &Record| record.op() != first.op() || record.file != first.file;
    1 + others.iter().take(TOGETHER_MAX - 1).position(is_other).unwrap_or(others.len().min(TOGETHER_MAX - 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::record::word;

    /// Returns events in patterns that matter to the table: equal ones for a while, then others; in distant bins, out
    /// of order, failed, without a position, without a duration.
    fn events(seed: u64) -> Vec<Record> {
        let mut state = seed;
        let mut chance = |below: u64| {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (state >> 33) % below
        };
        let ops = [Op::PREAD, Op::WRITE, Op::OPEN, Op::FSYNC, Op::POLL];
        let (mut events, mut start) = (Vec::new(), 1 << 30);
        while events.len() < 9000 {
            let (op, file) = (ops[chance(5) as usize], chance(4) as u32);
            if chance(2) == 0 {
                // As a loop reads a file: consecutive chunks of one size, with occasional exceptions.
                let (size, pause, length) = (chance(3) * 4096, 1 + chance(300), chance(3) * 50);
                let (mut position, different) = (chance(5) as i64 * 4096 - 4096, chance(9) * chance(9));
                for i in 0..1 + chance(200) {
                    let lasts = length + chance(1 + length);
                    let is_known = i + 1 != different || chance(2) == 0;
                    let word = word(op, 0, is_known, lasts);
                    events.push(Record { word, start, file, fd: 3, a: position, b: 0, ret: size as i64 });
                    start += lasts + chance(pause);
                    position += size as i64 + (i + 7 == different) as i64;
                }
                continue;
            }
            for _ in 0..[1, 2, 63, 64, 65, 130, 400][chance(7) as usize] {
                let (pause, size, length) = (4 + 6 * chance(4), 1 + chance(20), chance(24));
                start = if chance(9) == 0 { start - chance(5000) } else { start + chance(1 << pause) };
                let ret = if chance(8) == 0 { -2 } else { chance(1 << size) as i64 };
                let position = if chance(6) == 0 { -1 } else { chance(1 << 20) as i64 };
                let word = word(op, 0, chance(5) > 0, chance(1 << length));
                events.push(Record { word, start, file, fd: 3, a: position, b: 0, ret });
            }
        }
        events
    }

    #[test]
    fn repeated_calls_equal_single_additions() {
        for seed in 0..40 {
            let events = events(seed);
            let [mut one_by_one, mut together] = [(); 2].map(|()| vec![0; WORDS]);
            let is_stored = |file: u32| file != 3;
            let (index, other_index) = (RowIndex::empty(), RowIndex::empty());
            let mut table = Tally::new(&mut one_by_one, &index).unwrap();
            events.iter().for_each(|event| table.add(7, event, is_stored));
            let mut counted = 0;
            let mut table = Tally::new(&mut together, &other_index).unwrap();
            table.add_all(7, &events, is_stored, |number| counted += number);
            assert_eq!(counted, events.len());
            let differs = one_by_one.iter().zip(&together).position(|(one, other)| one != other);
            assert_eq!(differs, None, "seed {seed}");
        }
    }
}
