//! A file of tensors as it is written front to back: what stands around the tensors, whose bytes somebody else streams.

use crate::system::checksum::Checksum;

/// One layout of such a file, and where its parts are.
pub trait TensorFile {
    /// The bytes before everything of the first tensor.
    fn head(&self) -> &[u8];
    fn tensors(&self) -> usize;
    fn tensor_bytes(&self, tensor: usize) -> u64;

    /// The bytes between a tensor and the one before it.
    fn before(&self, _: usize) -> Vec<u8> {
        Vec::new()
    }

    fn set_crc(&mut self, _tensor: usize, _crc: u32) {}

    /// The kind that `set_crc` takes.
    fn checksum(&self) -> Checksum {
        Checksum::Crc32
    }

    /// The place and bytes that are only known when a tensor has been written and stand before it. A checksum, mostly.
    fn afterwards(&self, _: usize) -> Option<(u64, Vec<u8>)> {
        None
    }

    /// The bytes behind the last tensor.
    fn tail(&self) -> Vec<u8> {
        Vec::new()
    }

    /// The bytes of a second file, which says what is in this one.
    fn index(&self) -> Option<Vec<u8>> {
        None
    }

    /// Of this file, without its index.
    fn file_bytes(&self) -> u64;
}

/// The bytes of tensors and nothing else.
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
