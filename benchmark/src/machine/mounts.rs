//! The mounts that may contain data: type, device, options without secrets, read-ahead, scheduler, I/O limits, free
//! space.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use dlio_schemas::io_limits::{IoLimit, IoLimits};
use dlio_schemas::secrets::masked_text;

use crate::system::file_calls::{free_bytes, kernel_text, placed};

/// Further mounts are left out: containers of a busy host have hundreds.
const MOUNTS_MAX: usize = 64;

/// Types that contain no data of programs.
const PSEUDO: &[&str] = &[
    "autofs",
    "binfmt_misc",
    "bpf",
    "cgroup",
    "cgroup2",
    "configfs",
    "debugfs",
    "devpts",
    "devtmpfs",
    "efivarfs",
    "fusectl",
    "hugetlbfs",
    "mqueue",
    "nsfs",
    "proc",
    "pstore",
    "ramfs",
    "rpc_pipefs",
    "securityfs",
    "selinuxfs",
    "sysfs",
    "tracefs",
];

/// Types of this host: querying their free space does not wait for a server.
const LOCAL: &[&str] = &["btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "tmpfs", "vfat", "xfs", "zfs"];

/// Directories below which a file system in memory contains no data of programs.
const SYSTEM_FOLDERS: &[&str] = &["/dev", "/proc", "/run", "/sys"];

/// Options whose value names a person or a secret, in addition to those known from command lines.
const PRIVATE_OPTIONS: &[&str] = &["cred", "credentials", "domain", "pass", "password", "secret", "user", "username"];

/// A mount.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mount {
    pub folder: String,
    pub kind: String,
    /// The mounted device, or a server and its directory.
    pub source: String,
    pub options: String,
    /// Major and minor number of the device, `8:1`; major 0 is not a block device.
    pub device: String,
}

/// Parses the mounts in `/proc/self/mountinfo`. If mounts hide each other, the visible one is returned.
pub fn parse(text: &str) -> Vec<Mount> {
    let mut found: BTreeMap<String, Mount> = BTreeMap::new();
    for mount in text.lines().filter_map(parse_line) {
        found.insert(mount.folder.clone(), mount);
    }
    found.into_values().filter(may_contain_data).take(MOUNTS_MAX).collect()
}

/// Parses `ID PARENT MAJOR:MINOR ROOT FOLDER OPTIONS [FIELD ...] - TYPE SOURCE OPTIONS`.
fn parse_line(line: &str) -> Option<Mount> {
    let (own, file_system) = line.split_once(" - ")?;
    let own: Vec<&str> = own.split(' ').collect();
    let [_, _, device, _, folder, options, ..] = own[..] else { return None };
    let mut words = file_system.split(' ');
    let (kind, source, more) = (words.next()?, words.next()?, words.next().unwrap_or_default());
    let mut all: Vec<&str> = options.split(',').collect();
    all.extend(more.split(',').filter(|option| !options.split(',').any(|own| own == *option)));
    Some(Mount {
        folder: unescaped(folder),
        kind: kind.into(),
        source: masked_text(&unescaped(source)),
        options: all.into_iter().filter(|option| !option.is_empty()).map(shown).collect::<Vec<_>>().join(","),
        device: device.into(),
    })
}

/// Returns an option without its secret.
fn shown(option: &str) -> String {
    match option.split_once('=') {
        Some((key, _)) if PRIVATE_OPTIONS.contains(&key.to_ascii_lowercase().as_str()) => format!("{key}=***"),
        Some(_) => masked_text(option),
        None => option.into(),
    }
}

