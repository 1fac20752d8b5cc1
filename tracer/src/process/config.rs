//! The configuration, read from the environment once when the library starts.

use std::ffi::{CStr, CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicPtr, Ordering::*};

use dlio_schemas::decimal::decimal;
use dlio_schemas::durations;
use dlio_schemas::env;
use dlio_schemas::ops::Layer;

use crate::kernel::path_buffer::{PATH_MAX, PathBuffer};
use crate::kernel::{machine, sys, variables};
use crate::process::filter::{self, Filter};

/// The format of the file that a process leaves when it ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// A `.pftrace` up to [`AUTO_EVENTS_MAX`] events; a longer trace remains a `.dlt`.
    Auto,
    Native,
    Perfetto,
    Chrome,
}

/// Above this number of events viewers get slow, and writing their file at exit would make the user wait.
pub const AUTO_EVENTS_MAX: u64 = 1_000_000;

#[derive(Debug)]
pub struct Config {
    pub on: bool,
    pub format: Format,
    /// The program that converts the trace after the process has ended; `None` if the process converts it itself.
    pub converter: Option<Vec<u8>>,
    /// One bit per layer, in the order of [`Layer::ALL`].
    pub layers: u32,
    pub min_us: u64,
    /// `true` if the C library's own functions are patched.
    pub inline: bool,
    /// `true` if events are counted from the start and not recorded.
    pub counts: bool,
    /// Size of the trace above which events are counted.
    pub max_bytes: u64,
    /// Length of the period whose events are kept; zero for all.
    pub last_ns: u64,
    /// `true` if calls too short to have blocked are recorded, too.
    pub short_waits: bool,
    pub label: Vec<u8>,
    include: Vec<u8>,
    exclude: Vec<u8>,
    dir: Vec<u8>,
    spool: Vec<u8>,
    filter: Filter,
}

static CONFIG: AtomicPtr<Config> = AtomicPtr::new(std::ptr::null_mut());

/// Returns the configuration. It is not called before [`load`], because nothing is recorded before that.
pub fn get() -> &'static Config {
    let config = CONFIG.load(Acquire);
    assert!(!config.is_null(), "the configuration is loaded before anything is recorded");
    // SAFETY: set once, to a leaked box.
    unsafe { &*config }
}

/// Reads the environment. Prints a message for each invalid value, and continues with the default.
pub fn load() -> &'static Config {
    let config = Box::leak(Box::new(Config::from_environment()));
    CONFIG.store(config, Release);
    config
}

impl Config {
    fn from_environment() -> Config {
        report_unknown_variables();
        if let Some(mask) = umask() {
            sys::set_umask(mask);
        }
        let list = |name| text(name).unwrap_or_default();
        let (include, exclude) = (list(env::INCLUDE), list(env::EXCLUDE));
        let dir = text(env::DIR).unwrap_or_else(|| b"dlio-trace".to_vec());
        // The working directory is read only if a path is relative.
        let cwd = match dir.starts_with(b"/") && include.is_empty() && exclude.is_empty() {
            true => Vec::new(),
            false => working_dir(),
        };
        let dir = absolute(&dir, &cwd);
        let spool = spool_of(&dir);
        let mut own = vec![dir.clone(), spool.clone()];
        own.dedup();
        let all = switch(env::ALL, false);
        let filter = Filter::new(&include, &exclude, &cwd, own, all);
        Config {
            on: switch(env::SWITCH, true),
            format: format(),
            converter: converter(),
            layers: layers(),
            min_us: number(env::MIN_US),
            inline: switch(env::INLINE, false),
            counts: counts(),
            max_bytes: match number(env::MAX_MB) {
                0 => u64::MAX,
                megabytes => megabytes.saturating_mul(1_000_000),
            },
            last_ns: last_ns(),
            short_waits: all,
            label: list(env::LABEL),
            include: filter::absolute(&include, &cwd),
            exclude: filter::absolute(&exclude, &cwd),
            dir,
            spool,
            filter,
        }
    }

