//! The activity of a process over time, for the counters above its threads.
//!
//! A fixed number of bins covers the whole run, so memory does not grow with it; a short run needs fewer. Bytes and time of a call are spread
//! evenly over its duration; the contribution of a call that spans many bins is noted at its two ends and summed up
//! at the end.
//!
//! Batches of several threads come in no order of time. So opens and closes are balanced by descriptor: one more
//! close than opens means that the descriptor was open before.

use std::collections::BTreeMap;

use crate::event::ops::{Class, Op, OpInfo, Ret};

/// About one bin per pixel.
pub const BINS: usize = 1000;

/// Shorter bins would show single calls, which the threads show better.
const WIDTH_MIN_NS: u64 = 10_000;

/// The counters, in the order they are drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Counter {
    ReadRate,
    WriteRate,
    InFlight,
    OpenFiles,
}

impl Counter {
    pub const ALL: [Counter; 4] = [Counter::ReadRate, Counter::WriteRate, Counter::InFlight, Counter::OpenFiles];

    pub fn name(self) -> &'static str {
        ["read bandwidth", "write bandwidth", "I/O in flight", "open files"][self as usize]
    }

    pub fn unit(self) -> &'static str {
        ["B/s", "B/s", "calls", "files"][self as usize]
    }

    pub fn meaning(self) -> &'static str {
        [
            "Bytes read from files; the bytes of each call are spread over its duration.",
            "Bytes written to files; the bytes of each call are spread over its duration.",
            "Calls in flight, averaged over the bin.",
            "Open files, counted since tracing started.",
        ][self as usize]
    }
}

/// The activity of a process: see the module. An empty one takes no memory.
#[derive(Clone, Default, Debug)]
pub struct Activity {
    first_ns: u64,
    width_ns: u64,
    /// Number of bins of the run.
    bins: usize,
    /// Indexed by counter.
    series: [Series; 4],
    /// By process and descriptor.
    descriptors: BTreeMap<(u64, i32), Descriptor>,
    /// The bin of the last call: most calls are in that bin, too.
    near: Bin,
}

/// A bin and its time.
#[derive(Clone, Copy, Default, Debug)]
struct Bin {
    number: usize,
    first_ns: u64,
    end_ns: u64,
}

/// The events of one descriptor number.
#[derive(Clone, Copy, Default, Debug)]
struct Descriptor {
    opens: u64,
    closes: u64,
    /// Bin of the first close.
    first_close: Option<usize>,
}

/// A call on a file.
#[derive(Clone, Copy, Debug)]
pub struct FileCall {
    pub op: Op,
    pub begin: u64,
    pub end: u64,
    /// The descriptor, or -1.
    pub fd: i32,
    pub ret: i64,
}

#[derive(Clone, Default, Debug)]
struct Series {
    /// Amount within each bin.
    inside: Amounts,
    /// Change of the amount per bin, starting with each bin.
    change: Amounts,
}

/// A number per bin; without memory until one of them is not zero.
#[derive(Clone, Default, Debug)]
struct Amounts(Vec<f64>);

impl Amounts {
    #[inline(always)]
    fn add(&mut self, bin: usize, amount: f64, bins: usize) {
        match self.0.get_mut(bin) {
            Some(place) => *place += amount,
            None => self.start(bin, amount, bins),
        }
    }

    #[cold]
    fn start(&mut self, bin: usize, amount: f64, bins: usize) {
        self.0.resize(bins, 0.0);
        self.0[bin] += amount;
    }

    fn get(&self, bin: usize) -> f64 {
        self.0.get(bin).copied().unwrap_or(0.0)
    }
}

/// The value of a counter since a time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Sample {
    pub boot_ns: u64,
    pub value: f64,
}

impl Activity {
    pub fn new(first_ns: u64, last_ns: u64) -> Activity {
        let width_ns = last_ns.saturating_sub(first_ns).div_ceil(BINS as u64).max(WIDTH_MIN_NS);
        // Includes the bin in which the run ends.
        let bins = BINS.min((last_ns.saturating_sub(first_ns) / width_ns) as usize + 1);
        Activity { first_ns, width_ns, bins, ..Activity::default() }
    }

