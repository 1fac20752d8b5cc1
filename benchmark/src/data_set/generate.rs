//! Writes the data set: in parallel, only missing files, and never more than fits on the disk.
//!
//! Writers are processes that take the next file's number from a shared counter. A file is complete or absent, so
//! running an interrupted command again resumes it.

use crate::config::Dataset;
use crate::data_set::fingerprint;
use crate::data_set::formats::{self, Format};
use crate::data_set::layout::{FileSpec, Layout, Split};
use crate::failure::{Failure, Kind, Outcome};
use crate::files::atomic_file::{self, AtomicFile};
use crate::files::input::Access;
use crate::store;
use crate::system::shared_memory::SharedNumbers;
use crate::system::{file_calls, processes};
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

/// The work of one writer, or the total of all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Generated {
    pub written: u64,
    pub bytes: u64,
    /// Files that were already complete.
    pub kept: u64,
}

/// Reports progress: files done, bytes written.
pub type Watch<'a> = &'a mut dyn FnMut(u64, u64);

/// The part of the files that this rank writes.
#[derive(Debug, Clone, Copy)]
pub struct Part {
    pub rank: u64,
    pub ranks: u64,
    pub writers: u64,
}

impl Part {
    fn files(&self, total: u64) -> u64 {
        total.saturating_sub(self.rank).div_ceil(self.ranks)
    }

    /// Returns the number of the `place`-th file of this rank: ranks alternate.
    fn number(&self, place: u64) -> u64 {
        self.rank + place * self.ranks
    }
}

/// Refuses a data set that would fill the disk, before the first byte is written.
pub fn check_space(layout: &Layout) -> Outcome<()> {
    let folder = &layout.dataset.folder;
    if store::is_object(folder) {
        return Ok(());
    }
    let existing = existing(folder);
    // Existing files do not need more space; counting them costs less than a wrong refusal.
    let lacks =
        |needed: u64, free: u64, there: &dyn Fn() -> u64| needed > free && needed.saturating_sub(there()) > free;
    let refused = |needed: String, free: String| {
        let what = format!("the data set needs {needed}, {} has {free} free", existing.display());
        Failure::new(Kind::System, what)
    };
    let (needed, files) = (expected_bytes(layout)?, layout.total_files());
    if let Ok(free) = file_calls::free_bytes(existing)
        && lacks(needed, free, &|| present(layout).1)
    {
        return Err(refused(in_units(needed), in_units(free))
            .remedy("use fewer files (++workload.dataset.num_files_train), smaller samples, or another data_folder"));
    }
    match file_calls::free_files(existing) {
        Ok(free) if lacks(files, free, &|| present(layout).0) => {
            Err(refused(format!("{files} files"), format!("inodes for {free}")).remedy(
                "use fewer files with more samples each (++workload.dataset.num_samples_per_file), or another \
                 data_folder",
            ))
        }
        _ => Ok(()),
    }
}

/// Returns the directory, or its nearest parent that exists.
pub fn existing(folder: &Path) -> &Path {
    folder.ancestors().find(|above| above.exists()).unwrap_or(Path::new("."))
}

/// Returns the approximate size of all files.
pub fn expected_bytes(layout: &Layout) -> Outcome<u64> {
    let growth = formats::find(&layout.dataset.format)?.growth(&layout.dataset);
    Ok((layout.payload_bytes() as f64 * growth) as u64)
}

pub fn in_units(bytes: u64) -> String {
    let bytes = bytes as f64;
    if bytes < 1e9 { format!("{:.1} MB", bytes / 1e6) } else { format!("{:.1} GB", bytes / 1e9) }
}

/// Returns the number and the bytes of the existing files. Lists them, because there may be far fewer than requested.
pub fn present(layout: &Layout) -> (u64, u64) {
    let of_split = |split: Split| {
        let (names, files) = (layout.names(split), layout.files(split));
        let folders = if files == 0 { Vec::new() } else { layout.folders_of(split) };
        let entries = folders.into_iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
        let of_set = move |name: &str| names.number(name).is_some_and(|number| number < files);
        entries.filter(move |entry| entry.file_name().to_str().is_some_and(&of_set))
    };
    let found = [Split::Train, Split::Valid].into_iter().flat_map(of_split);
    let sizes = found.filter_map(|entry| fs::metadata(entry.path()).ok()).map(|file| file.len());
    sizes.fold((0, 0), |(files, bytes), size| (files + 1, bytes + size))
}

