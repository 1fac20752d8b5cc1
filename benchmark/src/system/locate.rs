//! Finds the other parts of an installation: next to this program, in neighboring directories, or on the PATH.

use std::ffi::OsString;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};
use std::{env, fs};

use crate::failure::{Failure, Outcome};

pub const LIBRARY: &str = "libdliotrace.so";
pub const MPI_LIBRARY: &str = "libdlio_mpi.so";

fn own_folder() -> Option<PathBuf> {
    env::current_exe().ok()?.parent().map(Path::to_path_buf)
}

/// Returns the tracing library: the one that DLIO_LIB names (a file or a directory), or one next to the program or in
/// ../lib.
pub fn library() -> Option<PathBuf> {
    library_called(LIBRARY, "DLIO_LIB")
}

/// Returns the MPI library: the one that DLIO_MPI_LIB names, or one in the same places as the tracing library.
pub fn mpi_library() -> Option<PathBuf> {
    library_called(MPI_LIBRARY, "DLIO_MPI_LIB")
}

fn library_called(name: &str, variable: &str) -> Option<PathBuf> {
    let named = env::var_os(variable).map(PathBuf::from);
    let own = own_folder();
    let places = named.iter().flat_map(|place| [place.clone(), place.join(name)]);
    let beside = own.iter().flat_map(|own| [own.join(name), own.join("../lib").join(name)]);
    places.chain(beside).find(|file| file.is_file()).and_then(|file| file.canonicalize().ok())
}

/// Returns the path of another program of the installation, such as dlio-analyze.
pub fn program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = own_folder().into_iter().chain(env::split_paths(&path));
    folders.map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// The value of LD_PRELOAD for one job.
pub struct Preload {
    pub value: OsString,
    /// The path in it of the library.
    pub library: PathBuf,
    /// A temporary directory with a link to the library's directory; removed when the job is done.
    link: Option<PathBuf>,
}

impl Drop for Preload {
    fn drop(&mut self) {
        if let Some(folder) = &self.link {
            let _ = fs::remove_file(folder.join(LINK));
            let _ = fs::remove_dir(folder);
        }
    }
}

const LINK: &str = "lib";

/// Returns LD_PRELOAD with the library before the existing entries. The loader does not accept a path with a space or a
/// colon: such a path is replaced by a link to its directory, so that neighboring files of the library are found too.
pub fn preload(library: &Path) -> Outcome<Preload> {
    check(library)?;
    let (mut value, mut link) = (library.as_os_str().to_os_string(), None);
    if !is_loadable(library) {
        let folder = linked(library).map_err(|error| {
            let what = format!("cannot load {}: its path contains a space or a colon", library.display());
            Failure::refused(format!("{what}, and creating a link to it failed ({error})"))
                .remedy("install it in a directory without them, or set TMPDIR to one")
        })?;
        value = folder.join(LINK).join(library.file_name().unwrap_or_default()).into_os_string();
        link = Some(folder);
    }
    let loaded = PathBuf::from(&value);
    if let Some(present) = env::var_os("LD_PRELOAD").filter(|present| !present.is_empty()) {
        value.push(":");
        value.push(present);
    }
    Ok(Preload { value, library: loaded, link })
}

/// Returns `true` if LD_PRELOAD can contain the path: the loader splits it at spaces and colons, and expands `$ORIGIN`.
fn is_loadable(path: &Path) -> bool {
    !path.as_os_str().as_bytes().iter().any(|byte| b" :$\t\n".contains(byte))
}

/// Creates a directory with a link in it. The directory is accessible to other users, because programs of other users
/// may be started.
fn linked(library: &Path) -> io::Result<PathBuf> {
    let runtime = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let places = [env::temp_dir(), PathBuf::from("/tmp"), PathBuf::from("/dev/shm")].into_iter().chain(runtime);
    let mut failed = io::Error::other("no directory for it");
    for place in places.filter(|place| place.is_absolute() && is_loadable(place)) {
        let folder = place.join(format!("dlio-{}-{:x}", std::process::id(), RandomState::new().hash_one(library)));
        let made = fs::DirBuilder::new().mode(0o755).create(&folder).and_then(|()| {
            let target = library.parent().unwrap_or(Path::new("/"));
            symlink(target, folder.join(LINK)).inspect_err(|_| _ = fs::remove_dir(&folder))
        });
        match made {
            Ok(()) => return Ok(folder),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

/// Refuses a library that the loader would refuse in each program: one that cannot be read or is for another
/// architecture.
fn check(library: &Path) -> Outcome<()> {
    /// Returns the bytes of a file's header that give word size, byte order and architecture.
    fn kind(file: &Path) -> io::Result<[u8; 8]> {
        let mut head = [0; 20];
        fs::File::open(file)?.read_exact(&mut head)?;
        Ok([head[0], head[1], head[2], head[3], head[4], head[5], head[18], head[19]])
    }
    let refused = |why: String| {
        Failure::refused(format!("cannot use the tracing library {}: {why}", library.display()))
            .remedy("set DLIO_LIB to the library that came with this program")
    };
    let found = kind(library).map_err(|error| refused(error.to_string()))?;
    match env::current_exe().and_then(|own| kind(&own)) {
        Ok(own) if own != found => Err(refused("it is a library for another architecture".into())),
        _ => Ok(()),
    }
}

/// Returns `true` if this process already runs under the library.
pub fn is_traced() -> bool {
    env::var_os("LD_PRELOAD").is_some_and(|value| value.to_string_lossy().contains(LIBRARY))
}
