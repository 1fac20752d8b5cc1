//! Inheritance of tracing: programs that this one starts find the library and its variables in their environment,
//! even if the program passes its own environment to them.

use std::ffi::{CStr, CString, OsStr, OsString, c_char};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicPtr, Ordering::*};

use dlio_schemas::control_groups::Weight;
use dlio_schemas::env;
use dlio_schemas::io_limits::IoLimits;

use crate::kernel::limits::{Folder, Limit, Limits};
use crate::kernel::machine::Machine;
use crate::kernel::path_buffer::PathBuffer;
use crate::kernel::{clock, machine, sys, variables, vdso};
use crate::life::programs::{self, Loading};
use crate::life::{ptrace_request, untraced};
use crate::process::config::{self, Config};
use crate::process::filter;
use crate::thread::stack;
use crate::trace::files::LOCK;

/// The `NAME=value` entries passed to children, LD_PRELOAD first, and the library's own entry in LD_PRELOAD.
struct InheritedEntries {
    variables: Vec<CString>,
    library: Vec<u8>,
}

const PRELOAD: &str = "LD_PRELOAD";
const LIBRARY: &str = "libdliotrace.so";

static INHERITED_ENTRIES: AtomicPtr<InheritedEntries> = AtomicPtr::new(std::ptr::null_mut());

/// Stores the entries for children. Directories and patterns are made absolute, so that they mean the same to a child
/// in another working directory.
pub fn remember(config: &Config) {
    let preload = std::env::var_os(PRELOAD).unwrap_or_default();
    let entries = preload.as_bytes().split(|byte| b": ".contains(byte));
    let Some(library) = entries.into_iter().find(|entry| entry.ends_with(LIBRARY.as_bytes())) else {
        return;
    };
    for (name, value) in config.placed().into_iter().filter(|(_, value)| !value.is_empty()) {
        if variables::variable(name) != Some(value) {
            // SAFETY: this runs while the library starts, before the program has threads of its own.
            unsafe { std::env::set_var(name, OsStr::from_bytes(value)) };
        }
    }
    let is_preload = |text: &[u8]| text.strip_prefix(PRELOAD.as_bytes()).is_some_and(|rest| rest.starts_with(b"="));
    let is_ours = |text: &[u8]| text.starts_with(env::PREFIX.as_bytes()) && !text.starts_with(env::BORN.as_bytes());
    let wanted = |text: &&[u8]| is_ours(text) || is_preload(text);
    let mut variables: Vec<CString> =
        variables::all().filter(wanted).filter_map(|text| CString::new(text).ok()).collect();
    variables.sort_by_key(|pair| !pair.as_bytes().starts_with(PRELOAD.as_bytes()));
    INHERITED_ENTRIES.store(Box::leak(Box::new(InheritedEntries { variables, library: library.to_vec() })), Release);
}

/// Returns a list of patterns that means the same to all programs that `dlio trace` starts, wherever they run. A
/// pattern with a symbolic link is also included with the kernel's name for its directory, because a program that
/// works in that directory opens files below it.
pub fn patterns_from_here(list: &OsStr) -> OsString {
    let absolute = filter::absolute(list.as_bytes(), &config::working_dir());
    let mut patterns: Vec<Vec<u8>> = Vec::new();
    for pattern in absolute.split(|&byte| byte == b':').filter(|pattern| !pattern.is_empty()) {
        let named = named_by_the_kernel(pattern).filter(|named| named != pattern && !named.contains(&b':'));
        patterns.extend([pattern.to_vec()].into_iter().chain(named));
    }
    OsString::from_vec(patterns.join(&b':'))
}

/// Returns a pattern in which the directories before the first wildcard have the kernel's names, as far as they
/// exist.
fn named_by_the_kernel(pattern: &[u8]) -> Option<Vec<u8>> {
    let literal = pattern.iter().position(|byte| b"*?[".contains(byte)).unwrap_or(pattern.len());
    let ends = (1..=literal).rev().filter(|end| matches!(pattern.get(*end), None | Some(b'/')));
    let found = |end: usize| Some((Path::new(OsStr::from_bytes(&pattern[..end])).canonicalize().ok()?, end));
    let (folder, end) = ends.into_iter().find_map(found).filter(|_| pattern.starts_with(b"/"))?;
    Some([folder.as_os_str().as_bytes(), &pattern[end..]].concat())
}

