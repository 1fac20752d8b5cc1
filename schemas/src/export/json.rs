//! JSON output of events: text is collected, compressed if requested, and written in chunks.
//!
//! Like every exporter, this may run inside a traced process: it keeps one chunk of output and no events.

use std::io;

use crate::event::ops::Layer;
use crate::event::record::{MetaKind, STEP_NONE, unpack_steps};
use crate::export::exporter::{Call, Meta, Sink};
use crate::export::key::{self, Key};
use crate::native::names::Names;
use crate::text::decimal::decimal;
use crate::text::readable::readable;

/// Amount of text collected before it is compressed and written; each chunk is one member of a gzip file.
const GATHERED: usize = 256 << 10;

const GZIP_LEVEL: i32 = 1;

/// The contents of a JSON object.
pub(crate) struct List<'l, 'a> {
    pub(crate) out: &'l mut Output<'a>,
    pub(crate) empty: bool,
}

impl List<'_, '_> {
    pub(crate) fn key(&mut self, key: &[u8]) {
        if !self.empty {
            self.out.raw(",");
        }
        self.empty = false;
        self.out.text(key);
        self.out.raw(":");
    }

    pub(crate) fn number(&mut self, key: &str, number: i64) {
        self.key(key.as_bytes());
        self.out.number(number);
    }

    pub(crate) fn name(&mut self, key: &str, id: u32, names: &Names) {
        self.key(key.as_bytes());
        self.out.name(id, names, "<unknown>");
    }

    /// Writes epoch and step of a span, if known.
    pub(crate) fn steps(&mut self, packed: Option<i64>) {
        let (epoch, step) = packed.map_or((STEP_NONE, STEP_NONE), unpack_steps);
        for (key, number) in [(Key::Epoch, epoch), (Key::Step, step)] {
            if number != STEP_NONE {
                self.number(key.name(), number as i64);
            }
        }
    }

    pub(crate) fn metadata(&mut self, metadata: &[Meta], names: &Names) {
        for meta in metadata {
            if let Some(counters) = meta.counters() {
                key::of_counters(&counters).for_each(|(key, number)| self.number(key.name(), number));
                continue;
            }
            self.key(names.get(meta.key).map_or(&b"unknown"[..], |(_, text)| text));
            match MetaKind::from_fd(meta.kind) {
                Some(MetaKind::Float) => self.out.float(f64::from_bits(meta.value as u64)),
                Some(MetaKind::Text) => self.out.name(meta.value as u32, names, "unknown"),
                _ => self.out.number(meta.value),
            }
        }
    }
}

/// A JSON output stream.
pub(crate) struct Output<'a> {
    sink: &'a mut Sink<'a>,
    gathered: Vec<u8>,
    gzip: Option<libdeflater::Compressor>,
    compressed: Vec<u8>,
    /// `true` if an event precedes the next one.
    begun: bool,
    pub(crate) written: u64,
}

impl<'a> Output<'a> {
    pub(crate) fn new(sink: &'a mut Sink<'a>, gzip: bool) -> Output<'a> {
        let level = libdeflater::CompressionLvl::new(GZIP_LEVEL).unwrap_or_default();
        let gzip = gzip.then(|| libdeflater::Compressor::new(level));
        Output { sink, gathered: Vec::with_capacity(GATHERED), gzip, compressed: Vec::new(), begun: false, written: 0 }
    }

    pub(crate) fn breathe(&mut self) -> io::Result<()> {
        if self.gathered.len() >= GATHERED { self.flush() } else { Ok(()) }
    }

    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let bytes = match &mut self.gzip {
            None => &self.gathered,
            Some(gzip) => {
                self.compressed.resize(gzip.gzip_compress_bound(self.gathered.len()), 0);
                let used = gzip
                    .gzip_compress(&self.gathered, &mut self.compressed)
                    .map_err(|_| io::Error::other("the gzip buffer is too small"))?;
                self.compressed.truncate(used);
                &self.compressed
            }
        };
        self.written += bytes.len() as u64;
        (self.sink)(bytes)?;
        self.gathered.clear();
        Ok(())
    }

    /// Separates two events of a list.
    pub(crate) fn next(&mut self) {
        self.raw(if self.begun { ",\n" } else { "\n" });
        self.begun = true;
    }

    pub(crate) fn raw(&mut self, text: &str) {
        self.gathered.extend_from_slice(text.as_bytes());
    }

    pub(crate) fn number(&mut self, number: i64) {
        self.gathered.extend_from_slice(decimal(number, &mut [0; 20]));
    }

    /// Writes a number; JSON cannot represent values that are not numbers.
    pub(crate) fn float(&mut self, number: f64) {
        if number.is_finite() { self.raw(&number.to_string()) } else { self.raw("null") }
    }

    /// Writes nanoseconds as microseconds with three decimals.
    pub(crate) fn microseconds(&mut self, ns: i64) {
        self.raw(if ns < 0 { "-" } else { "" });
        let ns = ns.unsigned_abs();
        self.number((ns / 1000) as i64);
        let rest = ns % 1000;
        self.gathered.extend_from_slice(&[
            b'.',
            b'0' + (rest / 100) as u8,
            b'0' + (rest / 10 % 10) as u8,
            b'0' + (rest % 10) as u8,
        ]);
    }

    pub(crate) fn hash(&mut self, hash: u64) {
        self.raw(&format!("\"{hash:016x}\""));
    }

    pub(crate) fn name(&mut self, id: u32, names: &Names, otherwise: &str) {
        self.text(names.get(id).map_or(otherwise.as_bytes(), |(_, text)| text));
    }

    /// Writes the name of a call and its category, which a span defines itself and `layer` defines for other calls.
    pub(crate) fn name_and_category(&mut self, call: &Call, names: &Names, layer: fn(Layer) -> &'static str) {
        if call.names_itself() {
            self.name(call.file, names, "unnamed");
            self.raw(",\"cat\":");
            if call.fd > 0 {
                self.name(call.fd as u32, names, "app")
            } else {
                self.raw("\"app\"")
            }
            return;
        }
        self.raw("\"");
        self.raw(call.info.map_or("operation", |info| info.name));
        self.raw("\",\"cat\":\"");
        self.raw(layer(call.info.map_or(Layer::App, |info| info.layer)));
        self.raw("\"");
    }

    /// Writes a quoted string. JSON cannot contain arbitrary bytes: text that is not UTF-8 is written as in tables
    /// and reports.
    pub(crate) fn text(&mut self, text: &[u8]) {
        self.gathered.push(b'"');
        readable(text).bytes().for_each(|byte| self.escaped(byte));
        self.gathered.push(b'"');
    }

    fn escaped(&mut self, byte: u8) {
        match byte {
            b'"' | b'\\' => self.gathered.extend_from_slice(&[b'\\', byte]),
            b'\n' => self.raw("\\n"),
            0..0x20 => {
                let hex = b"0123456789abcdef";
                self.raw("\\u00");
                self.gathered.extend_from_slice(&[hex[byte as usize >> 4], hex[byte as usize & 15]]);
            }
            byte => self.gathered.push(byte),
        }
    }
}
