//! Everything that events refer to by number: strings, files, kinds of event, processes, hosts.
//!
//! The threads that read a trace share one catalog. Events contain numbers only; a number has one meaning in every
//! batch, so that counting needs no strings. The catalog grows while foreign formats are read, because they name things
//! on first use.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, RwLock};

use dlio_schemas::objects::{self, Object};
use dlio_schemas::ops::{Class, Layer, OPS, Op};
use foldhash::fast::RandomState;
use serde::{Deserialize, Serialize};

use crate::argument_key::ArgumentKey;
use crate::resources::Resources;

/// No file.
pub const FILE_NONE: u32 = 0;

/// A kind of event, in the three columns `name`, `cat` and `class`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Kind {
    pub name: Arc<str>,
    pub cat: Arc<str>,
    pub class: Class,
    pub origin: Origin,
}

impl Kind {
    /// Returns the layer that was called; `app` for events that the program recorded itself.
    pub fn layer(&self) -> &str {
        if self.origin == Origin::Call { &self.cat } else { Layer::App.name() }
    }
}

/// The origin of an event.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Origin {
    /// A recorded call.
    Call,
    /// An event that the program recorded itself.
    Span,
    Instant,
    Counter,
}

/// Classes of spans by category; the first matching row applies. A category matches a row if it starts with the row's
/// word, in any case.
pub const SPAN_CLASSES: &[(&str, Class)] = &[
    ("compute", Class::Compute),
    // PyTorch's profiler: operators, and events on a device.
    ("cpu_op", Class::Compute),
    ("kernel", Class::Compute),
    // The device may be idle in these.
    ("gpu_user_annotation", Class::Other),
    ("gpu_idle", Class::Other),
    ("gpu", Class::Compute),
    ("framework", Class::Compute),
    ("data", Class::Read),
    ("reader", Class::Read),
    ("fetch", Class::Read),
    ("io", Class::Read),
    ("checkpoint", Class::Write),
];

/// Returns the class of a span of this category.
pub fn span_class(category: &str) -> Class {
    let begins = |word: &str| category.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
    SPAN_CLASSES.iter().find(|(word, _)| begins(word)).map_or(Class::Other, |(_, class)| *class)
}

/// One process image.
#[derive(Clone, Default, Debug, Serialize, Deserialize)]
pub struct Process {
    pub host: u32,
    pub pid: i32,
    pub ppid: Option<i32>,
    pub rank: Option<i32>,
    /// The unique name of the `dlio trace` command that it belongs to.
    #[serde(default)]
    pub run: Option<String>,
    /// The job it was part of, as numbered by a batch system.
    pub job: Option<String>,
    pub program: Option<String>,
    pub command: Option<String>,
    pub cwd: Option<String>,
    pub start_ts: Option<i64>,
    pub end_ts: Option<i64>,
    pub ended: String,
    pub lost: u64,
    /// The number of these calls that were only counted, not recorded.
    pub aggregated: u64,
    pub filtered: u64,
    pub names_lost: u64,
    pub misused_spans: u64,
    pub tracer_ns: Option<i64>,
    /// `true` if `dlio trace` recorded it by ptrace, because the library cannot enter its program.
    #[serde(default)]
    pub by_ptrace: bool,
    /// Unix time minus boot time, as the process itself saw it; `None` if not recorded.
    #[serde(default)]
    pub clock_offset_ns: Option<i64>,
    pub source: String,
    /// Names of the threads that have one.
    pub threads: Vec<(i32, String)>,
    /// Resources that it was allowed to use, and its use of them.
    #[serde(default)]
    pub resources: Resources,
    /// The profile whose events were added to its own, of the same process.
    #[serde(default)]
    pub profile: Option<String>,
    /// If it kept only the events of the last period.
    #[serde(default)]
    pub recorder: Option<Recorder>,
}

/// The events that a process kept as a flight recorder.
#[derive(Clone, Default, Debug, Serialize, Deserialize)]
pub struct Recorder {
    /// Unix time from which it has all events; `None` if it has dropped none.
    pub kept_from: Option<i64>,
    pub dropped: u64,
    /// Recorded events that are not in its counts, because it was killed.
    pub uncounted: u64,
}

