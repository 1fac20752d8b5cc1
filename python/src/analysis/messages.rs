//! Arrow's stream format: each message is read into memory that its columns then share.
//!
//! A library such as Polars keeps the columns as they are, so this memory is that of the result, and reading gigabytes
//! means to get gigabytes of memory from the kernel. Messages are therefore cut from large regions, and the kernel
//! provides the pages of a message at once: a fault for each of them costs more than reading it. A region is returned
//! when none of its columns is used any more.

use std::io::{self, ErrorKind, Read};
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::reader::{FileDecoder, StreamReader};
use arrow_ipc::{Block, MessageHeader, MetadataVersion, root_as_message};
use arrow_schema::{ArrowError, SchemaRef};

/// The mark before a message, and the length of its metadata.
const PREFIX: usize = 8;

/// Columns begin at multiples of this many bytes.
const ALIGNMENT: usize = 64;

/// The sizes of the first region and of the largest one: a small result takes little memory.
const REGION_MIN: usize = 1 << 20;
const REGION_MAX: usize = 32 << 20;

const PAGE: usize = 4096;

/// The batches in a stream.
pub struct Messages<R> {
    reader: R,
    decoder: FileDecoder,
    schema: SchemaRef,
    metadata: Vec<u8>,
    memory: Memory,
}

impl<R: Read> Messages<R> {
    /// Reads the schema.
    pub fn new(mut reader: R) -> Result<Messages<R>, ArrowError> {
        let schema = StreamReader::try_new(&mut reader, None)?.schema();
        let decoder = FileDecoder::new(schema.clone(), MetadataVersion::V5);
        // SAFETY: dlio-analyze, of the version of this package, has written it; a check would read all strings again.
        let decoder = unsafe { decoder.with_skip_validation(true) };
        Ok(Messages { reader, decoder, schema, metadata: Vec::new(), memory: Memory::default() })
    }

    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    pub fn reader(&mut self) -> &mut R {
        &mut self.reader
    }

    /// Returns the next batch; `None` after the last one.
    pub fn next(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        while self.read_metadata()? {
            let message = root_as_message(&self.metadata[PREFIX..])
                .map_err(|error| ArrowError::ParseError(format!("the metadata of a message: {error}")))?;
            let (kind, body) = (message.header_type(), message.bodyLength());
            let block = Block::new(0, self.metadata.len() as i32, body);
            let whole = self.read_message(body as usize)?;
            match kind {
                MessageHeader::DictionaryBatch => self.decoder.read_dictionary(&block, &whole)?,
                _ => return self.decoder.read_record_batch(&block, &whole),
            }
        }
        Ok(None)
    }

    /// Reads the next message's metadata, with what precedes them; returns `false` at the end.
    fn read_metadata(&mut self) -> io::Result<bool> {
        self.metadata.resize(PREFIX, 0);
        match self.reader.read_exact(&mut self.metadata) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(false),
            read => read?,
        }
        let length = i32::from_le_bytes([4, 5, 6, 7].map(|at: usize| self.metadata[at]));
        self.metadata.resize(PREFIX + length.max(0) as usize, 0);
        self.reader.read_exact(&mut self.metadata[PREFIX..])?;
        Ok(length > 0)
    }

    /// Reads the body of a message, and returns it after its metadata.
    fn read_message(&mut self, body: usize) -> io::Result<Buffer> {
        let metadata = self.metadata.len();
        let (region, from) = self.memory.cut(metadata + body)?;
        // SAFETY: this part of the region was cut for this message, and is read only by the buffer that is made of it
        // below. It is initialized, with zeros.
        let bytes = unsafe { std::slice::from_raw_parts_mut(region.start.add(from).as_ptr(), metadata + body) };
        bytes[..metadata].copy_from_slice(&self.metadata);
        self.reader.read_exact(&mut bytes[metadata..])?;
        // SAFETY: the buffer keeps the region.
        Ok(unsafe { Buffer::from_custom_allocation(region.start.add(from), metadata + body, region.clone()) })
    }
}

/// The region from which messages are cut.
#[derive(Default)]
struct Memory {
    region: Option<Arc<Region>>,
    used: usize,
    /// The part of the region that has pages.
    populated: usize,
}

impl Memory {
    /// Returns a region, and the place of `length` unused bytes in it.
    fn cut(&mut self, length: usize) -> io::Result<(Arc<Region>, usize)> {
        let length = length.next_multiple_of(ALIGNMENT);
        let size = self.region.as_ref().map_or(0, |region| region.length);
        if self.used + length > size {
            let larger = (2 * size).clamp(REGION_MIN, REGION_MAX);
            let length = larger.max(length).next_multiple_of(PAGE);
            self.region = Some(Arc::new(Region::new(length)?));
            (self.used, self.populated) = (0, 0);
        }
        let region = self.region.clone().expect("it has just been created");
        self.used += length;
        if self.used > self.populated {
            let end = self.used.next_multiple_of(PAGE);
            region.populate(self.populated..end);
            self.populated = end;
        }
        Ok((region, self.used - length))
    }
}

/// Memory of the kernel.
struct Region {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: memory that the process owns; its parts are written once, before they are shared.
unsafe impl Send for Region {}
// SAFETY: likewise.
unsafe impl Sync for Region {}

impl Region {
    fn new(length: usize) -> io::Result<Region> {
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping, at an address that the kernel chooses.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), length, access, kind, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).expect("a mapping is never at zero");
        Ok(Region { start, length })
    }

    /// Lets the kernel provide pages. A kernel before 5.14 refuses, and provides each page when it is written.
    fn populate(&self, pages: Range<usize>) {
        // SAFETY: a part of the mapping of `new`.
        unsafe { libc::madvise(self.start.add(pages.start).as_ptr().cast(), pages.len(), libc::MADV_POPULATE_WRITE) };
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`; no buffer refers to it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}
