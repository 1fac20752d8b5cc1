//! A file in the making: written under a name nobody can foresee, which becomes its own when it is complete.
//!
//! Until then what lay there stays: a full disk or Ctrl-C costs the new file and never the old one. A link that somebody
//! put there is replaced and not followed. A device or a pipe (`/dev/stdout`) is written to as it is.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

/// See the module. Dropped before [`Draft::commit`], it leaves nothing.
pub struct Draft {
    target: Target,
}

enum Target {
    Named(NamedTempFile, PathBuf),
    /// No regular file, or one in a folder where none can be made.
    Open(File),
}

impl Draft {
    /// For a file that the user named: with the rights that files of theirs have.
    pub fn new(path: &Path) -> io::Result<Draft> {
        const AS_THE_MASK_SAYS: u32 = 0o666;
        Draft::with_mode(path, AS_THE_MASK_SAYS)
    }

    /// For a file that is nobody else's affair.
    pub fn private(path: &Path) -> io::Result<Draft> {
        const OWN: u32 = 0o600;
        Draft::with_mode(path, OWN)
    }

    fn with_mode(path: &Path, mode: u32) -> io::Result<Draft> {
        let there = std::fs::metadata(path).ok();
        if there.as_ref().is_some_and(|facts| !facts.is_file()) {
            return Ok(Draft { target: Target::Open(OpenOptions::new().write(true).open(path)?) });
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut prefix = std::ffi::OsString::from(".");
        prefix.push(path.file_name().unwrap_or_default());
        let mut maker = tempfile::Builder::new();
        maker.prefix(&prefix).suffix(".part").permissions(Permissions::from_mode(mode));
        match maker.tempfile_in(folder) {
            Ok(file) => Ok(Draft { target: Target::Named(file, path.to_path_buf()) }),
            // The file may be theirs where the folder is not.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && there.is_some() => {
                let file = OpenOptions::new().write(true).truncate(true).open(path)?;
                Ok(Draft { target: Target::Open(file) })
            }
            // Without the name of a draft, which nobody has heard of.
            Err(error) => Err(system_error(&error.to_string()).unwrap_or(error)),
        }
    }

    pub fn file(&self) -> &File {
        match &self.target {
            Target::Named(file, _) => file.as_file(),
            Target::Open(file) => file,
        }
    }

    /// The file is complete and takes its name.
    pub fn commit(self) -> io::Result<()> {
        match self.target {
            Target::Named(file, path) => file.persist(path).map(drop).map_err(|error| error.error),
            Target::Open(_) => Ok(()),
        }
    }
}

/// The destination of results: standard output, or a file that takes its name when all of them are in it.
pub struct Output {
    stdout: Option<io::BufWriter<Box<dyn Write + Send>>>,
    draft: Option<io::BufWriter<Draft>>,
}

impl Write for Draft {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file().flush()
    }
}

impl Output {
    /// To a file, or else to where `stdout` leads.
    pub fn to(path: Option<&Path>, stdout: impl Write + Send + 'static) -> io::Result<Output> {
        let draft = path.map(Draft::new).transpose()?.map(io::BufWriter::new);
        let stdout: Option<Box<dyn Write + Send>> = draft.is_none().then(|| Box::new(stdout) as _);
        let stdout = stdout.map(io::BufWriter::new);
        Ok(Output { stdout, draft })
    }

    /// Everything has been written.
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
            (None, None) => unreachable!("nothing is written behind the end"),
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.place().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        match (&mut self.draft, &mut self.stdout) {
            (Some(draft), _) => draft.flush(),
            (None, Some(stdout)) => stdout.flush(),
            (None, None) => Ok(()),
        }
    }
}

/// The system's error behind one of which a library kept the words alone, or added some of its own.
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
        let mut draft = Draft::new(&path).unwrap();
        draft.write_all(b"half").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        drop(draft);
        assert_eq!((std::fs::read(&path).unwrap(), names(folder.path())), (b"old".to_vec(), vec!["report".into()]));
        let mut draft = Draft::new(&path).unwrap();
        draft.write_all(b"new").unwrap();
        draft.commit().unwrap();
        assert_eq!((std::fs::read(&path).unwrap(), names(folder.path())), (b"new".to_vec(), vec!["report".into()]));
    }

    #[test]
    fn a_place_that_cannot_be_written_is_not_called_by_a_drafts_name() {
        let error = Draft::new(Path::new("/nowhere/report")).map(drop).unwrap_err().to_string();
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
    fn what_is_private_is_read_by_nobody_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kept");
        Draft::private(&path).unwrap().commit().unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_device_is_written_to() {
        Draft::new(Path::new("/dev/null")).unwrap().commit().unwrap();
        assert!(!std::fs::metadata("/dev/null").unwrap().is_file());
    }
}