/// Returns the variable with the facts about this host, so that programs started by `dlio trace` do not have to query
/// them. `folder` is their trace directory.
pub fn of_machine(folder: &[u8]) -> Option<(&'static OsStr, &'static OsStr)> {
    vdso::find();
    clock::start();
    {
        let _held = LOCK.take()?;
        let is_local = !config::is_spool_given() && config::spool_of(folder) == folder;
        Machine::query(if is_local { folder } else { b"" });
    }
    let (name, value) = machine::entry()?.to_str().ok()?.split_once('=')?;
    Some((OsStr::new(name), OsStr::new(value)))
}

/// The control groups of this process: see [`control_groups`].
pub struct ControlGroups {
    /// CPU time per second that the groups may use; `None` without a quota.
    pub cpu_quota: Option<f64>,
    /// Directory of the group with that quota, or of the process's own group without a quota; `None` if unknown.
    pub cpu_group: Option<PathBuf>,
    /// CPU weight of the process's own group; `None` if unknown.
    pub cpu_weight: Option<Weight>,
    /// Memory limit in bytes; `None` without a limit.
    pub memory_limit: Option<u64>,
    pub memory_group: Option<PathBuf>,
    /// Limits on the I/O of devices; `None` if unknown.
    pub io: Option<IoLimits>,
}

/// Reads the limits of this process's control groups from the kernel. `root` is empty except in tests.
pub fn control_groups(root: &Path) -> ControlGroups {
    let _held = LOCK.take();
    let limits = Limits::query(root.as_os_str().as_bytes());
    let folder = |folder: &Folder| {
        let path = Path::new(OsStr::from_bytes(folder.path()));
        (*folder != Folder::UNKNOWN).then(|| path.to_path_buf())
    };
    let known = |limit: Limit| if let Limit::Of(number) = limit { Some(number) } else { None };
    ControlGroups {
        cpu_quota: known(limits.quota).map(|thousandths| thousandths as f64 / 1000.0),
        cpu_group: folder(&limits.cpu_group),
        cpu_weight: limits.weight,
        memory_limit: known(limits.memory),
        memory_group: folder(&limits.memory_group),
        io: limits.io,
    }
}

/// Returns `true` if this process was started traced.
pub fn is_traced() -> bool {
    !INHERITED_ENTRIES.load(Acquire).is_null()
}

/// Maximum number of entries in an environment on the stack. A larger one is passed on unchanged.
const ENTRIES_MAX: usize = 4096;

/// The thread that becomes the program, as in a [`ptrace_request`].
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Starter {
    ThisThread = ptrace_request::THIS_THREAD,
    /// A child that the C library creates, as in `posix_spawn`.
    Child = ptrace_request::CHILD,
}

/// Calls `exec` with the given environment and the entries that it lacks for the named program. If the environment
/// cannot be read, it is passed on unchanged, for the kernel to reject. If the library would prevent the program from
/// starting, the library is removed. `born` contains the process's facts for the program that it becomes. Allocates
/// nothing: the caller may be the child of a vfork.
///
/// # Safety
/// `given` is null or a null-terminated list of strings.
pub unsafe fn with_inherited<T>(
    program: Option<&CStr>,
    starter: Starter,
    given: *const *const c_char,
    born: Option<&CStr>,
    exec: impl FnOnce(*const *const c_char) -> T,
) -> T {
    let carried = INHERITED_ENTRIES.load(Acquire);
    // SAFETY: set once, to a leaked box.
    let Some(carried) = (unsafe { carried.as_ref() }) else { return exec(given) };
    let Some(room) = EnvironmentBuffers::of_this_thread() else { return exec(given) };
    let EnvironmentBuffers { list, preload } = room;
    let loads = program.is_none_or(|program| stack::with_stack_space(|| may_load(program, starter, preload)));
    let mut used = 0;
    // SAFETY: `given` is a null-terminated list; our copy ends with an entry that stays null.
    unsafe {
        while !given.is_null() {
            let place = given.add(used);
            let unseen = used == 0 || place.addr().is_multiple_of(sys::PAGE);
            if unseen && !sys::are_readable(&[place.cast()]) {
                return exec(given);
            }
            if (*place).is_null() {
                break;
            }
            if used + carried.variables.len() + 3 >= ENTRIES_MAX {
                return exec(given);
            }
            list[used] = *place;
            used += 1;
        }
        if !sys::are_readable(&list[..used]) {
            return exec(given);
        }
        let machine = machine::entry();
        for entry in &mut list[..used] {
            *entry = match (born, machine) {
                (Some(born), _) if is_variable(*entry, env::BORN.as_bytes()) => born.as_ptr(),
                (_, Some(machine)) if is_variable(*entry, env::MACHINE.as_bytes()) => machine.as_ptr(),
                _ if loads => preloading(*entry, &carried.library, preload),
                _ => without(*entry, preload),
            };
        }
    }
    let given_entries = used;
    let told = carried.variables.iter().map(CString::as_c_str).skip(!loads as usize);
    for variable in told.chain(machine::entry()).chain(born) {
        let name = variable.to_bytes().split(|&byte| byte == b'=').next().unwrap_or_default();
        // SAFETY: the entries are strings.
        let has = |entry: &&*const c_char| unsafe { is_variable(**entry, name) };
        if !list[..given_entries].iter().any(|entry| has(&entry)) {
            list[used] = variable.as_ptr();
            used += 1;
        }
    }
    list[used] = std::ptr::null();
    exec(list.as_ptr())
}