    /// Adds one call of a process. Calls on pipes and sockets are not passed here, because they are not files.
    #[inline]
    pub fn add(&mut self, process: u64, info: &OpInfo, call: FileCall) {
        let FileCall { op, begin, end, fd, ret } = call;
        let class = info.class;
        if !matches!(class, Class::Read | Class::Write | Class::Metadata | Class::Sync) {
            return;
        }
        let bins = match self.near.first_ns <= begin && end < self.near.end_ns {
            true => (self.near.number, self.near.number),
            false => (self.bin(begin), self.bin(end)),
        };
        // A failed call moves, opens and closes nothing.
        if ret >= 0 {
            let bytes = ret as f64 * 1e9;
            match class {
                Class::Read if info.ret == Ret::Bytes => self.spread(Counter::ReadRate, bins, begin, end, bytes),
                Class::Write if info.ret == Ret::Bytes => self.spread(Counter::WriteRate, bins, begin, end, bytes),
                _ if matches!(op, Op::FDOPEN | Op::FDOPENDIR) => (),
                _ if info.ret == Ret::Fd => self.open((process, ret as i32), op, end),
                _ if matches!(op, Op::CLOSE | Op::FCLOSE | Op::CLOSEDIR) => self.close((process, fd), end),
                _ => (),
            }
        }
        self.spread(Counter::InFlight, bins, begin, end, end.saturating_sub(begin) as f64);
    }

    /// Spreads an amount over an interval, which is in these bins.
    #[inline(always)]
    fn spread(&mut self, counter: Counter, (from, to): (usize, usize), begin: u64, end: u64, amount: f64) {
        if from == to {
            self.series[counter as usize].inside.add(from, amount, self.bins);
        } else {
            self.spread_over(counter, (from, to), begin, end, amount);
        }
    }

    #[inline(never)]
    fn spread_over(&mut self, counter: Counter, (from, to): (usize, usize), begin: u64, end: u64, amount: f64) {
        let series = &mut self.series[counter as usize];
        let (first_ns, width, bins) = (self.first_ns, self.width_ns, self.bins);
        let rate = amount / (end - begin) as f64;
        let left = (first_ns + (from as u64 + 1) * width).saturating_sub(begin) as f64;
        let right = end.saturating_sub(first_ns + to as u64 * width) as f64;
        series.inside.add(from, rate * left, bins);
        series.inside.add(to, rate * right, bins);
        series.change.add(from + 1, rate * width as f64, bins);
        series.change.add(to, -rate * width as f64, bins);
    }

    fn open(&mut self, descriptor: (u64, i32), op: Op, at: u64) {
        let known = self.descriptors.get(&descriptor).copied().unwrap_or_default();
        // The descriptor opened by these calls replaces an earlier one.
        let replaces = matches!(op, Op::DUP2 | Op::DUP3 | Op::FREOPEN);
        if replaces && known.opens > known.closes {
            self.close(descriptor, at);
        }
        self.descriptors.entry(descriptor).or_default().opens += 1;
        self.step(at, 1.0);
    }

    fn close(&mut self, descriptor: (u64, i32), at: u64) {
        let bin = self.bin(at);
        let known = self.descriptors.entry(descriptor).or_default();
        known.closes += 1;
        known.first_close = Some(known.first_close.map_or(bin, |first| first.min(bin)));
        self.step(at, -1.0);
    }

    fn step(&mut self, at: u64, by: f64) {
        let bin = self.bin(at);
        self.series[Counter::OpenFiles as usize].change.add(bin, by, self.bins);
    }

    /// Returns the changes of the number of open files: closing a descriptor that was open before does not count.
    fn changes_of_open(&self) -> Amounts {
        let mut change = self.series[Counter::OpenFiles as usize].change.clone();
        for descriptor in self.descriptors.values().filter(|descriptor| descriptor.closes > descriptor.opens) {
            let excess = (descriptor.closes - descriptor.opens) as f64;
            descriptor.first_close.into_iter().for_each(|bin| change.add(bin, excess, self.bins));
        }
        change
    }

    #[inline(always)]
    fn bin(&mut self, at: u64) -> usize {
        if !(self.near.first_ns..self.near.end_ns).contains(&at) {
            self.near = self.bin_around(at);
        }
        self.near.number
    }

    #[inline(never)]
    fn bin_around(&self, at: u64) -> Bin {
        let last = self.bins.saturating_sub(1);
        let number = ((at.saturating_sub(self.first_ns) / self.width_ns) as usize).min(last);
        let edge = |number: usize| self.first_ns.saturating_add(number as u64 * self.width_ns);
        Bin {
            number,
            first_ns: if number == 0 { 0 } else { edge(number) },
            end_ns: if number == last { u64::MAX } else { edge(number + 1) },
        }
    }

