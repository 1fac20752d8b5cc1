//! A path assembled in a fixed buffer, for code that must not allocate.

use std::ffi::CStr;

/// Longest path the kernel accepts, including the terminating zero.
pub const PATH_MAX: usize = 4096;

/// A path buffer, always zero-terminated; a path that does not fit is truncated. The length is the first field: if
/// the buffer is a static, a short path touches only its first page.
#[repr(C)]
pub struct PathBuffer {
    used: usize,
    bytes: [u8; PATH_MAX],
}

impl PathBuffer {
    pub const fn new() -> PathBuffer {
        PathBuffer { bytes: [0; PATH_MAX], used: 0 }
    }

    pub fn clear(&mut self) {
        self.used = 0;
        self.bytes[0] = 0;
    }

    pub fn push(&mut self, text: &[u8]) -> &mut PathBuffer {
        let length = text.len().min(PATH_MAX - 1 - self.used);
        self.bytes[self.used..self.used + length].copy_from_slice(&text[..length]);
        self.used += length;
        self.bytes[self.used] = 0;
        self
    }

    /// Puts a directory in front of the path.
    pub fn prefix(&mut self, folder: &[u8]) -> &mut PathBuffer {
        let shift = (folder.len() + 1).min(PATH_MAX - 1 - self.used);
        self.bytes.copy_within(..self.used, shift);
        self.bytes[..shift - 1].copy_from_slice(&folder[..shift - 1]);
        self.bytes[shift - 1] = b'/';
        self.used += shift;
        self.bytes[self.used] = 0;
        self
    }

    pub fn truncate(&mut self, length: usize) {
        self.used = self.used.min(length);
        self.bytes[self.used] = 0;
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.used]
    }

    pub fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).expect("always zero-terminated")
    }

    /// Returns the part after the last slash.
    pub fn file_name(&self) -> &[u8] {
        let start = last_slash(self.as_bytes()).map_or(0, |at| at + 1);
        &self.as_bytes()[start..]
    }
}

/// Returns the first index of `byte` for which `is_meant` returns true. It scans eight bytes at a time, because every
/// new path is scanned for slashes.
#[inline(always)]
pub fn find_byte(text: &[u8], byte: u8, mut is_meant: impl FnMut(usize) -> bool) -> bool {
    let pattern = u64::from_ne_bytes([byte; 8]);
    let mut start = 0;
    let mut is_in = |word: u64, start: usize| {
        let mut found = zeros(word ^ pattern);
        while found != 0 {
            if is_meant(start + found.trailing_zeros() as usize / 8) {
                return true;
            }
            found &= found - 1;
        }
        false
    };
    let (words, rest) = text.as_chunks::<8>();
    for word in words {
        if is_in(u64::from_le_bytes(*word), start) {
            return true;
        }
        start += 8;
    }
    let last = rest.iter().rfold(!pattern, |word, byte| word << 8 | *byte as u64);
    is_in(last, start)
}

/// Returns the index of the last slash.
#[inline(always)]
pub fn last_slash(text: &[u8]) -> Option<usize> {
    let (rest, words) = text.as_rchunks::<8>();
    let mut end = text.len();
    for word in words.iter().rev() {
        let found = zeros(u64::from_le_bytes(*word) ^ u64::from_ne_bytes([b'/'; 8]));
        if found != 0 {
            return Some(end - 1 - found.leading_zeros() as usize / 8);
        }
        end -= 8;
    }
    rest.iter().rposition(|byte| *byte == b'/')
}

/// Returns a word with the top bit set in every byte that is zero.
#[inline(always)]
pub fn zeros(word: u64) -> u64 {
    const LOWER: u64 = u64::from_ne_bytes([0x7f; 8]);
    !(((word & LOWER) + LOWER) | word | LOWER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_found_at_any_index() {
        let text: Vec<u8> = (0..70).map(|i| if i % 7 == 3 || i == 64 || i == 65 { b'/' } else { 128 + i }).collect();
        for length in 0..text.len() {
            let simply: Vec<usize> = (0..length).filter(|at| text[*at] == b'/').collect();
            let mut found = Vec::new();
            assert!(!find_byte(&text[..length], b'/', |at| {
                found.push(at);
                false
            }));
            assert_eq!(found, simply);
            assert_eq!(find_byte(&text[..length], b'/', |at| at == 10), length > 10);
            assert_eq!(last_slash(&text[..length]), simply.last().copied());
        }
    }

    #[test]
    fn parts_join_and_long_paths_are_truncated() {
        let mut path = PathBuffer::new();
        path.push(b"b").push(b".dlt").prefix(b"/tmp/a");
        assert_eq!((path.as_bytes(), path.file_name()), (&b"/tmp/a/b.dlt"[..], &b"b.dlt"[..]));
        path.clear();
        path.push(&[b'x'; PATH_MAX + 10]);
        assert_eq!(path.as_bytes().len(), PATH_MAX - 1);
        path.truncate(3);
        assert_eq!(path.as_c_str().to_bytes(), b"xxx");
    }
}