    /// Returns the variables whose value depends on the working directory, with a value that does not; empty if a
    /// variable was not set.
    pub fn placed(&self) -> [(&'static str, &[u8]); 4] {
        let spool = if is_spool_given() { self.spool() } else { b"" };
        [(env::DIR, self.dir()), (env::SPOOL, spool), (env::INCLUDE, &self.include), (env::EXCLUDE, &self.exclude)]
    }

    pub fn dir(&self) -> &[u8] {
        &self.dir
    }

    pub fn dir_path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.dir))
    }

    /// Returns the directory of the rings.
    pub fn spool(&self) -> &[u8] {
        &self.spool
    }

    /// Returns the trace directory if the rings are in it, because its file system is local to this host; otherwise
    /// an empty path.
    pub fn local_dir(&self) -> &[u8] {
        if self.has_spool() || is_spool_given() { b"" } else { &self.dir }
    }

    /// Returns `true` if the rings are in another directory than the trace.
    pub fn has_spool(&self) -> bool {
        self.spool != self.dir
    }

    pub fn filter(&self) -> &Filter {
        &self.filter
    }

    /// Creates the directories and their parents, or returns the directory that failed, and why.
    pub fn make_dirs(&self) -> Result<(), (&[u8], i32)> {
        make_dir(&self.dir).map_err(|errno| (self.dir(), errno))?;
        match self.has_spool() {
            true => make_spool(&self.spool).map_err(|errno| (self.spool(), errno)),
            false => Ok(()),
        }
    }
}

/// Returns the directory of the rings for a trace directory.
pub fn spool_of(dir: &[u8]) -> Vec<u8> {
    text(env::SPOOL).map_or_else(|| spool_for(dir), |spool| absolute(&spool, &working_dir()))
}

/// Returns `true` if the user chose the directory of the rings.
pub fn is_spool_given() -> bool {
    variables::variable(env::SPOOL).is_some_and(|folder| !folder.is_empty())
}

/// Not inlined: touching another page of the stack costs as much as ten system calls.
#[cold]
#[inline(never)]
pub fn working_dir() -> Vec<u8> {
    sys::working_dir(&mut [0; PATH_MAX]).to_vec()
}

fn make_dir(path: &[u8]) -> Result<(), i32> {
    let mut part = PathBuffer::new();
    // With a trailing slash, a file with the directory's name is rejected.
    part.push(path).push(b"/");
    if sys::accessible(part.as_c_str(), libc::W_OK | libc::X_OK) {
        return Ok(());
    }
    part.clear();
    // The first error is the cause; that the following directories have no parent is a consequence.
    let mut reason = libc::EEXIST;
    for name in path.split(|&byte| byte == b'/').filter(|name| !name.is_empty()) {
        part.push(b"/").push(name);
        let errno = -sys::make_dir(part.as_c_str()) as i32;
        if reason == libc::EEXIST && errno != 0 && !sys::accessible(part.as_c_str(), libc::F_OK) {
            reason = errno;
        }
    }
    let usable = sys::accessible(part.as_c_str(), libc::W_OK | libc::X_OK);
    match reason {
        _ if usable => Ok(()),
        libc::EEXIST => Err(not_writable(part.as_c_str())),
        errno => Err(errno),
    }
}

/// Returns the reason why an existing directory is not writable.
fn not_writable(path: &CStr) -> i32 {
    match sys::status_at(path) {
        Some(found) if !found.is_folder => libc::ENOTDIR,
        _ if sys::is_read_only(path) => libc::EROFS,
        _ => libc::EACCES,
    }
}

/// Creates the directory of the rings. A directory that the tracer chose itself must belong to this user alone,
/// because others can create directories in its parent.
fn make_spool(path: &[u8]) -> Result<(), i32> {
    make_dir(path)?;
    let mut place = PathBuffer::new();
    place.push(path);
    let chosen = text(env::SPOOL).is_none();
    if chosen && !is_own(place.as_c_str()) { Err(libc::EACCES) } else { Ok(()) }
}

/// Returns `true` if a path is a directory, not a link to one, that belongs to this user and is not writable by any
/// other user.
fn is_own(path: &CStr) -> bool {
    const WRITABLE_BY_OTHERS: u32 = 0o022;
    sys::status_at(path)
        .is_some_and(|found| found.is_folder && found.owner == sys::user_id() && found.mode & WRITABLE_BY_OTHERS == 0)
}

fn text(name: &str) -> Option<Vec<u8>> {
    std::env::var_os(name).map(|value| value.as_bytes().to_vec()).filter(|value| !value.is_empty())
}

fn absolute(path: &[u8], cwd: &[u8]) -> Vec<u8> {
    let joined = if path.starts_with(b"/") { path.to_vec() } else { [cwd, b"/", path].concat() };
    let end = joined.iter().rposition(|&byte| byte != b'/').map_or(0, |at| at + 1);
    joined[..end].to_vec()
}

