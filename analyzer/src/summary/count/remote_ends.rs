//! Remote ends of network connections: each socket has a name with its two addresses.

use std::collections::{BTreeMap, BTreeSet};

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

/// Replaces the local address in the name of a socket that accepts connections.
const LISTENING: &str = "listening";

/// The number of remote ends in the report.
const REMOTE_ENDS: usize = 3;

/// Returns both addresses of a socket's name, such as `<tcp LOCAL REMOTE>`, or `listening` and that of a server.
fn addresses(path: &str) -> Option<(&str, &str)> {
    let words = path.strip_prefix('<')?.strip_suffix('>')?;
    let (kind, addresses) = words.split_once(' ')?;
    let is_network = kind.starts_with("tcp") || kind.starts_with("udp");
    addresses.split_once(' ').filter(|_| is_network)
}

fn port(address: &str) -> Option<&str> {
    address.rsplit_once(':').map(|(_, port)| port)
}

/// Returns the remote ends of used sockets, most bytes first. `used` has the names of files and the bytes moved. The
/// clients of a traced server are not remote ends; the server itself is one if there are no others.
pub fn remote_ends<'a>(used: impl Iterator<Item = (&'a str, u64)>) -> Vec<RemoteEnd> {
    let used: Vec<_> = used.filter_map(|(path, bytes)| Some((addresses(path)?, bytes))).collect();
    let servers = used.iter().filter(|((local, _), _)| *local == LISTENING);
    let served: BTreeSet<&str> = servers.filter_map(|((_, address), _)| port(address)).collect();
    let is_client = |local: &str| local != LISTENING && port(local).is_none_or(|port| !served.contains(port));
    let mut found: BTreeMap<&str, RemoteEnd> = BTreeMap::new();
    for ((_, address), bytes) in used.into_iter().filter(|((local, _), _)| is_client(local)) {
        let none = RemoteEnd { address: address.into(), bytes: 0, connections: 0 };
        let end = found.entry(address).or_insert(none);
        end.bytes += bytes;
        end.connections += 1;
    }
    // A server in the trace, or another rank, shows itself what it does.
    let is_traced = |end: &RemoteEnd| port(&end.address).is_some_and(|port| served.contains(port));
    if !found.values().all(is_traced) {
        found.retain(|_, end| !is_traced(end));
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
        let both = ["<tcp listening 0.0.0.0:80>", "<tcp 127.0.0.1:80 127.0.0.1:5>", "<tcp 127.0.0.1:5 127.0.0.1:80>"];
        assert_eq!(remote_ends(both.into_iter().zip([0, 10, 10])), [end("127.0.0.1:80", 10, 1)]);
        let more = both.into_iter().chain(["<tcp 127.0.0.1:6 10.0.0.2:90>"]);
        assert_eq!(remote_ends(more.zip([0, 10, 10, 1])), [end("10.0.0.2:90", 1, 1)]);
    }
}
