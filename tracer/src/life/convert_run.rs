//! Converts the files that a command's processes left, after the command has ended, so that no process is delayed by
//! it.
//!
//! ```text
//! cc1-host-7-100.ring   as-host-8-120.ring   ...    ->   cc1+1999more-host-7-100.pftrace
//! ld-host-9-400.dlt                                  ->   ld-host-9-400.pftrace
//! ```
//!
//! Only complete files that were recorded for this converter, according to their metadata, are converted. Files of
//! processes that were killed or are still running are not touched, nor are those that belong to another `dlio
//! trace`. If there are more than a few processes, small ones share files: a build of twenty thousand processes
//! leaves tens of files.
//!
//! A new file is written under a temporary name and renamed, and only then are its sources removed.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CString, OsStr};
use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use dlio_schemas::chrome;
use dlio_schemas::export::{Exporter, clock_of, export, export_on};
use dlio_schemas::native::fields::{FieldWriter, key};
use dlio_schemas::native::file::Image;
use dlio_schemas::native::ring::{Ring, header};
use dlio_schemas::perfetto;

use crate::kernel::sys;
use crate::life::finish;
use crate::process::config::AUTO_EVENTS_MAX;
use crate::trace::blocks::EXPORTED_EVENT;
use crate::trace::ring_file::FIRST_PART;
use crate::trace::spool;

/// The output format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    Perfetto,
    Chrome,
}

/// A conversion: its files, and its options.
pub struct ConvertRun<'a> {
    pub folder: &'a Path,
    /// The converter that the processes recorded for.
    pub converter: &'a str,
    pub form: Form,
    /// Traces with more events than this, or more bytes in the output format, are not converted.
    pub events_max: u64,
    pub bytes_max: u64,
    /// Permissions removed from created files, if requested.
    pub umask: Option<u32>,
}

/// Facts that the processes of the run recorded, known because their files are read for the conversion.
#[derive(Default)]
pub struct RunFacts {
    /// Number of events that they counted as lost.
    pub lost: u64,
    /// The different limits of their control groups on I/O: see [`key::IO_LIMITS`].
    pub io_limits: BTreeSet<String>,
}

impl RunFacts {
    fn add(&mut self, image: &Image) {
        self.lost += image.lost;
        self.io_limits.extend(image.fields.get(key::IO_LIMITS).map(str::to_string));
    }
}

