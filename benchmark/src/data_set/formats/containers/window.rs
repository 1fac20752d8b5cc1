//! A window over a file that is read front to back in transfers: the bytes in memory and their offset in the file.

use crate::failure::Outcome;
use crate::files::input::Input;

/// TensorFlow's default read size, and a reasonable one in general.
const DEFAULT_TRANSFER: usize = 256 * 1024;

#[derive(Default)]
pub struct Window {
    bytes: Vec<u8>,
    /// Offset of the window in the file.
    at: u64,
    /// Bytes of the window that were consumed.
    used: usize,
}

impl Window {
    /// Empties the window and moves it to an offset.
    pub fn go_to(&mut self, offset: u64) {
        self.bytes.clear();
        (self.at, self.used) = (offset, 0);
    }

    /// Returns the offset of the next byte in the file.
    pub fn position(&self) -> u64 {
        self.at + self.used as u64
    }

    /// Makes the next `length` bytes available. `transfer` is the workload's transfer size; 0 if not set.
    pub fn need(&mut self, input: &mut Input, length: usize, transfer: usize) -> Outcome<()> {
        if self.bytes.len() - self.used >= length {
            return Ok(());
        }
        self.bytes.drain(..self.used);
        self.at += self.used as u64;
        self.used = 0;
        let have = self.bytes.len();
        let at = self.at + have as u64;
        let left = input.length_of_stream(at)?.saturating_sub(at);
        let transfer = if transfer == 0 { DEFAULT_TRANSFER } else { transfer };
        let wanted = (length - have).next_multiple_of(transfer).min(left as usize).max(length - have);
        self.bytes.resize(have + wanted, 0);
        let result = input.read_on_at(at, &mut self.bytes[have..]);
        if result.is_err() {
            self.bytes.truncate(have);
        }
        result
    }

    /// Makes `length` bytes available with a separate read, in an empty window.
    pub fn take(&mut self, input: &mut Input, length: usize) -> Outcome<()> {
        self.bytes.resize(length, 0);
        let result = input.read_exact_at(self.at, &mut self.bytes);
        if result.is_err() {
            self.bytes.clear();
        }
        result
    }

    /// Consumes and returns the next bytes, which were made available.
    pub fn next(&self, length: usize) -> &[u8] {
        &self.bytes[self.used..self.used + length]
    }

    /// Returns available bytes after the first `skip`.
    pub fn part(&self, skip: usize, length: usize) -> &[u8] {
        &self.bytes[self.used + skip..self.used + skip + length]
    }

    pub fn pass(&mut self, length: usize) {
        self.used += length;
    }

    /// Returns the bytes that were consumed last and are still in memory.
    pub fn passed(&self, back: usize, length: usize) -> &[u8] {
        &self.bytes[self.used - back..self.used - back + length]
    }
}