/// Returns the number of existing files with these names; `None` for a store, which is never listed.
pub fn existing_files(layout: &Layout) -> Option<u64> {
    if store::is_object(&layout.dataset.folder) {
        return None;
    }
    let in_split = |split: Split| {
        let (first, last) = layout.name_ends(split);
        let folders = layout.folders_of(split).into_iter().filter_map(|folder| fs::read_dir(folder).ok());
        let names = folders.flatten().flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| name.starts_with(&first) && name.ends_with(&last)).count() as u64
    };
    Some(in_split(Split::Train) + if layout.files(Split::Valid) > 0 { in_split(Split::Valid) } else { 0 })
}

/// Marks a write failure as one of the data set.
pub fn of_data<T>(outcome: Outcome<T>) -> Outcome<T> {
    outcome.map_err(|failure| failure.elsewhere("workload.dataset.data_folder"))
}

/// Creates the directories, and removes what a killed generation left in them.
pub fn make_folders(layout: &Layout) -> Outcome<()> {
    if store::is_object(&layout.dataset.folder) {
        return store::sweep(&layout.dataset.folder);
    }
    for folder in layout.folders() {
        let made = fs::create_dir_all(&folder).map_err(|error| {
            let failure = Failure::unwritable("create directory", &folder, error);
            let elsewhere = "choose another directory with ++workload.dataset.data_folder=DIR";
            if failure.remedy.is_empty() { failure.remedy(elsewhere) } else { failure }
        });
        of_data(made)?;
        atomic_file::sweep(&folder);
    }
    Ok(())
}

/// Which existing files are kept.
#[derive(Debug, Clone, Copy)]
pub enum Keep {
    Nothing,
    /// Complete files. By split, `foreign` marks files of another program, which are inspected individually.
    Complete {
        foreign: [bool; 2],
    },
}

/// Writes this rank's files into existing directories.
pub fn generate(layout: &Layout, part: Part, keep: Keep, watch: Watch) -> Outcome<Generated> {
    in_parallel(layout, part, watch, &|numbers, tell| {
        let format = formats::find(&layout.dataset.format)?;
        let (mut shapes, mut scratch) = (layout.shapes(), Vec::new());
        let mut absent = 0;
        for number in numbers {
            let spec = layout.spec(number, shapes.at(layout.drawn(number)));
            let foreign = |foreign: [bool; 2]| foreign[layout.split_of(number).0 as usize];
            let stays = match keep {
                Keep::Nothing => false,
                // Files are written in the order of their numbers, so a gap this wide means that no more exist.
                _ if store::is_object(&spec.path) && absent >= ABSENT_MAX => false,
                Keep::Complete { foreign: who } if foreign(who) => matches_request(format, &spec, &layout.dataset)?,
                Keep::Complete { .. } => is_complete(format, &spec, &layout.dataset)?,
            };
            absent = if stays { 0 } else { absent + 1 };
            tell(if stays { KEPT } else { one_file(format, &spec, &layout.dataset, &mut scratch)? })?;
        }
        Ok(())
    })
}

/// After this many missing objects in a row, the following objects are assumed to be missing without a request.
const ABSENT_MAX: u64 = 32;

const KEPT: Generated = Generated { written: 0, bytes: 0, kept: 1 };

fn one_file(format: &dyn Format, spec: &FileSpec, dataset: &Dataset, scratch: &mut Vec<u8>) -> Outcome<Generated> {
    let mut written = || {
        let mut draft = AtomicFile::new(&spec.path)?;
        format.write(spec, dataset, &mut draft, scratch)?;
        let bytes = draft.bytes();
        draft.commit()?;
        Ok(Generated { written: 1, bytes, kept: 0 })
    };
    of_data(written())
}

/// Returns `true` if the file of any program cannot be distinguished from the requested one.
fn matches_request(format: &dyn Format, spec: &FileSpec, dataset: &Dataset) -> Outcome<bool> {
    if store::is_object(&spec.path) {
        return is_complete(format, spec, dataset);
    }
    Ok(spec.path.exists() && format.differs(spec, dataset).is_none())
}