/// One host, or one boot of it.
#[derive(Clone, Default, Debug, PartialEq, Serialize, Deserialize)]
pub struct Host {
    pub name: String,
    pub boot_id: Option<String>,
    pub cores: Option<i32>,
    pub memory: Option<i64>,
    pub kernel: Option<String>,
    /// Unix time minus boot time, as used for every event of the host.
    pub clock_offset_ns: i64,
    /// The range of this offset among the processes of the host: steps of the wall clock while it ran.
    pub clock_spread_ns: i64,
}

/// Strings by number, each once.
#[derive(Default)]
struct Strings {
    numbers: HashMap<Arc<str>, u32, RandomState>,
    texts: Vec<Arc<str>>,
    aliases: Vec<(u32, u32)>,
}

impl Strings {
    fn number(&mut self, text: &str) -> u32 {
        if let Some(&number) = self.numbers.get(text) {
            return number;
        }
        let number = self.texts.len() as u32;
        let text: Arc<str> = text.into();
        self.texts.push(text.clone());
        self.numbers.insert(text, number);
        number
    }

    /// Returns the number of a file. One of many objects of a kind, such as a pipe, has a separate number, and is
    /// merged with its kind where files are counted.
    fn file(&mut self, path: &str) -> u32 {
        let kind = if self.numbers.contains_key(path) { None } else { objects::shared_name(path) };
        let kind = kind.map(|kind| self.number(kind));
        let number = self.number(path);
        self.aliases.extend(kind.map(|kind| (number, kind)));
        number
    }
}

#[derive(Default)]
struct Kinds {
    numbers: HashMap<Kind, u32, RandomState>,
    rows: Vec<Kind>,
    /// Distinct categories, in the order in which kinds were named, and their positions.
    categories: Vec<Arc<str>>,
    places: HashMap<Arc<str>, u32, RandomState>,
    /// By kind.
    category_of: Vec<u32>,
}

impl Kinds {
    fn number(&mut self, mut kind: Kind, most: usize) -> u32 {
        if let Some(&number) = self.numbers.get(&kind) {
            return number;
        }
        if self.rows.len() >= most && kind.name.as_ref() != OTHER_NAMES {
            // There are as many of these as categories, which may be too many too.
            let is_known = self.places.contains_key(&kind.cat);
            let cat = if is_known { kind.cat } else { OTHER_NAMES.into() };
            return self.number(Kind { name: OTHER_NAMES.into(), cat, ..kind }, most);
        }
        let place = match self.places.get(&kind.cat) {
            Some(&place) => place,
            None => {
                self.categories.push(kind.cat.clone());
                self.places.insert(kind.cat.clone(), self.categories.len() as u32 - 1);
                self.categories.len() as u32 - 1
            }
        };
        kind.cat = self.categories[place as usize].clone();
        self.category_of.push(place);
        self.rows.push(kind.clone());
        self.numbers.insert(kind, self.rows.len() as u32 - 1);
        self.rows.len() as u32 - 1
    }
}

/// The name of all events whose own names did not fit in memory.
pub const OTHER_NAMES: &str = "(other names)";

/// Approximate memory per name while a trace is read and counted.
const NAME_BYTES: u64 = 2048;

/// The default maximum number of names.
const NAMES_MAX: usize = 1 << 19;

/// The catalog of a trace.
pub struct Catalog {
    files: Mutex<Strings>,
    texts: Mutex<Strings>,
    kinds: Mutex<Kinds>,
    /// The maximum number of kinds with separate numbers.
    kinds_max: AtomicUsize,
    processes: RwLock<Vec<Process>>,
    hosts: RwLock<Vec<Host>>,
}

