//! The other parts of an installation: beside this program, in the folders next to it, or on the PATH.

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

/// The tracing library: what DLIO_LIB names (a file or a folder), or one beside the program or in ../lib.
pub fn library() -> Option<PathBuf> {
    library_called(LIBRARY, "DLIO_LIB")
}

/// What talks to an MPI: what DLIO_MPI_LIB names, or one in the same places.
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

/// Another program of the installation, such as dlio-analyze.
pub fn program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = own_folder().into_iter().chain(env::split_paths(&path));
    folders.map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// The value of LD_PRELOAD for one job.
pub struct Preload {
    pub value: OsString,
    /// A folder of our own with a link to the library's folder, which goes when the job is done.
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

/// LD_PRELOAD with the library in front of what is there already. The loader takes no path with a space or a colon in it:
/// such a one is reached by a link to its folder, so that what lies beside the library is found too.
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
    if let Some(present) = env::var_os("LD_PRELOAD").filter(|present| !present.is_empty()) {
        value.push(":");
        value.push(present);
    }
    Ok(Preload { value, link })
}

/// As the loader splits its list, and expands `$ORIGIN`.
fn is_loadable(path: &Path) -> bool {
    !path.as_os_str().as_bytes().iter().any(|byte| b" :$\t\n".contains(byte))
}

/// A new folder that others can look into, as programs of other users may be started, and a link in it.
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

/// Refuses a library that the loader would refuse in each program: one that cannot be read, or is of another machine.
fn check(library: &Path) -> Outcome<()> {
    /// What names width, order of bytes and machine at the beginning of a program or library.
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

/// True if this process runs under the library already.
pub fn is_traced() -> bool {
    env::var_os("LD_PRELOAD").is_some_and(|value| value.to_string_lossy().contains(LIBRARY))
}
