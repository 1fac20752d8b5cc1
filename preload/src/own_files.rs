//! The file of this library, and those that are installed next to it.

use std::ffi::{CStr, CString};

/// Returns the path of this library.
pub fn path() -> Option<&'static CStr> {
    static HERE: u8 = 0;
    // SAFETY: a struct of pointers that the call fills in; the path it points to lives as long as this library.
    unsafe {
        let mut object: libc::Dl_info = std::mem::zeroed();
        let found = libc::dladdr((&raw const HERE).cast(), &mut object);
        (found != 0 && !object.dli_fname.is_null()).then(|| CStr::from_ptr(object.dli_fname))
    }
}

/// Returns the path of a file in the same directory.
pub fn beside(name: &[u8]) -> Option<CString> {
    beside_file(path()?, name)
}

/// Returns the path of a file in the directory of another one.
pub fn beside_file(other: &CStr, name: &[u8]) -> Option<CString> {
    let other = other.to_bytes();
    let folder = other.iter().rposition(|&byte| byte == b'/').map_or(0, |at| at + 1);
    CString::new([&other[..folder], name].concat()).ok()
}