impl ConvertRun<'_> {
    /// The limit of `auto`.
    pub const AUTO_EVENTS_MAX: u64 = AUTO_EVENTS_MAX;

    /// Converts all files. A file that cannot be converted is left unchanged, where a reader finds it. Returns facts
    /// about the processes.
    pub fn run(&self) -> RunFacts {
        if let Some(mask) = self.umask {
            sys::set_umask(mask);
        }
        let facts = Mutex::new(RunFacts::default());
        let mut left: Vec<PendingImage> = in_parallel(self.candidates(), |path| self.inspect(path, &facts));
        left.sort_by_key(|left| left.order);
        in_parallel(self.group_by_file(left), |together| {
            self.convert(&together);
            None::<()>
        });
        facts.into_inner().expect("no thread panics while holding it")
    }

    /// Returns the files that processes left and that are not in the output format.
    fn candidates(&self) -> Vec<PathBuf> {
        let paths = fs::read_dir(self.folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let is_native = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "ring" || ending == "dlt");
        paths.filter(is_native).collect()
    }

    /// Returns an image's metadata, if its file is complete and is to be converted here.
    fn inspect(&self, path: PathBuf, facts: &Mutex<RunFacts>) -> Option<PendingImage> {
        let image = ImageBytes::read(&path)?.image()?;
        let number = |key| image.fields.number::<u64>(key).unwrap_or(0);
        let is_whole = image.has_ended() && image.damage.is_empty() && image.missing() == Some(0);
        let is_ours = image.fields.get(key::CONVERTER) == Some(self.converter);
        if is_ours {
            facts.lock().expect("no thread panics while holding it").add(&image);
        }
        let events = image.events();
        let is_fit = events <= self.events_max && events.saturating_mul(EXPORTED_EVENT) <= self.bytes_max;
        let order = (number(key::START_BOOT_NS), number(key::IMAGE), number(key::PID));
        let has_all = image.tally.is_none() && !image.keeps_last();
        (is_whole && is_ours && is_fit && has_all).then_some(PendingImage { path, events, order })
    }

    /// Groups the images that share a file.
    fn group_by_file(&self, left: Vec<PendingImage>) -> Vec<Vec<PendingImage>> {
        let does_little = |left: &PendingImage| self.form == Form::Perfetto && left.events <= LITTLE;
        let (little, much): (Vec<_>, Vec<_>) = left.into_iter().partition(does_little);
        let alone = |left| vec![left];
        let mut files: Vec<Vec<PendingImage>> = much.into_iter().map(alone).collect();
        if little.len() <= ALONE_MAX {
            files.extend(little.into_iter().map(alone));
            return files;
        }
        let mut room = 0;
        for left in little {
            match files
                .last_mut()
                .filter(|file| room >= left.events && file.len() < TOGETHER_MAX && file[0].events <= LITTLE)
            {
                Some(file) => {
                    room -= left.events;
                    file.push(left);
                }
                None => {
                    room = AUTO_EVENTS_MAX - left.events;
                    files.push(vec![left]);
                }
            }
        }
        files
    }

    /// Writes one file and removes its sources.
    fn convert(&self, together: &[PendingImage]) -> Option<()> {
        let path = self.folder.join(name_of(together, self.form)?);
        let part = self.folder.join(format!("{}.{:x}.part", path.file_name()?.to_string_lossy(), sys::random()));
        let part_name = CString::new(part.as_os_str().as_bytes()).ok()?;
        let written = finish::write(&part_name, |sink| match self.form {
            Form::Perfetto => write_perfetto(together, sink),
            Form::Chrome => write_chrome(together, sink),
        });
        if !written || fs::rename(&part, &path).is_err() {
            sys::unlink(&part_name);
            return None;
        }
        together.iter().for_each(|left| drop(fs::remove_file(&left.path)));
        Some(())
    }
}

/// Adds the exit status of a process that ended without the C library, as by the kernel's `exit_group` itself. The
/// parent that waited for the process knows its status, which is appended to its file, one of `files`. This applies
/// only if the file is otherwise complete and the process was not killed.
pub fn note_exit<'a>(files: impl Iterator<Item = &'a PathBuf>, pid: u32, status: i32) {
    let of_it = files.filter_map(|path| Unended::read(path, pid));
    if let Some(last) = of_it.max_by_key(|image| image.began) {
        // If this fails, the file remains without an exit status, as it was found.
        let _ = last.end(status);
    }
}

/// The ring of an image without a recorded end.
struct Unended {
    file: fs::File,
    began: u64,
    /// Length of the facts in its header.
    facts: usize,
}

impl Unended {
    /// Reads a ring; `None` if another process left it or it is not complete.
    fn read(path: &Path, pid: u32) -> Option<Unended> {
        if path.extension() != Some(OsStr::new("ring")) {
            return None;
        }
        let file = spool::opened(libc::AT_FDCWD, path.as_os_str(), libc::O_RDWR)?;
        let found = sys::status(std::os::fd::AsRawFd::as_raw_fd(&file))?;
        if !found.is_file || found.owner != sys::user_id() {
            return None;
        }
        let mut bytes = Vec::with_capacity(found.size as usize);
        (&file).take(found.size).read_to_end(&mut bytes).ok()?;
        let mut image = match fs::read(path.with_extension("dlt")) {
            Ok(blocks) => Image::from_dlt(&blocks).ok()?,
            Err(_) => Image::default(),
        };
        image.add_ring(&Ring::parse(&bytes).ok()?);
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let is_it = image.fields.number(key::PID) == Some(pid) && image.fields.get(key::BOOT_ID) == Some(boot.trim());
        let is_whole = image.damage.is_empty() && image.missing() == Some(0);
        let began = image.fields.number(key::IMAGE)?;
        let facts = header::FIELDS_USED;
        let facts = u32::from_le_bytes(bytes.get(facts..facts + 4)?.try_into().ok()?) as usize;
        (is_it && is_whole && !image.has_ended()).then_some(Unended { file, began, facts })
    }