/// Returns `true` if the file is complete. A name appears only once its file is complete; a different size means that
/// it was truncated.
fn is_complete(format: &dyn Format, spec: &FileSpec, dataset: &Dataset) -> Outcome<bool> {
    let length = if store::is_object(&spec.path) {
        store::length(&spec.path)?
    } else {
        fs::metadata(&spec.path).ok().map(|file| file.len())
    };
    Ok(length.is_some_and(|length| format.file_bytes(spec, dataset).is_none_or(|expected| expected == length)))
}

/// Writes the lists of files that the format has. To be called on one rank, when all files exist.
pub fn write_indexes(layout: &Layout) -> Outcome<()> {
    let format = formats::find(&layout.dataset.format)?;
    for split in [Split::Train, Split::Valid].into_iter().filter(|split| layout.files(*split) > 0) {
        if let Some((path, bytes)) = format.index(layout, split) {
            match store::is_object(&path) {
                true => store::put(&path, &bytes)?,
                false => of_data(atomic_file::write_whole(&path, &bytes))?,
            }
        }
    }
    Ok(())
}

/// Reads every sample back and compares it with the generated content.
pub fn verify(layout: &Layout, part: Part, watch: Watch) -> Outcome<Generated> {
    in_parallel(layout, part, watch, &|numbers, tell| {
        let format = formats::find(&layout.dataset.format)?;
        let mut reader = format.reader(&layout.dataset, Access { map: true, keep_open: true, ..Access::default() });
        let mut shapes = layout.shapes();
        for number in numbers {
            let spec = layout.spec(number, shapes.at(layout.drawn(number)));
            reader.open(&spec.path)?;
            for sample in 0..spec.samples {
                reader.sample(sample)?;
                if reader.content(sample) != format.expected(&spec, &layout.dataset, sample)? {
                    let what = format!("sample {sample} differs from the generated one");
                    return Err(Failure::damaged(&spec.path, what)
                        .remedy("generate it with --regenerate; data of another program cannot be verified"));
                }
            }
            reader.close();
            tell(Generated { written: 0, bytes: spec.payload_bytes(), kept: 1 })?;
        }
        Ok(())
    })
}

type ReportProgress<'a> = &'a mut dyn FnMut(Generated) -> Outcome<()>;
type Work<'a> = &'a dyn Fn(&mut dyn Iterator<Item = u64>, ReportProgress) -> Outcome<()>;

/// A record from a writer to its parent: three counts, or the text of a failure. It is smaller than PIPE_BUF, so that
/// records of several writers do not mix.
const RECORD: usize = 512;

fn record_of(done: Result<Generated, &Failure>) -> [u8; RECORD] {
    let mut record = [0; RECORD];
    match done {
        Ok(done) => {
            let numbers = [0, done.written, done.bytes, done.kept].map(u64::to_le_bytes);
            record[..32].copy_from_slice(numbers.as_flattened());
        }
        Err(failure) => {
            record[..8].copy_from_slice(&(failure.kind as u64).to_le_bytes());
            let text = failure.to_string();
            let length = text.len().min(RECORD - 8);
            record[8..8 + length].copy_from_slice(&text.as_bytes()[..length]);
        }
    }
    record
}

fn of_record(record: &[u8; RECORD]) -> Outcome<Generated> {
    let number = |place: usize| u64::from_le_bytes(record[place * 8..place * 8 + 8].try_into().expect("eight bytes"));
    let kinds = [Kind::Refused, Kind::MissingData, Kind::System, Kind::DamagedData, Kind::Interrupted];
    match kinds.into_iter().find(|kind| *kind as u64 == number(0)) {
        None => Ok(Generated { written: number(1), bytes: number(2), kept: number(3) }),
        Some(kind) => {
            let text = String::from_utf8_lossy(&record[8..]);
            Err(Failure::new(kind, text.trim_end_matches('\0')))
        }
    }
}

