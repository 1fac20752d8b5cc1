//! A file of tensors, written front to back: everything around the tensors, whose bytes the caller streams.

use crate::system::checksum::Checksum;

/// A layout of such a file and the positions of its parts.
pub trait TensorFile {
    /// Returns the bytes before everything that belongs to the first tensor.
    fn head(&self) -> &[u8];
    fn tensors(&self) -> usize;
    fn tensor_bytes(&self, tensor: usize) -> u64;

    /// Returns the bytes between a tensor and the previous one.
    fn before(&self, _: usize) -> Vec<u8> {
        Vec::new()
    }

    fn set_crc(&mut self, _tensor: usize, _crc: u32) {}

    /// Returns the kind of checksum that `set_crc` expects.
    fn checksum(&self) -> Checksum {
        Checksum::Crc32
    }

    /// Returns an offset and bytes that precede the tensor but are known only once it has been written; usually a
    /// checksum.
    fn afterwards(&self, _: usize) -> Option<(u64, Vec<u8>)> {
        None
    }

    /// Returns the bytes after the last tensor.
    fn tail(&self) -> Vec<u8> {
        Vec::new()
    }

    /// Returns the bytes of a second file that describes this one.
    fn index(&self) -> Option<Vec<u8>> {
        None
    }

    /// Returns the size of this file, without its index.
    fn file_bytes(&self) -> u64;
}

/// A file that contains only the bytes of tensors.
pub struct Bytes(pub u64);

impl TensorFile for Bytes {
    fn head(&self) -> &[u8] {
        &[]
    }

    fn tensors(&self) -> usize {
        1
    }

    fn tensor_bytes(&self, _: usize) -> u64 {
        self.0
    }

    fn file_bytes(&self) -> u64 {
        self.0
    }
}
