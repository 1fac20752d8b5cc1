//! `.jpeg` and `.png`: a sample is one 8-bit gray image of noise, decoded when read.
//!
//! Noise does not compress, so dlio's PNGs store their pixels in uncompressed deflate blocks: the size is within 0.1 %
//! of Pillow's for the same pixels, at the speed of the checksums.

use super::format::{Format, Output, Reader, content_of, gathered, other};
use crate::config::Dataset;
use crate::data_set::layout::FileSpec;
use crate::failure::{Failure, Outcome};
use crate::files::atomic_file::AtomicFile;
use crate::files::input::{Access, Input, open_regular};
use crate::system::buffer::AlignedBuffer;
use std::io::{BufReader, Cursor};
use std::path::Path;
use zune_png::zune_core::options::DecoderOptions;

/// Pillow's default quality.
const QUALITY: u8 = 75;

pub struct Jpeg;
pub struct Png;

fn sides(spec: &FileSpec) -> (u64, u64) {
    match spec.dims.as_slice() {
        [height, width] => (*height, *width),
        [width] => (1, *width),
        _ => (1, spec.sample_elements()),
    }
}

fn differing_sides(spec: &FileSpec, found: Option<(u64, u64)>) -> Option<String> {
    match found {
        None => Some("not an image of this format".into()),
        Some(found) => other("pixels of height and width", &found, &sides(spec)),
    }
}

impl Format for Jpeg {
    fn name(&self) -> &'static str {
        "jpeg"
    }

    fn growth(&self, _: &Dataset) -> f64 {
        0.6
    }

    fn write(&self, spec: &FileSpec, _: &Dataset, draft: &mut AtomicFile, scratch: &mut Vec<u8>) -> Outcome<()> {
        let bytes = encoded_jpeg(spec, scratch)?;
        Output::create(draft, &spec.path)?.write(&bytes)
    }

    /// Returns the file itself, because the decoded pixels only resemble the original ones.
    fn expected(&self, spec: &FileSpec, _: &Dataset, _: u64) -> Outcome<Vec<u8>> {
        encoded_jpeg(spec, &mut Vec::new())
    }

    fn file_bytes(&self, _: &FileSpec, _: &Dataset) -> Option<u64> {
        None
    }

    /// Files of version 1 had a second quantization table.
    fn writer(&self) -> u64 {
        2
    }

    fn differs(&self, spec: &FileSpec, _: &Dataset) -> Option<String> {
        let (file, _) = open_regular(&spec.path, 0).ok()?;
        let mut decoder = zune_jpeg::JpegDecoder::new(BufReader::new(file));
        let found = decoder.decode_headers().ok().and_then(|()| decoder.dimensions());
        differing_sides(spec, found.map(|(width, height)| (height as u64, width as u64)))
    }

    fn reader(&self, _: &Dataset, access: Access) -> Box<dyn Reader> {
        Box::new(ImageReader { lossy: true, ..ImageReader::new(access, decoded_jpeg) })
    }
}

/// Pixel bytes of an IDAT chunk: a deflate block contains at most 65,535 bytes, and a chunk a whole number of blocks.
const BLOCK: usize = 65_535;

