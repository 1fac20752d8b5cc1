//! The tracks for the calls of a thread.
//!
//! A viewer closes slices of a track in the reverse order of their opening, so two calls on one track must be disjoint
//! or nested. Calls of a thread nearly always are. Those that are not (asynchronous I/O seen when it completes, spans
//! closed in the wrong order, times around a clock's jump) go to additional lanes, where nothing nests.
//!
//! Calls arrive in the order they ended and with their depth, so a few numbers per depth are sufficient to decide:
//! nothing at this depth or above may end after the call started, and every deeper call is either inside the call or
//! before it.

/// Maximum number of simultaneous calls; further calls get no track.
pub const LANES_MAX: usize = 256;

/// The track on which a call is drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Placement {
    Track,
    Lane(usize),
    NoTrack,
}

/// The calls at one depth that have ended since a call above it ended.
#[derive(Clone, Copy)]
struct Level {
    /// Earliest start.
    began: u64,
    /// Latest end.
    ended: u64,
}

const EMPTY: Level = Level { began: u64::MAX, ended: 0 };

/// The tracks of one thread.
pub struct Lanes {
    levels: Vec<Level>,
    ends: Vec<u64>,
}

impl Default for Lanes {
    fn default() -> Lanes {
        Lanes { levels: vec![EMPTY], ends: Vec::new() }
    }
}

impl Lanes {
    #[inline]
    pub fn place(&mut self, begin: u64, end: u64, depth: u8) -> Placement {
        let depth = depth as usize;
        // The most common case: one after another, and nothing nested.
        if let [level] = &mut self.levels[..]
            && depth == 0
            && level.ended <= begin
        {
            *level = Level { began: level.began.min(begin), ended: end };
            return Placement::Track;
        }
        if self.levels.len() <= depth {
            self.levels.resize(depth + 1, EMPTY);
        }
        if self.nests(begin, end, depth) {
            self.levels.truncate(depth + 1);
            let level = &mut self.levels[depth];
            *level = Level { began: level.began.min(begin), ended: level.ended.max(end) };
            return Placement::Track;
        }
        self.lane(begin, end)
    }

    fn nests(&self, begin: u64, end: u64, depth: usize) -> bool {
        let (above, below) = self.levels.split_at(depth + 1);
        // Calls with equal starts do not nest: the call written first would be drawn as the outer one.
        let inside = |level: &Level| level.began > begin && level.ended <= end;
        above.iter().all(|level| level.ended <= begin)
            && below.iter().all(|level| level.ended <= begin || inside(level))
    }

    #[cold]
    fn lane(&mut self, begin: u64, end: u64) -> Placement {
        if let Some(lane) = self.ends.iter().position(|&ended| ended <= begin) {
            self.ends[lane] = end;
            return Placement::Lane(lane);
        }
        if self.ends.len() == LANES_MAX {
            return Placement::NoTrack;
        }
        self.ends.push(end);
        Placement::Lane(self.ends.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(calls: &[(u64, u64, u8)]) -> Vec<Placement> {
        let mut lanes = Lanes::default();
        calls.iter().map(|&(begin, end, depth)| lanes.place(begin, end, depth)).collect()
    }

    #[test]
    fn nested_and_successive_calls_share_the_track() {
        let calls = [(10, 20, 1), (20, 30, 1), (5, 40, 0), (40, 40, 0), (45, 50, 2), (44, 60, 1), (43, 60, 0)];
        assert!(places(&calls).iter().all(|&place| place == Placement::Track));
    }

    #[test]
    fn crossing_calls_get_lanes() {
        use Placement::*;
        assert_eq!(places(&[(10, 30, 0), (20, 40, 0), (35, 50, 0)]), [Track, Lane(0), Track]);
        assert_eq!(places(&[(10, 30, 1), (20, 40, 0)]), [Track, Lane(0)]);
        assert_eq!(
            places(&[(5, 30, 0), (6, 31, 0), (7, 32, 0), (31, 40, 0), (39, 41, 0)])[1..],
            [Lane(0), Lane(1), Track, Lane(0)]
        );
    }

    #[test]
    fn children_of_an_unrecorded_span_are_placed() {
        assert_eq!(places(&[(10, 20, 1), (30, 40, 0), (50, 60, 1), (45, 70, 0)]), [Placement::Track; 4]);
    }

    #[test]
    fn too_many_parallel_calls_get_no_track() {
        let calls: Vec<_> = (0..LANES_MAX as u64 + 2).map(|i| (i, 1000 + i, 0)).collect();
        assert_eq!(places(&calls).last(), Some(&Placement::NoTrack));
    }
}
