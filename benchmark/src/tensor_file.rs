//! A file of tensors as it is written front to back: what stands around the tensors, whose bytes somebody else streams.

/// One layout of such a file, and where its parts are.
pub trait TensorFile {
    /// What stands before everything of the first tensor.
    fn head(&self) -> &[u8];
    fn tensors(&self) -> usize;
    fn tensor_bytes(&self, tensor: usize) -> u64;

    /// What stands between a tensor and the one before it.
    fn before(&self, _: usize) -> Vec<u8> {
        Vec::new()
    }

    fn set_crc(&mut self, _tensor: usize, _crc: u32) {}

    /// What is only known when a tensor has been written and stands before it: where, and what. A checksum, mostly.
    fn afterwards(&self, _: usize) -> Option<(u64, Vec<u8>)> {
        None
    }

    /// What stands behind the last tensor.
    fn tail(&self) -> Vec<u8> {
        Vec::new()
    }

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
