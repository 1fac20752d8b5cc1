//! `.hdf5`: data sets `records_0` ... `records_{k-1}` of shape (samples, ...dims) and `labels` (int64 zeros), in the
//! layout of HDF5 1.14, contiguous unless chunks or compression are requested. With several data sets per record, the
//! first dimension of the sample is divided among them; if that leaves a size of one, the dimension is dropped, as in
//! DLIO. Newer layouts can be read but are not written: most installations of HDF5 could not read them.
//!
//! The library itself does the I/O, so a trace shows the calls of h5py. Raw reads and writes use its C interface: the
//! wrapper would allocate an array for every sample. The simplest files are read without the library, with the same
//! opens, locks and reads: see [`head`]. Files that the library is too old for are also read without it: see
//! [`chunks`].

pub mod chunk;
pub mod chunks;
pub mod growing;
pub mod head;

use super::format::{Format, Reader, gathered, other, packed_with};
use crate::config::{Dataset as Settings, Element};
use crate::data_set::layout::FileSpec;
use crate::failure::{Failure, Outcome};
use crate::files::atomic_file::AtomicFile;
use crate::files::input::{Access, Counted, Input, Parts};
use crate::store;
use crate::system::buffer::AlignedBuffer;
use chunks::Chunked;
use hdf5_metno::filters::Filter;
use hdf5_metno::types::{FloatSize, IntSize, TypeDescriptor};
use hdf5_metno::{Dataset, Extent, File};
use hdf5_metno_sys::{h5d, h5f, h5i, h5l, h5p, h5s, h5t, h5z};
use head::ContiguousData;
use serde_json::{Value as Json, json};
use std::ffi::{CStr, CString};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

pub struct Hdf5;

impl Format for Hdf5 {
    fn name(&self) -> &'static str {
        "hdf5"
    }

    fn write(
        &self,
        spec: &FileSpec,
        settings: &Settings,
        draft: &mut AtomicFile,
        scratch: &mut Vec<u8>,
    ) -> Outcome<()> {
        let failed = |error: hdf5_metno::Error| write_failure(&spec.path, &error);
        // The root group has no timestamp: equal configurations produce equal bytes.
        let mut options = File::with_options();
        options.with_fapl(|access| access.libver_latest()).with_fcpl(|made| made.obj_track_times(false));
        let object = store::is_object(&spec.path);
        let place = if object { unnamed() } else { draft.path().to_path_buf() };
        let file = options.create(&place).map_err(failed)?;
        let copied = if object { Some(without_name(&place, &spec.path)?) } else { None };
        let parts = settings.datasets_per_record.max(1);
        for part in 0..parts {
            let dataset = records(&file, spec, settings, part).map_err(failed)?;
            write_part(&dataset, spec, part, parts, scratch)?;
        }
        let labels = vec![0i64; spec.samples as usize];
        file.new_dataset_builder().with_data(&labels).create("labels").map_err(failed)?;
        file.close().map_err(failed)?;
        let Some(mut written) = copied else { return Ok(()) };
        let copied = std::io::copy(&mut written, &mut draft.create()?);
        copied.map(drop).map_err(|error| Failure::io("write", &spec.path, error))
    }

    fn file_bytes(&self, _: &FileSpec, _: &Settings) -> Option<u64> {
        None
    }

    fn made_with(&self, settings: &Settings) -> Vec<(&'static str, Json)> {
        let mut facts = packed_with(settings, settings.compression == "gzip");
        facts.push(("hdf5.num_dset_per_record", json!(settings.datasets_per_record.max(1))));
        facts.push(("hdf5.max_shape", json!(settings.max_shape)));
        facts.push(("hdf5.chunk_dims", json!(settings.chunk_dims)));
        if settings.chunk_dims.is_empty() && settings.chunk_bytes > 0 {
            facts.extend([("enable_chunking", json!(true)), ("chunk_size", json!(settings.chunk_bytes))]);
        }
        facts
    }

    fn differs(&self, spec: &FileSpec, settings: &Settings) -> Option<String> {
        let Some(file) = spec.path.is_file().then(|| File::open(&spec.path).ok()).flatten() else {
            return Some("not a complete HDF5 file".into());
        };
        let parts = settings.datasets_per_record.max(1);
        let there = (0..).take_while(|part| file.link_exists(&records_name(*part))).count() as u64;
        // Data sets that the library is too old for are not inspected.
        let records = file.dataset(&records_name(0)).ok();
        let parts_differ = other("data sets of a record:", &there, &parts);
        parts_differ.or_else(|| records.and_then(|records| differs_in(&records, spec, settings)))
    }

    fn reads_whole(&self) -> bool {
        false
    }

    fn reader(&self, settings: &Settings, access: Access) -> Box<dyn Reader> {
        let parts = settings.datasets_per_record.max(1);
        let access = Access { collective: access.collective, ..Access::default() };
        Box::new(Hdf5Reader { parts, access, file: None, buffer: AlignedBuffer::default(), length: 0, moved: 0 })
    }
}

