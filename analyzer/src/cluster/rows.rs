//! Rows sent by a worker: compressed batches in Arrow's stream format, followed by the remaining data.
//!
//! ```text
//! zstd of a stream of batches  |  zstd of MessagePack: the remaining data  |  its length (8)
//! ```

use std::io::{self, BufReader, Read, Write};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::BatchCoalescer;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use bytes::Bytes;
use datafusion::error::DataFusionError;
use dlio_cluster::work::Out;
use serde::{Deserialize, Serialize};

use super::result_buffer::ResultBuffer;
use super::task::{SentNote, pack, unpack};
use crate::catalog::{Host, Process};

/// The data that follow the rows of a work item.
#[derive(Default, Serialize, Deserialize)]
pub struct RowsTrailer {
    /// Why the rows are incomplete, which makes them unusable.
    pub failed: Option<Failed>,
    pub notes: Vec<SentNote>,
    /// The meaning of numbers in the rows.
    pub files: Vec<(i32, String)>,
    pub processes: Vec<SentProcess>,
}

/// A query that failed on a worker.
#[derive(Serialize, Deserialize)]
pub enum Failed {
    Memory(String),
    Otherwise(String),
}

/// A process, its number there, and its host.
#[derive(Serialize, Deserialize)]
pub struct SentProcess {
    pub number: i32,
    pub process: Process,
    pub host: Host,
}

impl Failed {
    pub fn of(error: &DataFusionError) -> Failed {
        match error.find_root() {
            DataFusionError::ResourcesExhausted(what) => Failed::Memory(what.clone()),
            _ => Failed::Otherwise(error.strip_backtrace()),
        }
    }
}

/// The level of zstd: rows are many, and the coordinator waits for them.
const LEVEL: i32 = 1;

/// Rows per batch sent: blocks have fewer, and each batch has an overhead.
const BATCH_ROWS: usize = 8192;

/// Bytes sent at a time.
const PART: usize = 256 << 10;

/// Writes the rows of a work item.
pub struct RowsOut<'o> {
    batches: StreamWriter<zstd::stream::write::Encoder<'static, Parts<'o>>>,
    /// Merges small batches; `None` if they have no columns but only a number of rows.
    together: Option<BatchCoalescer>,
}

impl<'o> RowsOut<'o> {
    pub fn new(schema: &SchemaRef, out: Out<'o>) -> Result<RowsOut<'o>, ArrowError> {
        let encoder = zstd::stream::write::Encoder::new(Parts { out, bytes: Vec::new() }, LEVEL)?;
        let batches = StreamWriter::try_new(encoder, schema)?;
        let together = (!schema.fields().is_empty()).then(|| {
            BatchCoalescer::new(schema.clone(), BATCH_ROWS).with_biggest_coalesce_batch_size(Some(BATCH_ROWS / 2))
        });
        Ok(RowsOut { batches, together })
    }

    pub fn write(&mut self, rows: RecordBatch) -> Result<(), ArrowError> {
        match &mut self.together {
            Some(together) => {
                together.push_batch(rows)?;
                self.write_whole()
            }
            None => self.batches.write(&rows),
        }
    }

    fn write_whole(&mut self) -> Result<(), ArrowError> {
        while let Some(batch) = self.together.as_mut().and_then(BatchCoalescer::next_completed_batch) {
            self.batches.write(&batch)?;
        }
        Ok(())
    }

    pub fn finish(mut self, rest: &RowsTrailer) -> Result<(), ArrowError> {
        self.together.as_mut().map_or(Ok(()), BatchCoalescer::finish_buffered_batch)?;
        self.write_whole()?;
        let mut parts = self.batches.into_inner()?.finish()?;
        let rest = pack(rest).map_err(io::Error::other)?;
        parts.write_all(&rest)?;
        parts.write_all(&(rest.len() as u64).to_le_bytes())?;
        Ok(parts.flush()?)
    }
}

/// Splits bytes into parts.
struct Parts<'o> {
    out: Out<'o>,
    bytes: Vec<u8>,
}

impl Write for Parts<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        if self.bytes.len() >= PART {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let bytes = std::mem::take(&mut self.bytes);
        if bytes.is_empty() { Ok(()) } else { (self.out)(Bytes::from(bytes)).map_err(io::Error::other) }
    }
}

