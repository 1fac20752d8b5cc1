//! The functions that changed slots call: one for each function of HDF5 and each loaded library.
//!
//! The real function is called exactly once, with the program's arguments. Only then, and only if it succeeded, the
//! library is queried, see [`answers`](super::answers).

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::atomic::Ordering::Relaxed;

use dlio_tracer::ops::Op;
use dlio_tracer::spans::data_sets;
use dlio_tracer::spans::hdf5;
use dlio_tracer::spans::library_calls::OpenCall;

use super::answers::{Answered, SELECTED_HYPERSLAB, SELECTED_POINTS};
use super::library::{FUNCTIONS_MAX, Functions, Id, LIBRARIES};
use crate::libraries::entry::terminated;

/// The first bits of an identifier contain its type.
const TYPE_SHIFT: u32 = 56;
const FILE: i64 = 1;
const DATA_SET: i64 = 5;

/// Returns `true` for an identifier of a file or data set: others are closed too often to be worth an event.
fn is_file_or_set(id: Id) -> bool {
    matches!(id >> TYPE_SHIFT, FILE | DATA_SET)
}

/// The first rows are functions that change a data type or a selection, with the number to keep for it (see
/// [`data_sets::keep_number`]); they are not recorded. A further row is `function, its operation,
/// its result; what is recorded after it`.
macro_rules! hooks {
    (changing { $($changing:ident($($passed:ident: $type:ty),*): $id:ident = $number:expr;)* }
     $($name:ident $op:ident ($($arg:ident: $of:ty),*) -> $ret:ty; $(unless $guard:expr;)? |$done:ident, $result:ident| $record:expr)*) => {
        #[allow(non_camel_case_types, clippy::upper_case_acronyms, reason = "names of the library's functions")]
        #[derive(Clone, Copy)]
        enum Function { $($changing,)* $($name),* }

        pub const FUNCTIONS: usize = [$(Function::$changing,)* $(Function::$name),*].len();

        /// Returns the names of all hooked functions.
        pub fn names() -> impl Iterator<Item = &'static CStr> {
            terminated(concat!($(stringify!($changing), "\0",)* $(stringify!($name), "\0"),*))
        }

        /// Fills in the hooks of a library. They are stored one by one: a list of them would have to be relocated by
        /// the loader in every process.
        fn fill_for<const L: usize>(hooks: &Functions) {
            $(hooks[Function::$changing as usize].store($changing::<L> as *mut c_void, Relaxed);)*
            $(hooks[Function::$name as usize].store($name::<L> as *mut c_void, Relaxed);)*
        }

        $(
            /// # Safety
            /// As the library's function of this name.
            #[allow(non_snake_case, reason = "the name of the library's function")]
            unsafe extern "C" fn $changing<const L: usize>($($passed: $type),*) -> c_int {
                let address = LIBRARIES[L].real(Function::$changing as usize);
                // SAFETY: the function of this name has this signature; the arguments are passed on unchanged.
                let ret = unsafe {
                    std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($type),*) -> c_int>(address)($($passed),*)
                };
                data_sets::keep_number(data_sets::key(L, $id), $number);
                ret
            }
        )*

        $(
            /// # Safety
            /// As the library's function of this name.
            #[allow(non_snake_case, reason = "the name of the library's function")]
            unsafe extern "C" fn $name<const L: usize>($($arg: $of),*) -> $ret {
                let library = &LIBRARIES[L];
                let address = library.real(Function::$name as usize);
                // SAFETY: the function of this name has this signature; the arguments are passed on unchanged.
                unsafe {
                    let next = std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($of),*) -> $ret>(address);
                    let is_left_out = false $(|| $guard)?;
                    let open = if is_left_out || library.is_unknown() { None } else { hdf5::begin(Op::$op) };
                    let Some(open) = open else { return next($($arg),*) };
                    let $result = next($($arg),*);
                    let $done = answered(L, open, $result >= 0, Op::$op);
                    if let Some($done) = $done {
                        $record;
                    }
                    $result
                }
            }
        )*
    };
}

const _: () = assert!(FUNCTIONS <= FUNCTIONS_MAX);

/// Returns a call that has ended; `None` if the library turned out to be one that cannot be asked.
#[inline]
fn answered(number: usize, open: OpenCall, has_succeeded: bool, op: Op) -> Option<Answered> {
    let done = open.end();
    let library = &LIBRARIES[number];
    (!has_succeeded || library.is_known()).then_some(Answered { library, number, done, has_succeeded, op })
}

pub fn fill(number: usize, hooks: &Functions) {
    match number {
        0 => fill_for::<0>(hooks),
        1 => fill_for::<1>(hooks),
        2 => fill_for::<2>(hooks),
        _ => fill_for::<3>(hooks),
    }
}

type Text = *const c_char;
type Buffer = *mut c_void;
type Data = *const c_void;

