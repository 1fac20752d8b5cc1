//! Ranks that a launcher started: processes that know their rank and nothing about each other, and how they connect.
//!
//! On one host rank 0 listens on an abstract socket whose name all ranks know. On several hosts it listens on a TCP
//! port and writes the address to a file in a shared directory, such as the one for the results. A connecting rank
//! identifies itself and proves that it belongs to the same launch; other connections are rejected.
//!
//! ```text
//! rank r -> 0    a greeting: rank, size, pid, host, and the secret in the address file
//! rank 0 -> r    when all are connected: its pid, its host, the paths of the status board and the barrier
//! ```

use crate::failure::{Failure, Kind, Outcome};
use crate::ranks::communicator::Communicator;
use crate::ranks::launcher::LaunchInfo;
use crate::ranks::liveness::{Process, Processes};
use crate::ranks::shared_barrier::SharedBarrier;
use crate::ranks::socket::{Message, Socket};
use crate::ranks::star::{LOOK, Star, ended, killed};
use crate::ranks::status::StatusBoard;
use crate::system::partial_name::partial_name;
use crate::system::random::mixed;
use crate::system::{file_calls, host, processes};
use std::fs::{self, File};
use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::{SocketAddr as LocalAddress, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a rank has to exit after the run has failed. A rank that is far from any barrier exits when rank 0 is gone.
const GRACE: Duration = Duration::from_secs(1);

/// How long another host may take to respond, and an unknown connection to identify itself.
const ANSWER: Duration = Duration::from_secs(3);

/// Pause between two attempts to find rank 0.
const RETRY: Duration = Duration::from_millis(5);

/// A rank among others that a launcher started.
pub struct SocketRanks {
    pub star: Star,
    processes: Processes,
}

impl SocketRanks {
    /// Returns when all ranks are connected. `shared` is a directory that ranks on other hosts see too.
    pub fn connect(world: &LaunchInfo, shared: &Path, patience: Duration) -> Outcome<SocketRanks> {
        let rendezvous =
            Rendezvous { world, place: RankZeroAddress::of(world, shared), until: Instant::now() + patience, patience };
        let Connections { sockets, processes, board, gate } = match world.rank {
            0 => rendezvous.wait_for_all()?,
            _ => rendezvous.join()?,
        };
        if let Some(board) = board {
            board.join(world.rank);
        }
        let processes = Processes::watched(processes);
        let mut star = Star::new(world.rank, world.size, sockets, Box::new(processes.clone()), patience);
        // Used only if all ranks can see it.
        let seen = star.exchange(&[u8::from(gate.is_some())])?;
        if let Some(gate) = gate.filter(|_| seen.iter().all(|seen| *seen == [1])) {
            star.use_barrier(gate);
        }
        Ok(SocketRanks { star, processes })
    }

    /// Ends this rank's part of the run. Rank 0 does so last and learns how the others exited.
    pub fn part(mut self, outcome: Outcome<i32>) -> Outcome<i32> {
        let code = outcome.as_ref().map_or_else(|failure| failure.exit_code(), |code| *code);
        for socket in &mut self.star.sockets {
            // A rank that is gone does not need the message.
            let _ = socket.send_farewell(code);
        }
        if self.star.rank() > 0 {
            if outcome.is_err() {
                self.let_first_finish();
            }
            return outcome;
        }
        let until = outcome.is_err().then(|| Instant::now() + GRACE);
        let mut failed = None;
        for (socket, rank) in self.star.sockets.iter_mut().zip(1..) {
            let process = self.processes.of(rank);
            match code_at_the_end(socket, process, until) {
                Some(0) => {}
                Some(code) => failed = failed.or(Some(ended(rank, code))),
                // If the run has failed, that is already reported.
                None => failed = failed.or(Some(killed(rank))),
            }
        }
        outcome.and_then(|code| failed.map_or(Ok(code), Err))
    }
}

impl SocketRanks {
    /// Lets rank 0 finish first: a launcher stops all ranks once one has failed, and rank 0 has results and messages to
    /// write. Rank 0 announces its exit when it is done.
    fn let_first_finish(&mut self) {
        let first = self.processes.of(0);
        code_at_the_end(&mut self.star.sockets[0], first, Some(Instant::now() + GRACE));
    }
}

/// Returns the exit code that a rank leaves with; `None` if it never sends one.
fn code_at_the_end(socket: &mut Socket, process: Option<u32>, until: Option<Instant>) -> Option<i32> {
    loop {
        let ready = file_calls::readable(&[&*socket], LOOK)[0];
        if ready {
            match socket.receive() {
                Ok(Message::Bytes(_) | Message::Last(_)) => continue,
                Ok(Message::Farewell(code)) => return Some(code),
                Err(_) => return None,
            }
        }
        let gone = process.is_some_and(|process| !processes::lives(process));
        if (gone && !file_calls::readable(&[&*socket], Duration::ZERO)[0])
            || until.is_some_and(|until| Instant::now() > until)
        {
            return None;
        }
    }
}

/// Where rank 0 can be reached.
enum RankZeroAddress {
    /// An abstract socket name on this host.
    Name(LocalAddress),
    /// A file that contains the address.
    File(PathBuf),
}

impl RankZeroAddress {
    fn of(world: &LaunchInfo, shared: &Path) -> RankZeroAddress {
        // Identical on all ranks of a launch. If the launcher has no name for the launch, it is made of the command and
        // the directory it was started in. If the launcher has one, ranks with different commands still connect and can
        // report the difference.
        let start = match world.job.is_empty() {
            false => format!("{}{}", world.job, world.size),
            true => {
                let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
                let folder = std::env::current_dir().unwrap_or_default();
                format!("{}\n{}\n{}", world.size, folder.display(), words.collect::<Vec<_>>().join("\n"))
            }
        };
        let number = mixed(&start.bytes().map(u64::from).collect::<Vec<_>>());
        let name = format!("dlio-ranks-{}-{number:016x}", file_calls::user());
        match LocalAddress::from_abstract_name(&name) {
            Ok(address) if world.here => RankZeroAddress::Name(address),
            _ => RankZeroAddress::File(shared.join(format!(".{name}"))),
        }
    }
}

enum Listener {
    Local(UnixListener),
    Port(TcpListener),
}

/// The information that a rank has about the others once all are connected.
struct Connections {
    sockets: Vec<Socket>,
    /// The pids of processes on this host, by rank.
    processes: Vec<Option<u32>>,
    board: Option<StatusBoard>,
    /// The barrier of the ranks on the host of rank 0.
    gate: Option<SharedBarrier>,
}

struct Rendezvous<'a> {
    world: &'a LaunchInfo,
    place: RankZeroAddress,
    until: Instant,
    patience: Duration,
}