impl Default for Catalog {
    fn default() -> Catalog {
        let mut files = Strings::default();
        files.number("");
        let mut texts = Strings::default();
        for key in ArgumentKey::ALL {
            texts.number(key.name());
        }
        let mut kinds = Kinds::default();
        for info in OPS {
            let kind = Kind {
                name: info.name.into(),
                cat: info.layer.name().into(),
                class: info.class,
                origin: if info.layer == Layer::App { Origin::Span } else { Origin::Call },
            };
            kinds.number(kind, NAMES_MAX);
        }
        Catalog {
            files: Mutex::new(files),
            texts: Mutex::new(texts),
            kinds: Mutex::new(kinds),
            kinds_max: NAMES_MAX.into(),
            processes: RwLock::default(),
            hosts: RwLock::default(),
        }
    }
}

impl Catalog {
    /// Returns the kind of an operation in the list, identical in every catalog.
    pub fn kind_of_op(op: Op) -> Option<u32> {
        OPS.iter().position(|info| info.op == op).map(|row| row as u32)
    }

    pub fn kind(&self, kind: Kind) -> u32 {
        let most = self.kinds_max.load(Ordering::Relaxed);
        self.kinds.lock().expect("kinds").number(kind, most)
    }

    /// Returns the kind of a call that only read, given the kind of one that usually does more.
    pub fn reading(&self, kind: u32) -> u32 {
        let known = self.kinds.lock().expect("kinds").rows.get(kind as usize).cloned();
        known.map_or(kind, |known| self.kind(Kind { class: Class::Read, ..known }))
    }

    /// Sets the memory for names of events. Names that do not fit are merged as [`OTHER_NAMES`].
    pub fn allow_names(&self, memory: u64) {
        let names = (memory / NAME_BYTES).try_into().unwrap_or(usize::MAX);
        self.kinds_max.store(names.max(2 * OPS.len()), Ordering::Relaxed);
    }

    /// Returns `true` if names of events did not fit.
    pub fn lacks_names(&self) -> bool {
        let kinds = self.kinds.lock().expect("kinds");
        kinds.rows.len() > self.kinds_max.load(Ordering::Relaxed)
    }

    /// Returns the kind of a call with this name, in any format.
    pub fn call(&self, name: &str, layer: &str) -> u32 {
        self.call_of_class(name, layer, Class::Other)
    }

    /// Returns the kind of a call; the class is for calls that are not in the list of operations.
    pub fn call_of_class(&self, name: &str, layer: &str, class: Class) -> u32 {
        let known = OPS.iter().position(|info| info.name == name && info.layer.name() == layer);
        known.map_or_else(
            || self.kind(Kind { name: name.into(), cat: layer.into(), class, origin: Origin::Call }),
            |row| row as u32,
        )
    }

    /// Returns the kind of a call that moves bytes, in any layer.
    pub fn moving(&self, name: &str, layer: &str) -> u32 {
        let class = if name.contains("write") { Class::Write } else { Class::Read };
        match Op::from_name(name).and_then(Op::info).filter(|info| info.layer.name() == layer) {
            Some(info) => Catalog::kind_of_op(info.op).unwrap_or(0),
            None => self.kind(Kind { name: name.into(), cat: layer.into(), class, origin: Origin::Call }),
        }
    }

    /// Returns the kind of a span, classified by its category.
    pub fn span(&self, name: &str, category: &str) -> u32 {
        self.app_kind(name, category, Origin::Span)
    }

    /// Returns the kind of a span, instant or counter; only a span has a class by category.
    pub fn app_kind(&self, name: &str, category: &str, origin: Origin) -> u32 {
        let class = match origin {
            // PyTorch's profiler records the wait for a batch under this name; its category is that of any user
            // annotation.
            Origin::Span if name.starts_with("enumerate(DataLoader)") => Class::Read,
            Origin::Span => span_class(category),
            _ => Class::Other,
        };
        self.kind(Kind { name: name.into(), cat: category.into(), class, origin })
    }

    /// Returns a kind given the columns of a table.
    pub fn restored(&self, name: &str, cat: &str, class: &str, layer: &str) -> u32 {
        let origin = if layer == Layer::App.name() { Origin::Span } else { Origin::Call };
        let class = Class::ALL.into_iter().find(|known| known.name() == class).unwrap_or(Class::Other);
        self.kind(Kind { name: name.into(), cat: cat.into(), class, origin })
    }

    pub fn kinds(&self) -> Vec<Kind> {
        self.kinds_from(0)
    }