/// Returns a new path in memory for the copy of an object: the library requires names, and does not accept descriptors
/// or their /proc names.
fn unnamed() -> PathBuf {
    static NUMBERS: AtomicU64 = AtomicU64::new(0);
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
    folder.join(format!("dlio-hdf5-{}-{}", std::process::id(), NUMBERS.fetch_add(1, Ordering::Relaxed)))
}

/// Opens a file and unlinks it, so that it disappears with its last descriptor. `object` is the original of the copy.
fn without_name(place: &Path, object: &Path) -> Outcome<std::fs::File> {
    let opened = std::fs::File::open(place).and_then(|file| std::fs::remove_file(place).map(|()| file));
    opened.map_err(|error| Failure::io("copy", object, error))
}

fn write_failure(path: &Path, error: &hdf5_metno::Error) -> Failure {
    let system = std::io::Error::last_os_error();
    // The library reports what it was doing, the system why it failed.
    if matches!(
        system.kind(),
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::NotFound
    ) {
        return Failure::io("write", path, system);
    }
    Failure::new(crate::failure::Kind::System, format!("cannot write {}: {error}", path.display()))
}

fn type_of(element: Element) -> TypeDescriptor {
    let size = |bytes| match bytes {
        1 => IntSize::U1,
        2 => IntSize::U2,
        4 => IntSize::U4,
        _ => IntSize::U8,
    };
    match element.name {
        "float16" => TypeDescriptor::Float(FloatSize::U2),
        "float32" => TypeDescriptor::Float(FloatSize::U4),
        "float64" => TypeDescriptor::Float(FloatSize::U8),
        name if name.starts_with('u') => TypeDescriptor::Unsigned(size(element.bytes)),
        _ => TypeDescriptor::Integer(size(element.bytes)),
    }
}

fn differs_in(records: &Dataset, spec: &FileSpec, settings: &Settings) -> Option<String> {
    let shape = part_shape(&spec.dims, spec.samples, settings);
    let filters: Vec<&str> = records.filters().iter().map(filter_name).collect();
    let asked = match settings.compression.as_str() {
        "none" => vec![],
        name => vec![name],
    };
    let element = records.dtype().and_then(|element| element.to_descriptor()).ok();
    other("shape", &records.shape(), &shape)
        .or_else(|| other("elements", &element, &Some(type_of(spec.element))))
        .or_else(|| other("compression", &filters, &asked))
        .or_else(|| {
            // If no chunk shape is requested but compression requires chunks, each program chooses its own.
            let is_asked = asked.is_empty() || !settings.chunk_dims.is_empty() || settings.chunk_bytes > 0;
            let chunks = chunk_of(settings, &shape, spec.element);
            if is_asked { other("chunks", &records.chunk(), &chunks) } else { None }
        })
}

fn filter_name(filter: &Filter) -> &'static str {
    match filter {
        Filter::Deflate(_) => "gzip",
        Filter::LZF => "lzf",
        _ => "another filter",
    }
}

