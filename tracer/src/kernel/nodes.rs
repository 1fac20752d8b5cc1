//! NUMA nodes of the host and their CPUs, read from /sys once for all processes of a run: [`super::machine`] passes
//! them to the other processes.

use dlio_schemas::control_groups::number;
use dlio_schemas::decimal::decimal;

use crate::kernel::path_buffer::PathBuffer;
use crate::kernel::sys;

/// Longest text that is kept: the nodes of a host with a longer one are unknown.
const TEXT_MAX: usize = 256;

/// A host with more nodes needs a longer text.
const NODES_MAX: u64 = 64;

/// Each node with the list of its CPUs, as in `0:0-31;1:32-63`; empty if unknown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Nodes {
    used: u16,
    bytes: [u8; TEXT_MAX],
}

impl Nodes {
    const UNKNOWN: Nodes = Nodes { used: 0, bytes: [0; TEXT_MAX] };

    /// Returns nodes with this text; unknown ones if it is too long.
    pub fn new(text: &[u8]) -> Nodes {
        let mut nodes = Nodes::UNKNOWN;
        nodes.push(text).map_or(Nodes::UNKNOWN, |()| nodes)
    }

    /// Reads the nodes from the kernel. `root` is empty except in tests.
    pub fn query(root: &[u8]) -> Nodes {
        let mut nodes = Nodes::UNKNOWN;
        nodes.read(root).map_or(Nodes::UNKNOWN, |()| nodes)
    }

    pub fn text(&self) -> &[u8] {
        &self.bytes[..self.used as usize]
    }

    fn push(&mut self, text: &[u8]) -> Option<()> {
        let used = self.used as usize;
        self.bytes.get_mut(used..used + text.len())?.copy_from_slice(text);
        self.used += text.len() as u16;
        Some(())
    }

    fn read(&mut self, root: &[u8]) -> Option<()> {
        const FOLDER: &[u8] = b"/sys/devices/system/node/";
        let (mut path, mut online, mut digits) = (PathBuffer::new(), [0; TEXT_MAX], [0; 20]);
        let online = line(sys::read_small(path.push(root).push(FOLDER).push(b"online").as_c_str(), &mut online))?;
        for range in online.split(|&byte| byte == b',') {
            let dash = range.iter().position(|&byte| byte == b'-');
            let first = number(&range[..dash.unwrap_or(range.len())])?;
            let last = dash.map_or(Some(first), |dash| number(&range[dash + 1..]))?;
            for node in first..=last.min(NODES_MAX) {
                let node = decimal(node as i64, &mut digits);
                path.clear();
                path.push(root).push(FOLDER).push(b"node").push(node).push(b"/cpulist");
                let mut cpus = [0; TEXT_MAX];
                // A node without CPUs has an empty list.
                let cpus = line(sys::read_small(path.as_c_str(), &mut cpus))?;
                self.push(if self.used > 0 { b";" } else { b"" })?;
                self.push(node)?;
                self.push(b":")?;
                self.push(cpus)?;
            }
        }
        Some(())
    }
}

/// Returns the line of a file; `None` if it is truncated or contains other characters than a list of numbers.
fn line(text: &[u8]) -> Option<&[u8]> {
    let line = text.strip_suffix(b"\n")?;
    line.iter().all(|byte| byte.is_ascii_digit() || b",-".contains(byte)).then_some(line)
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    fn below(name: &str, files: &[(&str, &str)]) -> String {
        let root = std::env::temp_dir().join(format!("dlio-nodes-{}-{name}", std::process::id()));
        let folder = root.join("sys/devices/system/node");
        std::fs::create_dir_all(&folder).unwrap();
        for (path, text) in files {
            std::fs::create_dir_all(folder.join(path).parent().unwrap()).unwrap();
            std::fs::write(folder.join(path), text).unwrap();
        }
        let nodes = Nodes::query(root.as_os_str().as_bytes());
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!(Nodes::new(nodes.text()), nodes);
        String::from_utf8(nodes.text().to_vec()).unwrap()
    }

    #[test]
    fn nodes_have_their_cpus() {
        let files = [("online", "0-1,4\n"), ("node0/cpulist", "0-3,8\n"), ("node1/cpulist", "4-7\n")];
        assert_eq!(below("two", &[&files[..], &[("node4/cpulist", "\n")]].concat()), "0:0-3,8;1:4-7;4:");
        assert_eq!(below("one", &[("online", "0\n"), ("node0/cpulist", "0-1\n")]), "0:0-1");
    }

    #[test]
    fn missing_or_forged_nodes_are_unknown() {
        assert_eq!(below("none", &[]), "");
        assert_eq!(below("part", &[("online", "0-1\n"), ("node0/cpulist", "0\n")]), "");
        for online in ["", "0", "x\n", "-\n", "0,,1\n", "0-\n", "0-99999999999999999999\n"] {
            assert_eq!(below("forged", &[("online", online), ("node0/cpulist", "0\n")]), "", "{online:?}");
        }
        assert_eq!(below("long", &[("online", "0\n"), ("node0/cpulist", &format!("{}\n", "1,".repeat(200)))]), "");
        assert_eq!(Nodes::new(&[b'1'; 300]), Nodes::UNKNOWN);
    }
}
