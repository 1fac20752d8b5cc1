//! Buffers results until they are complete, because a worker that disconnects leaves a part that must not be used. All
//! results of a question share a limit of memory; the rest is in unnamed files.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use dlio_cluster::dispatch::Receiving;

/// Bytes of memory left for results.
pub struct MemoryBudget(AtomicU64);

impl MemoryBudget {
    pub fn of(bytes: u64) -> Arc<MemoryBudget> {
        Arc::new(MemoryBudget(bytes.into()))
    }

    fn take(&self, bytes: u64) -> bool {
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes)).is_ok()
    }

    fn release(&self, bytes: u64) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// One result.
pub struct ResultBuffer {
    room: Arc<MemoryBudget>,
    memory: Vec<u8>,
    /// The bytes that did not fit in memory, and all following ones.
    file: Option<File>,
    length: u64,
}

impl ResultBuffer {
    pub fn new(room: Arc<MemoryBudget>) -> ResultBuffer {
        ResultBuffer { room, memory: Vec::new(), file: None, length: 0 }
    }

    pub fn length(&self) -> u64 {
        self.length
    }

    fn keep(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.length += bytes.len() as u64;
        match &mut self.file {
            None if self.room.take(bytes.len() as u64) => {
                self.memory.extend_from_slice(bytes);
                Ok(())
            }
            Some(file) => file.write_all(bytes),
            none => none.insert(tempfile::tempfile()?).write_all(bytes),
        }
    }

    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        let in_memory = self.memory.len() as u64;
        match &self.file {
            _ if at < in_memory => (&self.memory[at as usize..]).read(into),
            Some(file) => file.read_at(into, at - in_memory),
            None => Ok(0),
        }
    }

    /// Returns a reader of `length` bytes from an offset.
    pub fn range(self: &Arc<ResultBuffer>, at: u64, length: u64) -> impl Read + Send + use<> {
        FrontToBack { held: self.clone(), at }.take(length)
    }
}

impl Receiving for ResultBuffer {
    fn part(&mut self, bytes: Bytes) -> Result<(), String> {
        let place = || std::env::temp_dir().display().to_string();
        self.keep(&bytes).map_err(|error| {
            format!("its rows do not fit here ({}: {error}); TMPDIR selects another directory for them", place())
        })
    }
}

impl Drop for ResultBuffer {
    fn drop(&mut self) {
        self.room.release(self.memory.len() as u64);
    }
}

struct FrontToBack {
    held: Arc<ResultBuffer>,
    at: u64,
}

impl Read for FrontToBack {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.held.read_at(into, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_complete_in_memory_and_on_disk() {
        let room = MemoryBudget::of(10);
        let bytes: Vec<u8> = (0..100).collect();
        for parts in [5, 10, 30, 100] {
            let mut held = ResultBuffer::new(room.clone());
            bytes.chunks(parts).for_each(|part| held.part(Bytes::copy_from_slice(part)).unwrap());
            let held = Arc::new(held);
            for (at, length) in [(0, 100), (7, 5), (3, 90), (99, 9)] {
                let mut back = Vec::new();
                held.range(at, length).read_to_end(&mut back).unwrap();
                assert_eq!(back, bytes[at as usize..(at + length).min(100) as usize]);
            }
        }
        assert!(room.take(10) && !room.take(1));
    }
}
