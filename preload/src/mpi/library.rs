//! The loaded MPI libraries: their binary interfaces, their real functions, and questions to them.
//!
//! A library is queried only in the thread of a hooked call, right after it has succeeded, and about the handles of that
//! call: MPI's default is to end the program when a call fails. Nothing is queried after `MPI_Finalize`.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicUsize, Ordering::*};

use dlio_tracer::life::lifecycle;
use dlio_tracer::spans::data_sets;

use crate::libraries::entry::{Entry, terminated};
use crate::libraries::imports::Object;

/// An argument: a handle, a number or an address. Numbers of 32 bits have undefined upper halves.
pub type Word = usize;

/// More functions than are hooked.
pub const FUNCTIONS_MAX: usize = 192;

/// Addresses by function.
pub type Functions = [AtomicPtr<c_void>; FUNCTIONS_MAX];

/// More libraries than any program has; others are not recorded.
pub const LIBRARIES_MAX: usize = 2;

pub static LIBRARIES: [Library; LIBRARIES_MAX] = [const { Library::new() }; LIBRARIES_MAX];

/// Number of entries in use.
pub static USED: AtomicUsize = AtomicUsize::new(0);

/// A loaded MPI library.
pub struct Library {
    pub entry: Entry,
    /// The interface, as a number: see [`Interface`].
    state: AtomicU8,
    real: Functions,
    hooks: Functions,
    questions: [AtomicPtr<c_void>; QUESTIONS],
    /// The data type of bytes, once it was queried.
    byte: AtomicUsize,
}

/// A binary interface: the meaning of handles and special addresses.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Interface {
    /// The version is queried after the first call.
    Unchecked,
    Unknown,
    OpenMpi,
    /// Also that of Intel MPI, MVAPICH and Cray MPICH.
    Mpich,
    /// The standard one of MPI 5.
    Standard,
}

impl Interface {
    fn from_number(number: u8) -> Interface {
        use Interface::*;
        [Unchecked, Unknown, OpenMpi, Mpich, Standard][number as usize]
    }

    /// Returns the size of handles, other than that of a file.
    pub fn handle_size(self) -> usize {
        if self == Interface::Mpich { size_of::<c_int>() } else { size_of::<usize>() }
    }

    /// Returns `true` for the address that is passed instead of a status.
    pub fn ignores_status(self, status: Word) -> bool {
        status == if self == Interface::Mpich { 1 } else { 0 }
    }

    /// Returns `true` for the address that is passed instead of a buffer if data are replaced in place.
    pub fn is_in_place(self, buffer: Word) -> bool {
        buffer == if self == Interface::Mpich { usize::MAX } else { 1 }
    }
}

impl Library {
    const fn new() -> Library {
        Library {
            entry: Entry::new(),
            state: AtomicU8::new(Interface::Unchecked as u8),
            real: [const { AtomicPtr::new(std::ptr::null_mut()) }; FUNCTIONS_MAX],
            hooks: [const { AtomicPtr::new(std::ptr::null_mut()) }; FUNCTIONS_MAX],
            questions: [const { AtomicPtr::new(std::ptr::null_mut()) }; QUESTIONS],
            byte: AtomicUsize::new(0),
        }
    }

    #[inline(always)]
    pub fn real(&self, function: usize) -> *mut c_void {
        self.real[function].load(Relaxed)
    }

    pub fn hook(&self, function: usize) -> *mut c_void {
        self.hooks[function].load(Relaxed)
    }

    /// Returns the interface, as far as it is known before a call has succeeded.
    #[inline]
    pub fn interface(&self) -> Interface {
        Interface::from_number(self.state.load(Relaxed))
    }

    /// Returns the interface, after a call that succeeded; `None` if it is unknown.
    #[inline]
    pub fn checked(&self) -> Option<Interface> {
        let known = match self.interface() {
            Interface::Unchecked => self.check(),
            known => known,
        };
        (known != Interface::Unknown).then_some(known)
    }

    #[cold]
    fn check(&self) -> Interface {
        let mut text = [0u8; VERSION_MAX];
        let mut length: c_int = 0;
        // SAFETY: the library's function, with space for the longest version of any library.
        let ret = unsafe { self.PMPI_Get_library_version(text.as_mut_ptr().cast(), &mut length) };
        let version = CStr::from_bytes_until_nul(&text).map_or(&b""[..], CStr::to_bytes);
        let names = |name: &[u8]| version.windows(name.len()).any(|part| part == name);
        let has_handles = [Question::PMPI_Comm_f2c, Question::PMPI_Type_f2c].iter().all(|&question| self.has(question));
        let interface = match () {
            _ if ret == 0 && names(b"Open MPI") && has_handles => Interface::OpenMpi,
            _ if ret == 0 && MPICH.iter().any(|name| names(name)) => Interface::Mpich,
            _ => Interface::Unknown,
        };
        let before = self.state.swap(interface as u8, Relaxed);
        if before == Interface::Unchecked as u8 && interface == Interface::Unknown {
            lifecycle::say(&[b"calls of an MPI library are not recorded: it is not Open MPI, MPICH or similar"]);
        }
        interface
    }