/// Returns the dimensions of a data set of the record: samples, then the sample with its first dimension divided.
pub fn part_shape(dims: &[u64], samples: u64, settings: &Settings) -> Vec<usize> {
    let mut shape = vec![samples as usize];
    shape.extend(dims.iter().map(|dim| *dim as usize));
    shape[1] /= settings.datasets_per_record.max(1) as usize;
    if shape[1] == 1 && !settings.record_dims.is_empty() {
        shape.remove(1);
    }
    shape
}

fn records(file: &File, spec: &FileSpec, settings: &Settings, part: u64) -> hdf5_metno::Result<Dataset> {
    let shape = part_shape(&spec.dims, spec.samples, settings);
    let mut builder = file.new_dataset_builder();
    if let Some(chunk) = chunk_of(settings, &shape, spec.element) {
        builder = builder.chunk(chunk);
    }
    builder = match settings.compression.as_str() {
        "gzip" => builder.deflate(settings.compression_level.min(9) as u8),
        "lzf" => builder.lzf(),
        _ => builder,
    };
    // May be given for the sample alone, or for samples and sample.
    let samples = (settings.max_shape.len() < shape.len()).then_some(spec.samples);
    let limits = samples.into_iter().chain(settings.max_shape.iter().copied());
    let extents: Vec<Extent> = match settings.max_shape.is_empty() {
        true => shape.iter().map(|dim| Extent::from(*dim)).collect(),
        false => shape.iter().zip(limits).map(|(dim, limit)| Extent::new(*dim, Some(limit as usize))).collect(),
    };
    builder.empty_as(&type_of(spec.element)).shape(extents).create(records_name(part).as_str())
}

/// Returns the chunk shape; `None` for contiguous. Compression and growth require chunks, by default one sample each.
fn chunk_of(settings: &Settings, shape: &[usize], element: Element) -> Option<Vec<usize>> {
    if !settings.chunk_dims.is_empty() {
        let asked = settings.chunk_dims.iter().map(|dim| *dim as usize);
        // May be given for the sample alone.
        let whole: Vec<usize> =
            std::iter::repeat_n(1, shape.len().saturating_sub(settings.chunk_dims.len())).chain(asked).collect();
        return Some(whole.iter().zip(shape).map(|(chunk, dim)| (*chunk).clamp(1, *dim)).collect());
    }
    if settings.chunk_bytes > 0 {
        return Some(chunk_of_bytes((settings.chunk_bytes / element.bytes).max(1) as usize, shape));
    }
    let needed = settings.compression != "none" || !settings.max_shape.is_empty();
    needed.then(|| std::iter::once(1).chain(shape[1..].iter().copied()).collect())
}

/// Returns whole inner dimensions as long as they fit, then a part of the next one.
fn chunk_of_bytes(mut elements: usize, shape: &[usize]) -> Vec<usize> {
    let mut chunk = vec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        chunk[axis] = shape[axis].min(elements).max(1);
        elements /= chunk[axis];
    }
    chunk
}

/// Writes sample by sample: each is one hyperslab, and memory for one sample suffices.
fn write_part(dataset: &Dataset, spec: &FileSpec, part: u64, parts: u64, scratch: &mut Vec<u8>) -> Outcome<()> {
    let bytes = spec.sample_bytes();
    let share = bytes / parts;
    for sample in 0..spec.samples {
        let from = sample * bytes + part * share;
        let data = gathered(spec, from, from + share, scratch);
        write_sample(dataset, sample, &data).map_err(|error| write_failure(&spec.path, &error))?;
    }
    Ok(())
}

/// One sample of a data set, selected in the file and in memory; closed on drop.
struct Selection {
    file: h5i::hid_t,
    memory: h5i::hid_t,
}

