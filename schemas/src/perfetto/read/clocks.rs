//! Conversion from the clocks of a Perfetto trace to boot time.
//!
//! A snapshot contains the times of several clocks at one point in time. A time on any of them is converted to boot
//! time by the latest snapshot of that clock. Clocks 64 to 127 belong to one sequence; an incremental one counts from
//! the previous time.

use std::collections::BTreeMap;

use crate::perfetto::proto::{Walk, field, value};

/// A clock of one sequence, or of the whole trace (sequence 0).
type Id = (u64, u64);

#[derive(Clone, Copy, Debug)]
struct Relation {
    /// The time of the clock at boot time `boot_ns`; for an incremental one the previous time.
    shown: u64,
    boot_ns: u64,
    multiplier: u64,
    incremental: bool,
}

impl Relation {
    fn boot_ns(&self, time: u64) -> Option<u64> {
        let since = (time as i128 - self.shown as i128).checked_mul(self.multiplier as i128)?;
        moment(since.checked_add(self.boot_ns as i128)?)
    }
}

/// Boot times end where Unix times of events do, in 2116: some traces have Unix times instead.
const BOOT_END: i128 = 1 << 62;

fn moment(ns: i128) -> Option<u64> {
    (0..BOOT_END).contains(&ns).then_some(ns as u64)
}

#[derive(Clone, Debug, Default)]
pub struct Clocks {
    ids: BTreeMap<Id, usize>,
    relations: Vec<Relation>,
    /// The clock used last: consecutive packets usually belong to one sequence.
    last: Option<(Id, usize)>,
    /// Unix time minus boot time, according to the first snapshot of both.
    pub real_offset_ns: Option<i64>,
    primary: Option<u64>,
}

fn id_of(clock: u64, sequence: u64) -> Id {
    if (64..128).contains(&clock) { (clock, sequence) } else { (clock, 0) }
}

impl Clocks {
    /// Reads a snapshot.
    pub fn learn(&mut self, snapshot: &[u8], sequence: u64) {
        let mut shown = Vec::new();
        for (number, value) in Walk::new(snapshot).flatten() {
            match number {
                field::snapshot::CLOCKS => shown.push(one_clock(value.bytes())),
                field::snapshot::PRIMARY => self.primary = Some(value.number()),
                _ => (),
            }
        }
        let Some(boot_ns) = self.boot_of(&shown, sequence) else { return };
        for &(clock, relation) in &shown {
            self.relate(id_of(clock, sequence), Relation { boot_ns, ..relation });
            if clock == value::CLOCK_REALTIME && self.real_offset_ns.is_none() {
                let moment = moment(relation.shown as i128);
                self.real_offset_ns = moment.map(|shown| shown as i64 - boot_ns as i64);
            }
        }
    }

    fn relate(&mut self, id: Id, relation: Relation) {
        let at = *self.ids.entry(id).or_insert(self.relations.len());
        match self.relations.get_mut(at) {
            Some(known) => *known = relation,
            None => self.relations.push(relation),
        }
    }

    #[inline]
    fn find(&mut self, id: Id) -> Option<usize> {
        if let Some((_, at)) = self.last.filter(|(last, _)| *last == id) {
            return Some(at);
        }
        let at = *self.ids.get(&id)?;
        self.last = Some((id, at));
        Some(at)
    }

    /// Returns the boot time of a snapshot: its own, or else that of a known clock, or else that of its first clock,
    /// which then represents boot time in this trace.
    fn boot_of(&self, shown: &[(u64, Relation)], sequence: u64) -> Option<u64> {
        let itself = shown.iter().find(|(clock, _)| *clock == value::CLOCK_BOOTTIME).map(|(_, r)| r.shown);
        let known = || {
            let related = |(clock, at): &(u64, Relation)| {
                let known = *self.ids.get(&id_of(*clock, sequence))?;
                self.relations[known].boot_ns(at.shown)
            };
            shown.iter().filter(|(_, relation)| !relation.incremental).find_map(related)
        };
        itself
            .or_else(known)
            .or(shown.first().map(|(_, relation)| relation.shown))
            .filter(|ns| moment(*ns as i128).is_some())
    }

