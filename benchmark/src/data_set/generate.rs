//! Writing the data set: in parallel, only what is missing, never more than the disk holds.
//!
//! Writers are processes that draw the next file's number from a common counter. A file is complete or absent, so a run
//! that was stopped is resumed by running it again.

use crate::config::Dataset;
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
use std::path::Path;
use std::sync::atomic::Ordering;

/// The work of one writer, or of all of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Generated {
    pub written: u64,
    pub bytes: u64,
    /// Files that were complete already.
    pub kept: u64,
}

/// Tells how far the work is: files done, bytes written.
pub type Watch<'a> = &'a mut dyn FnMut(u64, u64);

/// The part of the files this rank writes.
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

    /// The number of the `place`-th file of this rank: ranks take turns.
    fn number(&self, place: u64) -> u64 {
        self.rank + place * self.ranks
    }
}

/// Refuses before the first byte what would fill the disk.
pub fn check_space(layout: &Layout) -> Outcome<()> {
    let folder = &layout.dataset.folder;
    if store::is_object(folder) {
        return Ok(());
    }
    let existing = existing(folder);
    let Ok(free) = file_calls::free_bytes(existing) else { return Ok(()) };
    let needed = expected_bytes(layout)?;
    // Files that are there already need no space again; counting them costs less than a wrong refusal.
    if needed <= free || needed.saturating_sub(present_bytes(layout)) <= free {
        return Ok(());
    }
    let (needed, free) = (in_units(needed), in_units(free));
    let what = format!("the data set needs {needed}, {} has {free} free", existing.display());
    Err(Failure::new(Kind::System, what)
        .remedy("use fewer files (++workload.dataset.num_files_train), smaller samples, or another data_folder"))
}

/// The folder, or the nearest one above it that is there.
pub fn existing(folder: &Path) -> &Path {
    folder.ancestors().find(|above| above.exists()).unwrap_or(Path::new("."))
}

/// Bytes of all files, about.
pub fn expected_bytes(layout: &Layout) -> Outcome<u64> {
    let growth = formats::find(&layout.dataset.format)?.growth(&layout.dataset);
    Ok((layout.payload_bytes() as f64 * growth) as u64)
}

pub fn in_units(bytes: u64) -> String {
    let bytes = bytes as f64;
    if bytes < 1e9 { format!("{:.1} MB", bytes / 1e6) } else { format!("{:.1} GB", bytes / 1e9) }
}

/// Bytes of the files that are there.
pub fn present_bytes(layout: &Layout) -> u64 {
    if !layout.dataset.folder.exists() {
        return 0;
    }
    let path = |number| {
        let (split, within) = layout.split_of(number);
        layout.path(split, within)
    };
    (0..layout.total_files()).filter_map(|number| fs::metadata(path(number)).ok()).map(|file| file.len()).sum()
}

/// Files of these names that are there; None of a store, which is never asked for a list.
pub fn files_there(layout: &Layout) -> Option<u64> {
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

/// What could not be written belongs to the data set.
pub fn of_data<T>(outcome: Outcome<T>) -> Outcome<T> {
    outcome.map_err(|failure| failure.elsewhere("workload.dataset.data_folder"))
}

/// Makes the folders, and removes what a killed generation left in them.
pub fn make_folders(layout: &Layout) -> Outcome<()> {
    if store::is_object(&layout.dataset.folder) {
        return store::sweep(&layout.dataset.folder);
    }
    for folder in layout.folders() {
        let made = fs::create_dir_all(&folder).map_err(|error| Failure::unwritable("create directory", &folder, error));
        of_data(made)?;
        atomic_file::sweep(&folder);
    }
    Ok(())
}

/// The files that stay where they are there already.
#[derive(Debug, Clone, Copy)]
pub enum Keep {
    Nothing,
    /// Complete ones. By split: those of another program, which are looked at one by one.
    Complete {
        foreign: [bool; 2],
    },
}

/// Writes this rank's files into folders that are there.
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
                // Files are made in the order of their numbers: behind a gap as wide as this there are none.
                _ if store::is_object(&spec.path) && absent >= ABSENT_MAX => false,
                Keep::Complete { foreign: who } if foreign(who) => is_as_asked(format, &spec, &layout.dataset)?,
                Keep::Complete { .. } => is_complete(format, &spec, &layout.dataset)?,
            };
            absent = if stays { 0 } else { absent + 1 };
            tell(if stays { KEPT } else { one_file(format, &spec, &layout.dataset, &mut scratch)? })?;
        }
        Ok(())
    })
}

