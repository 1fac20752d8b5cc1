//! The environment, for code that may not allocate.

/// A variable of the environment, without the allocation `std::env` would make.
pub fn variable(name: &str) -> Option<&'static [u8]> {
    all().find_map(|text| text.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
}

/// Every `NAME=value` of the environment.
pub fn all() -> impl Iterator<Item = &'static [u8]> {
    unsafe extern "C" {
        static environ: *const *const libc::c_char;
    }
    // SAFETY: `environ` is the C library's own variable.
    let mut entry = unsafe { environ };
    std::iter::from_fn(move || {
        // SAFETY: it is null or a null-terminated list of strings; a program that changes it in another thread at this very
        // moment has the same race with getenv.
        unsafe {
            if entry.is_null() || (*entry).is_null() {
                return None;
            }
            let text = std::ffi::CStr::from_ptr(*entry).to_bytes();
            entry = entry.add(1);
            Some(text)
        }
    })
}