impl Format for Png {
    fn name(&self) -> &'static str {
        "png"
    }

    fn write(&self, spec: &FileSpec, _: &Dataset, draft: &mut AtomicFile, scratch: &mut Vec<u8>) -> Outcome<()> {
        let (height, width) = sides(spec);
        let mut output = Output::create(draft, &spec.path)?;
        output.write(b"\x89PNG\r\n\x1a\n")?;
        let mut head = [0; 13];
        head[..4].copy_from_slice(&(width as u32).to_be_bytes());
        head[4..8].copy_from_slice(&(height as u32).to_be_bytes());
        // Eight bits, gray, deflate, adaptive filters, not interlaced.
        head[8] = 8;
        chunk(&mut output, b"IHDR", &[&head])?;
        image_data(spec, &mut output, scratch)?;
        chunk(&mut output, b"IEND", &[])
    }

    fn file_bytes(&self, spec: &FileSpec, _: &Dataset) -> Option<u64> {
        let raw = raw_bytes(spec);
        let blocks = raw.div_ceil(BLOCK as u64);
        // Signature, IHDR, IEND; 12 for each IDAT; 5 for each block; 2 before and 4 after the zlib stream.
        Some(8 + 25 + 12 + blocks * (12 + 5) + raw + 6)
    }

    /// Compares the head of the file: other programs compress pixels, so the size means nothing.
    fn differs(&self, spec: &FileSpec, _: &Dataset) -> Option<String> {
        let (file, _) = open_regular(&spec.path, 0).ok()?;
        let mut decoder = zune_png::PngDecoder::new(BufReader::new(file));
        let found = decoder.decode_headers().ok().and_then(|_| decoder.dimensions());
        differing_sides(spec, found.map(|(width, height)| (height as u64, width as u64)))
    }

    fn reader(&self, _: &Dataset, access: Access) -> Box<dyn Reader> {
        Box::new(ImageReader::new(access, decoded_png))
    }
}

/// Returns the pixel bytes with a filter number, none, before every row.
fn raw_bytes(spec: &FileSpec) -> u64 {
    let (height, width) = sides(spec);
    height * (width + 1)
}

fn image_data(spec: &FileSpec, output: &mut Output, scratch: &mut Vec<u8>) -> Outcome<()> {
    let width = sides(spec).1 as usize;
    let (mut left, mut column) = (raw_bytes(spec), 0);
    let mut adler = libdeflater::Adler32::new();
    let mut block: Vec<u8> = Vec::with_capacity(BLOCK);
    let mut first = true;
    content_of(spec).pieces(0, spec.sample_bytes(), scratch, |mut pixels| {
        while !pixels.is_empty() {
            if column == 0 {
                block.push(0);
            }
            let take = pixels.len().min(width - column).min(BLOCK - block.len());
            block.extend_from_slice(&pixels[..take]);
            pixels = &pixels[take..];
            column = (column + take) % width;
            if block.len() == BLOCK {
                left -= BLOCK as u64;
                stored_block(output, &block, &mut adler, first, left == 0)?;
                first = false;
                block.clear();
            }
        }
        Ok(())
    })?;
    if !block.is_empty() {
        stored_block(output, &block, &mut adler, first, true)?;
    }
    Ok(())
}

fn stored_block(
    output: &mut Output,
    block: &[u8],
    adler: &mut libdeflater::Adler32,
    first: bool,
    last: bool,
) -> Outcome<()> {
    adler.update(block);
    let length = block.len() as u16;
    let zlib: &[u8] = if first { &[0x78, 0x01] } else { &[] };
    let mut head = [u8::from(last); 5];
    head[1..3].copy_from_slice(&length.to_le_bytes());
    head[3..].copy_from_slice(&(!length).to_le_bytes());
    let sum = adler.sum().to_be_bytes();
    chunk(output, b"IDAT", &[zlib, &head, block, if last { &sum } else { &[] }])
}

fn chunk(output: &mut Output, kind: &[u8; 4], parts: &[&[u8]]) -> Outcome<()> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut crc = crc32fast::Hasher::new();
    let mut bytes = Vec::with_capacity(length + 12);
    bytes.extend((length as u32).to_be_bytes());
    bytes.extend(kind);
    parts.iter().for_each(|part| bytes.extend_from_slice(part));
    crc.update(&bytes[4..]);
    bytes.extend(crc.finalize().to_be_bytes());
    output.write(&bytes)
}

fn encoded_jpeg(spec: &FileSpec, scratch: &mut Vec<u8>) -> Outcome<Vec<u8>> {
    let (height, width) = sides(spec);
    let pixels = gathered(spec, 0, spec.sample_bytes(), scratch);
    let mut bytes = Vec::with_capacity(pixels.len());
    let encoder = jpeg_encoder::Encoder::new(&mut bytes, QUALITY);
    let result = encoder.encode(&pixels, width as u16, height as u16, jpeg_encoder::ColorType::Luma);
    result.map_err(|error| Failure::refused(format!("{}: {error}", spec.path.display())))?;
    Ok(without_color_table(bytes))
}

