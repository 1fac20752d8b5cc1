//! A file that has no name until it is complete.
//!
//! Until then the previous file remains: a full disk never costs the old file, and a kill or Ctrl-C leaves nothing. On
//! file systems without unnamed files, the new file has an unpredictable temporary name, which is removed on a signal.
//! A link to a file is replaced and not followed. A device or a pipe (`/dev/stdout`) is written to directly, unless
//! another user planted it.

use std::fs::{File, Metadata, OpenOptions, Permissions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, IoSlice, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::{AT_FDCWD, AtFlags};
use nix::unistd::linkat;
use tempfile::NamedTempFile;

use crate::owner;
use crate::unfinished::{Unfinished, unless_finished};

/// A file being written. Leaves nothing if dropped before [`AtomicFile::commit`].
pub struct AtomicFile {
    target: Target,
}

enum Target {
    Unnamed(File, PathBuf),
    Named(NamedTempFile, PathBuf, Unfinished),
    /// Not a regular file, or one in a directory where none can be created.
    Open(File),
}

impl AtomicFile {
    /// Creates a file that the user named, with the usual permissions of their files.
    pub fn new(path: &Path) -> io::Result<AtomicFile> {
        const AS_THE_MASK_SAYS: u32 = 0o666;
        if let Some(there) = special(path)? {
            return Ok(AtomicFile { target: Target::Open(there) });
        }
        match AtomicFile::with_mode(path, AS_THE_MASK_SAYS) {
            // The file may be theirs even if the directory is not.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let file = emptied(path).map_err(|_| error)?;
                Ok(AtomicFile { target: Target::Open(file) })
            }
            made => made,
        }
    }

    /// Creates a private file that the user did not name: it must be new.
    pub fn private(path: &Path) -> io::Result<AtomicFile> {
        const OWN: u32 = 0o600;
        AtomicFile::with_mode(path, OWN)
    }

    fn with_mode(path: &Path, mode: u32) -> io::Result<AtomicFile> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if let Some(file) = unnamed(folder, mode) {
            return Ok(AtomicFile { target: Target::Unnamed(file, path.to_path_buf()) });
        }
        let mut prefix = std::ffi::OsString::from(".");
        prefix.push(path.file_name().unwrap_or_default());
        let mut maker = tempfile::Builder::new();
        maker.prefix(&prefix).suffix(".part").permissions(Permissions::from_mode(mode));
        match maker.tempfile_in(folder) {
            Ok(file) => {
                let left = file.path().to_path_buf();
                let unfinished = unless_finished(move || drop(std::fs::remove_file(&left)));
                Ok(AtomicFile { target: Target::Named(file, path.to_path_buf(), unfinished) })
            }
            // The error without the temporary name, which the user does not know.
            Err(error) => Err(system_error(&error.to_string()).unwrap_or(error)),
        }
    }

    pub fn file(&self) -> &File {
        match &self.target {
            Target::Named(file, ..) => file.as_file(),
            Target::Unnamed(file, _) | Target::Open(file) => file,
        }
    }

    /// Gives the complete file its name.
    pub fn commit(self) -> io::Result<()> {
        match self.target {
            Target::Unnamed(file, path) => name(&file, &path),
            Target::Named(file, path, _unfinished) => file.persist(path).map(drop).map_err(|error| error.error),
            Target::Open(_) => Ok(()),
        }
    }
}

