//! Tests that waits contain evidence of their causes: the thread that ended them, and their thread's work before.

use std::process::Command;

use dlio_tests::compile::compile;
use dlio_tests::sandbox::Sandbox;
use dlio_tests::seen::{Event, RecordedTrace};
use dlio_tests::{artefacts, home, seen};

use dlio_schemas::evidence::Waker;

/// One of the jobs, traced; and the numbers it printed.
struct Job {
    sandbox: Sandbox,
    seen: RecordedTrace,
    said: Vec<Vec<u64>>,
}

impl Job {
    fn run(name: &str, format: &str) -> Job {
        let sandbox = Sandbox::new(&format!("evidence.{format}.{}", name.replace(' ', "_"))).unwrap();
        let binary = sandbox.root().join("jobs");
        compile(&home().join("evidence/jobs.c"), &binary, &["-pthread"]).unwrap();
        let mut command = Command::new(&binary);
        command.arg(name).env("LD_PRELOAD", artefacts::library().unwrap());
        command.env("DLIO_TRACE_DIR", sandbox.trace()).env("DLIO_TRACE_FORMAT", format);
        let run = sandbox.run(&mut command, true).unwrap();
        assert_eq!(run.exit, "0", "{}", String::from_utf8_lossy(&run.errors));
        let text = String::from_utf8_lossy(&run.output);
        let said = text.lines().map(|line| line.split(' ').map(|word| word.parse().unwrap()).collect()).collect();
        let seen = seen::read(&sandbox.trace());
        assert!(seen.faults.is_empty(), "{:?}", seen.faults);
        Job { sandbox, seen, said }
    }

    /// Returns the waits for an object, by its address.
    fn waits(&self, object: u64) -> Vec<(&Event, Waker)> {
        let waits = self
            .seen
            .events()
            .filter(|event| event.a == Some(object as i64) && event.name != "sem_post" && event.name != "futex_wake");
        waits.map(|event| (event, Waker::unpack(event.b))).collect()
    }
}

/// Asserts that most waits name the thread that ended them, and none names another. A thread that lost its processor
/// between two calls may have come too late to be registered as a waiter.
fn names_the_waker(job: &Job, of: impl Fn(&Event) -> bool) {
    assert!(!job.said.is_empty());
    for line in &job.said {
        let [object, tid] = line[..] else { panic!("{line:?}") };
        let waits: Vec<_> = job.waits(object).into_iter().filter(|(event, _)| of(event)).collect();
        let right = waits.iter().filter(|(_, waker)| waker.tid as u64 == tid && waker.flags == 0).count();
        let wrong: Vec<_> = waits.iter().filter(|(_, waker)| waker.tid != 0 && waker.tid as u64 != tid).collect();
        assert!(wrong.is_empty(), "{tid} is the waker: {wrong:?}");
        assert!(right > 0 && right * 10 >= waits.len() * 9, "{right} of {}: {waits:?}", waits.len());
        assert!(waits.iter().all(|(_, waker)| waker.woken_us < 100_000), "{waits:?}");
    }
}

#[test]
fn waits_name_the_thread_that_ended_them() {
    for job in ["semaphores", "conditions", "barriers", "c11", "futexes"] {
        for format in ["native", "perfetto"] {
            // The last one to arrive does not wait.
            let job = Job::run(job, format);
            let last = job.said[0][1];
            names_the_waker(&job, |event| event.name != "pthread_barrier_wait" || event.tid as u64 != last);
        }
    }
}

#[test]
fn child_inherits_no_waiters() {
    let job = Job::run("forks", "native");
    // A thread of the parent waits at the same address.
    let of_child: Vec<u64> = job.said.iter().map(|line| line[1]).collect();
    names_the_waker(&job, |event| of_child.contains(&(event.tid as u64)));
}

#[test]
fn lock_and_handover_semaphores_differ() {
    for name in ["lock", "tried lock"] {
        let job = Job::run(name, "native");
        let waits = job.waits(job.said[0][0]);
        let by_taker = waits.iter().filter(|(_, waker)| waker.tid != 0 && waker.flags & Waker::BY_TAKER != 0).count();
        assert!(by_taker > 10 && by_taker * 10 >= waits.len() * 9, "{name}: {by_taker} of {}", waits.len());
    }
}