fn in_parallel(layout: &Layout, part: Part, watch: Watch, work: Work) -> Outcome<Generated> {
    let files = part.files(layout.total_files());
    let failed = |error: io::Error| Failure::new(Kind::System, format!("cannot start a writer: {error}"));
    let next = SharedNumbers::new(1).map_err(failed)?;
    let (receiver, sender) = io::pipe().map_err(failed)?;
    let mut receiver = Some(receiver);
    let mut writers = Vec::new();
    for _ in 0..part.writers.clamp(1, files.max(1)) {
        let sender = sender.try_clone().map_err(failed)?;
        let body = || {
            // If a writer could read from its own pipe, it would wait forever once the parent has stopped reading.
            drop(receiver.take());
            writer(part, files, &next, sender, work)
        };
        writers.push(processes::fork(body).map_err(failed)?);
    }
    drop(sender);
    let result = receiver.as_mut().map_or(Ok(Generated::default()), |receiver| collect(receiver, watch));
    // The pipe is closed before waiting: a writer that still has a record to send then exits immediately.
    drop(receiver);
    let lost = writers.into_iter().map(processes::wait).find(|code| *code > 128);
    let folder = &layout.dataset.folder;
    if (result.is_err() || lost.is_some()) && store::is_object(folder) {
        // A killed writer could not abort its uploads. Errors of the sweep are not the ones to report.
        let _ = store::sweep(folder);
    }
    match (result, lost) {
        (Ok(_), Some(code)) => Err(Failure::new(Kind::System, format!("a writer was killed by signal {}", code - 128))),
        (result, _) => result,
    }
}

fn writer(part: Part, files: u64, next: &SharedNumbers, mut sender: io::PipeWriter, work: Work) -> i32 {
    // Files of a megabyte are reported individually, of a kilobyte by the hundred: a message costs as much as a small
    // file.
    let (mut reported, mut pending) = (std::time::Instant::now(), Generated::default());
    let mut numbers = std::iter::from_fn(|| {
        let place = next.at(0).fetch_add(1, Ordering::Relaxed);
        (place < files && !processes::interrupted()).then(|| part.number(place))
    });
    let gone = |_| Failure::interrupted();
    let result = work(&mut numbers, &mut |done| {
        pending.written += done.written;
        pending.bytes += done.bytes;
        pending.kept += done.kept;
        if reported.elapsed().as_millis() >= 20 {
            reported = std::time::Instant::now();
            sender.write_all(&record_of(Ok(std::mem::take(&mut pending)))).map_err(gone)?;
        }
        Ok(())
    });
    // If the parent is gone, no report is needed.
    let _ = sender.write_all(&record_of(Ok(pending)));
    if let Err(failure) = &result {
        let _ = sender.write_all(&record_of(Err(failure)));
    }
    i32::from(result.is_err())
}

fn collect(receiver: &mut io::PipeReader, watch: Watch) -> Outcome<Generated> {
    let mut all = Generated::default();
    let mut record = [0; RECORD];
    // A signal may have reached only this process; the writers exit when their pipe is closed.
    while !processes::interrupted() && !processes::lost_child() && receiver.read_exact(&mut record).is_ok() {
        let done = of_record(&record)?;
        all.written += done.written;
        all.bytes += done.bytes;
        all.kept += done.kept;
        watch(done.written + done.kept, done.bytes);
    }
    // Without the other ranks there is nothing to generate for; the caller knows which rank is gone.
    if processes::interrupted() || processes::lost_child() { Err(Failure::interrupted()) } else { Ok(all) }
}

/// Removes the files of the data set by name, and the directories that are empty then: the data directory may contain
/// other files, and may be the user's home.
pub fn remove(layout: &Layout) -> Outcome<()> {
    let format = formats::find(&layout.dataset.format)?;
    for number in 0..layout.total_files() {
        let spec = layout.spec(number, Vec::new());
        for path in [spec.path.clone()].into_iter().chain(format.companions(&spec)) {
            remove_file(&path)?;
        }
    }
    if store::is_object(&layout.dataset.folder) {
        return Ok(());
    }
    for split in [Split::Train, Split::Valid] {
        if let Some((path, _)) = format.index(layout, split) {
            remove_file(&path)?;
        }
        remove_file(&fingerprint::place(layout, split))?;
    }
    let record = fingerprint::place(layout, Split::Train);
    // Those that are not empty stay.
    let folders = record.parent().map(PathBuf::from).into_iter().chain(layout.all_folders());
    folders.for_each(|folder| drop(fs::remove_dir(folder)));
    Ok(())
}

fn remove_file(path: &Path) -> Outcome<()> {
    if store::is_object(path) {
        return store::delete(path);
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Failure::unwritable("remove", path, error)),
        _ => Ok(()),
    }
}