impl Selection {
    fn sample(dataset: h5i::hid_t, shape: &[u64], index: u64) -> Selection {
        let mut count = shape.to_vec();
        count[0] = 1;
        let mut start = vec![0u64; count.len()];
        start[0] = index;
        // SAFETY: the data set is open; `start` and `count` have as many entries as it has dimensions, which is what
        // the library reads; null stride and block mean one.
        hdf5_metno::sync::sync(|| unsafe {
            let file = h5d::H5Dget_space(dataset);
            h5s::H5Sselect_hyperslab(
                file,
                h5s::H5S_SELECT_SET,
                start.as_ptr(),
                std::ptr::null(),
                count.as_ptr(),
                std::ptr::null(),
            );
            let memory = h5s::H5Screate_simple(count.len() as i32, count.as_ptr(), std::ptr::null());
            Selection { file, memory }
        })
    }
}

impl Drop for Selection {
    fn drop(&mut self) {
        // SAFETY: both were created by `sample` and are closed once; the library refuses handles that it failed to
        // create.
        hdf5_metno::sync::sync(|| unsafe {
            h5s::H5Sclose(self.file);
            h5s::H5Sclose(self.memory);
        });
    }
}

fn write_sample(dataset: &Dataset, index: u64, bytes: &[u8]) -> hdf5_metno::Result<()> {
    let shape: Vec<u64> = dataset.shape().iter().map(|dim| *dim as u64).collect();
    let selection = Selection::sample(dataset.id(), &shape, index);
    // SAFETY: `bytes` is one sample of the data set's own element type, which is what the selection covers.
    let status = hdf5_metno::sync::sync(|| unsafe {
        let element = h5d::H5Dget_type(dataset.id());
        let from = bytes.as_ptr().cast();
        let status = h5d::H5Dwrite(dataset.id(), element, selection.memory, selection.file, h5p::H5P_DEFAULT, from);
        h5t::H5Tclose(element);
        status
    });
    if status >= 0 { Ok(()) } else { Err(hdf5_metno::Error::query().unwrap_or_else(|error| error)) }
}

/// An open data set and its properties, queried once for all samples.
struct Records {
    id: h5i::hid_t,
    element: h5i::hid_t,
    shape: Vec<u64>,
    sample_bytes: usize,
    /// Bytes of a sample in the file: fewer than in memory with compression.
    stored_bytes: u64,
}

impl Records {
    /// Returns `None` if the data set does not exist or has no sample axis.
    fn open(file: h5i::hid_t, name: &CStr) -> Option<Records> {
        // SAFETY: the file is open and the name ends in a zero byte; the result of `H5Dopen2` is checked before use,
        // and the two dimension calls agree because the data set stays open in between.
        hdf5_metno::sync::sync(|| unsafe {
            let id = h5d::H5Dopen2(file, name.as_ptr(), h5p::H5P_DEFAULT);
            if id < 0 {
                return None;
            }
            let space = h5d::H5Dget_space(id);
            let mut shape = vec![0u64; h5s::H5Sget_simple_extent_ndims(space).max(0) as usize];
            h5s::H5Sget_simple_extent_dims(space, shape.as_mut_ptr(), std::ptr::null_mut());
            h5s::H5Sclose(space);
            let element = h5d::H5Dget_type(id);
            let sample_bytes = shape.iter().skip(1).product::<u64>() as usize * h5t::H5Tget_size(element);
            let stored = h5d::H5Dget_storage_size(id) / shape.first().copied().unwrap_or(1).max(1);
            let records = Records { id, element, sample_bytes, stored_bytes: stored.min(sample_bytes as u64), shape };
            (!records.shape.is_empty()).then_some(records)
        })
    }

    /// Reads into `into`, which is `sample_bytes` long.
    fn read(&self, index: u64, into: &mut [u8]) -> bool {
        assert_eq!(into.len(), self.sample_bytes);
        // A single sample needs no selection, which would cost a tenth of reading it.
        let part = (self.shape[0] > 1).then(|| Selection::sample(self.id, &self.shape, index));
        let (memory, file) = part.as_ref().map_or((h5s::H5S_ALL, h5s::H5S_ALL), |part| (part.memory, part.file));
        // SAFETY: the selection covers one sample of the data set's own element type, and `into` has its size.
        let status = hdf5_metno::sync::sync(|| unsafe {
            h5d::H5Dread(self.id, self.element, memory, file, h5p::H5P_DEFAULT, into.as_mut_ptr().cast())
        });
        status >= 0
    }