    fn end(&self, status: i32) -> io::Result<()> {
        let mut bytes = [0; 64];
        let mut writer = FieldWriter::new(&mut bytes);
        writer.text(key::ENDED, format!("exit {status}").as_bytes());
        let used = writer.used();
        if self.facts + used > header::FIELDS_MAX {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.file.write_all_at(&bytes[..used], (header::FIELDS + self.facts) as u64)?;
        self.file.write_all_at(&((self.facts + used) as u32).to_le_bytes(), header::FIELDS_USED as u64)
    }
}

/// Most events of a small process image.
const LITTLE: u64 = 10_000;
/// If there are at most this many files, each image keeps its own file.
const ALONE_MAX: usize = 16;
/// Most images per file: a viewer draws a group of tracks for each.
const TOGETHER_MAX: usize = 2_000;

/// An image to be converted.
struct PendingImage {
    path: PathBuf,
    events: u64,
    /// The start times of its process and of the image, and the process id.
    order: (u64, u64, u64),
}

/// The bytes of a file that a process left.
struct ImageBytes {
    bytes: Vec<u8>,
    is_ring: bool,
}

impl ImageBytes {
    /// Reads a file; `None` if it is not such a file, because others may be able to write to the directory. A ring
    /// that remained is small.
    fn read(path: &Path) -> Option<ImageBytes> {
        let is_ring = path.extension() == Some(OsStr::new("ring"));
        let file = spool::opened(libc::AT_FDCWD, path.as_os_str(), 0)?;
        let found = sys::status(std::os::fd::AsRawFd::as_raw_fd(&file)).filter(|found| found.is_file)?;
        let is_one = found.owner == sys::user_id() && (!is_ring || found.size == FIRST_PART as u64);
        // If both exist, the process was killed or could not remove one of them.
        if !is_one || path.with_extension(if is_ring { "dlt" } else { "ring" }).exists() {
            return None;
        }
        let mut bytes = Vec::with_capacity(found.size as usize);
        (&file).take(found.size).read_to_end(&mut bytes).ok()?;
        Some(ImageBytes { bytes, is_ring })
    }