/// Returns the path by which a process reaches one of its open files.
fn open_name(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// Creates an unnamed file, if the file system supports it and it can be named later.
fn unnamed(folder: &Path, mode: u32) -> Option<File> {
    let file = OpenOptions::new().write(true).custom_flags(libc::O_TMPFILE).mode(mode).open(folder).ok()?;
    std::fs::symlink_metadata(open_name(&file)).is_ok().then_some(file)
}

/// Names an unnamed file: directly, or, if the path exists, with another name first.
fn name(file: &File, path: &Path) -> io::Result<()> {
    let link = |path: &Path| -> io::Result<()> {
        Ok(linkat(AT_FDCWD, &open_name(file), AT_FDCWD, path, AtFlags::AT_SYMLINK_FOLLOW)?)
    };
    match link(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        linked => return linked,
    }
    let mut hidden = std::ffi::OsString::from(".");
    hidden.push(path.file_name().unwrap_or_default());
    hidden.push(format!(".{:016x}.part", RandomState::new().build_hasher().finish()));
    let hidden = path.with_file_name(hidden);
    let left = hidden.clone();
    let _unfinished = unless_finished(move || drop(std::fs::remove_file(&left)));
    link(&hidden)?;
    std::fs::rename(&hidden, path).inspect_err(|_| drop(std::fs::remove_file(&hidden)))
}

/// Opens the device or pipe at a path; `None` if a file is to be created.
///
/// A link to one is followed if the user created it, or the system did (`/dev/stdout`); in a directory that everyone
/// may write to, another user's link could point anywhere. A pipe that another user created has that user at its other
/// end.
fn special(path: &Path) -> io::Result<Option<File>> {
    let Ok(itself) = std::fs::symlink_metadata(path) else { return Ok(None) };
    if itself.is_symlink() && !owner::is_believed(&itself) {
        return Ok(None);
    }
    let Ok(there) = std::fs::metadata(path) else { return Ok(None) };
    if there.is_file() {
        return Ok(None);
    }
    if !itself.is_symlink()
        && (itself.file_type().is_fifo() || itself.file_type().is_socket())
        && !owner::is_believed(&itself)
    {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "a pipe of another user"));
    }
    let no_follow = if itself.is_symlink() { 0 } else { libc::O_NOFOLLOW };
    let file = OpenOptions::new().write(true).custom_flags(libc::O_NOCTTY | no_follow).open(path)?;
    let is_same = |now: &Metadata| (now.dev(), now.ino()) == (there.dev(), there.ino());
    match is_same(&file.metadata()?) {
        true => Ok(Some(file)),
        false => Err(io::Error::other("it was replaced in the meantime")),
    }
}

/// Opens and truncates the user's own file in a directory that permits no new one. A link is not followed, and a second
/// hard link is another user's trap: the file would be truncated under both names.
fn emptied(path: &Path) -> io::Result<File> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = OpenOptions::new().write(true).custom_flags(flags).open(path)?;
    let facts = file.metadata()?;
    if !facts.is_file() || facts.nlink() != 1 || !owner::is_own(&facts) {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    file.set_len(0)?;
    Ok(file)
}

/// The destination of results: standard output, or a file that gets its name when it is complete.
pub struct Output {
    stdout: Option<io::BufWriter<Box<dyn Write + Send>>>,
    draft: Option<io::BufWriter<AtomicFile>>,
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file().write(bytes)
    }

    fn write_vectored(&mut self, slices: &[IoSlice]) -> io::Result<usize> {
        self.file().write_vectored(slices)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file().flush()
    }
}

impl Output {
    /// Writes to a file, or to `stdout` without a path.
    pub fn to(path: Option<&Path>, stdout: impl Write + Send + 'static) -> io::Result<Output> {
        let draft = path.map(AtomicFile::new).transpose()?.map(io::BufWriter::new);
        let stdout: Option<Box<dyn Write + Send>> = draft.is_none().then(|| Box::new(stdout) as _);
        let stdout = stdout.map(io::BufWriter::new);
        Ok(Output { stdout, draft })
    }

    /// Completes the output.
    pub fn finish(&mut self) -> io::Result<()> {
        self.flush()?;
        match self.draft.take() {
            Some(draft) => draft.into_inner().map_err(io::IntoInnerError::into_error)?.commit(),
            None => Ok(()),
        }
    }