fn complain(name: &str, value: &[u8], allowed: &str) {
    let parts: [&[u8]; 7] =
        [name.as_bytes(), b"=", value, b" is invalid: expected ", allowed.as_bytes(), b"; ", b"using the default"];
    sys::say(&parts);
}

fn report_unknown_variables() {
    let unknown = |text: &'static [u8]| {
        let name = text.starts_with(env::PREFIX.as_bytes()).then(|| text.split(|&byte| byte == b'=').next())??;
        let name = std::str::from_utf8(name).ok()?;
        (!env::VARIABLES.iter().any(|variable| variable.name == name)).then_some(name)
    };
    for name in variables::all().filter_map(unknown) {
        match env::suggestion(name) {
            Some(known) => {
                sys::say(&[name.as_bytes(), b" is not a variable of dlio; did you mean ", known.as_bytes(), b"?"])
            }
            None => sys::say(&[name.as_bytes(), b" is not a variable of dlio; `dlio trace --help-env` lists them"]),
        }
    }
}

fn switch(name: &str, default: bool) -> bool {
    match text(name).as_deref() {
        None => default,
        Some(b"1" | b"on" | b"true" | b"yes") => true,
        Some(b"0" | b"off" | b"false" | b"no") => false,
        Some(other) => {
            complain(name, other, "0 or 1");
            default
        }
    }
}

fn number(name: &str) -> u64 {
    let Some(value) = text(name) else { return 0 };
    std::str::from_utf8(&value).ok().and_then(|value| value.parse().ok()).unwrap_or_else(|| {
        complain(name, &value, "an integer");
        0
    })
}

/// The period whose events are kept. Summary mode and a maximum size contradict it, and prevail.
fn last_ns() -> u64 {
    let Some(value) = text(env::LAST) else { return 0 };
    let parsed = std::str::from_utf8(&value).ok().and_then(durations::parse);
    match parsed {
        Some(_) if counts() || number(env::MAX_MB) > 0 => {
            sys::say(&[
                env::LAST.as_bytes(),
                b" is ignored, because ",
                env::MODE.as_bytes(),
                b"=summary or ",
                env::MAX_MB.as_bytes(),
                b" is set",
            ]);
            0
        }
        Some(ns) => ns,
        None => {
            complain(env::LAST, &value, durations::EXPECTED);
            0
        }
    }
}

/// Permissions removed from created files, as octal digits.
fn umask() -> Option<u32> {
    let value = text(env::UMASK)?;
    let mask = std::str::from_utf8(&value).ok().and_then(|digits| u32::from_str_radix(digits, 8).ok());
    let valid = mask.filter(|mask| *mask <= 0o777 && mask & 0o700 == 0);
    if valid.is_none() {
        complain(env::UMASK, &value, "octal digits from 000 to 077");
    }
    valid
}

fn format() -> Format {
    match text(env::FORMAT).as_deref() {
        None | Some(b"auto") => Format::Auto,
        Some(b"native") => Format::Native,
        Some(b"perfetto") => Format::Perfetto,
        Some(b"chrome") => Format::Chrome,
        Some(other) => {
            complain(env::FORMAT, other, "auto, native, perfetto or chrome");
            Format::Auto
        }
    }
}

fn converter() -> Option<Vec<u8>> {
    let value = text(env::CONVERT)?;
    match value.strip_prefix(env::CONVERT_LATER.as_bytes()) {
        Some(b"") => Some(Vec::new()),
        Some([b':', name @ ..]) => Some(name.to_vec()),
        _ if value == b"exit" => None,
        _ => {
            complain(env::CONVERT, &value, "exit or later");
            None
        }
    }
}

fn counts() -> bool {
    match text(env::MODE).as_deref() {
        None | Some(b"full") => false,
        Some(b"summary") => true,
        Some(other) => {
            complain(env::MODE, other, "full or summary");
            false
        }
    }
}

fn layers() -> u32 {
    const ALL: u32 = (1 << Layer::ALL.len()) - 1;
    let Some(list) = text(env::LAYERS) else { return ALL };
    let mut bits = 0;
    for name in list.split(|&byte| byte == b',').filter(|name| !name.is_empty()) {
        match std::str::from_utf8(name).ok().and_then(Layer::from_name) {
            Some(layer) => bits |= 1 << layer as u32,
            None if name == b"all" => bits = ALL,
            None => {
                complain(env::LAYERS, name, "posix, stdio, process, app, wait, object, net, hdf5, mpi, device or all")
            }
        }
    }
    if bits == 0 { ALL } else { bits }
}

