//! The trace of one process image: a `.dlt` with the process's facts, names and events, as the library writes it.
//!
//! Ticks are nanoseconds of CLOCK_MONOTONIC. The file is created with the first event.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use dlio_schemas::clock::Anchor;
use dlio_schemas::native::block::{Codec, Header, Kind};
use dlio_schemas::native::columns::{EVENTS_MAX, RAW_MAX, Scratch, Survey};
use dlio_schemas::native::fields::{FieldWriter, key};
use dlio_schemas::native::file::file_header;
use dlio_schemas::native::names::{NameKind, entry_size, write_entry};
use dlio_schemas::process_stat::ProcessStat;
use dlio_schemas::record::Record;
use dlio_schemas::secrets;
use dlio_tracer::process::filter::Filter;

use super::kernel;
use crate::system::host;

/// Settings that all traces of a command share.
pub struct Settings {
    pub folder: PathBuf,
    /// The unique name of this `dlio trace`, as the library records it.
    pub unique: String,
    /// `true` if `dlio trace` converts the traces when the command has exited.
    pub is_converted: bool,
    /// Permissions removed from created files.
    pub umask: u32,
    pub label: String,
    pub filter: Filter,
}

/// Memory for encoding, shared by all images.
pub struct Encoder {
    scratch: Box<Scratch>,
    payload: Vec<u8>,
}

impl Default for Encoder {
    fn default() -> Encoder {
        Encoder { scratch: Box::default(), payload: vec![0; RAW_MAX] }
    }
}

/// One process image.
pub struct Image {
    settings: Rc<Settings>,
    pid: i32,
    /// Boot time at which the process started: equal for all of its images.
    began_boot_ns: u64,
    /// Boot time at which this image started.
    started_boot_ns: u64,
    /// `None` before the first event, and after an error.
    file: Option<File>,
    has_failed: bool,
    names: HashMap<Rc<[u8]>, u32>,
    /// Entries that are not in the file yet, and the number of the first one.
    unwritten: Vec<u8>,
    unwritten_count: u32,
    threads: HashMap<i32, Vec<Record>>,
    sequences: HashMap<i32, u32>,
    events: u64,
    lost: u64,
    filtered: u64,
}

impl Image {
    pub fn new(settings: &Rc<Settings>, pid: i32, began_boot_ns: u64) -> Image {
        Image {
            settings: settings.clone(),
            pid,
            began_boot_ns,
            started_boot_ns: kernel::clock_ns(libc::CLOCK_BOOTTIME),
            file: None,
            has_failed: false,
            names: HashMap::new(),
            unwritten: Vec::new(),
            unwritten_count: 0,
            threads: HashMap::new(),
            sequences: HashMap::new(),
            events: 0,
            lost: 0,
            filtered: 0,
        }
    }

    /// Returns the number of a path, or of an object's name in angle brackets.
    pub fn name(&mut self, text: &Rc<[u8]>) -> u32 {
        if let Some(number) = self.names.get(text) {
            return *number;
        }
        let number = self.names.len() as u32 + 1;
        let kind = if text.starts_with(b"<") { NameKind::Object } else { NameKind::Path };
        let start = self.unwritten.len();
        self.unwritten.resize(start + entry_size(text), 0);
        write_entry(kind, text, &mut self.unwritten[start..]);
        self.unwritten_count += 1;
        self.names.insert(text.clone(), number);
        number
    }

    /// Notes a call on a file that the filter excludes.
    pub fn count_filtered(&mut self) {
        self.filtered += 1;
    }

    /// Records an event. `encoder` writes the events of a thread when they fill a block.
    pub fn record(&mut self, thread: i32, record: Record, encoder: &mut Encoder) {
        if self.file.is_none() && !self.has_failed {
            self.create();
        }
        let records = self.threads.entry(thread).or_default();
        records.push(record);
        if records.len() == EVENTS_MAX {
            self.write_thread(thread, encoder);
        }
    }

    /// Writes the rest and the end of the image: `exit 0`, `exec`, `killed`. Returns `true` if it has events.
    pub fn finish(mut self, ending: &str, encoder: &mut Encoder) -> bool {
        let threads: Vec<i32> = self.threads.keys().copied().collect();
        threads.into_iter().for_each(|thread| self.write_thread(thread, encoder));
        let has_events = self.events + self.lost > 0;
        if has_events {
            let mut bytes = [0; 1024];
            let mut writer = FieldWriter::new(&mut bytes);
            writer.text(key::ENDED, ending.as_bytes());
            writer.number(key::END_BOOT_NS, kernel::clock_ns(libc::CLOCK_BOOTTIME) as i64);
            writer.number(key::EVENTS, self.events as i64);
            writer.number(key::LOST, self.lost as i64);
            writer.number(key::FILTERED, self.filtered as i64);
            let used = writer.used();
            self.append(Header { count: 1, ..Header::new(Kind::Process) }, &bytes[..used]);
        }
        has_events
    }

    fn write_thread(&mut self, thread: i32, encoder: &mut Encoder) {
        let records = std::mem::take(self.threads.entry(thread).or_default());
        let Some(first) = records.first().map(|record| record.start) else { return };
        self.write_names();
        let survey = Survey::of(&records, &mut encoder.scratch);
        let length = survey.encode(&records, &mut encoder.scratch, &mut encoder.payload);
        let sequence = self.sequences.entry(thread).or_default();
        let header = Header {
            stream: thread as u32,
            sequence: *sequence,
            tid: thread as u32,
            count: records.len() as u32,
            first,
            last: survey.last,
            reach: survey.reach(first),
            ..Header::new(Kind::Events)
        };
        *sequence += 1;
        match self.append(header, &encoder.payload[..length]) {
            true => self.events += records.len() as u64,
            false => self.lost += records.len() as u64,
        }
    }