    /// Returns the kinds from number `from`: those added since a previous call.
    pub fn kinds_from(&self, from: usize) -> Vec<Kind> {
        self.kinds.lock().expect("kinds").rows.get(from..).unwrap_or_default().to_vec()
    }

    /// Returns the distinct categories, in the order in which kinds were named.
    pub fn categories(&self) -> Vec<Arc<str>> {
        self.kinds.lock().expect("kinds").categories.clone()
    }

    /// Returns the position of each kind's category, from kind number `from`.
    pub fn categories_from(&self, from: usize) -> Vec<u32> {
        self.kinds.lock().expect("kinds").category_of.get(from..).unwrap_or_default().to_vec()
    }

    pub fn file(&self, path: &str) -> u32 {
        self.files.lock().expect("files").file(path)
    }

    /// Returns the object that a file's name identifies: a pipe, a socket, a connection.
    pub fn object_of(&self, file: u32) -> Option<Object> {
        Object::parse(&self.path(file))
    }

    /// Sets the path of a file that was unknown when it was first named. If another file already has that path, the two
    /// are merged: see [`Catalog::aliases`].
    pub fn rename_file(&self, file: u32, path: &str) {
        let files = &mut *self.files.lock().expect("files");
        let Some(text) = files.texts.get_mut(file as usize).filter(|text| text.as_ref() != path) else { return };
        *text = path.into();
        match files.numbers.get(path) {
            Some(&first) => files.aliases.push((file, first)),
            None => drop(files.numbers.insert(text.clone(), file)),
        }
    }

    /// Returns files with two numbers, with the first of both; and objects, each with the number of all of its kind.
    pub fn aliases(&self) -> Vec<(u32, u32)> {
        self.files.lock().expect("files").aliases.clone()
    }

