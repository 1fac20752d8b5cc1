//! The environment, and what lies beside it on the first stack, for code that may not allocate.

use std::ffi::{CStr, c_char};

unsafe extern "C" {
    static environ: *const *const c_char;
}

/// A variable of the environment, without the allocation `std::env` would make.
pub fn variable(name: &str) -> Option<&'static [u8]> {
    let value = |entry: *const c_char| {
        let mut at = entry.cast::<u8>();
        for byte in name.bytes().chain([b'=']) {
            // SAFETY: a string, of which nothing is read behind its end: a byte that is as it should be is not that.
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

/// Every `NAME=value` of the environment.
pub fn all() -> impl Iterator<Item = &'static [u8]> {
    // SAFETY: entries are strings.
    entries().map(|entry| unsafe { CStr::from_ptr(entry) }.to_bytes())
}

fn entries() -> impl Iterator<Item = *const c_char> {
    // SAFETY: `environ` is the C library's own variable.
    let mut place = unsafe { environ };
    std::iter::from_fn(move || {
        // SAFETY: it is null or a null-terminated list of strings; a program that changes it in another thread at this very
        // moment has the same race with getenv.
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

/// The arguments that the program was started with, and how many: the kernel puts their number, them and the environment
/// one behind the other. `None` where the environment has been moved.
pub fn arguments() -> Option<(i32, *const *const c_char)> {
    /// More than a stack has room for.
    const STACK_MAX: usize = 8 << 20;
    const COUNT_MAX: usize = STACK_MAX / size_of::<usize>();
    // SAFETY: asks what the kernel told this process at its start, bytes that it put above all of this.
    let above = unsafe { libc::getauxval(libc::AT_RANDOM) } as usize;
    // SAFETY: `environ` is the C library's own variable. Where it points to what the kernel wrote, a null stands before it,
    // before that the arguments, and before them their number, which is no address.
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
    fn variables_are_found_by_their_whole_name() {
        let path = variable("PATH").expect("every shell sets it");
        assert_eq!(Some(path.to_vec()), std::env::var_os("PATH").map(|path| path.into_encoded_bytes()));
        assert_eq!((variable("PAT"), variable("PATHS")), (None, None));
    }

    #[test]
    fn arguments_lie_before_the_environment() {
        let (count, list) = arguments().expect("nothing has moved the environment");
        // SAFETY: as many strings as were counted.
        let given = (0..count as usize).map(|i| unsafe { CStr::from_ptr(*list.add(i)) }.to_string_lossy().into_owned());
        assert!(given.eq(std::env::args()));
    }
}
