//! Steps that a workload excludes from its metrics.

/// The number of excluded steps at both ends.
#[derive(Debug, Clone, Copy)]
pub struct Excluded {
    pub start: usize,
    pub end: usize,
}

impl Excluded {
    pub const NOTHING: Excluded = Excluded { start: 0, end: 0 };

    /// Returns the counted steps; all steps if none would be left.
    pub fn window(&self, steps: usize) -> std::ops::Range<usize> {
        let range = self.start..steps.saturating_sub(self.end);
        if range.is_empty() { 0..steps } else { range }
    }
}