hooks! {
    changing {
        H5Tset_size(of: Id, size: usize): of = 0;
        H5Tset_precision(of: Id, bits: usize): of = 0;
        H5Tset_offset(of: Id, bits: usize): of = 0;
        H5Tpack(of: Id): of = 0;
        H5Sselect_hyperslab(
            space: Id, with: c_int, start: *const u64, stride: *const u64, count: *const u64, block: *const u64
        ): space = SELECTED_HYPERSLAB as usize;
        H5Sselect_elements(space: Id, with: c_int, count: usize, elements: *const u64): space = SELECTED_POINTS as usize;
        H5Sselect_all(space: Id): space = 0;
        H5Sselect_none(space: Id): space = 0;
        H5Sselect_copy(space: Id, from: Id): space = 0;
        H5Smodify_select(space: Id, with: c_int, from: Id): space = 0;
    }

    H5Fcreate H5F_CREATE (name: Text, flags: c_uint, creation: Id, access: Id) -> Id;
        |done, file| done.file_opened(name, flags, file)
    H5Fopen H5F_OPEN (name: Text, flags: c_uint, access: Id) -> Id;
        |done, file| done.file_opened(name, flags, file)
    H5Fclose H5F_CLOSE (file: Id) -> c_int;
        |done, ret| done.closed(file)
    H5Fflush H5F_FLUSH (object: Id, scope: c_int) -> c_int;
        |done, ret| done.on_object(object)

    H5Dcreate2 H5D_CREATE (place: Id, name: Text, of: Id, space: Id, links: Id, creation: Id, access: Id) -> Id;
        |done, set| done.set_opened(place, name, set)
    H5Dcreate_anon H5D_CREATE (place: Id, of: Id, space: Id, creation: Id, access: Id) -> Id;
        |done, set| done.set_opened(place, std::ptr::null(), set)
    H5Dopen2 H5D_OPEN (place: Id, name: Text, access: Id) -> Id;
        |done, set| done.set_opened(place, name, set)
    H5Dclose H5D_CLOSE (set: Id) -> c_int;
        |done, ret| done.closed(set)
    H5Dread H5D_READ (set: Id, memory: Id, in_memory: Id, in_file: Id, list: Id, into: Buffer) -> c_int;
        |done, ret| done.moved(set, memory, in_memory, in_file)
    H5Dwrite H5D_WRITE (set: Id, memory: Id, in_memory: Id, in_file: Id, list: Id, from: Data) -> c_int;
        |done, ret| done.moved(set, memory, in_memory, in_file)
    H5Dread_chunk H5D_READ_CHUNK (set: Id, list: Id, offset: *const u64, filters: *mut u32, into: Buffer) -> c_int;
        |done, ret| done.moved_chunk(set, offset)
    H5Dread_chunk1 H5D_READ_CHUNK (set: Id, list: Id, offset: *const u64, filters: *mut u32, into: Buffer) -> c_int;
        |done, ret| done.moved_chunk(set, offset)
    H5Dread_chunk2 H5D_READ_CHUNK (set: Id, list: Id, offset: *const u64, filters: *mut u32, into: Buffer, size: *mut usize) -> c_int;
        |done, ret| done.moved_chunk(set, offset)
    H5Dwrite_chunk H5D_WRITE_CHUNK (set: Id, list: Id, filters: u32, offset: *const u64, size: usize, from: Data) -> c_int;
        |done, ret| done.moved_bytes(set, size)
    H5Dread_multi H5D_READ_MULTI (count: usize, sets: *const Id, memory: *const Id, in_memory: *const Id, in_file: *const Id, list: Id, into: *mut Buffer) -> c_int;
        |done, ret| done.moved_many(count, sets, memory, (in_memory, in_file))
    H5Dwrite_multi H5D_WRITE_MULTI (count: usize, sets: *const Id, memory: *const Id, in_memory: *const Id, in_file: *const Id, list: Id, from: *const Data) -> c_int;
        |done, ret| done.moved_many(count, sets, memory, (in_memory, in_file))
    H5Dset_extent H5D_SET_EXTENT (set: Id, extent: *const u64) -> c_int;
        |done, ret| done.resized(set)
    H5Dflush H5D_FLUSH (set: Id) -> c_int;
        |done, ret| done.on_object(set)
    H5Drefresh H5D_REFRESH (set: Id) -> c_int;
        |done, ret| done.resized(set)

    H5Acreate2 H5A_CREATE (object: Id, name: Text, of: Id, space: Id, creation: Id, access: Id) -> Id;
        |done, attribute| done.attribute_opened(object, name)
    H5Acreate_by_name H5A_CREATE (place: Id, object: Text, name: Text, of: Id, space: Id, creation: Id, access: Id, links: Id) -> Id;
        |done, attribute| done.attribute_opened(place, name)
    H5Aopen H5A_OPEN (object: Id, name: Text, access: Id) -> Id;
        |done, attribute| done.attribute_opened(object, name)
    H5Aopen_by_name H5A_OPEN (place: Id, object: Text, name: Text, access: Id, links: Id) -> Id;
        |done, attribute| done.attribute_opened(place, name)
    H5Aread H5A_READ (attribute: Id, memory: Id, into: Buffer) -> c_int;
        |done, ret| done.attribute_moved(attribute, memory)
    H5Awrite H5A_WRITE (attribute: Id, memory: Id, from: Data) -> c_int;
        |done, ret| done.attribute_moved(attribute, memory)

    H5Gcreate2 H5G_CREATE (place: Id, name: Text, links: Id, creation: Id, access: Id) -> Id;
        |done, group| done.object_opened(place, name)
    H5Gopen2 H5G_OPEN (place: Id, name: Text, access: Id) -> Id;
        |done, group| done.object_opened(place, name)
    H5Oopen H5O_OPEN (place: Id, name: Text, links: Id) -> Id;
        |done, object| match object >> TYPE_SHIFT {
            DATA_SET => done.set_opened(place, name, object),
            _ => done.object_opened(place, name),
        }
    H5Oclose H5O_CLOSE (object: Id) -> c_int;
        unless !is_file_or_set(object);
        |done, ret| done.closed(object)
    H5Idec_ref H5I_DEC_REF (object: Id) -> c_int;
        unless !is_file_or_set(object);
        |done, left| if left <= 0 { done.closed(object) } else { done.on_object(object) }
}