    fn write_names(&mut self) {
        if self.unwritten_count == 0 {
            return;
        }
        let first = self.names.len() as u64 + 1 - self.unwritten_count as u64;
        let header = Header { count: self.unwritten_count, first, ..Header::new(Kind::Names) };
        let entries = std::mem::take(&mut self.unwritten);
        self.append(header, &entries);
        self.unwritten_count = 0;
    }

    /// Appends a block; `false` if it could not be written completely.
    fn append(&mut self, mut header: Header, payload: &[u8]) -> bool {
        let Some(file) = &mut self.file else { return false };
        header.anchor = anchor();
        let bytes = [&header.seal(Codec::Raw, payload.len(), payload)[..], payload].concat();
        let length = file.metadata().map(|found| found.len());
        if file.write_all(&bytes).is_ok() {
            return true;
        }
        // A truncated block in the middle would look like damage.
        length.ok().map(|length| file.set_len(length));
        false
    }

    fn create(&mut self) {
        let facts = Facts::of(self.pid);
        let path = self.settings.folder.join(facts.file_name(self.pid));
        let mode = 0o666 & !self.settings.umask;
        self.file = OpenOptions::new().append(true).create_new(true).mode(mode).open(path).ok();
        self.has_failed = self.file.is_none();
        if let Some(file) = &mut self.file {
            self.has_failed = file.write_all(&file_header()).is_err();
        }
        let mut bytes = vec![0; 8192];
        let mut writer = FieldWriter::new(&mut bytes);
        self.describe(&facts, &mut writer);
        let used = writer.used();
        self.append(Header { count: 1, ..Header::new(Kind::Process) }, &bytes[..used]);
    }

    fn describe(&self, facts: &Facts, writer: &mut FieldWriter) {
        writer.text(key::PROGRAM, facts.program.as_bytes());
        writer.number(key::PID, self.pid as i64);
        writer.number(key::PPID, facts.parent as i64);
        writer.number(key::START_BOOT_NS, self.began_boot_ns as i64);
        writer.number(key::IMAGE, self.started_boot_ns as i64);
        writer.text(key::HOST, host::host_name().as_bytes());
        writer.text(key::BOOT_ID, kernel_line("random/boot_id").as_bytes());
        writer.text(key::KERNEL, kernel_line("osrelease").as_bytes());
        writer.text(key::CLOCK, b"monotonic");
        writer.number(key::CLOCK_HZ, 1_000_000_000);
        writer.text(key::TRACER, concat!("dlio ", env!("CARGO_PKG_VERSION")).as_bytes());
        writer.text(key::RECORDED_BY, b"ptrace");
        writer.number(key::UID, facts.user as i64);
        host::processors_online().into_iter().for_each(|count| writer.number(key::CORES, count as i64));
        let Settings { unique, label, is_converted, .. } = &*self.settings;
        if *is_converted {
            writer.text(key::CONVERTER, unique.as_bytes());
        }
        if !label.is_empty() {
            writer.text(key::LABEL, label.as_bytes());
        }
        writer.text(key::TRACE_DIR, self.settings.folder.as_os_str().as_bytes());
        writer.text(key::CWD, facts.working_dir.as_os_str().as_bytes());
        let mut shown = vec![0; 2048];
        writer.text(key::COMMAND, secrets::masked(&facts.command, &mut shown));
    }
}

fn anchor() -> Anchor {
    Anchor {
        ticks: kernel::clock_ns(libc::CLOCK_MONOTONIC),
        boot_ns: kernel::clock_ns(libc::CLOCK_BOOTTIME),
        real_ns: kernel::clock_ns(libc::CLOCK_REALTIME),
    }
}

fn kernel_line(name: &str) -> String {
    fs::read_to_string(Path::new("/proc/sys/kernel").join(name)).unwrap_or_default().trim().to_string()
}

/// Facts about a process from /proc.
struct Facts {
    program: String,
    parent: i32,
    user: u32,
    working_dir: PathBuf,
    /// Arguments separated by zero bytes.
    command: Vec<u8>,
}

impl Facts {
    fn of(pid: i32) -> Facts {
        let place = PathBuf::from(format!("/proc/{pid}"));
        let mut command = fs::read(place.join("cmdline")).unwrap_or_default();
        command.truncate(command.len() - command.ends_with(b"\0") as usize);
        let first = command.split(|byte| *byte == 0).next().unwrap_or_default();
        let program = first.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let program = match program {
            b"" => fs::read_to_string(place.join("comm")).unwrap_or_default().trim().to_string(),
            name => String::from_utf8_lossy(name).into_owned(),
        };
        let stat = ProcessStat::parse(&fs::read(place.join("stat")).unwrap_or_default());
        Facts {
            program,
            parent: stat.map_or(0, |stat| stat.parent),
            user: fs::metadata(&place).map_or(0, |found| found.uid()),
            working_dir: fs::read_link(place.join("cwd")).unwrap_or_default(),
            command,
        }
    }

    /// Returns PROGRAM-HOST-PID-MICROSECONDS.dlt with characters that need no quoting.
    fn file_name(&self, pid: i32) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() || "._+".contains(c) { c } else { '_' };
        let plain = |text: &str| text.chars().take(48).map(plain).collect::<String>();
        let micros = kernel::clock_ns(libc::CLOCK_REALTIME) / 1000;
        format!("{}-{}-{pid}-{micros}.dlt", plain(&self.program), plain(&host::host_name()))
    }
}