impl Rendezvous<'_> {
    fn wait_for_all(&self) -> Outcome<Connections> {
        let word = secret();
        let (listener, _file) = self.listen(&word)?;
        let mut others: Vec<Option<(Socket, Process)>> = (1..self.world.size).map(|_| None).collect();
        while others.iter().any(Option::is_none) {
            self.go_on(&others)?;
            let Some(mut socket) = accepted(&listener) else { continue };
            let Some(greeting) = Greeting::read_greeting(&mut socket, &word) else { continue };
            let (rank, size) = (greeting.rank, greeting.size);
            match others.get_mut((rank as usize).wrapping_sub(1)) {
                Some(place) if size == self.world.size && place.is_none() => *place = Some((socket, greeting.process)),
                _ => {
                    let what = format!(
                        "a process announced itself as rank {rank} of {size}, which already exists or is invalid"
                    );
                    return Err(Failure::refused(what).remedy("start each rank once, all with the same launcher"));
                }
            }
        }
        // No rank can connect after this point; a traced run meets again under the same name.
        drop((listener, _file));
        let (mut sockets, processes): (Vec<Socket>, Vec<Process>) = others.into_iter().flatten().unzip();
        let own = Process::own();
        let board = StatusBoard::public(self.world.size).ok();
        let gate = SharedBarrier::public(self.world.size).ok();
        let path = board.as_ref().map(|(_, path)| path.as_str()).unwrap_or_default();
        let gate_path = gate.as_ref().map(|(_, path)| path.as_str()).unwrap_or_default();
        for (socket, rank) in sockets.iter_mut().zip(1..) {
            let welcome = format!("{}\n{}\n{path}\n{gate_path}", own.number, own.machine);
            socket
                .send(welcome.as_bytes())
                .map_err(|error| Failure::new(Kind::System, format!("lost connection to rank {rank}: {error}")))?;
        }
        let near = |process: &Process| (process.machine == own.machine).then_some(process.number);
        let processes = [None].into_iter().chain(processes.iter().map(near)).collect();
        let (board, gate) = (board.map(|(board, _)| board), gate.map(|(gate, _)| gate));
        Ok(Connections { sockets, processes, board, gate })
    }

    fn go_on(&self, others: &[Option<(Socket, Process)>]) -> Outcome<()> {
        if processes::interrupted() {
            return Err(Failure::interrupted());
        }
        if Instant::now() < self.until {
            return Ok(());
        }
        let missing = (1..).zip(others).filter(|(_, other)| other.is_none()).map(|(rank, _)| rank.to_string());
        let LaunchInfo { size, launcher, .. } = self.world;
        let missing = missing.collect::<Vec<_>>().join(", ");
        let what = format!(
            "these of the {size} processes that {launcher} started did not connect within {} s: rank {missing}",
            self.patience.as_secs_f64()
        );
        Err(self.failed(what))
    }

    fn failed(&self, what: String) -> Failure {
        let place = match &self.place {
            RankZeroAddress::Name(_) => {
                "all of them must run on one host, as the launcher reports, with the same arguments and \
                directory"
                    .into()
            }
            RankZeroAddress::File(file) => {
                format!("they find each other in {}: the directory must be shared by all hosts", file.display())
            }
        };
        Failure::new(Kind::System, what).remedy(place)
    }

    /// Listens, and publishes the address to the ranks of this launch. The address file is removed when the returned
    /// value is dropped.
    fn listen(&self, word: &str) -> Outcome<(Listener, Option<AddressFile>)> {
        match &self.place {
            RankZeroAddress::Name(name) => {
                let listener = UnixListener::bind_addr(name).map_err(|error| match error.kind() {
                    io::ErrorKind::AddrInUse => {
                        let what = "another rank 0 of the same run exists";
                        Failure::refused(what).remedy("concurrent runs need different arguments or directories")
                    }
                    _ => Failure::new(Kind::System, format!("cannot listen for the other ranks: {error}")),
                })?;
                Ok((Listener::Local(listener), None))
            }
            RankZeroAddress::File(path) => {
                let failed = |error| Failure::new(Kind::System, format!("cannot listen for the other ranks: {error}"));
                let listener = TcpListener::bind(("0.0.0.0", 0)).map_err(failed)?;
                let port = listener.local_addr().map_err(failed)?.port();
                let folder = path.parent().unwrap_or(Path::new("."));
                fs::create_dir_all(folder).map_err(|error| Failure::unwritable("create directory", folder, error))?;
                let announced = AddressFile(path.clone());
                announce(path, format!("{word}\n{port}\n{}", own_addresses().join("\n")).as_bytes())?;
                Ok((Listener::Port(listener), Some(announced)))
            }
        }
    }

    /// Connects to rank 0, however late it starts.
    fn join(&self) -> Outcome<Connections> {
        loop {
            if processes::interrupted() {
                return Err(Failure::interrupted());
            }
            if let Some(met) = self.connected().and_then(|(socket, word)| self.greeted(socket, &word)) {
                return Ok(met);
            }
            if Instant::now() > self.until {
                let within = self.patience.as_secs_f64();
                return Err(self.failed(format!("rank {} did not find rank 0 within {within} s", self.world.rank)));
            }
            processes::sleep(RETRY);
        }
    }

    fn connected(&self) -> Option<(Socket, String)> {
        match &self.place {
            RankZeroAddress::Name(name) => {
                let stream = UnixStream::connect_addr(name).ok()?;
                let ours = file_calls::user_at_the_other_end(&stream).ok()? == file_calls::user();
                ours.then(|| (Socket::Unix(stream), String::new()))
            }
            RankZeroAddress::File(path) => {
                // Either the file does not exist yet or it belongs to an earlier launch; in both cases try again.
                let text = fs::read_to_string(path).ok()?;
                let mut lines = text.lines();
                let (word, port) = (lines.next()?.to_string(), lines.next()?.parse::<u16>().ok()?);
                let stream = lines.find_map(|address| connected_to(address, port))?;
                stream.set_nodelay(true).ok()?;
                Some((Socket::Tcp(stream), word))
            }
        }
    }

    fn greeted(&self, mut socket: Socket, word: &str) -> Option<Connections> {
        let own = Process::own();
        let LaunchInfo { rank, size, .. } = self.world;
        let greeting = format!("{word}\n{rank}\n{size}\n{}\n{}", own.number, own.machine);
        socket.send(greeting.as_bytes()).ok()?;
        // Rank 0 responds when all ranks are connected; it closes connections that are not from a rank.
        while !file_calls::readable(&[&socket], LOOK)[0] {
            if processes::interrupted() || Instant::now() > self.until + ANSWER {
                return None;
            }
        }
        let Ok(Message::Bytes(welcome)) = socket.receive() else { return None };
        let welcome = String::from_utf8(welcome).ok()?;
        let lines: Vec<&str> = welcome.split('\n').collect();
        let [number, machine, board, gate] = lines[..] else { return None };
        let near = machine == own.machine;
        let shared = |path: &'_ str| (near && !path.is_empty()).then(|| PathBuf::from(path));
        let board = shared(board).and_then(|path| StatusBoard::at(&path, *size).ok());
        let gate = shared(gate).and_then(|path| SharedBarrier::at(&path, *size).ok());
        let root = if near { number.parse().ok() } else { None };
        Some(Connections { sockets: vec![socket], processes: vec![root], board, gate })
    }
}

