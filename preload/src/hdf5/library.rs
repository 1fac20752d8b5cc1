//! The loaded HDF5 libraries: their real functions, and questions to them after a call that succeeded.
//!
//! The libraries are called only in the thread of a hooked call, right after it: whatever lock the program uses for
//! HDF5 is held then. A question never fails, because its identifiers were just used successfully; and it is asked with
//! an empty error stack, which the program's own is restored to afterwards.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicUsize, Ordering::*};

use dlio_tracer::life::lifecycle;
use dlio_tracer::spans::data_sets;

use crate::libraries::entry::{Entry, terminated};
use crate::libraries::imports::Object;

/// An identifier since HDF5 1.10.
pub type Id = i64;

/// More functions than are hooked.
pub const FUNCTIONS_MAX: usize = 64;

/// Addresses by function.
pub type Functions = [AtomicPtr<c_void>; FUNCTIONS_MAX];

/// More libraries than any program has; others are not recorded.
pub const LIBRARIES_MAX: usize = 4;

pub static LIBRARIES: [Library; LIBRARIES_MAX] = [const { Library::new() }; LIBRARIES_MAX];

/// Number of entries in use.
pub static USED: AtomicUsize = AtomicUsize::new(0);

/// A loaded HDF5 library.
pub struct Library {
    pub entry: Entry,
    state: AtomicU8,
    real: Functions,
    hooks: Functions,
    questions: [AtomicPtr<c_void>; QUESTIONS],
}

/// The version is queried after the first call: a question before it would initialize the library.
const UNCHECKED: u8 = 0;
const KNOWN: u8 = 1;
const UNKNOWN: u8 = 2;

impl Library {
    const fn new() -> Library {
        Library {
            entry: Entry::new(),
            state: AtomicU8::new(UNCHECKED),
            real: [const { AtomicPtr::new(std::ptr::null_mut()) }; FUNCTIONS_MAX],
            hooks: [const { AtomicPtr::new(std::ptr::null_mut()) }; FUNCTIONS_MAX],
            questions: [const { AtomicPtr::new(std::ptr::null_mut()) }; QUESTIONS],
        }
    }

    #[inline(always)]
    pub fn real(&self, function: usize) -> *mut c_void {
        self.real[function].load(Relaxed)
    }

    pub fn hook(&self, function: usize) -> *mut c_void {
        self.hooks[function].load(Relaxed)
    }

    /// Returns `true` if calls of this library are not recorded because its interface is unknown.
    #[inline(always)]
    pub fn is_unknown(&self) -> bool {
        self.state.load(Relaxed) == UNKNOWN
    }

    /// Returns `true` if the library can be asked, after a call that succeeded.
    #[inline(always)]
    pub fn is_known(&self) -> bool {
        match self.state.load(Relaxed) {
            UNCHECKED => self.check(),
            state => state == KNOWN,
        }
    }

    #[cold]
    fn check(&self) -> bool {
        let (mut major, mut minor, mut release): (c_uint, c_uint, c_uint) = (0, 0, 0);
        // SAFETY: the library's function, which fills in three numbers.
        let ret = unsafe { self.H5get_libversion(&mut major, &mut minor, &mut release) };
        let is_known = ret >= 0 && (major == 1 && minor >= 10 || major == 2);
        if self.state.swap(if is_known { KNOWN } else { UNKNOWN }, Relaxed) == UNCHECKED && !is_known {
            lifecycle::say(&[b"calls of an HDF5 library are not recorded: its version is not 1.10 to 2.x"]);
        }
        is_known
    }

    /// Fills in the functions and hooks of a library that the loader has just listed, with the names of the hooked
    /// functions.
    pub fn fill(&self, object: &Object, names: impl Iterator<Item = &'static CStr>, fill: impl Fn(&Functions)) {
        // The library may replace one that was unloaded, and use its identifiers again.
        data_sets::forget_all();
        for (name, real) in names.zip(&self.real) {
            real.store(object.defined(name), Relaxed);
        }
        for (name, question) in question_names().zip(&self.questions) {
            question.store(object.defined(name), Relaxed);
        }
        fill(&self.hooks);
        let is_whole = self.questions.iter().all(|question| !question.load(Relaxed).is_null());
        if !is_whole {
            lifecycle::say(&[b"calls of an HDF5 library are not recorded: it lacks functions of version 1.10"]);
        }
        self.state.store(if is_whole { UNCHECKED } else { UNKNOWN }, Relaxed);
    }