    /// Returns the numbers of many files, under one lock.
    pub fn file_numbers<'a>(&self, paths: impl Iterator<Item = std::borrow::Cow<'a, str>>) -> Vec<u32> {
        let mut files = self.files.lock().expect("files");
        paths.map(|path| files.file(&path)).collect()
    }

    /// Returns all paths; number 0 means no file.
    pub fn files(&self) -> Vec<Arc<str>> {
        self.files_from(0)
    }

    /// Returns `true` if the path of any file starts with `start`.
    pub fn has_file_like(&self, start: &str) -> bool {
        self.files.lock().expect("files").texts.iter().any(|path| path.starts_with(start))
    }

    /// Returns the paths from number `from`: those added since a previous call.
    pub fn files_from(&self, from: usize) -> Vec<Arc<str>> {
        self.files.lock().expect("files").texts.get(from..).unwrap_or_default().to_vec()
    }

    pub fn path(&self, file: u32) -> Arc<str> {
        self.files.lock().expect("files").texts.get(file as usize).cloned().unwrap_or_else(|| "".into())
    }

    /// Returns the texts from number `from`.
    pub fn texts_from(&self, from: usize) -> Vec<Arc<str>> {
        self.texts.lock().expect("texts").texts.get(from..).unwrap_or_default().to_vec()
    }

    pub fn text(&self, text: &str) -> u32 {
        self.texts.lock().expect("texts").number(text)
    }

    pub fn texts(&self) -> Vec<Arc<str>> {
        self.texts_from(0)
    }

    pub fn add_process(&self, process: Process) -> u32 {
        let mut processes = self.processes.write().expect("processes");
        processes.push(process);
        processes.len() as u32 - 1
    }

    pub fn processes(&self) -> Vec<Process> {
        self.processes.read().expect("processes").clone()
    }

    /// Replaces processes and hosts by those of another catalog of the same trace.
    pub fn take_over(&self, processes: Vec<Process>, hosts: Vec<Host>) {
        for host in hosts {
            let spread_ns = host.clock_spread_ns;
            let number = self.host(host) as usize;
            let known = &mut self.hosts.write().expect("hosts")[number];
            known.clock_spread_ns = known.clock_spread_ns.max(spread_ns);
        }
        *self.processes.write().expect("processes") = processes;
    }

    /// Returns the time from which all events of the selected processes are in the trace; `None` if none of them has
    /// dropped events.
    pub fn kept_from(&self, takes: impl Fn(&Process) -> bool) -> Option<i64> {
        let processes = self.processes.read().expect("processes");
        { processes.iter() }
            .filter(|process| takes(process))
            .filter_map(|process| process.recorder.as_ref()?.kept_from)
            .max()
    }

    /// Returns a value for each process.
    pub fn map_processes<T>(&self, of: impl Fn(&Process) -> T) -> Vec<T> {
        self.processes.read().expect("processes").iter().map(of).collect()
    }

    pub fn pid(&self, proc: u32) -> i32 {
        self.processes.read().expect("processes").get(proc as usize).map_or(0, |process| process.pid)
    }

    /// Returns `true` if `takes` accepts a process; unknown processes are rejected.
    pub fn is_process(&self, proc: u32, takes: impl Fn(&Process) -> bool) -> bool {
        self.processes.read().expect("processes").get(proc as usize).is_some_and(takes)
    }

    /// Returns the numbers of the processes that `takes` accepts.
    pub fn processes_where(&self, takes: impl Fn(&Process) -> bool) -> Vec<u32> {
        let processes = self.processes.read().expect("processes");
        (0u32..).zip(processes.iter()).filter(|(_, process)| takes(process)).map(|(number, _)| number).collect()
    }

    /// Returns the process that had this number at a time, by the clock of its host. If it ran several programs, it is the
    /// one at that time.
    pub fn process_at(&self, pid: i64, ts: i64, host: Option<&str>) -> Option<u32> {
        let hosts = self.hosts();
        let is_on_it =
            |number: u32| host.is_none_or(|name| hosts.get(number as usize).is_some_and(|it| it.name == name));
        let same = self.processes_where(|process| {
            let was_alive =
                process.start_ts.is_some_and(|start| start <= ts) && process.end_ts.is_none_or(|end| ts <= end);
            i64::from(process.pid) == pid && was_alive && is_on_it(process.host)
        });
        same.last().copied()
    }

    /// Changes the data of one process.
    pub fn amend(&self, proc: u32, change: impl FnOnce(&mut Process)) {
        if let Some(process) = self.processes.write().expect("processes").get_mut(proc as usize) {
            change(process);
        }
    }

    /// Returns the number of a host, new or known by name and boot.
    pub fn host(&self, host: Host) -> u32 {
        let mut hosts = self.hosts.write().expect("hosts");
        let known = hosts.iter().position(|known| known.name == host.name && known.boot_id == host.boot_id);
        known.unwrap_or_else(|| {
            hosts.push(host);
            hosts.len() - 1
        }) as u32
    }

    /// Notes that the wall clock of a process's host was set back.
    pub fn stepped(&self, proc: u32, back_ns: i64) {
        let host = self.processes.read().expect("processes").get(proc as usize).map(|process| process.host as usize);
        let mut hosts = self.hosts.write().expect("hosts");
        if let Some(host) = host.and_then(|host| hosts.get_mut(host)) {
            host.clock_spread_ns = host.clock_spread_ns.max(back_ns);
        }
    }

    pub fn hosts(&self) -> Vec<Host> {
        self.hosts.read().expect("hosts").clone()
    }
}

/// Returns `true` for stored files. Pipes, sockets, terminals and memory have names in angle brackets: waits on them
/// are not waits for storage, nor are those for the driver of a GPU.
pub fn is_stored(path: &str) -> bool {
    !path.starts_with('<') && !is_gpu_driver(path)
}

/// Returns `true` for drivers that only programs using a GPU open: NVIDIA's memory manager, and AMD's.
pub fn is_gpu_driver(path: &str) -> bool {
    path.starts_with("/dev/nvidia-uvm") || path.starts_with("/dev/kfd")
}

/// Returns `true` for shared memory that programs create to transfer data: PyTorch, Python's multiprocessing and
/// joblib. A data set in memory is read like any other.
pub fn is_hand_over_memory(path: &str) -> bool {
    const NAMES: [&str; 5] = ["torch_", "psm_", "pym-", "sem.", "joblib_"];
    path.strip_prefix("/dev/shm/").is_some_and(|name| NAMES.iter().any(|known| name.starts_with(known)))
}