    /// Returns the failure of a read; names the filter if the library lacks it.
    fn unread(&self, path: &Path, index: u64) -> Failure {
        // Queried first, because the calls below replace the error.
        let told = hdf5_metno::Error::query().map(|error| error.to_string()).unwrap_or_default();
        // SAFETY: the data set is open; its property list is checked and closed here; no values and no name are
        // requested, so the pointers may be null.
        let lacking = hdf5_metno::sync::sync(|| unsafe {
            let made = h5d::H5Dget_create_plist(self.id);
            let number = if made < 0 { 0 } else { h5p::H5Pget_nfilters(made).max(0) as u32 };
            let (mut flags, mut values) = (0, 0);
            let (none, config) = (std::ptr::null_mut(), std::ptr::null_mut());
            let mut ids = (0..number).map(|at| {
                h5p::H5Pget_filter2(made, at, &mut flags, &mut values, none, 0, std::ptr::null_mut(), config)
            });
            let lacking = ids.find(|id| *id > 0 && h5z::H5Zfilter_avail(*id) <= 0);
            h5p::H5Pclose(made);
            lacking
        });
        match lacking {
            Some(id) => {
                let name = chunks::filter_name(id as u64);
                Failure::damaged(path, format!("cannot read sample {index}: {name} is not built in"))
                    .remedy("rewrite the file with gzip or lzf, or without compression")
            }
            None => Failure::damaged(path, format!("cannot read sample {index}: HDF5 1.14 reports \"{told}\"")),
        }
    }
}

impl Drop for Records {
    fn drop(&mut self) {
        // SAFETY: both were opened by `open` and are closed once.
        hdf5_metno::sync::sync(|| unsafe {
            h5t::H5Tclose(self.element);
            h5d::H5Dclose(self.id);
        });
    }
}

/// A file open for reading. Its data sets are declared first, so that they are closed first.
struct Open {
    records: Vec<Records>,
    path: PathBuf,
    id: h5i::hid_t,
    /// Size of the object if the file is a copy of one.
    copied: Option<u64>,
}

impl Open {
    /// Returns a whole object in memory, because the library reads files.
    fn object(path: &Path) -> Outcome<Open> {
        let failed = |error| Failure::io("allocate memory for", path, error);
        let name = unnamed();
        let mut input = Input::open(path, Access::default())?;
        let mut file = std::fs::File::create(&name).map_err(failed)?;
        let total = input.length_of_stream(0)?;
        let (mut piece, mut at) = (vec![0; 1 << 20], 0);
        while at < total {
            let count = (total - at).min(piece.len() as u64) as usize;
            input.read_on_at(at, &mut piece[..count])?;
            file.write_all(&piece[..count]).map_err(failed)?;
            at += count as u64;
        }
        let opened = Open::file(&name).map_err(|_| Failure::damaged(path, "not a complete HDF5 file"));
        without_name(&name, path)?;
        let mut open = opened?;
        (open.path, open.copied) = (path.to_path_buf(), Some(total));
        Ok(open)
    }

    fn file(path: &Path) -> Outcome<Open> {
        let damaged = || Failure::damaged(path, "not a complete HDF5 file");
        let name = CString::new(path.as_os_str().as_encoded_bytes()).map_err(|_| damaged())?;
        // SAFETY: the name ends in a zero byte; a negative result is not a handle and is not closed.
        let id =
            hdf5_metno::sync::sync(|| unsafe { h5f::H5Fopen(name.as_ptr(), h5f::H5F_ACC_RDONLY, h5p::H5P_DEFAULT) });
        if id < 0 {
            // The library reports a missing file as an unreadable one.
            std::fs::metadata(path).map_err(|error| Failure::io("open", path, error))?;
            return Err(damaged());
        }
        Ok(Open { records: Vec::new(), path: path.to_path_buf(), id, copied: None })
    }