/// Returns `true` if the library may be in the environment of the named program. A program that will leave no trace
/// is noted, unless `dlio trace` records it by ptrace. `path` is a buffer for the search.
fn may_load(program: &CStr, starter: Starter, path: &mut PathBuffer) -> bool {
    let loading = programs::loading_in(program, path);
    let by_ptrace = ptrace_request::is_possible(loading);
    if loading != Loading::Works && !(by_ptrace && ptrace_request::send(starter as u8)) {
        untraced::note(path.as_c_str(), loading);
    }
    loading.is_harmless()
}

/// Buffers for the new environment, too large for a small stack.
struct EnvironmentBuffers {
    list: [*const c_char; ENTRIES_MAX],
    preload: PathBuffer,
}

impl EnvironmentBuffers {
    fn of_this_thread() -> Option<&'static mut EnvironmentBuffers> {
        let (memory, size) = stack::scratch();
        assert!(size_of::<EnvironmentBuffers>() <= size);
        // SAFETY: memory of this thread, large enough, aligned to a page, and not used by anything else; any previous
        // bits are a valid value of every part except the text's length, which is set here.
        unsafe {
            let room = memory.cast::<EnvironmentBuffers>();
            (!room.is_null()).then(|| {
                (&raw mut (*room).preload).write(PathBuffer::new());
                &mut *room
            })
        }
    }
}

/// # Safety
/// `entry` is a terminated string.
unsafe fn is_variable(entry: *const c_char, name: &[u8]) -> bool {
    // SAFETY: the caller passes a string.
    let text = unsafe { CStr::from_ptr(entry) }.to_bytes();
    text.strip_prefix(name).is_some_and(|rest| rest.starts_with(b"="))
}

/// Returns the entry, or a copy that loads our library before all others.
///
/// # Safety
/// `entry` is a terminated string.
unsafe fn preloading(entry: *const c_char, library: &[u8], into: &mut PathBuffer) -> *const c_char {
    // SAFETY: the caller passes a string.
    let text = unsafe { CStr::from_ptr(entry) }.to_bytes();
    let Some(value) = text.strip_prefix(b"LD_PRELOAD=") else { return entry };
    if value.windows(LIBRARY.len()).any(|window| window == LIBRARY.as_bytes()) {
        return entry;
    }
    into.clear();
    into.push(b"LD_PRELOAD=").push(library).push(b":").push(value);
    into.as_c_str().as_ptr()
}

/// Returns the entry, or a copy without our library.
///
/// # Safety
/// `entry` is a terminated string.
unsafe fn without(entry: *const c_char, into: &mut PathBuffer) -> *const c_char {
    // SAFETY: the caller passes a string.
    let text = unsafe { CStr::from_ptr(entry) }.to_bytes();
    let Some(value) = text.strip_prefix(b"LD_PRELOAD=") else { return entry };
    into.clear();
    into.push(b"LD_PRELOAD=");
    let others = value.split(|byte| b": ".contains(byte)).filter(|library| !library.ends_with(LIBRARY.as_bytes()));
    for library in others {
        into.push(library).push(b":");
    }
    into.as_c_str().as_ptr()
}