    /// Returns the counter over time: its changes, and zero at the end. Empty if there was no activity.
    pub fn samples(&self, counter: Counter) -> Vec<Sample> {
        let series = &self.series[counter as usize];
        let is_level = counter == Counter::OpenFiles;
        let open = if is_level { Some(self.changes_of_open()) } else { None };
        let change = open.as_ref().unwrap_or(&series.change);
        let mut found = Vec::new();
        let (mut level, mut last) = (0.0, 0.0);
        let bins = if series.inside.0.is_empty() && change.0.is_empty() { 0 } else { self.bins };
        // Bins after the last one of a short run are all alike.
        for bin in 0..BINS.min(bins + 1) {
            level += change.get(bin);
            let amount = series.inside.get(bin) + level;
            let value = if is_level { level } else { amount / self.width_ns as f64 };
            // Sums of fractions leave rounding errors.
            let value = if value < 1e-6 { 0.0 } else { value };
            if value != last {
                found.push(Sample { boot_ns: self.first_ns + bin as u64 * self.width_ns, value });
                last = value;
            }
        }
        if last != 0.0 {
            found.push(Sample { boot_ns: self.first_ns + BINS as u64 * self.width_ns, value: 0.0 });
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIDTH: u64 = 1_000_000;

    fn activity() -> Activity {
        Activity::new(5_000, 5_000 + BINS as u64 * WIDTH)
    }

    fn add(activity: &mut Activity, op: Op, begin: u64, end: u64, ret: i64) {
        add_on(activity, op, begin, end, -1, ret);
    }

    fn add_on(activity: &mut Activity, op: Op, begin: u64, end: u64, fd: i32, ret: i64) {
        let call = FileCall { op, begin: 5_000 + begin, end: 5_000 + end, fd, ret };
        activity.add(1, op.info().unwrap(), call);
    }

    /// Returns value times time over the whole run.
    fn area(samples: &[Sample]) -> f64 {
        samples.windows(2).map(|pair| pair[0].value * (pair[1].boot_ns - pair[0].boot_ns) as f64 / 1e9).sum()
    }

    #[test]
    fn bytes_are_kept_for_calls_of_any_length() {
        for (begin, end) in [(0, 1), (10, WIDTH), (WIDTH - 1, WIDTH + 1), (500, 77 * WIDTH + 3), (0, 1000 * WIDTH)] {
            let mut activity = activity();
            add(&mut activity, Op::READ, begin, end, 123_456_789);
            let samples = activity.samples(Counter::ReadRate);
            assert!((area(&samples) - 123_456_789.0).abs() < 200.0, "{begin}..{end}: {}", area(&samples));
            assert_eq!(samples.last().unwrap().value, 0.0);
        }
    }

    #[test]
    fn parallel_calls_are_counted() {
        let mut activity = activity();
        (0..3).for_each(|_| add(&mut activity, Op::PWRITE, 10 * WIDTH, 20 * WIDTH, 0));
        let samples = activity.samples(Counter::InFlight);
        let at = |ns| 5_000 + ns;
        assert_eq!(
            samples,
            [Sample { boot_ns: at(10 * WIDTH), value: 3.0 }, Sample { boot_ns: at(20 * WIDTH), value: 0.0 }]
        );
        assert!(activity.samples(Counter::ReadRate).is_empty());
    }

    #[test]
    fn open_file_count_never_goes_negative() {
        let mut activity = activity();
        // Inherited.
        add_on(&mut activity, Op::CLOSE, 0, 10, 0, 0);
        add_on(&mut activity, Op::CLOSE, 0, 20, 5, 0);
        add(&mut activity, Op::OPEN, 0, 2 * WIDTH, 3);
        add(&mut activity, Op::OPEN, 0, 3 * WIDTH, 4);
        add(&mut activity, Op::OPEN, 0, 4 * WIDTH, -2);
        add_on(&mut activity, Op::DUP2, 0, 5 * WIDTH, 3, 4);
        add_on(&mut activity, Op::CLOSE, 0, 6 * WIDTH, 4, 0);
        let values: Vec<_> = activity.samples(Counter::OpenFiles).iter().map(|sample| sample.value).collect();
        assert_eq!(values, [1.0, 2.0, 1.0, 0.0]);
    }
}
