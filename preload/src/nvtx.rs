//! The functions of NVTX, in the places where libraries that contain NVTX expect those of a tool.
//!
//! The first call of NVTX in a library loads the file that `NVTX_INJECTION64_PATH` names, and calls
//! [`InitializeInjectionNvtx2`] with its table of functions. Nothing here runs unless that variable names this library.

use std::ffi::{c_char, c_int, c_uint, c_void};

use dlio_tracer::life::lifecycle;
use dlio_tracer::spans::nvtx::message::{Attributes, Message};
use dlio_tracer::spans::nvtx::{self, Domain};

type Handle = *const c_void;
/// Pointers to the function pointers of a module, by number.
type Functions = *const *mut *const c_void;
type GetTable = unsafe extern "C" fn(c_uint) -> *const Callbacks;

/// `NvtxExportTableCallbacks`.
#[repr(C)]
pub struct Callbacks {
    size: usize,
    functions_of: Option<unsafe extern "C" fn(c_uint, *mut Functions, *mut c_uint) -> c_int>,
}

/// Numbers of `NvtxExportTableID` and `NvtxCallbackModule`.
const CALLBACKS: c_uint = 1;
const CORE: c_uint = 1;
const CORE2: c_uint = 5;

/// Attaches to a library that contains NVTX. The result keeps this library loaded; it is used by the whole process.
///
/// # Safety
/// As NVTX calls it.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "NVTX looks up this name")]
pub unsafe extern "C" fn InitializeInjectionNvtx2(get_table: Option<GetTable>) -> c_int {
    let Some(get_table) = get_table.filter(|_| lifecycle::records_anything()) else { return 1 };
    // SAFETY: by the protocol: the table of this number is of this type, or null.
    unsafe {
        if let Some(callbacks) = get_table(CALLBACKS).as_ref()
            && callbacks.size >= size_of::<Callbacks>()
        {
            attach(callbacks, CORE, &core());
            attach(callbacks, CORE2, &core2());
        }
    }
    1
}

/// Puts functions into the places of a module. A library may contain an older NVTX, which has fewer of them.
///
/// # Safety
/// The table is from NVTX, and the functions are those of the module's numbers.
unsafe fn attach(callbacks: &Callbacks, module: c_uint, functions: &[(usize, *const c_void)]) {
    let (mut places, mut count): (Functions, c_uint) = (std::ptr::null(), 0);
    let Some(functions_of) = callbacks.functions_of else { return };
    // SAFETY: by the contract above.
    unsafe {
        if functions_of(module, &mut places, &mut count) == 0 || places.is_null() {
            return;
        }
        for (number, function) in functions.iter().filter(|(number, _)| *number < count as usize) {
            let place = *places.add(*number);
            if !place.is_null() {
                place.write(*function);
            }
        }
    }
}

/// Functions by the numbers of `NvtxCallbackIdCore`.
fn core() -> [(usize, *const c_void); 11] {
    [
        (1, mark_ex as *const c_void),
        (2, mark as *const c_void),
        (3, mark_wide as *const c_void),
        (4, start_ex as *const c_void),
        (5, start as *const c_void),
        (6, start_wide as *const c_void),
        (7, end as *const c_void),
        (8, push_ex as *const c_void),
        (9, push as *const c_void),
        (10, push_wide as *const c_void),
        (11, pop as *const c_void),
    ]
}

/// Functions by the numbers of `NvtxCallbackIdCore2`.
fn core2() -> [(usize, *const c_void); 9] {
    [
        (1, domain_mark_ex as *const c_void),
        (2, domain_start_ex as *const c_void),
        (3, domain_end as *const c_void),
        (4, domain_push_ex as *const c_void),
        (5, domain_pop as *const c_void),
        (10, register as *const c_void),
        (11, register_wide as *const c_void),
        (12, create as *const c_void),
        (13, create_wide as *const c_void),
    ]
}

/// Defines functions of NVTX: their arguments, and what they do.
macro_rules! functions {
    ($($name:ident ($($argument:ident: $of:ty),*) $(-> $result:ty)? $body:block)*) => {$(
        /// # Safety
        /// As NVTX's function: strings are terminated, and attributes contain their size.
        unsafe extern "C" fn $name($($argument: $of),*) $(-> $result)? {
            // SAFETY: the program passes what NVTX expects.
            #[allow(unused_unsafe, reason = "some functions use no pointer of the program")]
            unsafe { $body }
        }
    )*};
}

functions! {
    mark_ex(event: *const Attributes) { nvtx::mark(Domain::DEFAULT, Message::of(event)) }
    mark(text: *const c_char) { nvtx::mark(Domain::DEFAULT, Message::Bytes(text)) }
    mark_wide(text: *const i32) { nvtx::mark(Domain::DEFAULT, Message::Wide(text)) }
    start_ex(event: *const Attributes) -> u64 { nvtx::start(Domain::DEFAULT, Message::of(event)) }
    start(text: *const c_char) -> u64 { nvtx::start(Domain::DEFAULT, Message::Bytes(text)) }
    start_wide(text: *const i32) -> u64 { nvtx::start(Domain::DEFAULT, Message::Wide(text)) }
    end(range: u64) { nvtx::end(range) }
    push_ex(event: *const Attributes) -> c_int { nvtx::push(Domain::DEFAULT, Message::of(event)) }
    push(text: *const c_char) -> c_int { nvtx::push(Domain::DEFAULT, Message::Bytes(text)) }
    push_wide(text: *const i32) -> c_int { nvtx::push(Domain::DEFAULT, Message::Wide(text)) }
    pop() -> c_int { nvtx::pop(Domain::DEFAULT) }

    domain_mark_ex(domain: Handle, event: *const Attributes) { nvtx::mark(Domain::of(domain), Message::of(event)) }
    domain_start_ex(domain: Handle, event: *const Attributes) -> u64 {
        nvtx::start(Domain::of(domain), Message::of(event))
    }
    domain_end(_domain: Handle, range: u64) { nvtx::end(range) }
    domain_push_ex(domain: Handle, event: *const Attributes) -> c_int {
        nvtx::push(Domain::of(domain), Message::of(event))
    }
    domain_pop(domain: Handle) -> c_int { nvtx::pop(Domain::of(domain)) }
    register(_domain: Handle, text: *const c_char) -> Handle { nvtx::register(Message::Bytes(text)) }
    register_wide(_domain: Handle, text: *const i32) -> Handle { nvtx::register(Message::Wide(text)) }
    create(name: *const c_char) -> Handle { Domain::create(Message::Bytes(name)) }
    create_wide(name: *const i32) -> Handle { Domain::create(Message::Wide(name)) }
}