    /// Returns the communicator of all ranks, while MPI is initialized. The handles of Open MPI are addresses, and the
    /// address of a variable depends on how the program was linked, but its number in Fortran is constant.
    pub fn world(&self) -> Word {
        match self.interface() {
            // SAFETY: the library's function with its own number.
            Interface::OpenMpi => unsafe { self.PMPI_Comm_f2c(0) },
            Interface::Standard => 0x101,
            _ => 0x4400_0000,
        }
    }

    /// Returns the data type of bytes, while MPI is initialized.
    pub fn byte(&self) -> Word {
        match (self.interface(), self.byte.load(Relaxed)) {
            (Interface::OpenMpi, 0) => {
                // SAFETY: as above.
                let byte = unsafe { self.PMPI_Type_f2c(1) };
                self.byte.store(byte, Relaxed);
                byte
            }
            (Interface::OpenMpi, known) => known,
            (Interface::Standard, _) => 0x247,
            _ => 0x4c00_010d,
        }
    }

    fn has(&self, question: Question) -> bool {
        !self.questions[question as usize].load(Relaxed).is_null()
    }

    /// Fills in the functions and hooks of a library that the loader has just listed, with the names of the hooked
    /// functions.
    pub fn fill(&self, object: &Object, names: impl Iterator<Item = &'static CStr>, fill: impl Fn(&Functions)) {
        // The library may replace one that was unloaded, and use its handles again.
        data_sets::forget_all();
        for (name, real) in names.zip(&self.real) {
            real.store(object.defined(name), Relaxed);
        }
        for (name, question) in question_names().zip(&self.questions) {
            question.store(object.defined(name), Relaxed);
        }
        fill(&self.hooks);
        let is_whole = (0..Question::PMPI_Comm_f2c as usize).all(|at| !self.questions[at].load(Relaxed).is_null());
        if !is_whole {
            lifecycle::say(&[b"calls of an MPI library are not recorded: it lacks functions of MPI 3"]);
        }
        let is_standard = object.name().to_bytes().starts_with(b"libmpi_abi");
        let interface = match () {
            _ if !is_whole => Interface::Unknown,
            _ if is_standard && !object.defined(c"MPI_Abi_get_version").is_null() => Interface::Standard,
            _ => Interface::Unchecked,
        };
        self.byte.store(0, Relaxed);
        self.state.store(interface as u8, Relaxed);
    }
}

/// Texts in the versions of libraries with the interface of MPICH.
const MPICH: [&[u8]; 3] = [b"MPICH", b"MVAPICH", b"Intel(R) MPI"];

/// The longest version of any library, with the terminating zero.
const VERSION_MAX: usize = 8192;

macro_rules! questions {
    ($($name:ident($($arg:ident: $of:ty),*) -> $ret:ty;)*) => {
        #[allow(non_camel_case_types, clippy::upper_case_acronyms, reason = "names of the library's functions")]
        #[derive(Clone, Copy)]
        enum Question { $($name),* }

        const QUESTIONS: usize = [$(Question::$name),*].len();

        fn question_names() -> impl Iterator<Item = &'static CStr> {
            terminated(concat!($(stringify!($name), "\0"),*))
        }

        #[allow(non_snake_case, reason = "functions of the library")]
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
    PMPI_Get_library_version(text: *mut c_char, length: *mut c_int) -> c_int;
    PMPI_Type_size_x(of: Word, size: *mut i64) -> c_int;
    PMPI_Get_elements_x(status: Word, of: Word, count: *mut i64) -> c_int;
    PMPI_Comm_size(communicator: Word, size: *mut c_int) -> c_int;
    PMPI_Comm_rank(communicator: Word, rank: *mut c_int) -> c_int;
    PMPI_Comm_test_inter(communicator: Word, is_between: *mut c_int) -> c_int;
    // Only Open MPI is queried with these; others may lack them.
    PMPI_Comm_f2c(number: c_int) -> Word;
    PMPI_Type_f2c(number: c_int) -> Word;
}