/// Rings are shared memory: on a network file system they would be slow and not coherent. In that case they are in a
/// local directory, and `dlio trace` or the next process of the run moves them to the trace directory.
fn spool_for(dir: &[u8]) -> Vec<u8> {
    if machine::is_local(dir) {
        return dir.to_vec();
    }
    let above = |path: &&[u8]| {
        let slash = path.iter().rposition(|&byte| byte == b'/').filter(|_| path.len() > 1)?;
        dir.get(..slash.max(1))
    };
    let kind_of = |path: &[u8]| sys::file_system(&CString::new(path).ok()?);
    match std::iter::successors(Some(dir), above).find_map(kind_of) {
        Some(kind) if NETWORK.contains(&kind) => local_spool(&env::SPOOL_ROOTS).unwrap_or_else(|| dir.to_vec()),
        _ => dir.to_vec(),
    }
}

/// Returns a directory of this user in the first of these roots that allows one; `None` if others occupy the name in
/// all of them.
#[inline(never)]
fn local_spool(roots: &[&CStr]) -> Option<Vec<u8>> {
    let mut digits = [0; 20];
    let user = decimal(sys::user_id() as i64, &mut digits);
    let named = |root: &CStr| {
        let mut path = PathBuffer::new();
        path.push(root.to_bytes()).push(b"/").push(env::SPOOL_NAME.as_bytes()).push(user);
        path
    };
    let writable = |path: &&CStr| sys::accessible(path, libc::W_OK | libc::X_OK);
    let free = |path: &PathBuffer| sys::status_at(path.as_c_str()).is_none() || is_own(path.as_c_str());
    let found = roots.iter().copied().filter(writable).map(named).find(free);
    found.map(|path| path.as_bytes().to_vec())
}

/// Magic numbers of network and parallel file systems, and of FUSE, which many of them use.
const NETWORK: &[i64] = &[
    0x6969,      // NFS
    0x0bd0_0bd0, // Lustre
    0x4750_4653, // GPFS
    0xff53_4d42, // CIFS
    0xfe53_4d42, // SMB2
    0x00c3_6400, // Ceph
    0x6573_5546, // FUSE
    0x0102_1997, // 9p
    0x1983_0326, // BeeGFS
    0xaad7_aaea, // PanFS
    0x5346_414f, // AFS
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spool_of_another_user_is_not_used() {
        use std::fs;
        use std::os::unix::fs::{PermissionsExt, chown, symlink};
        let root = std::env::temp_dir().join(format!("dlio-config-{}", std::process::id()));
        let folders = ["first", "second"].map(|name| root.join(name));
        folders.iter().for_each(|folder| fs::create_dir_all(folder).unwrap());
        let names = folders.each_ref().map(|f| std::ffi::CString::new(f.as_os_str().as_bytes()).unwrap());
        let chosen = || local_spool(&[&names[0], &names[1]]);
        let [own, other] = folders.each_ref().map(|folder| folder.join(format!("dlio-spool-{}", sys::user_id())));
        let bytes = |path: &Path| Some(path.as_os_str().as_bytes().to_vec());
        assert_eq!(chosen(), bytes(&own));
        symlink(&root, &own).unwrap();
        assert_eq!(chosen(), bytes(&other), "a link");
        fs::remove_file(&own).unwrap();
        fs::write(&own, "").unwrap();
        assert_eq!(chosen(), bytes(&other), "a file");
        fs::remove_file(&own).unwrap();
        fs::create_dir(&own).unwrap();
        fs::set_permissions(&own, fs::Permissions::from_mode(0o700)).unwrap();
        assert_eq!(chosen(), bytes(&own), "made by an earlier run");
        fs::set_permissions(&own, fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(chosen(), bytes(&other), "open to all");
        fs::write(&other, "").unwrap();
        assert_eq!(chosen(), None, "both taken");
        if sys::user_id() == 0 {
            fs::set_permissions(&own, fs::Permissions::from_mode(0o700)).unwrap();
            chown(&own, Some(61_002), None).unwrap();
            assert_eq!(chosen(), None, "somebody else's");
        }
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn relative_directories_are_made_absolute() {
        assert_eq!(absolute(b"trace/", b"/home/u"), b"/home/u/trace");
        assert_eq!(absolute(b"/trace//", b"/home/u"), b"/trace");
    }
}