    fn image(&self) -> Option<Image> {
        match self.is_ring {
            true => Ring::parse(&self.bytes).ok().map(|ring| Image::from_ring(&ring)),
            false => Image::from_dlt(&self.bytes).ok(),
        }
    }
}

/// Returns the name of the output: the process's name, or for several processes the name of the first one and the
/// number of others.
fn name_of(together: &[PendingImage], form: Form) -> Option<String> {
    let stem = together.first()?.path.file_stem()?.to_str()?;
    let ending = match form {
        Form::Perfetto => "pftrace",
        Form::Chrome => "json.gz",
    };
    let more = together.len() - 1;
    let at = stem.rmatch_indices('-').nth(2).map(|(at, _)| at).filter(|_| more > 0);
    Some(match at.map(|at| stem.split_at(at)) {
        Some((program, rest)) => format!("{program}+{more}more{rest}.{ending}"),
        None => format!("{stem}.{ending}"),
    })
}

type Sink<'a> = dyn FnMut(&[u8]) -> io::Result<()> + 'a;

/// Writes images one after another. Images of one boot share the first image's offset to Unix time, as readers
/// expect.
fn write_perfetto(together: &[PendingImage], sink: &mut Sink) -> io::Result<()> {
    let mut writer = perfetto::write::Writer::new(sink, &Default::default())?;
    let mut offsets = BTreeMap::new();
    for left in together {
        let (bytes, image) = reread(left)?;
        let mut clock = clock_of(&image)?;
        let boot = [key::HOST, key::BOOT_ID].map(|key| image.fields.get(key).unwrap_or_default().to_string());
        clock.real_offset_ns = *offsets.entry(boot).or_insert(clock.real_offset_ns);
        let (process, damaged) = export_on(&image, &clock, &bytes, &mut writer)?;
        finish::whole(damaged)?;
        writer.complete(process)?;
    }
    Box::new(writer).finish().map(drop)
}

fn write_chrome(together: &[PendingImage], sink: &mut Sink) -> io::Result<()> {
    let [left] = together else { return Err(io::ErrorKind::InvalidInput.into()) };
    let (bytes, image) = reread(left)?;
    let options = chrome::Options { gzip: true, ..Default::default() };
    finish::whole(export(&image, &bytes, Box::new(chrome::Writer::new(sink, &options)))?.damaged)
}

fn reread(left: &PendingImage) -> io::Result<(Vec<u8>, Image)> {
    let found = ImageBytes::read(&left.path).ok_or(io::ErrorKind::NotFound)?;
    let mut image = found.image().ok_or(io::ErrorKind::InvalidData)?;
    if image.events() != left.events {
        return Err(io::ErrorKind::InvalidData.into());
    }
    // Implied by the output format of the converted file.
    if let Some(run) = image.fields.remove(key::CONVERTER) {
        image.fields.set(key::RUN, run);
    }
    Ok((found.bytes, image))
}

/// Runs `work` for each item, on one thread per processor, and collects the results.
fn in_parallel<T: Send, R: Send>(items: Vec<T>, work: impl Fn(T) -> Option<R> + Sync) -> Vec<R> {
    let threads = std::thread::available_parallelism().map_or(1, |number| number.get()).min(items.len());
    let (waiting, done) = (Mutex::new(items.into_iter()), Mutex::new(Vec::new()));
    let next = || waiting.lock().expect("no thread panics while holding it").next();
    let help = || {
        while let Some(item) = next() {
            let result = work(item);
            done.lock().expect("no thread panics while holding it").extend(result);
        }
    };
    std::thread::scope(|scope| {
        (1..threads).for_each(|_| drop(scope.spawn(help)));
        help();
    });
    done.into_inner().expect("no thread panics while holding it")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(name: &str, events: u64) -> PendingImage {
        PendingImage { path: Path::new("/t").join(name), events, order: (0, 0, 0) }
    }

    fn convert_run_to(form: Form) -> ConvertRun<'static> {
        let folder = Path::new("/t");
        ConvertRun { folder, converter: "", form, events_max: u64::MAX, bytes_max: u64::MAX, umask: None }
    }

    fn sizes(form: Form, events: &[u64]) -> Vec<usize> {
        let left = events.iter().map(|&events| left("a-h-1-2.ring", events)).collect();
        convert_run_to(form).group_by_file(left).iter().map(Vec::len).collect()
    }

    #[test]
    fn shared_file_name_counts_the_other_processes() {
        let three = ["a-b-host-7-100.ring", "c-host-8-200.dlt", "d-host-9-300.ring"].map(|name| left(name, 1));
        assert_eq!(name_of(&three, Form::Perfetto).as_deref(), Some("a-b+2more-host-7-100.pftrace"));
        assert_eq!(name_of(&three[1..2], Form::Perfetto).as_deref(), Some("c-host-8-200.pftrace"));
        assert_eq!(name_of(&three[1..2], Form::Chrome).as_deref(), Some("c-host-8-200.json.gz"));
        assert_eq!(name_of(&[], Form::Chrome), None);
    }

    #[test]
    fn many_small_processes_share_files() {
        assert_eq!(sizes(Form::Perfetto, &[5; ALONE_MAX]), [1; ALONE_MAX]);
        assert_eq!(sizes(Form::Perfetto, &[5; 5_000]), [2_000, 2_000, 1_000]);
        assert_eq!(sizes(Form::Chrome, &[5; 20]), [1; 20]);
        let mixed = [&[LITTLE + 1, LITTLE + 1][..], &[LITTLE; 150]].concat();
        assert_eq!(sizes(Form::Perfetto, &mixed), [1, 1, 100, 50]);
    }
}
