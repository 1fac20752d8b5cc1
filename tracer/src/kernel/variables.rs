//! The environment and the data next to it on the first stack, for code that must not allocate.

use std::ffi::{CStr, c_char};

unsafe extern "C" {
    static environ: *const *const c_char;
}

/// Returns an environment variable, without the allocation of `std::env`.
pub fn variable(name: &str) -> Option<&'static [u8]> {
    let value = |entry: *const c_char| {
        let mut at = entry.cast::<u8>();
        for byte in name.bytes().chain([b'=']) {
            // SAFETY: a string; the comparison stops at the first byte that differs, so nothing after the terminator
            // is read.
            unsafe {
                if *at != byte {
                    return None;
                }
                at = at.add(1);
            }
        }
        // SAFETY: the rest of the same string.
        Some(unsafe { CStr::from_ptr(at.cast()) }.to_bytes())
    };
    entries().find_map(value)
}

/// Iterates over every `NAME=value` of the environment.
pub fn all() -> impl Iterator<Item = &'static [u8]> {
    // SAFETY: entries are strings.
    entries().map(|entry| unsafe { CStr::from_ptr(entry) }.to_bytes())
}

fn entries() -> impl Iterator<Item = *const c_char> {
    // SAFETY: `environ` is the C library's own variable.
    let mut place = unsafe { environ };
    std::iter::from_fn(move || {
        // SAFETY: it is null or a null-terminated list of strings; if another thread changes it at the same time,
        // getenv has the same race.
        unsafe {
            if place.is_null() || (*place).is_null() {
                return None;
            }
            let entry = *place;
            place = place.add(1);
            Some(entry)
        }
    })
}

/// Returns the arguments that the program was started with, and their number. The kernel places their number, the
/// arguments and the environment one after another. `None` if the environment has been moved.
pub fn arguments() -> Option<(i32, *const *const c_char)> {
    /// The maximum size of this area on a stack.
    const STACK_MAX: usize = 8 << 20;
    const COUNT_MAX: usize = STACK_MAX / size_of::<usize>();
    // SAFETY: reads the auxiliary vector; the kernel placed these bytes above the strings.
    let above = unsafe { libc::getauxval(libc::AT_RANDOM) } as usize;
    // SAFETY: `environ` is the C library's own variable. If it points to the kernel's list, the word before it is a
    // null, before that are the arguments, and before them their number, which cannot be an address.
    unsafe {
        if above.checked_sub(environ.addr()).is_none_or(|distance| distance >= STACK_MAX) {
            return None;
        }
        let last = environ.sub(1);
        let place = (0..COUNT_MAX).find(|count| (*last.sub(count + 1)).addr() == *count);
        place.filter(|_| (*last).is_null()).map(|count| (count as i32, last.sub(count)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_match_by_full_name() {
        let path = variable("PATH").expect("every shell sets it");
        assert_eq!(Some(path.to_vec()), std::env::var_os("PATH").map(|path| path.into_encoded_bytes()));
        assert_eq!((variable("PAT"), variable("PATHS")), (None, None));
    }

    #[test]
    fn arguments_are_before_the_environment() {
        let (count, list) = arguments().expect("nothing has moved the environment");
        // SAFETY: as many strings as were counted.
        let given = (0..count as usize).map(|i| unsafe { CStr::from_ptr(*list.add(i)) }.to_string_lossy().into_owned());
        assert!(given.eq(std::env::args()));
    }
}
