//! Reasons for lost events, in words. Files contain the number of the error, which is the kernel's or one of those
//! below.

/// Not an error of a call: results of requests were fetched without the hooked functions.
pub const UNSEEN_RESULT: i32 = i32::MAX;

/// An error, its reason in a sentence, and its description in a report.
type Cause = (&'static [i32], &'static str, &'static str);

/// The common start of all descriptions in a report.
pub const LOST: &str = "events were lost: ";

const CAUSES: &[Cause] = &[
    (&[0], "no space in the ring", "events were lost: no space in the ring; trace again"),
    (
        &[12],
        "no memory",
        "events were lost: out of memory; give the program more memory, or run fewer programs at the same time",
    ),
    (
        &[28, 122],
        "no space left",
        "events were lost: the disk of the trace directory was full; free space, or trace into another directory (-o DIR)",
    ),
    (&[27], "the file size limit", "events were lost: the file size limit was reached; raise it (ulimit -f)"),
    (
        &[2],
        "the directory is missing or cannot be created, or files of the trace were removed",
        "events were lost: trace files or their directory were removed or renamed during recording; do not touch them",
    ),
    (&[23, 24], "no descriptor left", "events were lost: out of file descriptors; raise their limit (ulimit -n)"),
    (
        &[13],
        "no permission",
        "events were lost: no permission to write to the trace directory; trace into another one (-o DIR)",
    ),
    (
        &[1, 38],
        "not permitted, for example by a seccomp filter",
        "events were lost: a seccomp filter did not permit writing; allow openat and write",
    ),
    (
        &[30],
        "a read-only file system",
        "events were lost: the file system is read-only; trace into another directory (-o DIR)",
    ),
    (
        &[20],
        "a part of the path is not a directory",
        "events were lost: a part of the path is not a directory; trace into another one (-o DIR)",
    ),
    (
        &[40],
        "a link has its name",
        "events were lost: a link had the name of a trace file; trace into a directory that only you can write to (-o DIR)",
    ),
    (
        &[17],
        "another file has its name",
        "events were lost: another file had the name of a trace file; trace into a directory that only you can write to \
         (-o DIR)",
    ),
    (
        &[116],
        "the file was replaced by another",
        "events were lost: a trace file was replaced by another file; trace into a directory that only you can write to (-o DIR)",
    ),
    (
        &[36],
        "a path that is too long",
        "events were lost: the path of the trace is too long; trace into another directory (-o DIR)",
    ),
    (&[5], "a disk error", "events were lost: the disk reported an error; trace into another directory (-o DIR)"),
    (
        &[9],
        "the program changed its root, and no descriptor of the directory was left",
        "events were lost: the program changed its root, and no descriptor of the directory was left",
    ),
    (
        &[19, 95],
        "not supported by the file system",
        "events were lost: the file system of the trace lacks an operation; trace into another directory (-o DIR)",
    ),
    (
        &[UNSEEN_RESULT],
        "libaio results read without its functions",
        "events were lost: libaio results were read without its functions",
    ),
];

fn cause(errno: i32) -> Option<&'static Cause> {
    CAUSES.iter().find(|(numbers, ..)| numbers.contains(&errno))
}

/// Returns the reason in a few words; `None` for errors that have not been seen before.
pub fn reason(errno: i32) -> Option<&'static str> {
    cause(errno).map(|(_, reason, _)| *reason)
}

/// Returns the description for a report, with a remedy.
pub fn remark(errno: i32) -> &'static str {
    cause(errno).map_or("events were lost: unknown error; trace into another directory (-o DIR)", |(.., remark)| remark)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_remark_begins_alike() {
        assert!(CAUSES.iter().all(|(.., remark)| remark.starts_with(LOST)) && remark(-1).starts_with(LOST));
    }
}