/// Returns `true` for files that programs read to start: code, libraries, and the system's data for them.
pub fn is_program_part(path: &str) -> bool {
    const FOLDERS: [&str; 6] = ["/usr/", "/lib", "/etc/", "/proc/", "/sys/", "/dev/"];
    const PARTS: [&str; 4] = ["/site-packages/", "/dist-packages/", "/lib/python", "/__pycache__/"];
    const ENDINGS: [&str; 4] = [".py", ".pyc", ".so", ".cfg"];
    FOLDERS.iter().any(|folder| path.starts_with(folder))
        || PARTS.iter().any(|part| path.contains(part))
        || ENDINGS.iter().any(|ending| path.ends_with(ending))
        || path.contains(".so.")
}

/// Returns `true` for sockets, their connections, and hosts that were looked up.
pub fn is_socket(path: &str) -> bool {
    objects::kind_of(path).is_some_and(|kind| kind.is_socket() || kind == objects::Kind::Host)
}

/// Returns `true` for pipes, which connect a process with one other.
pub fn is_pipe(path: &str) -> bool {
    objects::kind_of(path) == Some(objects::Kind::Pipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_in_memory_are_not_handed_over() {
        assert!(is_hand_over_memory("/dev/shm/torch_12_34_5") && is_hand_over_memory("/dev/shm/psm_1a2b"));
        assert!(!is_hand_over_memory("/dev/shm/imagenet/0001.jpg") && !is_hand_over_memory("/data/torch_1"));
    }

    #[test]
    fn program_files_are_not_data() {
        for part in ["/usr/lib/locale/C.utf8", "/opt/venv/lib/python3.11/os.py", "/opt/lib/libx.so.1", "job.py"] {
            assert!(is_program_part(part), "{part}");
        }
        for data in ["/data/0001.npz", "train/shard-0.tar", "/mnt/lib_images/cat.jpg"] {
            assert!(!is_program_part(data), "{data}");
        }
    }

    #[test]
    fn one_string_has_one_number() {
        let catalog = Catalog::default();
        let (a, b) = (catalog.file("/a"), catalog.file("/b"));
        assert_eq!((catalog.file("/a"), catalog.files()[b as usize].as_ref()), (a, "/b"));
        assert_eq!(catalog.file(""), FILE_NONE);
    }

    #[test]
    fn objects_are_distinct_and_counted_by_kind() {
        let catalog = Catalog::default();
        let [one, other] = ["<pipe 7>", "<pipe 8>"].map(|name| catalog.file(name));
        let kind = catalog.file("<pipe>");
        assert_eq!((catalog.file("<pipe 7>"), catalog.aliases()), (one, vec![(one, kind), (other, kind)]));
        assert_eq!(catalog.object_of(other).map(|object| object.id), Some(8));
        assert_eq!(catalog.object_of(catalog.file("/data/a")), None);
        assert!(is_pipe("<pipe>") && is_pipe("<pipe 7>") && !is_pipe("<socket 7>"));
        assert!(is_socket("<tcp 127.0.0.1:1 127.0.0.1:2>") && is_socket("<socket>") && !is_socket("<pipe>"));
    }

    #[test]
    fn operations_have_the_first_numbers() {
        let catalog = Catalog::default();
        let read = Catalog::kind_of_op(Op::READ).unwrap();
        assert_eq!(catalog.kinds()[read as usize].name.as_ref(), "read");
        assert_eq!(catalog.call("read", "posix"), read);
    }

    #[test]
    fn spans_are_classed_by_their_category() {
        assert_eq!(span_class("COMPUTE"), Class::Compute);
        assert_eq!(span_class("compute.forward"), Class::Compute);
        assert_eq!(span_class("dataloader"), Class::Read);
        assert_eq!(span_class("Checkpoint"), Class::Write);
        assert_eq!(span_class("comm"), Class::Other);
        assert_eq!(span_class(""), Class::Other);
    }
}
