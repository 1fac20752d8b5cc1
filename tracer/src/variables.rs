//! The environment, for code that may not allocate.

/// A variable of the environment, without the allocation `std::env` would make.
pub fn variable(name: &str) -> Option<&'static [u8]> {
    unsafe extern "C" {
        static environ: *const *const libc::c_char;
    }
    // SAFETY: `environ` is a null-terminated list of strings; a program that changes it in another thread at this very
    // moment has the same race with getenv.
    unsafe {
        let mut entry = environ;
        while !entry.is_null() && !(*entry).is_null() {
            let text = std::ffi::CStr::from_ptr(*entry).to_bytes();
            if let Some(value) = text.strip_prefix(name.as_bytes()).and_then(|rest| rest.strip_prefix(b"=")) {
                return Some(value);
            }
            entry = entry.add(1);
        }
    }
    None
}
