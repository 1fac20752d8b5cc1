//! Gzip as a stream: any number of members, memory for one window.

use std::io::Read;

/// Unpacks one member after another.
pub struct Inflater<R: Read>(flate2::bufread::MultiGzDecoder<std::io::BufReader<R>>);

impl<R: Read> Inflater<R> {
    pub fn new(source: R) -> Inflater<R> {
        Inflater(flate2::bufread::MultiGzDecoder::new(std::io::BufReader::with_capacity(1 << 18, source)))
    }
}

impl<R: Read> Read for Inflater<R> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        self.0.read(into)
    }
}
