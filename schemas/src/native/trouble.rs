//! Reasons for lost events, in words. Files contain the number of the error, which is the kernel's or one of those
//! below.

/// Not an error of a call: results of requests were fetched without the hooked functions.
pub const UNSEEN_RESULT: i32 = i32::MAX;

/// An error, its reason in a sentence, and its description in a report.
type Cause = (&'static [i32], &'static str, &'static str);

/// The common start of all descriptions in a report.
pub const LOST: &str = "events were lost: ";

const CAUSES: &[Cause] = &[
    (&[0], "no room in the ring", "events were lost: no room in the ring; trace again"),
    (&[12], "no memory", "events were lost: there was no memory; give the program more, or run fewer at a time"),
    (
        &[28, 122],
        "no space left",
        "events were lost: the disk of the trace folder was full. Make room, or trace into another folder (-o DIR)",
    ),
    (&[27], "the file size limit", "events were lost: the file size limit was reached; raise it (ulimit -f)"),
    (
        &[2],
        "the folder is gone or cannot be made, or files of the trace were removed",
        "events were lost: files of the trace or their folder were removed or renamed while it was recorded; leave them there",
    ),
    (
        &[23, 24],
        "no descriptor left",
        "events were lost: no descriptor was left; allow the program more of them (ulimit -n)",
    ),
    (
        &[13],
        "no permission",
        "events were lost: no permission to write to the trace folder; trace into another (-o DIR)",
    ),
    (
        &[1, 38],
        "not permitted, as by a filter of system calls (seccomp)",
        "events were lost: a filter of system calls (seccomp) did not permit writing; allow openat and write",
    ),
    (
        &[30],
        "a read-only file system",
        "events were lost: the file system is read-only; trace into another folder (-o DIR)",
    ),
    (
        &[20],
        "a part of the path is not a folder",
        "events were lost: a part of the path is not a folder; trace into another (-o DIR)",
    ),
    (
        &[40],
        "a link is in the place of the file",
        "events were lost: a link had the name of a file of the trace; trace into a folder nobody else can write to (-o DIR)",
    ),
    (
        &[17],
        "another file has its name",
        "events were lost: another file had the name of a file of the trace; trace into a folder nobody else can write to \
         (-o DIR)",
    ),
    (
        &[116],
        "the file was replaced by another",
        "events were lost: a file of the trace was replaced by another; trace into a folder nobody else can write to (-o DIR)",
    ),
    (
        &[36],
        "a path that is too long",
        "events were lost: the path of the trace is too long; trace into another folder (-o DIR)",
    ),
    (&[5], "an error of the disk", "events were lost: the disk reported an error; trace into another folder (-o DIR)"),
    (
        &[9],
        "the program changed its root, and no descriptor of the folder was left",
        "events were lost: the program changed its root, and no descriptor of the folder was left",
    ),
    (
        &[19, 95],
        "the file system cannot do it",
        "events were lost: the file system of the trace cannot do it; trace into another folder (-o DIR)",
    ),
    (
        &[UNSEEN_RESULT],
        "results of libaio fetched past its functions",
        "events were lost: results of libaio were fetched past its functions",
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
    cause(errno).map_or(
        "events were lost: an error that has no name here; trace into another folder (-o DIR)",
        |(.., remark)| remark,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_remark_begins_alike() {
        assert!(CAUSES.iter().all(|(.., remark)| remark.starts_with(LOST)) && remark(-1).starts_with(LOST));
    }
}
