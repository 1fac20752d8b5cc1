//! Reads the host's counters once per second while a command runs, and writes them next to its trace.
//!
//! Several `dlio trace` may run on a host for one directory, as under `mpirun`, but only one of them samples. They agree by means
//! of a socket name, which the kernel gives to one process. When that process exits, the kernel releases the name, and another
//! process takes over.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use dlio_schemas::io_limits::IoLimits;
use dlio_schemas::machine::samples::{END, ENDING, Writer};
use dlio_schemas::native::fields::key;
use dlio_tracer::environment::{self, ControlGroups};

use crate::machine::mounts::{self, Mount};
use crate::machine::nvml::Nvml;
use crate::machine::readings::Sources;
use crate::machine::unusual::{Allowance, RunSamples};
use crate::system::{clock, file_calls, host};

/// Time between two samples; it grows in runs of hours, so that the file remains small.
const PERIOD: Duration = Duration::from_secs(1);
const LATER_PERIOD: Duration = Duration::from_secs(10);
const LATER: u32 = 3600;
/// Time until the first sample. A sample reads 60 files; a shorter command without recorded events needs none.
const FIRST: Duration = Duration::from_millis(20);

/// The results once the command has ended.
#[derive(Default)]
pub struct SampleResult {
    pub watched: RunSamples,
    /// The file that this process wrote, if it did.
    pub file: Option<PathBuf>,
    /// The resources available to the command; `None` if another process samples.
    pub allowance: Option<Allowance>,
    /// The reason why no GPU was sampled although this was requested.
    pub gpu_failure: Option<String>,
    /// The mounts when the command started.
    mounts: Vec<Mount>,
}

impl SampleResult {
    /// Returns the devices on which control groups limit reads, in bytes per second. `limits` are those of the groups,
    /// as their processes recorded them.
    pub fn read_limits<'a>(&self, limits: impl Iterator<Item = &'a str>) -> Vec<(String, u64)> {
        let parsed = limits.filter_map(|text| IoLimits::parse(text.as_bytes()));
        parsed.flat_map(|limits| read_limits(&self.mounts, &limits)).collect()
    }
}

/// Returns the devices of the mounts on which reads are limited, in bytes per second.
fn read_limits(mounts: &[Mount], limits: &IoLimits) -> Vec<(String, u64)> {
    let root = Path::new("");
    let limit = |mount: &Mount| mount.device_name(root).zip(mount.io_limit(limits, root).read_bytes);
    mounts.iter().filter_map(limit).collect()
}

/// Samples on a thread until it is finished.
pub struct Sampler {
    /// Whether the last sample is needed.
    stop: Sender<bool>,
    thread: JoinHandle<SampleResult>,
}

impl Sampler {
    /// Samples while the command runs, also the GPUs if `with_gpus`. `None` if no thread can be started.
    pub fn start(folder: &Path, umask: u32, with_gpus: bool) -> Option<Sampler> {
        let mut turn = SamplerState {
            folder: folder.to_path_buf(),
            umask,
            sources: None,
            output: None,
            watched: RunSamples::default(),
            allowance: None,
            gpus: if with_gpus { Gpus::Wanted } else { Gpus::Unwanted },
            mounts: Vec::new(),
        };
        let (stop, stopped) = channel();
        let thread = move || {
            let mut samples = 0;
            loop {
                let period = match samples {
                    0 => FIRST,
                    1..LATER => PERIOD,
                    _ => LATER_PERIOD,
                };
                let stop = stopped.recv_timeout(period);
                if samples == 0 && stop == Ok(false) && !with_gpus {
                    return turn.end();
                }
                turn.sample();
                if stop != Err(RecvTimeoutError::Timeout) {
                    return turn.end();
                }
                samples += 1;
            }
        };
        let thread = Builder::new().name("dlio-machine".into()).spawn(thread).ok()?;
        Some(Sampler { stop, thread })
    }

    /// Takes the last sample, and returns the results. A command that ended before the first sample gets none at all if the
    /// samples are not `needed`.
    pub fn finish(self, needed: bool) -> SampleResult {
        // Fails if the thread has already ended; then there is nothing to wait for.
        let _ = self.stop.send(needed);
        self.thread.join().unwrap_or_default()
    }
}

/// The state of a process that samples, or waits for its turn.
struct SamplerState {
    folder: PathBuf,
    umask: u32,
    sources: Option<Sources>,
    /// `None` while another process samples for this directory, or if the file cannot be written.
    output: Option<Output>,
    watched: RunSamples,
    allowance: Option<Allowance>,
    gpus: Gpus,
    mounts: Vec<Mount>,
}

/// The GPUs of the host. The driver may need a second until it can be queried, so this happens on the thread.
enum Gpus {
    Unwanted,
    Wanted,
    Sampled(Nvml),
    Failed(String),
}

struct Output {
    path: PathBuf,
    file: File,
    writer: Writer,
    began_ns: u64,
    is_full: bool,
    /// Held as long as this process samples.
    _name: Option<UnixListener>,
}

impl SamplerState {
    fn sample(&mut self) {
        if self.output.is_none() {
            self.begin();
            self.open_gpus();
        }
        let (Some(sources), Some(output)) = (&self.sources, &mut self.output) else { return };
        let mut readings = sources.read();
        if let Gpus::Sampled(nvml) = &mut self.gpus {
            readings.extend(nvml.read());
        }
        let (boot_ns, unix_ns) = (clock::boot_nanos(), unix_nanos());
        self.watched.take(&readings);
        self.watched.elapsed_ns = boot_ns - output.began_ns;
        let lines = output.writer.sample(boot_ns, unix_ns, &readings);
        output.put(&lines);
    }