/// Objects asked for in vain, one after another, before they are taken for absent without asking.
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

/// Whoever made it: files that can be told apart are not those asked for.
fn is_as_asked(format: &dyn Format, spec: &FileSpec, dataset: &Dataset) -> Outcome<bool> {
    if store::is_object(&spec.path) {
        return is_complete(format, spec, dataset);
    }
    Ok(spec.path.exists() && format.differs(spec, dataset).is_none())
}

/// Names appear only when files are complete; a size that differs is that of one that was cut.
fn is_complete(format: &dyn Format, spec: &FileSpec, dataset: &Dataset) -> Outcome<bool> {
    let length = if store::is_object(&spec.path) {
        store::length(&spec.path)?
    } else {
        fs::metadata(&spec.path).ok().map(|file| file.len())
    };
    Ok(length.is_some_and(|length| format.file_bytes(spec, dataset).is_none_or(|expected| expected == length)))
}

/// Writes the lists of files that the format has. Of one rank, when all files are there.
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

/// Reads every sample back and compares it with what was to be written.
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

type Tell<'a> = &'a mut dyn FnMut(Generated) -> Outcome<()>;
type Work<'a> = &'a dyn Fn(&mut dyn Iterator<Item = u64>, Tell) -> Outcome<()>;

/// A record from a writer to its parent: three counts, or the text of a failure. Its size is below PIPE_BUF, so that
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
            // A writer that could read its own words would wait for ever once the parent has stopped listening.
            drop(receiver.take());
            writer(part, files, &next, sender, work)
        };
        writers.push(processes::fork(body).map_err(failed)?);
    }
    drop(sender);
    let result = receiver.as_mut().map_or(Ok(Generated::default()), |receiver| collect(receiver, watch));
    // The pipe is closed before waiting: a writer that still has something to say ends at once.
    drop(receiver);
    let lost = writers.into_iter().map(processes::wait).find(|code| *code > 128);
    let folder = &layout.dataset.folder;
    if (result.is_err() || lost.is_some()) && store::is_object(folder) {
        // A writer that was killed could not give up what it had begun. What the sweep meets is not the news.
        let _ = store::sweep(folder);
    }
    match (result, lost) {
        (Ok(_), Some(code)) => Err(Failure::new(Kind::System, format!("a writer was killed by signal {}", code - 128))),
        (result, _) => result,
    }
}

fn writer(part: Part, files: u64, next: &SharedNumbers, mut sender: io::PipeWriter, work: Work) -> i32 {
    // Files of a megabyte are reported one by one, of a kilobyte by the hundred: a message costs as much as a small file.
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
    // If the parent is gone there is nobody to tell.
    let _ = sender.write_all(&record_of(Ok(pending)));
    if let Err(failure) = &result {
        let _ = sender.write_all(&record_of(Err(failure)));
    }
    i32::from(result.is_err())
}

fn collect(receiver: &mut io::PipeReader, watch: Watch) -> Outcome<Generated> {
    let mut all = Generated::default();
    let mut record = [0; RECORD];
    // A signal may have come to this process alone; the writers end when nobody listens any more.
    while !processes::interrupted() && !processes::lost_child() && receiver.read_exact(&mut record).is_ok() {
        let done = of_record(&record)?;
        all.written += done.written;
        all.bytes += done.bytes;
        all.kept += done.kept;
        watch(done.written + done.kept, done.bytes);
    }
    // Without the others there is nothing to generate for; the caller knows who is gone.
    if processes::interrupted() || processes::lost_child() { Err(Failure::interrupted()) } else { Ok(all) }
}

/// Removes the data set: its folder, or its objects by their names.
pub fn remove(layout: &Layout) -> Outcome<()> {
    let folder = &layout.dataset.folder;
    if !store::is_object(folder) {
        return fs::remove_dir_all(folder).map_err(|error| Failure::io("remove", folder, error));
    }
    for number in 0..layout.total_files() {
        let (split, within) = layout.split_of(number);
        let path = layout.path(split, within);
        store::delete(&path)?;
        for companion in formats::find(&layout.dataset.format)?.companions(&layout.spec(number, Vec::new())) {
            store::delete(&companion)?;
        }
    }
    Ok(())
}