#[test]
fn shared_semaphore_has_one_id() {
    for name in ["named", "unnamed"] {
        let job = Job::run(name, "perfetto");
        let posts: Vec<_> = job.seen.named("sem_post").collect();
        assert_eq!(posts.len(), 5, "{name}");
        let shared = Waker { flags: Waker::SHARED, ..Waker::default() };
        assert!(posts.iter().all(|post| Waker::unpack(post.b) == shared && post.a == posts[0].a), "{name}: {posts:?}");
        let [_, child] = job.said[0][..] else { panic!("{:?}", job.said) };
        assert!(posts.iter().all(|post| post.tid as u64 == child));
        let waits = job.waits(posts[0].a.unwrap() as u64);
        assert!(waits.len() >= 3 && waits.iter().all(|(_, waker)| *waker == shared), "{name}: {waits:?}");
    }
}

#[test]
fn compute_between_waits_counts_for_its_thread() {
    for format in ["native", "perfetto"] {
        let job = Job::run("computes", format);
        let naps: Vec<_> = job.seen.named("usleep").map(|event| event.counters.unwrap()).collect();
        assert_eq!(naps.len(), 2);
        assert!((45_000..55_000).contains(&naps[1].cpu_us), "{naps:?}");
        assert!(naps[1].voluntary >= 1 && naps[1].run_delay_us.is_some(), "{naps:?}");
    }
}

#[test]
fn maker_without_waits_counts_at_its_posts() {
    for way in ["delivers", "delivers by eventfd"] {
        let job = Job::run(way, "native");
        let writes: Vec<_> = job.seen.named("write").filter_map(|event| event.counters).collect();
        assert_eq!(writes.len(), 10, "{way}");
        let cpu: u64 = writes[1..].iter().map(|counters| counters.cpu_us).sum();
        assert!((44_000..54_000).contains(&cpu), "{writes:?}");
        assert!(writes[1..].iter().all(|counters| (4_500..7_000).contains(&counters.cpu_us)), "{writes:?}");
    }
}

#[test]
fn missing_pages_are_major_faults() {
    let job = Job::run("faults", "native");
    let counters = job.seen.named("usleep").last().unwrap().counters.unwrap();
    // None if the file system keeps its pages.
    let faults = job.said[0][0];
    assert!((faults..=faults + 3).contains(&counters.major_faults), "{faults}: {counters:?}");
}

/// Counters are not events if events are only counted: the table has the number of events that the process reports.
#[test]
fn table_of_counts_matches_its_event_count() {
    let sandbox = Sandbox::new("evidence.summary").unwrap();
    let binary = sandbox.root().join("jobs");
    compile(&home().join("evidence/jobs.c"), &binary, &["-pthread"]).unwrap();
    let mut command = Command::new(&binary);
    command.arg("semaphores").env("LD_PRELOAD", artefacts::library().unwrap());
    command.env("DLIO_TRACE_DIR", sandbox.trace()).env("DLIO_TRACE_MODE", "summary");
    assert_eq!(sandbox.run(&mut command, true).unwrap().exit, "0");
    let mut asked = Command::new(artefacts::command("dlio-analyze").unwrap());
    let run = sandbox.run(asked.arg(sandbox.trace()).arg("--strict"), true).unwrap();
    assert_eq!(run.exit, "0", "{}", String::from_utf8_lossy(&run.errors));
}

#[test]
fn counters_and_wakers_survive_export() {
    let job = Job::run("semaphores", "native");
    let copies = job.sandbox.root().join("copies");
    std::fs::create_dir_all(&copies).unwrap();
    let mut export = Command::new(artefacts::command("dlio-analyze").unwrap());
    export.arg(job.sandbox.trace()).arg("--export").arg(copies.join("copy.pftrace"));
    let run = job.sandbox.run(&mut export, true).unwrap();
    assert_eq!(run.exit, "0", "{}", String::from_utf8_lossy(&run.errors));
    let copy = seen::read(&copies);
    assert!(copy.faults.is_empty(), "{:?}", copy.faults);
    let rows = |seen: &RecordedTrace| -> Vec<_> {
        let row = |event: &Event| {
            let Event { tid, start_ns, duration_ns, a, b, counters, .. } = event;
            // Calls without arguments have none in an export.
            (*tid, *start_ns, *duration_ns, event.name, a.filter(|a| *a != 0), *b, *counters)
        };
        let mut rows: Vec<_> = seen.events().map(row).map(|row| format!("{row:?}")).collect();
        rows.sort();
        rows
    };
    let (before, after) = (rows(&job.seen), rows(&copy));
    assert!(before.iter().any(|row| row.contains("cpu_us")));
    assert_eq!(before, after);
}
