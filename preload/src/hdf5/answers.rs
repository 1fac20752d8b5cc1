//! What is recorded after a call of HDF5: names, sizes, selections and layouts, from the tables of this process or from
//! the library itself.

use std::ffi::{CStr, c_char, c_int, c_uint};
use std::io::Write;

use dlio_tracer::calls::call::Done;
use dlio_tracer::known::number;
use dlio_tracer::naming::paths;
use dlio_tracer::ops::Op;
use dlio_tracer::spans::app::Meta;
use dlio_tracer::spans::data_sets::{self, DataSet};
use dlio_tracer::spans::hdf5::{Key, Selection, counted, named, selected};
use dlio_tracer::spans::library_calls::{self, Returned, text};

use super::library::{Id, Library};

/// A selection of everything, and the ones whose meaning is in another argument.
const H5S_ALL: Id = 0;
const H5S_BLOCK: Id = 1;
const H5S_PLIST: Id = 2;

/// Kinds of selections.
pub const SELECTED_POINTS: c_int = 1;
pub const SELECTED_HYPERSLAB: c_int = 2;

const H5D_CHUNKED: c_int = 2;
/// Maximum number of dimensions of a data set.
const DIMENSIONS_MAX: usize = 32;
/// Longer names are truncated.
const NAME: usize = 1024;
/// Longer lists of dimensions or filters are truncated.
const LIST: usize = 256;

/// A call that has returned, and the library to ask for more.
#[derive(Clone, Copy)]
pub struct Answered {
    pub library: &'static Library,
    pub number: usize,
    pub done: Done,
    pub has_succeeded: bool,
    pub op: Op,
}

/// Texts that are put together from several answers.
struct Text {
    bytes: [u8; LIST],
    length: usize,
}

impl Text {
    fn new() -> Text {
        Text { bytes: [0; LIST], length: 0 }
    }

    fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    fn put(&mut self, part: std::fmt::Arguments) {
        let mut rest = &mut self.bytes[self.length..];
        let room = rest.len();
        // What does not fit is left out.
        let _ = rest.write_fmt(part);
        self.length += room - rest.len();
    }

    /// Appends numbers as in `64x64x3`.
    fn put_extent(&mut self, dimensions: &[u64]) {
        for (i, dimension) in dimensions.iter().enumerate() {
            self.put(format_args!("{}{dimension}", if i == 0 { "" } else { "x" }));
        }
    }
}

impl Answered {
    fn record(&self, file: u32, (a, b): (i64, i64), bytes: i64, meta: &[Meta]) {
        let ret = if self.has_succeeded { bytes } else { -1 };
        library_calls::record(self.done, Returned { op: self.op, file, a, b, ret }, meta);
    }

    fn key(&self, id: Id) -> u64 {
        data_sets::key(self.number, id)
    }

    /// Records that a file was opened or created.
    ///
    /// # Safety
    /// `name` is the argument of the call.
    pub unsafe fn file_opened(self, name: *const c_char, flags: c_uint, id: Id) {
        // SAFETY: by the contract above.
        let file = unsafe { paths::of(name) };
        if self.has_succeeded && !name.is_null() {
            let set = DataSet { file, name: number::NONE, elements: None };
            // SAFETY: the library has just read it.
            let text = unsafe { CStr::from_ptr(name) }.to_bytes();
            data_sets::remember(self.key(id), set);
            data_sets::remember(data_sets::key_of_path(self.number, text), set);
        }
        self.record(file, (0, flags as i64), 0, &[]);
    }

    /// Records that the last reference to a file or data set was released.
    pub fn closed(self, id: Id) {
        self.on_object(id);
        if self.has_succeeded {
            data_sets::forget(self.key(id));
        }
    }

    /// Records a call on a file or data set that moves no data.
    pub fn on_object(self, id: Id) {
        let set = data_sets::find(self.key(id));
        self.record(set.map_or(number::NONE, |set| set.file), (0, 0), 0, names_of(set).as_slice());
    }

    /// Records that a data set may have another size.
    pub fn resized(self, id: Id) {
        data_sets::resized();
        self.on_object(id);
    }