    /// Returns the boot time of a packet and advances an incremental clock. `None` if the time is not valid.
    #[inline]
    pub fn boot_ns(&mut self, time: u64, clock: Option<u64>, sequence: u64) -> Option<u64> {
        let clock = clock.or(self.primary).unwrap_or(value::CLOCK_BOOTTIME);
        let Some(at) = self.find(id_of(clock, sequence)) else { return moment(time as i128) };
        let relation = &mut self.relations[at];
        if !relation.incremental {
            return relation.boot_ns(time);
        }
        let since = (time as i64 as i128).checked_mul(relation.multiplier as i128)?;
        relation.boot_ns = moment(since.checked_add(relation.boot_ns as i128)?)?;
        Some(relation.boot_ns)
    }
}

fn one_clock(message: &[u8]) -> (u64, Relation) {
    let mut clock = 0;
    let mut relation = Relation { shown: 0, boot_ns: 0, multiplier: 1, incremental: false };
    for (number, value) in Walk::new(message).flatten() {
        match number {
            field::clock::ID => clock = value.number(),
            field::clock::TIMESTAMP => relation.shown = value.number(),
            field::clock::INCREMENTAL => relation.incremental = value.number() != 0,
            field::clock::MULTIPLIER => relation.multiplier = value.number(),
            _ => (),
        }
    }
    (clock, relation)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perfetto::proto::Message;

    fn snapshot(clocks: &[(u64, u64, bool, u64)]) -> Vec<u8> {
        let mut out = Message::default();
        for &(id, time, incremental, multiplier) in clocks {
            out.nested(field::snapshot::CLOCKS, |clock| {
                clock.number(field::clock::ID, id);
                clock.number(field::clock::TIMESTAMP, time);
                clock.number(field::clock::INCREMENTAL, incremental as u64);
                clock.number(field::clock::MULTIPLIER, multiplier);
            });
        }
        out.0
    }

    #[test]
    fn times_of_other_clocks_become_boot_time() {
        let mut clocks = Clocks::default();
        clocks.learn(&snapshot(&[(6, 1000, false, 1), (3, 400, false, 1), (1, 9000, false, 1)]), 1);
        assert_eq!(clocks.boot_ns(450, Some(3), 1), Some(1050));
        assert_eq!(clocks.boot_ns(1234, None, 1), Some(1234));
        assert_eq!(clocks.real_offset_ns, Some(8000));
        // A snapshot without boot time is related by the clock that both contain.
        clocks.learn(&snapshot(&[(3, 500, false, 1), (65, 7, false, 1000)]), 2);
        assert_eq!(clocks.boot_ns(9, Some(65), 2), Some(1100 + 2000));
        assert_eq!(clocks.boot_ns(9, Some(65), 3), Some(9));
        // Times that overflow, or precede the start of boot time.
        assert_eq!([u64::MAX, u64::MAX / 1000, 1].map(|time| clocks.boot_ns(time, Some(65), 2)), [None; 3]);
        assert_eq!([u64::MAX, 1 << 62, 0].map(|time| clocks.boot_ns(time, None, 2)), [None, None, Some(0)]);
    }

    #[test]
    fn incremental_clocks_count_on_and_back() {
        let mut clocks = Clocks::default();
        clocks.learn(&snapshot(&[(64, 77, true, 1), (6, 5000, false, 1)]), 1);
        let times: Vec<_> = [10, 5, -15i64 as u64, 0].map(|step| clocks.boot_ns(step, Some(64), 1)).into();
        assert_eq!(times, [5010, 5015, 5000, 5000].map(Some));
        assert_eq!([i64::MAX as u64, 1].map(|step| clocks.boot_ns(step, Some(64), 1)), [None, Some(5001)]);
    }
}
