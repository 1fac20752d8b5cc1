//! Tests that damaged input does not make a parser of this crate panic: the entry points of `tests/fuzz` for a
//! bounded number of rounds.

#[path = "../../tests/fuzz/src/schemas.rs"]
mod parsers;
#[path = "../../tests/fuzz/src/rounds.rs"]
mod rounds;

use dlio_schemas::export::export;
use dlio_schemas::native::columns::{EVENTS_MAX, RAW_MAX, Scratch, encode};
use dlio_schemas::native::fields::{FieldWriter, key};
use dlio_schemas::native::file::Image;
use dlio_schemas::native::names::{NameKind, entry_size, write_entry};
use dlio_schemas::native::tally::{RowIndex, Tally, WORDS};
use dlio_schemas::ops::Op;
use dlio_schemas::perfetto::pack::Compression;
use dlio_schemas::perfetto::write::{Options, Writer};
use dlio_schemas::record::{Record, word};

fn stored(name: &str) -> Vec<u8> {
    std::fs::read(std::env::var("CARGO_MANIFEST_DIR").unwrap() + "/../tests/formats/" + name).unwrap()
}

fn exported(compression: Compression) -> Vec<u8> {
    let (bytes, mut out) = (stored("v2.dlt"), Vec::new());
    let mut sink = |bytes: &[u8]| {
        out.extend_from_slice(bytes);
        Ok(())
    };
    let writer = Writer::new(&mut sink, &Options { compression, ..Options::default() }).unwrap();
    export(&Image::from_dlt(&bytes).unwrap(), &bytes, Box::new(writer)).unwrap();
    out
}

fn records() -> Vec<Record> {
    let record = |i: u64| Record {
        word: word(if i.is_multiple_of(3) { Op::OPEN } else { Op::PREAD }, (i % 4) as u8, true, i * i),
        start: (1 << 40) | (i * 1000),
        fd: i as i32 % 9,
        file: i as u32 % 5,
        a: (i * 4096) as i64,
        b: 4096,
        ret: if i.is_multiple_of(7) { -2 } else { 4096 },
    };
    (0..EVENTS_MAX as u64 / 8).map(record).collect()
}

fn columns() -> Vec<u8> {
    let (records, mut out) = (records(), vec![0; RAW_MAX]);
    let used = encode(&records, &mut Scratch::new(), &mut out);
    [&(records.len() as u16).to_le_bytes()[..], &out[..used]].concat()
}

fn names() -> Vec<u8> {
    let mut out = Vec::new();
    for (kind, text) in [(NameKind::Path, "/data/a"), (NameKind::Span, "fetch"), (NameKind::Category, "")] {
        let at = out.len();
        out.resize(at + entry_size(text.as_bytes()), 0);
        write_entry(kind, text.as_bytes(), &mut out[at..]);
    }
    out
}

fn facts() -> Vec<u8> {
    let mut out = vec![0; 200];
    let mut writer = FieldWriter::new(&mut out);
    writer.text(key::PROGRAM, b"reader");
    writer.number(key::PID, 77);
    writer.text(key::ENDED, b"exit 0");
    let used = writer.used();
    out.truncate(used);
    out
}

fn counts() -> Vec<u8> {
    let mut words = vec![0; WORDS];
    let index = RowIndex::empty();
    let mut table = Tally::new(&mut words, &index).unwrap();
    records().iter().for_each(|record| table.add(7, record, |_| true));
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn samples(entry: &str) -> Vec<Vec<u8>> {
    let texts = |all: &[&str]| all.iter().map(|text| text.as_bytes().to_vec()).collect();
    match entry {
        "columns" => vec![columns()],
        "names" => vec![names()],
        "facts" => vec![facts()],
        "counts" => vec![counts()],
        "block" | "dlt" | "sealed_dlt" => vec![stored("v1.dlt"), stored("v2.dlt")],
        "ring" | "live_ring" => vec![stored("v1.ring"), stored("v2.ring")],
        "perfetto" => [Compression::None, Compression::Deflate].map(exported).into(),
        "command_line" => texts(&[
            "curl\0--password=x\0-H\0Authorization: Bearer abc\0https://user:secret@host/path\0",
            "python\0train.py\0--hf-token\0hf_abc\0TOKEN=x",
        ]),
        "process_stat" => texts(&["42 (a (b) c) S 1 42 42 0 -1 4194560 99 0 0 0 1 2 0 0 20 0 1 0 5177 8888 99"]),
        "mistyped" => texts(&["raed", "DLIO_TRACE_DRI"]),
        other => panic!("no samples for {other}"),
    }
}

#[test]
fn damaged_input_does_not_panic_parsers() {
    rounds::run(parsers::ENTRIES, samples, 3000);
}