fn may_contain_data(mount: &Mount) -> bool {
    let lies_in =
        |folder: &&str| mount.folder.strip_prefix(*folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let is_system = mount.kind == "tmpfs" && SYSTEM_FOLDERS.iter().any(lies_in);
    !PSEUDO.contains(&mount.kind.as_str()) && (!is_system || mount.folder == "/dev/shm")
}

/// Decodes blanks in paths, which the kernel writes as octal numbers.
fn unescaped(text: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(text.to_string(), |text, (code, letter)| text.replace(code, letter))
}

impl Mount {
    pub fn is_nfs(&self) -> bool {
        ["nfs", "nfs4"].contains(&self.kind.as_str())
    }

    /// Returns the name of the Lustre file system, `scratch` of `10.0.0.1@tcp:/scratch`; `None` for other types.
    pub fn lustre(&self) -> Option<&str> {
        let path = self.source.rsplit_once(":/").map(|(_, path)| path).filter(|_| self.kind == "lustre")?;
        path.split('/').next().filter(|name| !name.is_empty())
    }

    /// Returns keys and values of the known properties. `root` is empty except in tests.
    pub fn about(&self, limits: &IoLimits, root: &Path) -> Vec<(&'static str, String)> {
        let mut about =
            vec![("type", self.kind.clone()), ("source", self.source.clone()), ("options", self.options.clone())];
        let read = |path: String| {
            let text = kernel_text(placed(root, &path)).ok()?;
            Some(text.trim().to_string()).filter(|text| !text.is_empty())
        };
        about.extend(self.device_name(root).map(|name| ("device", name)));
        about.extend(self.disk(root).map(|number| ("disk", number)));
        about.extend(read(format!("/sys/class/bdi/{}/read_ahead_kb", self.device)).map(|kb| ("read_ahead_kb", kb)));
        if let Some(queue) = self.queue(root) {
            about.extend(read(format!("{queue}/rotational")).map(|number| ("rotational", number)));
            // `none [mq-deadline]`: the one in brackets is active.
            let scheduler = read(format!("{queue}/scheduler"));
            let chosen = |all: String| {
                let marked =
                    all.split(' ').find_map(|name| name.strip_prefix('[')?.strip_suffix(']').map(str::to_string));
                marked.unwrap_or(all)
            };
            about.extend(scheduler.map(|all| ("scheduler", chosen(all))));
        }
        let IoLimit { read_bytes, reads, write_bytes, writes } = self.io_limit(limits, root);
        for (key, limit) in [
            ("read_bytes_limit", read_bytes),
            ("reads_limit", reads),
            ("write_bytes_limit", write_bytes),
            ("writes_limit", writes),
        ] {
            about.extend(limit.map(|limit| (key, limit.to_string())));
        }
        if LOCAL.contains(&self.kind.as_str()) {
            about.extend(free_bytes(&placed(root, &self.folder)).ok().map(|bytes| ("free_bytes", bytes.to_string())));
        }
        about
    }

    /// Returns the kernel's name of the block device, `nvme0n1p1`.
    pub fn device_name(&self, root: &Path) -> Option<String> {
        let link = fs::read_link(placed(root, &format!("/sys/dev/block/{}", self.device))).ok()?;
        Some(link.file_name()?.to_string_lossy().into_owned())
    }

    /// Returns the limit on its device; a partition has that of its disk.
    pub fn io_limit(&self, limits: &IoLimits, root: &Path) -> IoLimit {
        self.disk(root).and_then(|disk| limits.of(&disk)).unwrap_or_default()
    }

    /// Returns the number of its block device, or of the disk of its partition: limits of I/O apply to disks.
    fn disk(&self, root: &Path) -> Option<String> {
        let own = format!("/sys/dev/block/{}", self.device);
        let is_partition = placed(root, &format!("{own}/partition")).exists();
        let disk = || Some(kernel_text(placed(root, &format!("{own}/../dev"))).ok()?.trim().to_string());
        match is_partition {
            true => disk(),
            false => placed(root, &own).exists().then(|| self.device.clone()),
        }
    }

    /// Returns the directory of the device's queue; a partition uses its disk's.
    fn queue(&self, root: &Path) -> Option<String> {
        let own = format!("/sys/dev/block/{}", self.device);
        let places = [format!("{own}/queue"), format!("{own}/../queue")];
        places.into_iter().find(|queue| placed(root, queue).is_dir())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,discard
23 22 0:5 / /dev rw - devtmpfs udev rw
24 23 0:21 / /dev/shm rw,nosuid - tmpfs tmpfs rw,size=8g
25 22 0:22 / /run rw - tmpfs tmpfs rw
30 22 0:40 / /data\\040sets rw - nfs4 server:/export rw,vers=4.2,addr=10.0.0.1
31 22 0:41 / /share rw - cifs //server/share rw,username=eve,password=hunter2,vers=3
32 22 8:2 / /data\\040sets ro - xfs /dev/sda2 ro
nonsense
33 22 0:9 / /x rw -";

    #[test]
    fn mounts_that_hold_data_are_listed_without_secrets() {
        let mounts = parse(TEXT);
        let folders: Vec<&str> = mounts.iter().map(|mount| mount.folder.as_str()).collect();
        assert_eq!(folders, ["/", "/data sets", "/dev/shm", "/share"]);
        assert_eq!((mounts[1].kind.as_str(), mounts[1].device.as_str()), ("xfs", "8:2"));
        assert_eq!(mounts[0].options, "rw,relatime,discard");
        let all = format!("{mounts:?}");
        assert!(!all.contains("hunter2") && !all.contains("eve") && all.contains("password=***"), "{all}");
    }

    #[test]
    fn lustre_mounts_have_the_name_of_their_file_system() {
        let name = |kind: &str, source: &str| {
            let text = format!("30 22 0:40 / /l rw - {kind} {source} rw\n");
            parse(&text)[0].lustre().map(str::to_string)
        };
        assert_eq!(name("lustre", "10.0.0.1@tcp:10.0.0.2@tcp:/scratch").as_deref(), Some("scratch"));
        assert_eq!(name("lustre", "10.0.0.1@tcp:/scratch/project").as_deref(), Some("scratch"));
        assert_eq!(
            (name("nfs", "server:/scratch"), name("lustre", "scratch"), name("lustre", "a:/")),
            (None, None, None)
        );
    }

    #[test]
    fn mount_reports_properties_of_its_device() {
        let root = std::env::temp_dir().join(format!("dlio-mounts-{}", std::process::id()));
        let disk = root.join("sys/devices/sda");
        fs::create_dir_all(disk.join("sda1")).unwrap();
        fs::create_dir_all(disk.join("queue")).unwrap();
        fs::create_dir_all(root.join("sys/dev/block")).unwrap();
        fs::create_dir_all(root.join("sys/class/bdi/8:1")).unwrap();
        std::os::unix::fs::symlink("../../devices/sda/sda1", root.join("sys/dev/block/8:1")).unwrap();
        fs::write(disk.join("queue/rotational"), "1\n").unwrap();
        fs::write(disk.join("queue/scheduler"), "none [mq-deadline] kyber\n").unwrap();
        fs::write(root.join("sys/class/bdi/8:1/read_ahead_kb"), "128\n").unwrap();
        fs::write(disk.join("sda1/partition"), "1\n").unwrap();
        fs::write(disk.join("dev"), "8:0\n").unwrap();
        let about = parse(TEXT)[0].about(&IoLimits::parse(b"8:0 rbps=1000").unwrap(), &root);
        fs::remove_dir_all(&root).unwrap();
        let get = |key| about.iter().find(|(known, _)| *known == key).map(|(_, value)| value.as_str());
        assert_eq!((get("device"), get("rotational")), (Some("sda1"), Some("1")));
        assert_eq!(get("disk"), Some("8:0"));
        assert_eq!((get("read_bytes_limit"), get("reads_limit")), (Some("1000"), None));
        assert_eq!((get("scheduler"), get("read_ahead_kb")), (Some("mq-deadline"), Some("128")));
    }
}