    fn open_records(&mut self, parts: u64) -> Outcome<()> {
        for part in 0..parts {
            let name = CString::new(records_name(part)).expect("a name without zero bytes");
            match Records::open(self.id, &name) {
                Some(records) => self.records.push(records),
                None => return Err(self.unopened(&name, part)),
            }
        }
        Ok(())
    }

    /// Returns the failure for a data set that the library does not open. It may exist in a version that the library
    /// does not know.
    fn unopened(&self, name: &CStr, part: u64) -> Failure {
        // SAFETY: the file is open and the name ends in a zero byte.
        let is_there =
            hdf5_metno::sync::sync(|| unsafe { h5l::H5Lexists(self.id, name.as_ptr(), h5p::H5P_DEFAULT) > 0 });
        if !is_there {
            return Failure::damaged(&self.path, format!("data set {} does not exist", records_name(part)));
        }
        let of_file = || chunks::unread(&std::fs::File::open(&self.path).ok()?, records_name(part));
        let reason = if self.copied.is_none() { of_file() } else { None };
        let reason = reason.unwrap_or_else(|| "the built-in HDF5 1.14 cannot open it".into());
        Failure::damaged(&self.path, format!("cannot read the data set {}: {reason}", records_name(part)))
            .remedy("rewrite it with h5py's libver='v114' and gzip or lzf, or without compression")
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.records.clear();
        // SAFETY: opened by `file`, closed once, after everything in it.
        hdf5_metno::sync::sync(|| unsafe { h5f::H5Fclose(self.id) });
    }
}

/// Returns `true` if the library locks files, by its own rule.
fn locks_files() -> bool {
    let locking = std::env::var_os("HDF5_USE_FILE_LOCKING");
    !locking.is_some_and(|value| value == "FALSE" || value == "0")
}

enum OpenedFile {
    /// Samples are at the positions given in the head of the file.
    Plain(Input, Vec<ContiguousData>),
    /// Chunks of a layout that the library does not know.
    Chunked(Input, Vec<Chunked>),
    ByLibrary(Open),
    /// Like `Plain`, for an object.
    Parts(PathBuf, Parts, Vec<ContiguousData>),
}

impl OpenedFile {
    /// Opens a file. Collective reads require consecutive samples whose positions are in the head of the file, so that
    /// each rank knows them. Also returns the bytes read to learn this; the bytes that the library itself reads are
    /// unknown.
    fn file(path: &Path, parts: u64, access: Access) -> Outcome<(OpenedFile, u64)> {
        let names = || (0..parts).map(records_name);
        let mut moved = 0;
        if store::is_object(path) {
            let parts = Parts::open(path)?;
            let places = head::places(&parts, names());
            moved = parts.take_moved();
            if let Some(places) = places {
                return Ok((OpenedFile::Parts(path.to_path_buf(), parts, places), moved));
            }
        }
        let input = Input::open(path, access)?;
        if let Some(file) = input.file().filter(|file| !locks_files() || file.try_lock_shared().is_ok()) {
            let counted = Counted::new(file);
            if let Some(places) = head::places(&counted, names()) {
                let moved = counted.moved();
                return Ok((OpenedFile::Plain(input, places), moved));
            }
            if access.collective {
                let what = format!("{}: collective reads do not support chunked samples", path.display());
                return Err(Failure::refused(what)
                    .remedy("generate it without chunks and compression, or use file_access=multi"));
            }
            let sets = chunks::data_sets(&counted, names());
            moved += counted.moved();
            if let Some(sets) = sets {
                return Ok((OpenedFile::Chunked(input, sets), moved));
            }
        }
        drop(input);
        let mut open = if store::is_object(path) { Open::object(path)? } else { Open::file(path)? };
        open.open_records(parts)?;
        moved += open.copied.unwrap_or(0);
        Ok((OpenedFile::ByLibrary(open), moved))
    }

