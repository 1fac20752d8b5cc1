//! Tests that objects between processes have the same name at both ends, and that traffic through them is in the
//! trace.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use dlio_schemas::objects::{Kind, Object};
use dlio_tests::compile::compile;
use dlio_tests::sandbox::Sandbox;
use dlio_tests::seen::{Event, RecordedTrace};
use dlio_tests::{artefacts, seen};

/// Communicates through each kind of object and prints what it did.
const PROGRAM: &str = r#"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static void must(int right) { if (!right) { perror("program"); exit(1); } }
static unsigned long inode(int fd) { struct stat s; must(fstat(fd, &s) == 0); return s.st_ino; }
static void say(const char *what, unsigned long number) { printf("%s %lu\n", what, number); fflush(stdout); }
static void later(void) { usleep(20000); }

/* A pipe between parent and child, and a second one that another program inherits. */
static void pipes(void) {
    int a[2], b[2];
    char bytes[64];
    must(pipe(a) == 0 && pipe2(b, 0) == 0);
    say("pipe", inode(a[0]));
    say("exec", inode(b[1]));
    if (fork() == 0) { later(); must(write(a[1], "abcde", 5) == 5); _exit(0); }
    must(read(a[0], bytes, 64) == 5);
    if (fork() == 0) { dup2(b[1], 1); execlp("cat", "cat", "data", NULL); _exit(1); }
    must(read(b[0], bytes, 64) == 7);
    while (wait(NULL) > 0) {}
    /* The second of two is found ready. */
    struct pollfd list[2] = {{a[0], POLLIN}, {b[0], POLLIN}};
    if (fork() == 0) { later(); must(write(b[1], "x", 1) == 1); _exit(0); }
    must(poll(list, 2, -1) == 1 && list[1].revents);
    fd_set set;
    FD_ZERO(&set); FD_SET(a[0], &set); FD_SET(b[0], &set);
    must(read(b[0], bytes, 64) == 1);
    if (fork() == 0) { later(); must(write(a[1], "y", 1) == 1); _exit(0); }
    must(select((a[0] > b[0] ? a[0] : b[0]) + 1, &set, NULL, NULL, NULL) == 1 && FD_ISSET(a[0], &set));
    while (wait(NULL) > 0) {}
}

static void pairs(void) {
    int s[2];
    char bytes[64];
    must(socketpair(AF_UNIX, SOCK_STREAM, 0, s) == 0);
    say("first", inode(s[0]));
    say("second", inode(s[1]));
    if (fork() == 0) { later(); must(send(s[1], "four", 4, 0) == 4); _exit(0); }
    must(recv(s[0], bytes, 64, 0) == 4);
    must(shutdown(s[0], SHUT_RDWR) == 0);
    int e = eventfd(0, 0), f = eventfd(0, EFD_NONBLOCK);
    unsigned long number = 3;
    fcntl(e, F_SETFL, 0);
    if (fork() == 0) { later(); must(write(e, &number, 8) == 8); _exit(0); }
    must(read(e, &number, 8) == 8 && number == 3);
    must(write(f, &number, 8) == 8);
    while (wait(NULL) > 0) {}
}