    /// Records that a data set was opened or created in a file or group.
    ///
    /// # Safety
    /// `name` is the argument of the call.
    pub unsafe fn set_opened(self, place: Id, name: *const c_char, id: Id) {
        if !self.has_succeeded {
            // SAFETY: by the contract above.
            let text = unsafe { argument(name) };
            return self.record(self.file_of(place), (0, 0), 0, text.map(|text| named(Key::DataSet, text)).as_slice());
        }
        self.library.ask(|library| {
            let set = self.describe(library, id);
            let (shape, chunk, filters) = layout(library, id);
            // SAFETY: the identifier of a data set that has just been opened.
            let size = unsafe {
                let of = library.H5Dget_type(id);
                let size = library.H5Tget_size(of);
                library.H5Tclose(of);
                size
            };
            let listed = |key, list: &Text| named(key, text(list.as_bytes()));
            let mut meta = [named(Key::DataSet, set.name); 5];
            meta[1] = listed(Key::Shape, &shape);
            meta[2] = counted(Key::ElementBytes, size as i64);
            let mut count = 3;
            for (key, list) in [(Key::Chunk, &chunk), (Key::Filters, &filters)] {
                if list.length > 0 {
                    meta[count] = listed(key, list);
                    count += 1;
                }
            }
            self.record(set.file, (0, 0), 0, &meta[..count]);
        });
    }

    /// Records that an object was opened or created in a file or group, or not found there.
    ///
    /// # Safety
    /// `name` is the argument of the call.
    pub unsafe fn object_opened(self, place: Id, name: *const c_char) {
        let file = self.file_of(place);
        // SAFETY: by the contract above.
        let text = unsafe { argument(name) };
        self.record(file, (0, 0), 0, text.map(|text| named(Key::Object, text)).as_slice());
    }

    /// Records that an attribute was opened or created, or not found.
    ///
    /// # Safety
    /// `name` is the argument of the call.
    pub unsafe fn attribute_opened(self, object: Id, name: *const c_char) {
        let file = self.file_of(object);
        // SAFETY: by the contract above.
        let text = unsafe { argument(name) };
        self.record(file, (0, 0), 0, text.map(|text| named(Key::Attribute, text)).as_slice());
    }

    /// Records that an attribute was read or written.
    pub fn attribute_moved(self, attribute: Id, memory: Id) {
        if !self.has_succeeded {
            return self.record(number::NONE, (0, 0), 0, &[]);
        }
        self.library.ask(|library| {
            let file = self.file_of(attribute);
            let mut name = [0u8; NAME];
            // SAFETY: identifiers that were just used, and memory of the given size.
            let (elements, size) = unsafe {
                library.H5Aget_name(attribute, NAME, name.as_mut_ptr().cast());
                let space = library.H5Aget_space(attribute);
                let elements = library.H5Sget_simple_extent_npoints(space);
                library.H5Sclose(space);
                (elements, library.H5Tget_size(memory))
            };
            let bytes = elements.max(0).saturating_mul(size as i64);
            self.record(file, (0, bytes), bytes, &[named(Key::Attribute, text(terminated(&name)))]);
        });
    }

    /// Records that elements of a data set were read or written.
    #[inline]
    pub fn moved(self, id: Id, memory: Id, in_memory: Id, in_file: Id) {
        if !self.has_succeeded {
            return self.on_object(id);
        }
        // Everything is known if the program reads the whole data set again.
        let known = data_sets::find(self.key(id)).filter(|set| in_file == H5S_ALL && set.elements.is_some());
        let size = data_sets::number_of(self.key(memory));
        if let Some(set) = known.filter(|_| size > 0) {
            let bytes = (set.elements.unwrap_or(0) as i64).saturating_mul(size as i64);
            return self.record(set.file, (0, bytes), bytes, &[named(Key::DataSet, set.name)]);
        }
        self.library.ask(|library| {
            let set = self.known(library, id);
            let (elements, selection) = self.selected(library, (id, set), (in_memory, in_file));
            let bytes = elements.saturating_mul(self.size_of(library, memory));
            let meta = [named(Key::DataSet, set.name), selected(selection)];
            let meta = if selection == Selection::All { &meta[..1] } else { &meta };
            self.record(set.file, (0, bytes), bytes, meta);
        });
    }

    /// Returns the size of a data type.
    #[inline]
    fn size_of(&self, library: &Library, memory: Id) -> i64 {
        let key = self.key(memory);
        let known = data_sets::number_of(key);
        if known > 0 {
            return known as i64;
        }
        // SAFETY: the type was just used.
        let size = unsafe { library.H5Tget_size(memory) };
        data_sets::keep_number(key, size);
        size as i64
    }

