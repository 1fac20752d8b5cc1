//! Files that a thread saves in one go: it opens a file, writes it and closes it, and does nothing else in between that calls show. The
//! time between its calls is then spent on the content: serializing, compressing.

use crate::summary::time::intervals::Interval;
use crate::summary::waits::timeline::StepKind;

/// Fewer bytes than this, or fewer per call, are a log.
const SAVED_MIN: u64 = 64 << 10;
const BYTES_A_CALL: u64 = 4 << 10;

/// Maximum number of files that a thread saves at the same time.
const FILES_MAX: usize = 8;

struct Save {
    file: u32,
    from: i64,
    bytes: u64,
    calls: u64,
}

/// The files that one thread is saving.
#[derive(Default)]
pub struct Saves {
    files: Vec<Save>,
}

impl Saves {
    /// Forgets all files: another thread's events follow, or the thread did something else.
    pub fn interrupt(&mut self) {
        self.files.clear();
    }

    pub fn open(&mut self, file: u32, from: i64) {
        if self.files.len() < FILES_MAX {
            self.files.push(Save { file, from, bytes: 0, calls: 0 });
        }
    }

    pub fn write(&mut self, file: u32, bytes: u64) {
        for save in self.files.iter_mut().filter(|save| save.file == file) {
            save.bytes += bytes;
            save.calls += 1;
        }
    }

    /// A file was read: if the thread has not written it, it copies that file, or works on something else.
    pub fn read(&mut self, file: u32) {
        if !self.files.is_empty() && !self.files.iter().any(|save| save.file == file && save.bytes > 0) {
            self.interrupt();
        }
    }

    /// Returns the time in which a file was saved, at its close.
    pub fn close(&mut self, file: u32, to: i64) -> Option<Interval> {
        let at = self.files.iter().rposition(|save| save.file == file)?;
        let save = self.files.remove(at);
        let is_saved = save.bytes >= SAVED_MIN && save.bytes >= BYTES_A_CALL * save.calls;
        is_saved.then_some(Interval { start: save.from, end: to })
    }
}

/// Returns `true` for a call after which a thread may work on something else than a file that it has open. Waiting for the
/// interpreter lock is no such call.
pub fn interrupts(kind: StepKind) -> bool {
    !matches!(kind, StepKind::TimedWait | StepKind::Edge | StepKind::Kill | StepKind::Pair | StepKind::LookUp)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_written_in_one_go_is_saved_from_its_open_to_its_close() {
        let mut saves = Saves::default();
        saves.open(1, 100);
        (0..4).for_each(|_| saves.write(1, 64 << 10));
        assert_eq!(saves.close(1, 900), Some(Interval { start: 100, end: 900 }));
        assert_eq!(saves.close(1, 950), None);
    }

    #[test]
    fn logs_and_files_kept_open_are_not_saved_in_one_go() {
        let mut saves = Saves::default();
        saves.open(1, 100);
        (0..4_000).for_each(|_| saves.write(1, 80));
        assert_eq!(saves.close(1, 900), None);
        let kept_open = |other: fn(&mut Saves)| {
            let mut saves = Saves::default();
            saves.open(1, 100);
            saves.write(1, 1 << 20);
            other(&mut saves);
            saves.close(1, 900)
        };
        assert_eq!(kept_open(|saves| saves.interrupt()), None);
        assert_eq!(kept_open(|saves| saves.read(2)), None);
        let copies = |saves: &mut Saves| {
            saves.open(2, 100);
            saves.read(2);
        };
        assert_eq!(kept_open(copies), None);
        assert!(kept_open(|saves| saves.read(1)).is_some());
    }
}