/// Removes the quantization table for colors, which the encoder writes for gray images too: Pillow does not, and it
/// would be a third of a small image.
fn without_color_table(mut bytes: Vec<u8>) -> Vec<u8> {
    const TABLE: u8 = 0xdb;
    const SCAN: u8 = 0xda;
    let mut at = 2;
    while let Some(&[0xff, marker, high, low, first]) = bytes.get(at..at + 5).and_then(|head| head.first_chunk()) {
        let length = 2 + usize::from(u16::from_be_bytes([high, low]));
        // The first byte of a table is its number; that of colors is 1.
        if marker == TABLE && first == 1 {
            bytes.drain(at..at + length);
            break;
        }
        if marker == SCAN {
            break;
        }
        at += length;
    }
    bytes
}

type Decode = fn(&[u8]) -> Result<Vec<u8>, String>;

fn decoded_jpeg(bytes: &[u8]) -> Result<Vec<u8>, String> {
    // Decoders fill missing parts with gray; a file without its end marker is truncated.
    if !bytes.ends_with(&[0xff, 0xd9]) {
        return Err("the image has no end".into());
    }
    let mut decoder = zune_jpeg::JpegDecoder::new(Cursor::new(bytes));
    let failed = |error| format!("{error:?}");
    decoder.decode_headers().map_err(failed)?;
    // The pixels as stored: by default the decoder would convert gray to color.
    if let Some(stored) = decoder.input_colorspace() {
        decoder.set_options(decoder.options().jpeg_set_out_colorspace(stored));
    }
    decoder.decode().map_err(failed)
}

fn decoded_png(bytes: &[u8]) -> Result<Vec<u8>, String> {
    if !bytes.ends_with(b"IEND\xaeB`\x82") {
        return Err("the image has no end".into());
    }
    let checked = DecoderOptions::default().png_set_confirm_crc(true).inflate_set_confirm_adler(true);
    let mut decoder = zune_png::PngDecoder::new_with_options(Cursor::new(bytes), checked);
    decoder.decode_raw().map_err(|error| format!("{error:?}"))
}

struct ImageReader {
    access: Access,
    decode: Decode,
    /// Decoded pixels differ from the written ones.
    lossy: bool,
    input: Option<Input>,
    /// The file that was read last, and its length.
    buffer: AlignedBuffer,
    length: usize,
    pixels: Vec<u8>,
    moved: u64,
}

impl ImageReader {
    fn new(access: Access, decode: Decode) -> ImageReader {
        let (buffer, pixels) = (AlignedBuffer::default(), Vec::new());
        ImageReader { access, decode, lossy: false, input: None, buffer, length: 0, pixels, moved: 0 }
    }
}

impl Reader for ImageReader {
    fn open(&mut self, path: &Path) -> Outcome<()> {
        self.input = Some(Input::open(path, self.access)?);
        Ok(())
    }

    /// A file is one image, whatever the index.
    fn sample(&mut self, _: u64) -> Outcome<()> {
        let input = self.input.as_mut().expect("a reader is opened before it reads");
        self.length = input.read_whole(&mut self.buffer)?;
        self.moved += input.take_moved();
        self.pixels =
            (self.decode)(self.buffer.bytes(self.length)).map_err(|what| Failure::damaged(input.path(), what))?;
        Ok(())
    }

    fn bytes(&self) -> &[u8] {
        &self.pixels
    }

    fn content(&self, _: u64) -> Vec<u8> {
        if self.lossy { self.buffer.bytes(self.length).to_vec() } else { self.pixels.clone() }
    }

    fn take_moved(&mut self) -> u64 {
        std::mem::take(&mut self.moved)
    }

    fn close(&mut self) {
        self.input = None;
    }
}
