//! The other parts of an installation: beside this program, in the folders next to it, or on the PATH.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

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

/// LD_PRELOAD with the library in front of what is there already.
pub fn preload(library: &Path) -> OsString {
    let mut value = library.as_os_str().to_os_string();
    if let Some(present) = env::var_os("LD_PRELOAD").filter(|present| !present.is_empty()) {
        value.push(":");
        value.push(present);
    }
    value
}

/// True if this process runs under the library already.
pub fn is_traced() -> bool {
    env::var_os("LD_PRELOAD").is_some_and(|value| value.to_string_lossy().contains(LIBRARY))
}