    /// Records that a chunk was read as it is in the file.
    pub fn moved_chunk(self, id: Id, offset: *const u64) {
        if !self.has_succeeded {
            return self.on_object(id);
        }
        let mut size = 0;
        // SAFETY: the arguments of the call that succeeded.
        self.library.ask(|library| unsafe { library.H5Dget_chunk_storage_size(id, offset, &mut size) });
        self.moved_bytes(id, size as usize);
    }

    /// Records that a chunk was read or written as it is in the file.
    pub fn moved_bytes(self, id: Id, size: usize) {
        if !self.has_succeeded {
            return self.on_object(id);
        }
        let set = self.library.ask(|library| self.known(library, id));
        self.record(set.file, (0, size as i64), size as i64, &[named(Key::DataSet, set.name)]);
    }

    /// Records that elements of several data sets were read or written by one call. The event has the first one's name.
    ///
    /// # Safety
    /// The arguments of the call.
    pub unsafe fn moved_many(
        self,
        count: usize,
        sets: *const Id,
        memory: *const Id,
        (in_memory, in_file): (*const Id, *const Id),
    ) {
        if !self.has_succeeded || count == 0 {
            return self.record(number::NONE, (count as i64, 0), 0, &[]);
        }
        self.library.ask(|library| {
            let mut bytes = 0i64;
            for i in 0..count {
                // SAFETY: the lists have that many entries, and the types were just used.
                let (id, of, spaces) = unsafe { (*sets.add(i), *memory.add(i), (*in_memory.add(i), *in_file.add(i))) };
                let set = self.known(library, id);
                let (elements, _) = self.selected(library, (id, set), spaces);
                bytes = bytes.saturating_add(elements.saturating_mul(self.size_of(library, of)));
            }
            // SAFETY: as above.
            let first = self.known(library, unsafe { *sets });
            self.record(first.file, (count as i64, bytes), bytes, &[named(Key::DataSet, first.name)]);
        });
    }

    /// Returns the number of selected elements, and how they are selected.
    #[inline]
    fn selected(
        &self,
        library: &Library,
        (id, set): (Id, DataSet),
        (in_memory, in_file): (Id, Id),
    ) -> (i64, Selection) {
        if in_file == H5S_ALL {
            return (self.elements(library, id, set), Selection::All);
        }
        if in_file == H5S_PLIST {
            let is_space = ![H5S_ALL, H5S_BLOCK, H5S_PLIST].contains(&in_memory);
            // SAFETY: the space was just used.
            let elements = if is_space { unsafe { library.H5Sget_select_npoints(in_memory) } } else { 0 };
            return (elements.max(0), Selection::InList);
        }
        // SAFETY: the space was just used.
        let elements = unsafe { library.H5Sget_select_npoints(in_file) };
        let known = data_sets::number_of(self.key(in_file)) as c_int;
        // SAFETY: as above.
        let kind = if known > 0 { known } else { unsafe { library.H5Sget_select_type(in_file) } };
        let selection = match kind {
            _ if elements <= 0 => Selection::Nothing,
            SELECTED_POINTS => Selection::Points,
            SELECTED_HYPERSLAB => Selection::Hyperslab,
            _ => Selection::All,
        };
        (elements.max(0), selection)
    }

    /// Returns the number of elements of a data set.
    #[inline]
    fn elements(&self, library: &Library, id: Id, set: DataSet) -> i64 {
        let elements = set.elements.unwrap_or_else(|| {
            // SAFETY: a data set that was just used.
            let elements = unsafe {
                let space = library.H5Dget_space(id);
                let elements = library.H5Sget_simple_extent_npoints(space);
                library.H5Sclose(space);
                elements.max(0) as u64
            };
            data_sets::remember(self.key(id), DataSet { elements: Some(elements), ..set });
            elements
        });
        elements as i64
    }

    /// Returns file and name of a data set.
    #[inline]
    fn known(&self, library: &Library, id: Id) -> DataSet {
        data_sets::find(self.key(id)).unwrap_or_else(|| self.describe(library, id))
    }

    /// Asks for file and name of a data set, and keeps them.
    #[cold]
    fn describe(&self, library: &Library, id: Id) -> DataSet {
        let mut name = [0u8; NAME];
        // SAFETY: a data set that was just used, and memory of the given size.
        unsafe { library.H5Iget_name(id, name.as_mut_ptr().cast(), NAME) };
        let name = match terminated(&name) {
            b"" => &b"<unnamed>"[..],
            name => name,
        };
        let set = DataSet { file: self.asked_file(library, id), name: text(name), elements: None };
        data_sets::remember(self.key(id), set);
        set
    }

