//! Deflate for writers that know what repeats: [`compressor`] writes the stream, [`huffman`] computes its codes.

pub mod compressor;
mod huffman;