    /// Runs questions, and restores the error stack if the call before them has left something there.
    #[inline]
    pub fn ask<T>(&self, questions: impl FnOnce(&Library) -> T) -> T {
        // SAFETY: the library's functions with their arguments; the stack that is taken is given back.
        unsafe {
            if self.H5Eget_num(DEFAULT) <= 0 {
                return questions(self);
            }
            let stack = self.H5Eget_current_stack();
            let answer = questions(self);
            if stack >= 0 {
                self.H5Eset_current_stack(stack);
            }
            answer
        }
    }
}

/// The calling thread's error stack, and the default property list.
const DEFAULT: Id = 0;

macro_rules! questions {
    ($($name:ident($($arg:ident: $of:ty),*) -> $ret:ty;)*) => {
        #[allow(non_camel_case_types, clippy::upper_case_acronyms, reason = "names of the library's functions")]
        #[derive(Clone, Copy)]
        enum Question { $($name),* }

        const QUESTIONS: usize = [$(Question::$name),*].len();

        fn question_names() -> impl Iterator<Item = &'static CStr> {
            terminated(concat!($(stringify!($name), "\0"),*))
        }

        #[allow(non_snake_case, clippy::too_many_arguments, reason = "functions of the library")]
        impl Library {
            $(
                /// # Safety
                /// As the library's function of this name.
                #[inline]
                pub unsafe fn $name(&self, $($arg: $of),*) -> $ret {
                    let address = self.questions[Question::$name as usize].load(Relaxed);
                    // SAFETY: the function of this name has this signature, and a library that lacks one is not asked.
                    unsafe {
                        std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($of),*) -> $ret>(address)($($arg),*)
                    }
                }
            )*
        }
    };
}

questions! {
    H5get_libversion(major: *mut c_uint, minor: *mut c_uint, release: *mut c_uint) -> c_int;
    H5Eget_num(stack: Id) -> isize;
    H5Eget_current_stack() -> Id;
    H5Eset_current_stack(stack: Id) -> c_int;
    H5Iget_name(id: Id, into: *mut c_char, size: usize) -> isize;
    H5Fget_name(id: Id, into: *mut c_char, size: usize) -> isize;
    H5Dget_space(set: Id) -> Id;
    H5Dget_type(set: Id) -> Id;
    H5Dget_create_plist(set: Id) -> Id;
    H5Dget_chunk_storage_size(set: Id, offset: *const u64, size: *mut u64) -> c_int;
    H5Tget_size(of: Id) -> usize;
    H5Tclose(of: Id) -> c_int;
    H5Sclose(space: Id) -> c_int;
    H5Sget_select_npoints(space: Id) -> i64;
    H5Sget_select_type(space: Id) -> c_int;
    H5Sget_simple_extent_npoints(space: Id) -> i64;
    H5Sget_simple_extent_dims(space: Id, dimensions: *mut u64, largest: *mut u64) -> c_int;
    H5Pget_layout(list: Id) -> c_int;
    H5Pget_chunk(list: Id, count: c_int, dimensions: *mut u64) -> c_int;
    H5Pget_nfilters(list: Id) -> c_int;
    H5Pget_filter2(list: Id, number: c_uint, flags: *mut c_uint, count: *mut usize, values: *mut c_uint, size: usize,
                   name: *mut c_char, configuration: *mut c_uint) -> c_int;
    H5Pclose(list: Id) -> c_int;
    H5Aget_name(attribute: Id, size: usize, into: *mut c_char) -> isize;
    H5Aget_space(attribute: Id) -> Id;
}