/// The received rows of a work item, untranslated.
pub struct RowsIn(StreamReader<BufReader<Box<dyn Read + Send>>>);

impl RowsIn {
    /// Returns the rows, and the data that follow them.
    pub fn of(held: ResultBuffer) -> Result<(RowsIn, RowsTrailer), ArrowError> {
        const WORD: u64 = size_of::<u64>() as u64;
        let cut = || ArrowError::IpcError("a worker's rows are truncated".into());
        let held = Arc::new(held);
        let whole = held.length();
        let mut word = [0; WORD as usize];
        held.range(whole.checked_sub(WORD).ok_or_else(cut)?, WORD).read_exact(&mut word)?;
        let length = u64::from_le_bytes(word);
        let rows = whole.checked_sub(WORD).and_then(|before| before.checked_sub(length)).ok_or_else(cut)?;
        let mut rest = Vec::new();
        held.range(rows, length).read_to_end(&mut rest)?;
        let rest = unpack(&rest).map_err(ArrowError::IpcError)?;
        let bytes: Box<dyn Read + Send> = Box::new(zstd::stream::read::Decoder::new(held.range(0, rows))?);
        Ok((RowsIn(StreamReader::try_new(BufReader::new(bytes), None)?), rest))
    }
}

impl Iterator for RowsIn {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::result_buffer::MemoryBudget;
    use arrow::array::{Int32Array, RecordBatchOptions, StringViewArray};
    use arrow::datatypes::{DataType, Field, Schema};
    use dlio_cluster::dispatch::Receiving;

    fn sent(schema: &SchemaRef, batches: &[RecordBatch], rest: &RowsTrailer) -> ResultBuffer {
        let mut held = ResultBuffer::new(MemoryBudget::of(1000));
        let mut out = |part| held.part(part);
        let mut rows = RowsOut::new(schema, &mut out).unwrap();
        batches.iter().for_each(|batch| rows.write(batch.clone()).unwrap());
        rows.finish(rest).unwrap();
        held
    }

    #[test]
    fn rows_arrive_with_their_trailer() {
        let fields = vec![Field::new("n", DataType::Int32, true), Field::new("t", DataType::Utf8View, false)];
        let schema = Arc::new(Schema::new(fields));
        let batch = |from: i32| {
            let texts = (from..from + 3000).map(|number| format!("a text longer than twelve bytes, {number}"));
            let numbers = Arc::new(Int32Array::from_iter_values(from..from + 3000));
            RecordBatch::try_new(schema.clone(), vec![numbers, Arc::new(StringViewArray::from_iter_values(texts))])
                .unwrap()
        };
        let batches: Vec<_> = (0..10).map(|number| batch(number * 3000)).collect();
        let rest = RowsTrailer { files: vec![(3, "/a".into())], ..RowsTrailer::default() };
        let (rows, rest) = RowsIn::of(sent(&schema, &batches, &rest)).unwrap();
        let rows: Vec<_> = rows.map(|rows| rows.unwrap()).collect();
        let all = |batches: &[RecordBatch]| arrow::compute::concat_batches(&schema, batches).unwrap();
        assert_eq!(all(&rows), all(&batches));
        assert_eq!((rest.files, rest.failed.is_none()), (vec![(3, "/a".into())], true));
        assert!(RowsIn::of(sent(&schema, &[], &RowsTrailer::default())).unwrap().0.next().is_none());
    }

    #[test]
    fn rows_without_columns_are_counted() {
        let schema = Arc::new(Schema::empty());
        let options = RecordBatchOptions::new().with_row_count(Some(7));
        let batch = RecordBatch::try_new_with_options(schema.clone(), vec![], &options).unwrap();
        let (rows, _) = RowsIn::of(sent(&schema, &[batch.clone(), batch], &RowsTrailer::default())).unwrap();
        assert_eq!(rows.map(|rows| rows.unwrap().num_rows()).sum::<usize>(), 14);
    }

    #[test]
    fn truncated_rows_are_an_error() {
        let held = ResultBuffer::new(MemoryBudget::of(0));
        assert!(RowsIn::of(held).is_err());
        let mut held = ResultBuffer::new(MemoryBudget::of(100));
        held.part(Bytes::from(vec![0xff; 20])).unwrap();
        assert!(RowsIn::of(held).is_err());
    }
}
