//! Error numbers and their names, as Linux has them on all machines but a few old ones.

use std::sync::LazyLock;

use nix::errno::Errno;

/// Names that reports print instead of the ones that the C library lists.
const PREFERRED: [(&str, i64); 2] = [("EDEADLOCK", 35), ("ENOTSUP", 95)];

/// Another name of `EAGAIN`, and the kernel's own errors, which only traces of system calls contain.
const OTHERS: [(&str, i64); 8] = [
    ("EWOULDBLOCK", 11),
    ("ERESTARTSYS", 512),
    ("ERESTARTNOINTR", 513),
    ("ERESTARTNOHAND", 514),
    ("ENOIOCTLCMD", 515),
    ("ERESTART_RESTARTBLOCK", 516),
    ("EPROBE_DEFER", 517),
    ("ENOTSUPP", 524),
];

/// The largest number of the C library.
const LAST: i32 = 133;

/// All names; the first one of a number is printed.
static ERRORS: LazyLock<Vec<(String, i64)>> = LazyLock::new(|| {
    let listed = (1..=LAST).map(Errno::from_raw).filter(|error| *error != Errno::UnknownErrno);
    let listed = listed.map(|error| (format!("{error:?}"), error as i64));
    let owned = |(name, number): (&str, i64)| (name.to_string(), number);
    PREFERRED.into_iter().map(owned).chain(listed).chain(OTHERS.into_iter().map(owned)).collect()
});

/// Returns the number of an error.
pub fn number(name: &[u8]) -> Option<i64> {
    ERRORS.iter().find(|(known, _)| known.as_bytes() == name).map(|(_, number)| *number)
}

/// Returns the name of an error.
pub fn name(number: i32) -> Option<&'static str> {
    ERRORS.iter().find(|(_, known)| *known == number as i64).map(|(name, _)| name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_has_its_number() {
        assert_eq!(
            ["EPERM", "ELOOP", "ESTALE", "EDQUOT", "EOPNOTSUPP", "ERESTARTSYS"].map(|name| number(name.as_bytes())),
            [1, 40, 116, 122, 95, 512].map(Some)
        );
        assert_eq!(number(b"ENONE"), None);
        assert!((1..=LAST).filter(|number| ![41, 58].contains(number)).all(|number| name(number).is_some()));
    }

    #[test]
    fn an_error_with_several_names_is_printed_by_one() {
        assert_eq!([11, 35, 95].map(name), ["EAGAIN", "EDEADLOCK", "ENOTSUP"].map(Some));
    }
}