    fn path(&self) -> &Path {
        match self {
            OpenedFile::Plain(input, _) | OpenedFile::Chunked(input, _) => input.path(),
            OpenedFile::ByLibrary(open) => &open.path,
            OpenedFile::Parts(path, ..) => path,
        }
    }

    /// Returns shape and bytes of a sample in each data set.
    fn forms(&self) -> Vec<(&[u64], usize)> {
        match self {
            OpenedFile::Plain(_, places) | OpenedFile::Parts(_, _, places) => {
                places.iter().map(|place| (&place.shape[..], place.sample_bytes as usize)).collect()
            }
            OpenedFile::Chunked(_, sets) => {
                sets.iter().map(|set| (&set.shape[..], set.sample_bytes as usize)).collect()
            }
            OpenedFile::ByLibrary(open) => {
                open.records.iter().map(|records| (&records.shape[..], records.sample_bytes)).collect()
            }
        }
    }

    /// Reads a sample's share of one data set; returns its bytes in the file.
    fn read(&mut self, part: usize, index: u64, into: &mut [u8]) -> Outcome<u64> {
        match self {
            OpenedFile::Plain(input, places) => {
                let place = &places[part];
                input.read_exact_at(place.address + index * place.sample_bytes, into)?;
                Ok(place.sample_bytes)
            }
            OpenedFile::Parts(_, parts, places) => {
                let place = &places[part];
                parts.fill(place.address + index * place.sample_bytes, into)?;
                Ok(parts.take_moved())
            }
            OpenedFile::Chunked(input, sets) => {
                let damaged = || Failure::damaged(input.path(), format!("cannot read the chunks of sample {index}"));
                let read = input.file().and_then(|file| sets[part].read(file, index, into));
                read.ok_or_else(damaged)
            }
            OpenedFile::ByLibrary(open) if open.records[part].read(index, into) => {
                // A copy of an object was counted when it was made.
                Ok(if open.copied.is_some() { 0 } else { open.records[part].stored_bytes })
            }
            OpenedFile::ByLibrary(open) => Err(open.records[part].unread(&open.path, index)),
        }
    }
}

fn records_name(part: u64) -> String {
    format!("records_{part}")
}

struct Hdf5Reader {
    parts: u64,
    access: Access,
    file: Option<OpenedFile>,
    /// Aligned: the kernel copies a sample 20 % faster into it than into memory of the allocator.
    buffer: AlignedBuffer,
    length: usize,
    moved: u64,
}

impl Reader for Hdf5Reader {
    fn open(&mut self, path: &Path) -> Outcome<()> {
        let (opened, moved) = OpenedFile::file(path, self.parts, self.access)?;
        (self.file, self.moved) = (Some(opened), self.moved + moved);
        Ok(())
    }

    fn sample(&mut self, index: u64) -> Outcome<()> {
        let open = self.file.as_mut().expect("a reader is opened before it reads");
        if let Some((shape, _)) = open.forms().iter().find(|(shape, _)| index >= shape[0]) {
            let what = format!("sample {index} does not exist in a data set of shape {shape:?}");
            return Err(Failure::damaged(open.path(), what));
        }
        let lengths: Vec<usize> = open.forms().iter().map(|(_, bytes)| *bytes).collect();
        self.length = lengths.iter().sum();
        let mut rest = self.buffer.space(self.length);
        for (part, length) in lengths.into_iter().enumerate() {
            let (own, after) = rest.split_at_mut(length);
            self.moved += open.read(part, index, own)?;
            rest = after;
        }
        Ok(())
    }

    fn bytes(&self) -> &[u8] {
        self.buffer.bytes(self.length)
    }

    fn take_moved(&mut self) -> u64 {
        std::mem::take(&mut self.moved)
    }

    fn close(&mut self) {
        self.file = None;
    }
}