    /// Returns the file of a file, group, data set or attribute. The library is not asked after a call that failed.
    fn file_of(&self, id: Id) -> u32 {
        match data_sets::find(self.key(id)) {
            Some(set) => set.file,
            None if self.has_succeeded => self.library.ask(|library| self.asked_file(library, id)),
            None => number::NONE,
        }
    }

    /// Asks for the file of an object. A relative name is relative to the directory in which the file was opened.
    fn asked_file(&self, library: &Library, id: Id) -> u32 {
        let mut name = [0u8; NAME];
        // SAFETY: an object that was just used, and memory of the given size.
        let length = unsafe { library.H5Fget_name(id, name.as_mut_ptr().cast(), NAME) };
        let text = terminated(&name);
        if length <= 0 || text.is_empty() {
            return number::NONE;
        }
        match data_sets::find(data_sets::key_of_path(self.number, text)) {
            Some(set) => set.file,
            // SAFETY: a terminated name.
            None => unsafe { paths::of(name.as_ptr().cast()) },
        }
    }
}

/// Returns the metadata with the name of a data set; none for a file.
fn names_of(set: Option<DataSet>) -> Option<Meta> {
    set.filter(|set| set.name != number::NONE).map(|set| named(Key::DataSet, set.name))
}

/// Returns the number of a text that the program passed to a call.
///
/// # Safety
/// `name` is null or a terminated text.
unsafe fn argument(name: *const c_char) -> Option<u32> {
    if name.is_null() || paths::leads_nowhere(name) {
        return None;
    }
    // SAFETY: by the contract above.
    let text = unsafe { CStr::from_ptr(name) }.to_bytes();
    Some(library_calls::text(&text[..text.len().min(NAME)]))
}

/// Returns the text before the first zero; the last byte is one.
fn terminated(text: &[u8; NAME]) -> &[u8] {
    CStr::from_bytes_until_nul(text).map_or(&[], CStr::to_bytes)
}

/// Returns extent, extent of a chunk, and filters of a data set; the latter are empty if it has none.
fn layout(library: &Library, id: Id) -> (Text, Text, Text) {
    let (mut shape, mut chunk, mut filters) = (Text::new(), Text::new(), Text::new());
    let mut dimensions = [0u64; DIMENSIONS_MAX];
    let known = |count: c_int| count.clamp(0, DIMENSIONS_MAX as c_int) as usize;
    // SAFETY: a data set that was just opened; its space and list are released, and the lists of numbers have space for
    // the largest number of dimensions.
    unsafe {
        let space = library.H5Dget_space(id);
        let count = known(library.H5Sget_simple_extent_dims(space, dimensions.as_mut_ptr(), std::ptr::null_mut()));
        library.H5Sclose(space);
        shape.put_extent(&dimensions[..count]);
        let list = library.H5Dget_create_plist(id);
        if library.H5Pget_layout(list) == H5D_CHUNKED {
            let count = library.H5Pget_chunk(list, DIMENSIONS_MAX as c_int, dimensions.as_mut_ptr());
            chunk.put_extent(&dimensions[..known(count)]);
            for number in 0..library.H5Pget_nfilters(list).max(0) {
                put_filter(library, list, number as c_uint, &mut filters);
            }
        }
        library.H5Pclose(list);
    }
    (shape, chunk, filters)
}

/// Appends the name of a filter.
///
/// # Safety
/// The list has a filter of this number.
unsafe fn put_filter(library: &Library, list: Id, number: c_uint, filters: &mut Text) {
    let mut name = [0u8; NAME];
    let (mut flags, mut configuration, mut count, mut value) = (0, 0, 0, 0);
    // SAFETY: by the contract above; memory of the given sizes.
    let id = unsafe {
        let into = name.as_mut_ptr().cast();
        library.H5Pget_filter2(list, number, &mut flags, &mut count, &mut value, NAME - 1, into, &mut configuration)
    };
    let separator = if number == 0 { "" } else { "," };
    match (id, str::from_utf8(terminated(&name))) {
        (1, _) => filters.put(format_args!("{separator}deflate")),
        (2, _) => filters.put(format_args!("{separator}shuffle")),
        (3, _) => filters.put(format_args!("{separator}fletcher32")),
        (4, _) => filters.put(format_args!("{separator}szip")),
        (_, Ok(name)) if !name.is_empty() => filters.put(format_args!("{separator}{name}")),
        _ => filters.put(format_args!("{separator}filter {id}")),
    }
}