/// The file in which rank 0 publishes its address; removed on drop.
struct AddressFile(PathBuf);

impl Drop for AddressFile {
    fn drop(&mut self) {
        // A rank that still reads the file finds no listener.
        let _ = fs::remove_file(&self.0);
    }
}

/// Writes the file with the address of rank 0 for the other ranks. Only this user can read it, and it appears complete
/// or not at all.
fn announce(path: &Path, bytes: &[u8]) -> Outcome<()> {
    let partial = partial_name(path);
    let created = File::options().write(true).create_new(true).mode(0o600).open(&partial);
    let written = created.and_then(|mut file| file.write_all(bytes));
    let renamed = written
        .map_err(|error| Failure::unwritable("write", path, error))
        .and_then(|()| fs::rename(&partial, path).map_err(|error| Failure::unwritable("rename", path, error)));
    renamed.inspect_err(|_| drop(fs::remove_file(&partial)))
}

/// Returns a secret; knowing it proves access to a file that only this user can read.
fn secret() -> String {
    let mut bytes = [0; 16];
    let drawn = File::open("/dev/urandom").and_then(|mut file| io::Read::read_exact(&mut file, &mut bytes));
    drawn.map_or_else(|_| String::new(), |()| bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn accepted(listener: &Listener) -> Option<Socket> {
    match listener {
        Listener::Local(listener) => {
            let (stream, _) = file_calls::readable(&[listener], LOOK)[0].then(|| listener.accept().ok())??;
            (file_calls::user_at_the_other_end(&stream).ok()? == file_calls::user()).then_some(Socket::Unix(stream))
        }
        Listener::Port(listener) => {
            let (stream, _) = file_calls::readable(&[listener], LOOK)[0].then(|| listener.accept().ok())??;
            stream.set_nodelay(true).ok()?;
            Some(Socket::Tcp(stream))
        }
    }
}

struct Greeting {
    rank: u64,
    size: u64,
    process: Process,
}

impl Greeting {
    /// Reads the greeting of a new connection; `None` if it is not from a rank of this launch or sends nothing.
    fn read_greeting(socket: &mut Socket, word: &str) -> Option<Greeting> {
        socket.set_limit(Some(ANSWER)).ok()?;
        let Ok(Message::Bytes(bytes)) = socket.receive() else { return None };
        socket.set_limit(None).ok()?;
        let text = String::from_utf8(bytes).ok()?;
        let lines: Vec<&str> = text.split('\n').collect();
        let [secret, rank, size, number, machine] = lines[..] else { return None };
        // On a local socket the kernel has reported which user is connected.
        let ours = matches!(socket, Socket::Unix(_)) || (secret == word && !word.is_empty());
        let process = Process { number: number.parse().ok()?, machine: machine.into() };
        ours.then_some(Greeting { rank: rank.parse().ok()?, size: size.parse().ok()?, process })
    }
}

/// Returns the addresses under which other hosts may reach this one, the likeliest first.
fn own_addresses() -> Vec<String> {
    let mut addresses: Vec<String> = std::env::var("MASTER_ADDR").into_iter().collect();
    // No packet is sent: the system only chooses the source address a packet would have.
    let outward = UdpSocket::bind(("0.0.0.0", 0)).and_then(|socket| {
        socket.connect(("192.0.2.1", 9))?;
        socket.local_addr()
    });
    addresses.extend(outward.ok().map(|address| address.ip().to_string()));
    addresses.extend([host::host_name(), "127.0.0.1".into()]);
    addresses
}

fn connected_to(address: &str, port: u16) -> Option<TcpStream> {
    let found: Vec<SocketAddr> = (address, port).to_socket_addrs().ok()?.collect();
    found.iter().find_map(|address| TcpStream::connect_timeout(address, ANSWER).ok())
}
