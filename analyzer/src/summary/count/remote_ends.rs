//! Remote ends of network connections: each socket has a name with its two addresses.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A remote end of sockets.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
pub struct RemoteEnd {
    pub address: String,
    /// Bytes received from it and sent to it.
    pub bytes: u64,
    pub connections: u64,
}

impl RemoteEnd {
    /// Returns `true` if it is on the host itself.
    pub fn is_local(&self) -> bool {
        self.address.starts_with("127.") || self.address.starts_with("[::1]")
    }
}

/// The number of remote ends in the report.
const REMOTE_ENDS: usize = 3;

/// Returns the remote address of a socket's name, such as `<tcp LOCAL REMOTE>`.
fn remote(path: &str) -> Option<&str> {
    let words = path.strip_prefix('<')?.strip_suffix('>')?;
    let mut words = words.split(' ');
    let is_network = words.next().is_some_and(|kind| kind.starts_with("tcp") || kind.starts_with("udp"));
    words.nth(1).filter(|_| is_network)
}

/// Returns the remote ends of used sockets, most bytes first. `used` has the names of files and the bytes moved.
pub fn remote_ends<'a>(used: impl Iterator<Item = (&'a str, u64)>) -> Vec<RemoteEnd> {
    let mut found: BTreeMap<&str, RemoteEnd> = BTreeMap::new();
    for (address, bytes) in used.filter_map(|(path, bytes)| Some((remote(path)?, bytes))) {
        let none = RemoteEnd { address: address.into(), bytes: 0, connections: 0 };
        let end = found.entry(address).or_insert(none);
        end.bytes += bytes;
        end.connections += 1;
    }
    let mut ends: Vec<RemoteEnd> = found.into_values().collect();
    ends.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.address.cmp(&b.address)));
    ends.truncate(REMOTE_ENDS);
    ends
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_to_one_address_are_one_remote_end() {
        let names = ["<tcp 10.0.0.1:5 10.0.0.2:80>", "<tcp 10.0.0.1:6 10.0.0.2:80>", "<tcp6 [::1]:7 [::2]:443>"];
        let others = [("<pipe 3>", 100), ("<socket 4>", 100), ("/data", 100)];
        let used = || names.into_iter().zip([10, 20, 25]).chain(others);
        let end = |address: &str, bytes, connections| RemoteEnd { address: address.into(), bytes, connections };
        assert_eq!(remote_ends(used()), [end("10.0.0.2:80", 30, 2), end("[::2]:443", 25, 1)]);
        assert_eq!(remote_ends(others.into_iter()), []);
    }
}
