//! Checks before a run that its outputs can be written, so that a run of several hours does not fail at its end.

use crate::failure::{Failure, Kind, Outcome, reason};
use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Creates the trace directory and returns its absolute path. A test file shows that it is writable. `option` is the
/// option that names another one.
pub fn trace_folder(folder: &Path, umask: u32, option: &str) -> Outcome<PathBuf> {
    let cannot = |error: io::Error| {
        let cause = match error.kind() {
            io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => "it is a file, or below one".into(),
            _ => reason(&error),
        };
        Failure::new(Kind::System, format!("cannot write to the trace directory {}: {cause}", folder.display()))
            .remedy(format!("choose another one with {option}"))
    };
    fs::DirBuilder::new().recursive(true).mode(0o777 & !umask).create(folder).map_err(cannot)?;
    probe(folder).and_then(|()| folder.canonicalize()).map_err(cannot)
}

/// Creates and removes a file.
fn probe(folder: &Path) -> io::Result<()> {
    let probe = folder.join(format!(".dlio-{}-{:x}", std::process::id(), RandomState::new().hash_one(folder)));
    File::create_new(&probe).and_then(|_| fs::remove_file(&probe))
}

/// Creates the directory of a report page, and checks that the page can be written. `trace` is the absolute path of the
/// trace directory.
pub fn report_page(page: &Path, trace: &Path) -> Outcome<()> {
    if page == Path::new("-") {
        return Ok(());
    }
    let cannot = |cause: String| Failure::new(Kind::System, format!("cannot write {}: {cause}", page.display()));
    let refused = |cause: &str, remedy: String| {
        Err(Failure::refused(format!("cannot write {}: {cause}", page.display())).remedy(remedy))
    };
    if page.is_dir() || page.file_name().is_none() {
        return refused("it is a directory", format!("name a file: --report {}", page.join("report.html").display()));
    }
    let folder = page.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let made = fs::create_dir_all(folder).and_then(|()| folder.canonicalize());
    let elsewhere = "choose another file with --report FILE";
    let absolute = made.map_err(|error| cannot(error.to_string()).remedy(elsewhere))?;
    if absolute.starts_with(trace) {
        return refused("it would be a file of the trace", "choose a file outside the trace directory".into());
    }
    // An existing page is replaced by a new file, so the directory must be writable in any case.
    probe(folder).map_err(|error| cannot(error.to_string()).remedy(elsewhere))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unwritable_outputs_are_refused_and_missing_directories_created() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let trace = trace_folder(&at("a/trace"), 0o077, "-o DIR").unwrap();
        assert_eq!(report_page(&at("new/place/report.html"), &trace), Ok(()));
        assert!(at("new/place").is_dir() && fs::read_dir(at("new/place")).unwrap().next().is_none());
        let refused = |page: PathBuf| report_page(&page, &trace).unwrap_err();
        assert!(refused(at("new")).remedy.contains("new/report.html"));
        assert!(refused(at("a/trace/report.html")).what.contains("a file of the trace"));
        assert_eq!(refused("/proc/nowhere/report.html".into()).exit_code(), 4);
        fs::write(at("file"), "").unwrap();
        assert!(refused(at("file/report.html")).what.contains("file/report.html: "));
        let failure = trace_folder(Path::new("/proc/x"), 0o077, "--trace=DIR").unwrap_err();
        assert!(failure.what.contains("/proc/x") && failure.remedy.contains("--trace=DIR"), "{failure}");
    }
}