    fn begin(&mut self) {
        let Some(name) = own_name(&self.folder) else { return };
        let groups = environment::control_groups(Path::new(""));
        let mounts = mounts::parse(&file_calls::kernel_text("/proc/self/mountinfo").unwrap_or_default());
        let began_ns = clock::boot_nanos();
        let path = self.folder.join(format!(
            "machine-{}-{}-{}.{ENDING}",
            plain(&host::host_name()),
            std::process::id(),
            unix_nanos() / 1000
        ));
        let mode = 0o666 & !self.umask;
        let made = OpenOptions::new().append(true).create_new(true).mode(mode).open(&path);
        let Ok(file) = made else { return };
        let (limits, root) = (groups.io.unwrap_or_default(), Path::new(""));
        let about: Vec<_> = mounts.iter().map(|mount| (mount.folder.clone(), mount.about(&limits, root))).collect();
        let mut output = Output { path, file, writer: Writer::default(), began_ns, is_full: false, _name: name };
        output.put(&Writer::head(&facts(&groups), &about));
        self.output = Some(output);
        self.allowance = Some(Allowance {
            cores: host::processors_online().unwrap_or_else(host::processors),
            allowed: host::processors_allowed(),
            quota: groups.cpu_quota,
            memory_limit: groups.memory_limit,
            read_limits: read_limits(&mounts, &limits),
        });
        let sources = Sources {
            root: PathBuf::new(),
            has_quota: groups.cpu_quota.is_some(),
            cpu_group: groups.cpu_group,
            memory_group: groups.memory_group,
            devices: Vec::new(),
            has_nfs: false,
            lustre: Vec::new(),
        };
        self.sources = Some(sources.of_mounts(&mounts));
        self.mounts = mounts;
    }

    /// Opens the driver's library if GPUs are wanted and this process samples.
    fn open_gpus(&mut self) {
        let (Gpus::Wanted, Some(output)) = (&self.gpus, &mut self.output) else { return };
        self.gpus = match Nvml::open() {
            Ok(nvml) => {
                output.put(&Writer::fact(key::GPUS, &nvml.names()));
                Gpus::Sampled(nvml)
            }
            Err(cause) => Gpus::Failed(cause),
        };
    }

    fn end(mut self) -> SampleResult {
        if let Some(output) = &mut self.output {
            output.put(END);
        }
        let SamplerState { watched, output, allowance, gpus, mounts, .. } = self;
        let gpu_failure = if let Gpus::Failed(cause) = gpus { Some(cause) } else { None };
        SampleResult { watched, file: output.map(|output| output.path), allowance, gpu_failure, mounts }
    }
}

impl Output {
    /// Writes with one call, so that a reader never finds half a line. Once the disk is full, no more samples are written.
    fn put(&mut self, lines: &str) {
        self.is_full = self.is_full || self.file.write_all(lines.as_bytes()).is_err();
    }
}

fn unix_nanos() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64
}

/// Claims the name of a directory, which only one process on this host can have. The outer `None` means that another process has
/// the name. The inner `None` means that such names are not available.
fn own_name(folder: &Path) -> Option<Option<UnixListener>> {
    let found = std::fs::metadata(folder).ok()?;
    let name = format!("dlio-machine-{}-{}-{}", file_calls::user(), found.dev(), found.ino());
    let bound = SocketAddr::from_abstract_name(name).and_then(|address| UnixListener::bind_addr(&address));
    match bound {
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => None,
        bound => Some(bound.ok()),
    }
}

fn facts(groups: &ControlGroups) -> Vec<(&'static str, String)> {
    let kernel = |what: &str| {
        let text = file_calls::kernel_text(format!("/proc/sys/kernel/{what}")).ok()?;
        Some(text.trim().to_string()).filter(|text| !text.is_empty())
    };
    let folder = |folder: &Option<PathBuf>| folder.as_ref().map(|folder| folder.to_string_lossy().into_owned());
    let weight = groups.cpu_weight.filter(|weight| !weight.is_default());
    let facts = [
        (key::HOST, Some(host::host_name())),
        (key::BOOT_ID, kernel("random/boot_id")),
        (key::KERNEL, kernel("osrelease")),
        (key::PID, Some(std::process::id().to_string())),
        (key::CORES, host::processors_online().map(|count| count.to_string())),
        (key::MEMORY, Some(((host::memory_gibibytes() * 1024.0 * 1024.0) as u64 * 1024).to_string())),
        (key::CPUS_ALLOWED, host::processors_allowed().map(|count| count.to_string())),
        (key::CPU_QUOTA, groups.cpu_quota.map(|quota| quota.to_string())),
        (key::CPU_CGROUP, folder(&groups.cpu_group)),
        (key::CPU_WEIGHT, weight.map(|weight| weight.value.to_string())),
        (key::CPU_WEIGHT_DEFAULT, weight.map(|weight| weight.default.to_string())),
        (key::MEMORY_LIMIT, groups.memory_limit.map(|bytes| bytes.to_string())),
        (key::MEMORY_CGROUP, folder(&groups.memory_group)),
    ];
    facts.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
}

/// Returns a text with only characters that never need quoting.
fn plain(text: &str) -> String {
    let letter = |letter: char| if letter.is_ascii_alphanumeric() || "._+".contains(letter) { letter } else { '_' };
    text.chars().take(48).map(letter).collect()
}