    fn place(&mut self) -> &mut dyn Write {
        match (&mut self.draft, &mut self.stdout) {
            (Some(draft), _) => draft,
            (None, Some(stdout)) => stdout,
            (None, None) => unreachable!("writes past the end are not possible"),
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.place().write(bytes)
    }

    /// Writes past the buffer: several slices are more than it holds.
    fn write_vectored(&mut self, slices: &[IoSlice]) -> io::Result<usize> {
        self.flush()?;
        match (&mut self.draft, &mut self.stdout) {
            (Some(draft), _) => draft.get_mut().write_vectored(slices),
            (None, Some(stdout)) => stdout.get_mut().write_vectored(slices),
            (None, None) => unreachable!("writes past the end are not possible"),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match (&mut self.draft, &mut self.stdout) {
            (Some(draft), _) => draft.flush(),
            (None, Some(stdout)) => stdout.flush(),
            (None, None) => Ok(()),
        }
    }
}

/// Returns the system's error if a library kept only its message, possibly with text around it.
pub fn system_error(words: &str) -> Option<io::Error> {
    let (_, rest) = words.rsplit_once("(os error ")?;
    rest.split(')').next()?.parse().ok().map(io::Error::from_raw_os_error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = entries.map(|name| name.to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn the_old_file_stays_until_the_new_one_is_complete() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report");
        std::fs::write(&path, "old").unwrap();
        let mut draft = AtomicFile::new(&path).unwrap();
        draft.write_all(b"half").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        drop(draft);
        assert_eq!((std::fs::read(&path).unwrap(), names(folder.path())), (b"old".to_vec(), vec!["report".into()]));
        let mut draft = AtomicFile::new(&path).unwrap();
        draft.write_all(b"new").unwrap();
        draft.commit().unwrap();
        assert_eq!((std::fs::read(&path).unwrap(), names(folder.path())), (b"new".to_vec(), vec!["report".into()]));
    }

    #[test]
    fn error_of_unwritable_path_hides_temporary_name() {
        let error = AtomicFile::new(Path::new("/nowhere/report")).map(drop).unwrap_err().to_string();
        assert_eq!(error, "No such file or directory (os error 2)");
    }

    #[test]
    fn a_link_is_replaced_and_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (path, victim) = (folder.path().join("report"), folder.path().join("victim"));
        std::fs::write(&victim, "theirs").unwrap();
        std::os::unix::fs::symlink(&victim, &path).unwrap();
        let mut output = Output::to(Some(&path), io::sink()).unwrap();
        output.write_all(b"ours").unwrap();
        output.finish().unwrap();
        assert_eq!(
            (std::fs::read(&victim).unwrap(), std::fs::read(&path).unwrap()),
            (b"theirs".to_vec(), b"ours".to_vec())
        );
        assert!(std::fs::symlink_metadata(&path).unwrap().is_file());
    }

    #[test]
    fn private_file_is_readable_by_owner_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kept");
        AtomicFile::private(&path).unwrap().commit().unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn file_has_no_name_before_commit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report");
        let mut draft = AtomicFile::new(&path).unwrap();
        draft.write_all(b"half").unwrap();
        match &draft.target {
            Target::Unnamed(..) => assert_eq!(names(folder.path()), Vec::<String>::new()),
            _ => eprintln!("this file system has no files without names"),
        }
        draft.commit().unwrap();
        assert_eq!(names(folder.path()), ["report"]);
    }

    #[test]
    fn a_file_with_a_second_name_is_not_emptied() {
        let folder = tempfile::tempdir().unwrap();
        let (path, victim, link) = (folder.path().join("a"), folder.path().join("b"), folder.path().join("c"));
        std::fs::write(&victim, "theirs").unwrap();
        std::fs::hard_link(&victim, &path).unwrap();
        std::os::unix::fs::symlink(&victim, &link).unwrap();
        assert!(emptied(&path).is_err() && emptied(&link).is_err());
        std::fs::remove_file(&path).unwrap();
        assert!(emptied(&link).is_err());
        assert_eq!(std::fs::read(&victim).unwrap(), b"theirs");
        assert!(emptied(&victim).is_ok() && std::fs::read(&victim).unwrap().is_empty());
    }

    #[test]
    fn a_device_is_written_to() {
        AtomicFile::new(Path::new("/dev/null")).unwrap().commit().unwrap();
        assert!(!std::fs::metadata("/dev/null").unwrap().is_file());
    }
}