static void tcp(void) {
    struct sockaddr_in at = {AF_INET, 0, {htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof at;
    char bytes[64];
    int server = socket(AF_INET, SOCK_STREAM, 0);
    must(bind(server, (void *)&at, sizeof at) == 0 && listen(server, 5) == 0);
    must(getsockname(server, (void *)&at, &length) == 0);
    say("port", ntohs(at.sin_port));
    if (fork() == 0) {
        later();
        int client = socket(AF_INET, SOCK_STREAM, 0);
        /* Named once before it is connected. */
        fcntl(client, F_SETFL, 0);
        must(connect(client, (void *)&at, sizeof at) == 0);
        must(send(client, "hello", 5, 0) == 5);
        must(recv(client, bytes, 64, MSG_WAITALL) == 7);
        _exit(0);
    }
    int taken = accept(server, NULL, NULL);
    must(read(taken, bytes, 64) == 5);
    int data = open("data", O_RDONLY);
    must(sendfile(taken, data, NULL, 64) == 7);
    close(taken);
    while (wait(NULL) > 0) {}
    /* Nobody listens there any more. */
    close(server);
    int late = socket(AF_INET, SOCK_STREAM, 0);
    must(connect(late, (void *)&at, sizeof at) == -1 && errno == ECONNREFUSED);
}

static void udp(void) {
    struct sockaddr_in at = {AF_INET, 0, {htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof at;
    char bytes[64];
    int here = socket(AF_INET, SOCK_DGRAM, 0), there = socket(AF_INET, SOCK_DGRAM, 0);
    must(bind(here, (void *)&at, sizeof at) == 0 && getsockname(here, (void *)&at, &length) == 0);
    say("datagrams", ntohs(at.sin_port));
    must(connect(there, (void *)&at, sizeof at) == 0 && send(there, "one", 3, 0) == 3);
    must(recvfrom(here, bytes, 64, 0, NULL, NULL) == 3);
    struct iovec list[2] = {{bytes, 2}, {bytes, 4}};
    struct mmsghdr messages[2] = {{{.msg_iov = list, .msg_iovlen = 2}}, {{.msg_iov = list, .msg_iovlen = 1}}};
    must(sendmmsg(there, messages, 2, 0) == 2);
    must(recvmmsg(here, messages, 2, 0, NULL) == 2);
    must(sendmsg(there, &messages[0].msg_hdr, 0) == 6 && recvmsg(here, &messages[0].msg_hdr, 0) == 6);
}

static void local(void) {
    struct sockaddr_un at = {AF_UNIX, "socket"};
    char byte;
    int server = socket(AF_UNIX, SOCK_STREAM, 0);
    must(bind(server, (void *)&at, sizeof at) == 0 && listen(server, 5) == 0);
    int child = fork();
    if (child == 0) {
        later();
        int client = socket(AF_UNIX, SOCK_STREAM, 0);
        must(connect(client, (void *)&at, sizeof at) == 0 && send(client, "z", 1, 0) == 1);
        _exit(0);
    }
    say("client", child);
    say("server", getpid());
    int taken = accept(server, NULL, NULL);
    must(recv(taken, &byte, 1, 0) == 1);
    while (wait(NULL) > 0) {}
}

int main(void) {
    int data = open("data", O_CREAT | O_RDWR, 0600);
    must(write(data, "seven b", 7) == 7);
    pipes();
    pairs();
    tcp();
    udp();
    local();
    int s[2];
    char byte;
    must(socketpair(AF_UNIX, SOCK_STREAM, 0, s) == 0 && fcntl(s[0], F_SETFL, O_NONBLOCK) == 0);
    for (int i = 0; i < 1000; i++) must(recv(s[0], &byte, 1, 0) == -1 && errno == EAGAIN);
    struct addrinfo *found;
    must(getaddrinfo("localhost", NULL, NULL, &found) == 0);
    errno = 77;
    must(send(-1, "x", 1, 0) == -1 && errno == EBADF);
    return 0;
}
"#;

const EBADF: i64 = 9;
const EAGAIN: i64 = 11;
const ECONNREFUSED: i64 = 111;

struct Traced {
    sandbox: Sandbox,
    seen: RecordedTrace,
    /// The program's output about itself.
    said: BTreeMap<String, u64>,
}

impl Traced {
    fn new(name: &str, variables: &[(&str, &str)]) -> Traced {
        let sandbox = Sandbox::new(name).unwrap();
        let (source, binary) = (sandbox.root().join("program.c"), sandbox.root().join("program"));
        std::fs::write(&source, PROGRAM).unwrap();
        compile(&source, &binary, &[]).unwrap();
        let mut command = Command::new(&binary);
        command.env("LD_PRELOAD", artefacts::library().unwrap()).env("DLIO_TRACE_DIR", sandbox.trace());
        let run = sandbox.run(command.envs(variables.iter().copied()), true).unwrap();
        let text = String::from_utf8_lossy(&run.output).into_owned();
        assert_eq!(run.exit, "0", "{text}{}", String::from_utf8_lossy(&run.errors));
        let word = |line: &str| line.split_once(' ').map(|(what, number)| (what.into(), number.parse().unwrap()));
        let said = text.lines().filter_map(word).collect();
        Traced { seen: seen::read(&sandbox.trace()), said, sandbox }
    }

    fn analyze(&self, arguments: &[&str]) -> String {
        let run =
            self.sandbox.run(Command::new(artefacts::command("dlio-analyze").unwrap()).args(arguments), true).unwrap();
        assert_eq!(run.exit, "0", "{arguments:?}: {}", String::from_utf8_lossy(&run.errors));
        String::from_utf8_lossy(&run.output).into_owned()
    }

    /// Returns the events on an object of a name.
    fn on(&self, name: &str) -> Vec<&Event> {
        self.seen.events().filter(|event| event.file.as_deref() == Some(name)).collect()
    }

    /// Returns the calls on a name, and the number of processes that made them.
    fn calls(&self, name: &str) -> (BTreeMap<&'static str, u64>, usize) {
        let threads: BTreeSet<u32> = self.on(name).iter().map(|event| event.tid).collect();
        (seen::tally(self.on(name).into_iter()), threads.len())
    }
}

fn object(event: &Event) -> Option<Object> {
    Object::parse(event.file.as_deref()?)
}

fn bytes(events: &[&Event], name: &str) -> i64 {
    events.iter().filter(|event| event.name == name).map(|event| event.ret).sum()
}

#[test]
fn an_object_has_one_name_in_every_process() {
    for format in ["native", "perfetto"] {
        let traced = Traced::new(&format!("net.names.{format}"), &[("DLIO_TRACE_FORMAT", format)]);
        assert_eq!((traced.seen.lost(), &traced.seen.faults), (0, &vec![]));
        let name = |kind: &str, said: &str| format!("<{kind} {}>", traced.said[said]);
        let (calls, processes) = traced.calls(&name("pipe", "pipe"));
        assert_eq!((calls["pipe"], calls["read"], calls["write"], processes), (1, 1, 2, 3), "{format}");
        assert_eq!(calls["select"], 1, "the first descriptor that was ready");
        let exec = traced.on(&name("pipe", "exec"));
        assert_eq!((bytes(&exec, "read"), bytes(&exec, "write")), (8, 8), "by `cat` and by a child");
        assert!(exec.iter().any(|event| event.name == "poll" && event.ret == 1), "the second of two was ready");
        let [first, second] = ["first", "second"].map(|said| traced.on(&name("socket", said)));
        let pair = first.iter().find(|event| event.name == "socketpair").expect("the pair");
        assert_eq!((pair.a, pair.b as u64), (Some(traced.said["first"] as i64), traced.said["second"]));
        assert_eq!((bytes(&first, "recv"), bytes(&second, "send")), (4, 4));
        assert!(first.iter().any(|event| event.name == "shutdown"));
        let eventfds = traced.seen.events().filter(|event| object(event).is_some_and(|it| it.kind == Kind::Eventfd));
        let mut by_id: BTreeMap<u64, Vec<&str>> = BTreeMap::new();
        eventfds.for_each(|event| by_id.entry(object(event).unwrap().id).or_default().push(event.name));
        let mut moves: Vec<Vec<&str>> = by_id.into_values().collect();
        moves.iter_mut().for_each(|calls| calls.retain(|call| ["read", "write"].contains(call)));
        moves.iter_mut().for_each(|calls| calls.sort_unstable());
        assert_eq!(moves, [vec!["read", "write"], vec!["write"]], "two of one process, one in its child too");
    }
}

#[test]
fn both_ends_of_a_connection_match() {
    let traced = Traced::new("net.ends", &[]);
    let tcp = |event: &&Event| object(event).is_some_and(|it| it.kind == Kind::Tcp && it.peer.is_some());
    let ended = |event: &&Event| event.name != "connect" || event.ret == 0;
    let events: Vec<&Event> = traced.seen.events().filter(tcp).filter(ended).collect();
    let ids: BTreeSet<u64> = events.iter().map(|event| object(event).unwrap().id).collect();
    let names: BTreeSet<&str> = events.iter().filter_map(|event| event.file.as_deref()).collect();
    assert_eq!((ids.len(), names.len()), (1, 2), "{names:?}");
    let port = traced.said["port"] as u16;
    let client: Vec<&Event> =
        events.iter().copied().filter(|event| object(event).unwrap().peer.unwrap().port() == port).collect();
    let server: Vec<&Event> =
        events.iter().copied().filter(|event| object(event).unwrap().local.unwrap().port() == port).collect();
    assert_eq!((bytes(&client, "send"), bytes(&server, "read")), (5, 5));
    assert_eq!((bytes(&server, "sendfile"), bytes(&client, "recv")), (7, 7));
    assert!(client.iter().any(|event| event.name == "connect") && server.iter().any(|event| event.name == "accept"));
    let refused = traced.seen.named("connect").find(|event| event.ret == -ECONNREFUSED);
    assert_eq!(object(refused.expect("a failed one")).unwrap().peer.unwrap().port(), port);

    let udp = |name: &'static str| -> Vec<&Event> {
        let is_udp = |event: &&Event| object(event).is_some_and(|it| it.kind == Kind::Udp);
        traced.seen.named(name).filter(is_udp).collect()
    };
    let here = traced.said["datagrams"] as u16;
    assert_eq!((bytes(&udp("send"), "send"), bytes(&udp("recvfrom"), "recvfrom")), (3, 3));
    assert_eq!((bytes(&udp("sendmmsg"), "sendmmsg"), bytes(&udp("recvmmsg"), "recvmmsg")), (8, 8));
    assert_eq!((udp("recvmmsg")[0].a, udp("sendmmsg")[0].b), (Some(2), 8));
    assert_eq!((bytes(&udp("sendmsg"), "sendmsg"), udp("recvmsg")[0].ret), (6, 6));
    assert_eq!(object(udp("recvfrom")[0]).unwrap().local.unwrap().port(), here);
    assert_eq!(object(udp("send")[0]).unwrap().peer.unwrap().port(), here);

    // Each local socket knows the process at the other end.
    let local = |name| traced.seen.named(name).find(|event| object(event).is_some_and(|it| it.kind == Kind::Socket));
    let said = |what: &str| Some(traced.said[what] as i64);
    assert_eq!(local("connect").expect("one by AF_UNIX").a, said("server"));
    assert_eq!(local("accept").expect("one by AF_UNIX").a, said("client"));
}

#[test]
fn empty_receives_are_counted_and_hosts_named() {
    let traced = Traced::new("net.nothing", &[("DLIO_TRACE_INCLUDE", "/nowhere/**")]);
    let recorded = traced.seen.named("recv").filter(|event| event.ret == -EAGAIN).count() as u64;
    let filtered: u64 = traced.seen.processes.iter().map(|process| process.filtered).sum();
    // A busy host delays a few of them.
    assert!(recorded < 200 && recorded + filtered >= 1000, "{recorded} are recorded, {filtered} left out");
    let looked_up = traced.seen.named("getaddrinfo").next().expect("a look-up");
    assert_eq!(looked_up.file.as_deref(), Some("<host localhost>"));
    let failed = traced.seen.named("send").find(|event| event.ret < 0).expect("one that failed");
    assert_eq!((failed.ret, failed.file.as_deref()), (-EBADF, Some("<socket>")));
}

#[test]
fn layer_can_be_excluded() {
    let traced = Traced::new("net.layers", &[("DLIO_TRACE_LAYERS", "posix,process")]);
    let net = ["recv", "send", "connect", "socketpair", "getaddrinfo", "eventfd"];
    assert!(traced.seen.events().all(|event| !net.contains(&event.name)));
    assert!(!traced.on(&format!("<pipe {}>", traced.said["pipe"])).is_empty());
}

#[test]
fn messages_are_not_io_in_any_format() {
    const FILES: &str = "select count(*) from files where path like '<pipe%'";
    const CALLS: &str = "select name, class, sum(bytes) as bytes from events where layer = 'net' and bytes > 0 \
                         group by name, class order by name";
    const SENT: &str = "select name, class, bytes from events where name = 'sendfile' and file like '%/data'";
    for format in ["native", "perfetto", "chrome"] {
        let traced = Traced::new(&format!("net.forms.{format}"), &[("DLIO_TRACE_FORMAT", format)]);
        let trace = traced.sandbox.trace().display().to_string();
        let sql = |of: &str, query: &str| traced.analyze(&[of, "--format", "csv", "--sql", query]);
        let found = sql(&trace, CALLS);
        assert!(found.contains("recv,read,12\n") && found.contains("sendmmsg,write,8\n"), "{format}: {found}");
        assert_eq!(sql(&trace, FILES), "count(*)\n1\n", "{format}: pipes are counted together");
        assert_eq!(sql(&trace, SENT), "name,class,bytes\nsendfile,read,7\n", "{format}");
        let report = traced.analyze(&[&trace, "--format", "json"]);
        let report: serde_json::Value = serde_json::from_str(&report).unwrap();
        let names = |section: &str| -> Vec<(String, String)> {
            let rows = report[section].as_array().unwrap_or_else(|| panic!("no {section}"));
            let text = |row: &serde_json::Value, key: &str| row[key].as_str().unwrap().to_string();
            rows.iter().map(|row| (text(row, "name"), text(row, "cat"))).collect()
        };
        let (files, past) = (names("functions"), names("past_files"));
        assert!(files.iter().all(|(_, cat)| cat != "net") && past.contains(&("recv".into(), "net".into())));
        assert!(files.contains(&("sendfile".into(), "posix".into())), "a file was read");
        let polls = past.iter().filter(|(name, _)| name == "poll").count();
        assert_eq!(polls, 1, "{format}: on whatever it waited");
        // The file was written once, and read by `cat` and by `sendfile`.
        let moved: u64 =
            report["processes"].as_array().unwrap().iter().map(|p| p["bytes_read"].as_u64().unwrap()).sum();
        assert_eq!(moved, 14, "{format}");
        if format == "chrome" {
            continue;
        }
        traced.analyze(&[&trace, "--export", "p.pftrace", "--export", "c.json.gz", "--parquet", "tables"]);
        for copy in ["p.pftrace", "c.json.gz", "tables"] {
            assert_eq!(sql(copy, CALLS), found, "{format} as {copy}");
            assert_eq!(sql(copy, SENT), "name,class,bytes\nsendfile,read,7\n", "{format} as {copy}");
        }
    }
}

#[test]
fn counting_keeps_one_row_for_all_pipes() {
    let traced = Traced::new("net.counted", &[("DLIO_TRACE_MODE", "summary")]);
    let trace = traced.sandbox.trace().display().to_string();
    let report: serde_json::Value = serde_json::from_str(&traced.analyze(&[&trace, "--format", "json"])).unwrap();
    let read: u64 = report["files"].as_array().unwrap().iter().map(|file| file["bytes_read"].as_u64().unwrap()).sum();
    assert_eq!(read, 7, "by `cat`: {report}");
    let text = traced.analyze(&[&trace]);
    assert!(!text.contains("<pipe "), "{text}");
}
