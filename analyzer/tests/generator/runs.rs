//! Complete scripted runs: one for each rule of the findings, and a healthy one.

use dlio_schemas::evidence::{Child, ChildEnd};
use dlio_schemas::native::fields::key;
use dlio_schemas::ops::Op;
use dlio_schemas::record::{POS_UNKNOWN, STEP_NONE};

use super::START;
use super::script::Script;

pub const MIB: i64 = 1 << 20;

/// A trainer and its workers. In each step the trainer waits and computes, and each worker needs as long for its
/// batch.
#[derive(Clone, Copy)]
pub struct Loader {
    steps: u64,
    epochs: u64,
    wait_us: u64,
    compute_us: u64,
    workers: i32,
}

impl Loader {
    /// Returns steps of 100 ms, most of it computing.
    pub fn healthy() -> Loader {
        Loader { steps: 100, epochs: 1, wait_us: 1000, compute_us: 99_000, workers: 2 }
    }

    /// Returns a loader that waits for half of its time.
    pub fn starved() -> Loader {
        Loader { wait_us: 50_000, compute_us: 50_000, ..Loader::healthy() }
    }

    fn step_us(&self) -> u64 {
        self.wait_us + self.compute_us
    }

    fn trainer(&self) -> Script {
        let mut trainer = Script::new(100, 1);
        (0..self.steps).for_each(|step| self.step(&mut trainer, step, self.wait_us));
        trainer
    }

    fn step(&self, trainer: &mut Script, step: u64, wait_us: u64) {
        let (now, epoch) = (trainer.now(), step * self.epochs / self.steps);
        trainer.span_at(now, wait_us, "fetch", "dataloader", (epoch as i32, step as i32));
        trainer.at(now + wait_us).span("train", "compute", self.compute_us);
    }

    /// Returns workers that run `batch` at the start of each step, given their number and that of the step.
    fn processes(&self, batch: impl Fn(&mut Script, u64, u64)) -> Vec<Script> {
        let worker = |number: i32| {
            let mut worker = Script::new(200 + number, 100);
            for step in 0..self.steps {
                worker.at(step * self.step_us() + 10);
                batch(&mut worker, number as u64, step);
            }
            worker
        };
        [self.trainer()].into_iter().chain((0..self.workers).map(worker)).collect()
    }
}

/// Returns a separate data file for each worker and step.
pub fn sample(worker: u64, step: u64) -> String {
    format!("/data/{}/sample-{step}.npy", ["one", "two", "three", "four"][worker as usize])
}

/// Returns a worker's batch that reads one large file in this time.
fn load(us: u64) -> impl Fn(&mut Script, u64, u64) {
    move |worker, number, step| {
        worker.load(&sample(number, step), 8 * MIB, us);
    }
}

/// Returns workers that read all the time, as with storage that is too slow.
pub fn slow_storage(loader: &Loader) -> Vec<Script> {
    loader.processes(load(loader.step_us() - 1000))
}

/// Returns workers that read from an object store all the time: requests for objects, and no file calls.
pub fn slow_store(loader: &Loader) -> Vec<Script> {
    let us = loader.step_us() - 1000;
    loader.processes(|worker, number, step| {
        worker.get(&object(number * 1000 + step), 8 * MIB, us);
    })
}

pub fn object(number: u64) -> String {
    format!("s3://bucket/data/sample-{number}.npy")
}

/// Returns one process without any span.
fn plain(work: impl FnOnce(&mut Script)) -> Vec<Script> {
    let mut program = Script::new(100, 1);
    work(&mut program);
    vec![program]
}

/// Returns one process without any span, file by file.
fn by_file(files: u64, work: impl Fn(&mut Script, &str)) -> Vec<Script> {
    plain(|program| (0..files).for_each(|file| work(program, &sample(0, file))))
}

/// A run, and the rules that must fire.
pub type Scenario = (&'static str, Vec<Script>, &'static [&'static str]);

pub fn scenarios() -> Vec<Scenario> {
    [
        training(),
        causes(),
        machines(),
        accesses(),
        whole_files(),
        objects(),
        data_sets(),
        requests(),
        asking(),
        ranks_and_saving(),
        gpus(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Returns a trainer whose batches are ready, and what its GPU and its host do in each step of 100 ms, given its start.
fn on_gpu(work: impl Fn(&mut Script, u64)) -> Vec<Script> {
    let mut trainer = Script::new(100, 1);
    for step in 0..100 {
        let start = step * 100_000;
        trainer.span_at(start, 1_000, "fetch", "dataloader", (0, step as i32));
        work(&mut trainer, start);
    }
    vec![trainer]
}

fn gpus() -> Vec<Scenario> {
    const PAGEABLE: &str = "Memcpy HtoD (Pageable -> Device)";
    const UNKNOWN: (i32, i32) = (STEP_NONE, STEP_NONE);
    let launching = on_gpu(|trainer, start| {
        trainer.span_at(start + 10_000, 40_000, "gemm", "kernel", UNKNOWN);
    });
    let waiting = on_gpu(|trainer, start| {
        trainer.at(start + 20_000).call(Op::CUDA_STREAM_SYNCHRONIZE, "", 70_000, (0, 0, 0));
        trainer.span_at(start + 20_000, 70_000, "gemm", "kernel", UNKNOWN);
    });
    let copying = on_gpu(|trainer, start| {
        trainer.span_at(start + 1_000, 3_000, PAGEABLE, "gpu_memcpy", UNKNOWN);
        trainer.span_at(start + 4_000, 96_000, "gemm", "kernel", UNKNOWN);
    });
    vec![
        ("gpu-without-work", launching, &["launch-bound"]),
        ("gpu-waited-for", waiting, &["compute-bound", "sync-every-step"]),
        ("gpu-with-slow-copies", copying, &["pageable-copies"]),
    ]
}

fn training() -> Vec<Scenario> {
    let (healthy, starved) = (Loader::healthy(), Loader::starved());
    let few_cores = || {
        let mut processes = slow_storage(&starved);
        processes.iter_mut().for_each(|process| process.cores = 1);
        processes
    };
    let again = || {
        let loader = Loader { epochs: 2, ..starved };
        let mut processes = loader.processes(|worker, number, step| load(99_000)(worker, number, step % 50));
        processes.iter_mut().for_each(|process| process.memory = Some(64 << 30));
        processes
    };
    let same = || starved.processes(|worker, _, step| load(99_000)(worker, 0, step));
    vec![
        ("healthy", healthy.processes(load(30_000)), &["compute-bound"]),
        ("slow-storage", slow_storage(&starved), &["input-bound", "loader-capacity"]),
        ("decoding", starved.processes(load(5000)), &["input-bound", "loader-capacity", "loader-cpu-bound"]),
        ("no-workers", no_workers(), &["input-bound", "no-overlap"]),
        ("metadata", starved.processes(many_opens), &["input-bound", "loader-capacity", "metadata-bound"]),
        ("few-cores", few_cores(), &["input-bound", "loader-capacity", "too-many-readers"]),
        ("two-epochs", again(), &["input-bound", "loader-capacity", "would-fit"]),
        ("same-files", same(), &["input-bound", "loader-capacity", "redundant-reads"]),
        (
            "uneven",
            taking_turns(|step| if step % 8 == step / 8 % 4 { 150_000 } else { 1000 }, 9),
            &["input-bound", "loader-jitter"],
        ),
        (
            "one-slow",
            taking_turns(|step| if step % 4 == 2 { 60_000 } else { 1000 }, 2),
            &["input-bound", "loader-cpu-bound", "slow-worker"],
        ),
        ("restarted", restarted(), &["input-bound", "workers-restart"]),
        ("saturated", in_flight(|at_once| 32 * MIB / at_once), &["input-bound", "storage-saturated"]),
        ("latency", in_flight(|_| 8 * MIB), &["input-bound", "loader-capacity", "storage-latency-bound"]),
        ("slow-start", slow_start(), &["compute-bound", "slow-start"]),
        ("lost", lost(), &["compute-bound", "trust"]),
    ]
}

/// Returns a reader that delivers 40 batches through its own pipe, one every 100 ms, and runs `work` for each.
fn handed_over(work: impl Fn(&mut Script, u64)) -> Vec<Script> {
    let (mut trainer, mut reader) = (Script::new(100, 1), Script::new(200, 100));
    for step in 0..40 {
        trainer.at(step * 100_000).call(Op::READ, PIPE, 79_998, (POS_UNKNOWN, 8, 8));
        trainer.span_at(step * 100_000, 80_000, "fetch", "dataloader", (0, step as i32));
        trainer.at(step * 100_000 + 80_000).span("train", "compute", 20_000);
        reader.at((step * 100_000).saturating_sub(20_000) + 10);
        work(&mut reader, step);
        let end = step * 100_000 + 79_990;
        reader.at(end.max(reader.now())).call(Op::WRITE, PIPE, 5, (POS_UNKNOWN, 8, 8));
    }
    vec![trainer, reader]
}

const PIPE: &str = "<pipe 71>";
const CONNECTION: &str = "<tcp 10.0.0.1:5000 10.0.0.2:80>";

/// Returns readers whose work is not file calls.
fn causes() -> Vec<Scenario> {
    let sleeping = handed_over(|reader, step| {
        reader.call(Op::NANOSLEEP, "", if step == 0 { 79_000 } else { 99_000 }, (0, 0, 0));
    });
    // The reader sleeps between attempts to take a lock.
    let polling = handed_over(|reader, step| {
        for _ in 0..if step == 0 { 7 } else { 9 } {
            reader.call(Op::FCNTL, "/data/index.db", 5, (6, 0, -11)).call(Op::NANOSLEEP, "", 10_990, (0, 0, 0));
        }
    });
    let asking = handed_over(|reader, step| {
        reader.call(Op::RECV, CONNECTION, if step == 0 { 79_000 } else { 99_000 }, (POS_UNKNOWN, 8, 8));
    });
    let starting = handed_over(|reader, step| {
        let child = Child { pid: 300 + step as u32, ended: Some(ChildEnd::Exit(0)) }.pack();
        reader.call(Op::WAITPID, "", if step == 0 { 79_000 } else { 99_000 }, (child, 1, 300 + step as i64));
    });
    let writing = handed_over(|reader, step| {
        reader.call(Op::WRITE, PIPE, if step == 0 { 79_000 } else { 99_000 }, (POS_UNKNOWN, 1 << 20, 1 << 20));
    });
    let faulting = handed_over(|reader, step| {
        reader.at(step * 100_000 + 79_990).counted(5_000, 2_000);
    });
    vec![
        ("sleeping", sleeping, &["input-bound", "reader-sleep"]),
        ("starting-programs", starting, &["input-bound", "reader-programs"]),
        ("polling-for-a-lock", polling, &["input-bound", "lock-wait"]),
        ("asking-a-server", asking, &["input-bound", "network-wait"]),
        ("handing-over", writing, &["input-bound", "hand-over"]),
        ("faulting", faulting, &["input-bound", "page-faults"]),
        ("killed-reader", killed_reader(), &["input-bound", "process-killed", "reader-sleep"]),
    ]
}

/// A reader that a signal ends after 40 batches, and a trainer that waits for another one until a time runs out.
fn killed_reader() -> Vec<Script> {
    let mut processes = handed_over(|reader, step| {
        reader.call(Op::NANOSLEEP, "", if step == 0 { 79_000 } else { 79_990 }, (0, 0, 0));
    });
    let child = Child { pid: 200, ended: Some(ChildEnd::Signal(9)) }.pack();
    let trainer = &mut processes[0];
    trainer.at(4_000_000).call(Op::POLL, PIPE, 2_999_900, (1, 0, 0));
    trainer.span_at(4_000_000, 3_000_000, "fetch", "dataloader", (0, 40));
    trainer.at(7_000_100).call(Op::WAITPID, "", 10, (child, 1, 200));
    processes
}

/// Returns a reader that is runnable for most of its time without a CPU, with the limits in `facts`.
fn short_of_cpus(facts: &[(&'static str, &str)]) -> Vec<Script> {
    let mut processes = handed_over(|reader, step| {
        reader.at(step * 100_000 + 79_990).delayed(20_000, 60_000);
    });
    for process in &mut processes {
        process.cores = 4;
        process.more_facts = facts.iter().map(|(key, value)| (*key, value.to_string())).collect();
    }
    processes
}

/// Returns a reader that waits for reads all the time, with the growth of its host's counters.
fn on_device(counters: &[(&str, &str, u64)]) -> Vec<Script> {
    let mut processes = handed_over(|reader, step| {
        let us = if step == 0 { 79_000 } else { 99_000 };
        reader.call(Op::PREAD, "/data/one.bin", us, (step as i64 * MIB, MIB, MIB));
    });
    processes[0].machine = sampled(counters);
    processes
}

/// Limits reads of the data's device to 10 MiB per second.
fn limited(mut processes: Vec<Script>) -> Vec<Script> {
    for line in &mut processes[0].machine {
        if line.starts_with("mount\t/data") {
            line.push_str("\tread_bytes_limit=10485760");
        }
    }
    processes
}

/// Limits the control group of the readers, and not that of `dlio trace`.
fn limited_readers(mut processes: Vec<Script>) -> Vec<Script> {
    for line in processes[0].machine.iter_mut().filter(|line| line.starts_with("mount\t/data")) {
        line.push_str("\tdisk=8:16");
    }
    for process in &mut processes {
        process.more_facts = vec![(key::IO_LIMITS, "8:0 rbps=1;8:16 rbps=10485760".into())];
    }
    processes
}

/// Returns readers that read in order from a device without read-ahead.
fn without_read_ahead() -> Vec<Script> {
    let pages = 40 * MIB as u64 / 4096;
    let mut processes = on_device(&[
        ("device_reads", "vdb", pages),
        ("device_busy_ns", "vdb", 3_900_000_000),
        ("device_read_bytes", "vdb", 40 * MIB as u64),
    ]);
    set_read_ahead(&mut processes, 0);
    processes[1].more_facts = vec![(key::READ_BYTES_END, (40 * MIB).to_string()), (key::CPU_NS_END, "1000000".into())];
    processes
}

/// Returns readers that touch single pages of a mapping, for each of which the device reads 128 KiB.
fn with_read_ahead_of_single_pages() -> Vec<Script> {
    let mut processes = handed_over(|reader, step| {
        if step == 0 {
            reader.open("/data/one.bin", 10);
        }
        reader.at(step * 100_000 + 79_990).counted(5_000, 100);
    });
    processes[0].machine = sampled(&[("device_read_bytes", "vdb", 4000 * 131_072)]);
    set_read_ahead(&mut processes, 128);
    processes[1].more_facts =
        vec![(key::READ_BYTES_END, (4000 * 131_072_u64).to_string()), (key::CPU_NS_END, "1000000".into())];
    processes
}

fn set_read_ahead(processes: &mut [Script], kb: u32) {
    for line in processes[0].machine.iter_mut().filter(|line| line.starts_with("mount\t/data")) {
        line.push_str(&format!("\tread_ahead_kb={kb}"));
    }
}

/// Returns a file of counters: all of them are zero before the run, and have their values after it.
fn sampled(counters: &[(&str, &str, u64)]) -> Vec<String> {
    let mut lines = vec!["mount\t/\ttype=ext4\tdevice=vda".to_string(), "mount\t/data\ttype=xfs\tdevice=vdb".into()];
    // A device and a mount are recognized by these.
    let known = [("device_reads", "vdb", 1_000), ("nfs_operations", "/data", 1_000)];
    let all: Vec<_> =
        known.iter().filter(|(_, scope, _)| counters.iter().any(|it| it.1 == *scope)).chain(counters).collect();
    lines.extend(all.iter().enumerate().map(|(at, (name, scope, _))| format!("counter\t{at}\t{name}\t{scope}")));
    for (at, boot_ns) in [(0, START - 1_000_000), (1, START + 4_100_000_000)] {
        lines.push(format!("at\t{boot_ns}\t{boot_ns}"));
        lines.extend(all.iter().enumerate().map(|(number, (.., value))| format!("{number}\t{}", at * value)));
    }
    lines
}

fn swapping() -> Vec<Script> {
    let mut processes = Loader::healthy().processes(load(30_000));
    processes[0].machine = sampled(&[("swap_in", "", 1 << 30)]);
    processes
}

/// Returns runs in which the host, or the job's limits on it, affect readers.
fn machines() -> Vec<Scenario> {
    let quota = [
        (key::CPU_QUOTA, "0.5"),
        (key::CPU_CGROUP, "/sys/fs/cgroup/job"),
        (key::CPU_PERIODS, "100"),
        (key::CPU_PERIODS_END, "140"),
        (key::THROTTLED_PERIODS, "0"),
        (key::THROTTLED_PERIODS_END, "30"),
    ];
    let pinned = [
        (key::CPUS_ALLOWED, "4"),
        (key::CPUS_ALLOWED_END, "1"),
        (key::CPUS_LIST_END, "2"),
        (key::CPU_NS_END, "3900000000"),
    ];
    let pools = [(key::CPUS_ALLOWED, "4"), (key::THREADS_END, "9"), (key::CPU_NS_END, "15600000000")];
    let neighbors = [(key::CPUS_ALLOWED, "4"), (key::THREADS_END, "2"), (key::CPU_NS_END, "900000000")];
    let under_a_limit = || {
        let mut reads = plain(|program| {
            for at in 0..60 {
                program.load(&sample(0, at % 20), 8 * MIB, 30_000);
            }
        });
        reads[0].memory = Some(64 << 30);
        reads[0].more_facts = vec![
            (key::MEMORY_LIMIT, (100 * MIB).to_string()),
            (key::MEMORY_CGROUP, "/sys/fs/cgroup/job".into()),
            (key::READ_BYTES_END, (480 * MIB).to_string()),
            (key::CPU_NS_END, "1000000".into()),
        ];
        reads
    };
    vec![
        ("under-a-quota", short_of_cpus(&quota), &["input-bound", "cpu-quota", "loader-cpu-bound"]),
        ("pinned", short_of_cpus(&pinned), &["input-bound", "cpu-affinity", "loader-cpu-bound"]),
        ("pools-of-threads", short_of_cpus(&pools), &["input-bound", "too-many-threads", "loader-cpu-bound"]),
        ("neighbors", short_of_cpus(&neighbors), &["input-bound", "noisy-neighbor", "loader-cpu-bound"]),
        ("under-a-limit", under_a_limit(), &["cache-thrash"]),
        (
            "busy-device",
            on_device(&[("device_busy_ns", "vdb", 3_900_000_000), ("device_read_bytes", "vdb", 9 << 30)]),
            &["input-bound", "loader-capacity", "device-saturated", "storage-latency-bound"],
        ),
        (
            "limited-device",
            limited(on_device(&[
                ("device_busy_ns", "vdb", 100_000_000),
                ("device_read_bytes", "vdb", 40 * MIB as u64),
            ])),
            &["input-bound", "io-limit"],
        ),
        (
            "limited-readers",
            limited_readers(on_device(&[
                ("device_busy_ns", "vdb", 100_000_000),
                ("device_read_bytes", "vdb", 40 * MIB as u64),
            ])),
            &["input-bound", "io-limit"],
        ),
        (
            "idle-device",
            on_device(&[("device_busy_ns", "vdb", 100_000_000)]),
            &["input-bound", "loader-capacity", "slow-but-idle-device", "storage-latency-bound"],
        ),
        ("without-read-ahead", without_read_ahead(), &["input-bound", "device-saturated", "readahead"]),
        ("read-ahead-of-single-pages", with_read_ahead_of_single_pages(), &["input-bound", "readahead"]),
        (
            "slow-server",
            on_device(&[("nfs_round_trip_ns", "/data", 900_000_000), ("nfs_execution_ns", "/data", 1_000_000_000)]),
            &["input-bound", "loader-capacity", "nfs-server", "storage-latency-bound"],
        ),
        (
            "queue-to-server",
            on_device(&[("nfs_queue_ns", "/data", 900_000_000), ("nfs_execution_ns", "/data", 1_000_000_000)]),
            &["input-bound", "loader-capacity", "nfs-client-queue", "storage-latency-bound"],
        ),
        ("swapping", swapping(), &["compute-bound", "swap"]),
    ]
}

fn accesses() -> Vec<Scenario> {
    let each = |times: i64, work: fn(&mut Script, &str, i64)| {
        move |program: &mut Script, path: &str| {
            program.open(path, 5);
            (0..times).for_each(|at| work(program, path, at));
            program.close(path, 2);
        }
    };
    let descending = each(100, |program, path, at| {
        program.read(path, (99 - at) * MIB, MIB, 900);
    });
    let footer_first = each(60, |program, path, at| {
        program.read(path, (at / 7 * 7 + (at + 6) % 7) * MIB, MIB, 900);
    });
    let fread = each(1000, |program, path, at| {
        program.call(Op::FREAD, path, 200, (at * 4096, 4096, 4096));
    });
    let seeking = each(300, |program, path, at| {
        program.call(Op::LSEEK, path, 20, (0, at << 16, at << 16)).read(path, at << 16, 1 << 16, 200);
    });
    let strided = by_file(
        3,
        each(200, |program, path, at| {
            program.write(path, at * MIB + 100, 256 * 1024 + 100, 1000);
        }),
    );
    vec![
        ("strided", strided, &["unaligned"]),
        (
            "small-reads",
            by_file(
                3,
                each(1000, |program, path, at| {
                    program.read(path, at * 4096, 4096, 200);
                }),
            ),
            &["small-reads"],
        ),
        (
            "small-writes",
            by_file(
                3,
                each(1000, |program, path, at| {
                    program.write(path, at * 4096, 4096, 200);
                }),
            ),
            &["small-writes"],
        ),
        (
            "small-files",
            by_file(400, |program, path| {
                program.read(path, 0, 4096, 200);
            }),
            &[],
        ),
        ("stdio", by_file(3, fread), &["tiny-stdio"]),
        ("random", by_file(20, descending), &["random-in-file"]),
        ("backward", by_file(15, footer_first), &["backward-seeks"]),
        ("seeking", by_file(5, seeking), &["seek-noise"]),
    ]
}

fn whole_files() -> Vec<Scenario> {
    let hot = plain(|program| {
        (0..100).for_each(|at| {
            program.read("/data/index.bin", at * 8 * MIB, 8 * MIB, 10_000);
        });
        (0..400).for_each(|file| {
            program.load(&sample(0, file), 8 * MIB, 1000);
        });
    });
    let archived = plain(|program| {
        (0..100).for_each(|file| {
            program.load(&sample(0, file), 8 * MIB, 2000).write("/out/all.tar", file as i64 * 8 * MIB, 8 * MIB, 9000);
        });
    });
    let resident = plain(|program| {
        (0..400).for_each(|at| {
            program.load(&sample(0, at % 50), 8 * MIB, 1100);
        });
    });
    let indexed = by_file(400, |program, path| {
        program.load("/data/index.json", 8 * MIB, 8000).load(path, MIB, 1000);
    });
    vec![
        ("indexed", indexed, &["redundant-reads"]),
        ("hot", hot, &["hot-file"]),
        ("archived", archived, &[]),
        ("resident", resident, &["cache-resident"]),
    ]
}

fn objects() -> Vec<Scenario> {
    let asked = |bytes: i64, us: u64| {
        plain(|program| {
            (0..300).for_each(|at| {
                program.get(&object(at), bytes, us);
            });
        })
    };
    let refused = |errno: i64| {
        plain(|program| {
            for at in 0..300 {
                if at % 10 == 0 {
                    program.call(Op::OBJECT_GET, &object(at), 500, (0, 0, -errno));
                }
                program.get(&object(at), 8 * MIB, 9000);
            }
        })
    };
    vec![
        ("small-objects", asked(100_000, 20_000), &["small-objects"]),
        ("large-objects", asked(8 * MIB, 20_000), &[]),
        ("throttled", refused(16), &["store-throttled"]),
        ("retried", refused(104), &["store-retries"]),
    ]
}

/// Calls of HDF5: chunks that are much larger than each request, data sets of one sample each, and neither.
fn data_sets() -> Vec<Scenario> {
    let file = "/data/train.h5";
    let layout = [("dataset", "/x"), ("shape", "100000x1024"), ("element_bytes", "1"), ("chunk", "1024x1024")];
    let partly = plain(|program| {
        program.library_call((Op::H5D_OPEN, file), 100, 0, &layout, &[(0, 4096)]);
        for at in 0..300 {
            let below = [(at * MIB, MIB)];
            program.library_call((Op::H5D_READ, file), 10_000, 1024, &[("dataset", "/x")], &below);
        }
    });
    let whole = plain(|program| {
        program.library_call((Op::H5D_OPEN, file), 100, 0, &layout, &[(0, 4096)]);
        for at in 0..300 {
            let below = [(at * MIB, MIB)];
            program.library_call((Op::H5D_READ, file), 10_000, MIB, &[("dataset", "/x")], &below);
        }
    });
    let by_sample = plain(|program| {
        for at in 0..300 {
            let (name, place, header) = (format!("/images/{at}"), 2 * at * MIB, MIB / 8);
            let told = [("dataset", name.as_str()), ("shape", "1024x1024"), ("element_bytes", "1")];
            program.library_call((Op::H5D_OPEN, file), 5000, 0, &told, &[(place, header)]);
            program.library_call((Op::H5D_READ, file), 5000, MIB, &told[..1], &[(place + header, MIB)]);
        }
    });
    vec![
        ("partial-chunks", partly, &["read-amplification"]),
        ("whole-chunks", whole, &[]),
        ("sample-data-sets", by_sample, &["data-set-per-sample"]),
    ]
}

/// Independent requests of MPI-IO by two ranks: in interleaved parts of a file, and each in its own half.
fn requests() -> Vec<Scenario> {
    const RECORD: i64 = 32 * 1024;
    let of_ranks = |place: fn(i64, i64) -> i64| {
        let rank = |rank: i32| {
            let mut process = Script::ranked(100 + rank, rank);
            for at in 0..300 {
                let below = [(place(at, rank as i64) * RECORD, RECORD)];
                process.library_call((Op::MPI_FILE_READ_AT, "/data/grid.bin"), 10_000, RECORD, &[], &below);
            }
            process
        };
        [rank(0), rank(1)].into_iter().collect::<Vec<_>>()
    };
    vec![
        ("interleaved-requests", of_ranks(|at, rank| 2 * at + rank), &["independent-requests", "small-reads"]),
        ("separate-requests", of_ranks(|at, rank| 300 * rank + at), &["small-reads"]),
    ]
}

fn asking() -> Vec<Scenario> {
    let stats = by_file(300, |program, path| {
        (0..5).for_each(|_| {
            program.call(Op::STAT, path, 100, (0, 0, 0));
        });
        program.load(path, 8 * MIB, 5000);
    });
    let reopened = plain(|program| {
        for at in 0..300 {
            let (path, pos) = (sample(0, at % 5), (at / 5) as i64 * MIB);
            program.open(&path, 100).read(&path, pos, MIB, 1000).close(&path, 50);
        }
    });
    let looked_for = by_file(400, |program, path| {
        (0..3).for_each(|_| {
            program.call(Op::OPENAT, "/opt/lib/other.so", 50, (0, 0, -2));
        });
        program.load(path, 8 * MIB, 2000);
    });
    let unread = by_file(200, |program, path| {
        program.open(&format!("{path}.lock"), 200).close(&format!("{path}.lock"), 50);
        program.open(path, 200).read(path, 0, 8 * MIB, 2000).close(path, 50);
    });
    let locked = plain(|program| {
        (0..100).for_each(|_| {
            program.call(Op::FLOCK, "/data/index.h5", 2000, (2, 0, 0)).read("/data/index.h5", 0, 8 * MIB, 8000);
        });
    });
    let locked_by_range = plain(|program| {
        (0..100).for_each(|_| {
            program.call(Op::FCNTL, "/data/index.h5", 2000, (7, 0, 0)).read("/data/index.h5", 0, 8 * MIB, 8000);
        });
    });
    let synchronised = by_file(300, |program, path| {
        program.open(path, 20).call(Op::FSYNC, path, 5000, (0, 0, 0)).close(path, 5);
    });
    let failing = by_file(200, |program, path| {
        program.call(Op::READ, path, 50, (0, 4096, -5));
    });
    let full_memory = plain(|program| {
        let path = "/dev/shm/torch_100_1_0";
        program.open(path, 20).call(Op::FALLOCATE, path, 50, (0, 64 * MIB, -28)).close(path, 2);
    });
    let opened = by_file(200, |program, path| {
        program.open(path, 2000).read(path, 0, 8 * MIB, 3000).close(path, 500);
    });
    let temporary = by_file(1200, |program, path| {
        program.open(path, 5).write(path, 0, 8 * MIB, 5000).close(path, 2).call(Op::UNLINK, path, 300, (0, 0, 0));
    });
    let mapped = by_file(200, |program, path| {
        program.open(path, 5).read(path, 0, 128, 2).call(Op::MMAP, path, 900, (0, MIB, 0)).close(path, 2);
    });
    let asked_what_is_cached = by_file(200, |program, path| {
        program.open(path, 5).call(Op::MMAP, path, 10, (0, MIB, 0)).read(path, 0, MIB, 900).close(path, 2);
    });
    let by_ring = by_file(200, |program, path| {
        program.call(Op::MMAP, "<io_uring>", 5, (0, 4096, 0)).open(path, 5).read(path, 0, MIB, 900).close(path, 2);
    });
    vec![
        ("by-ring", by_ring, &["uring-unseen"]),
        ("opened-in-turn", opened, &["metadata-bound", "open-serial"]),
        ("temporary", temporary, &["temp-on-shared"]),
        ("mapped", mapped, &["mmap-unseen"]),
        ("mapped-and-read", asked_what_is_cached, &[]),
        ("stats", stats, &["stat-storm"]),
        ("reopened", reopened, &["reopen-storm"]),
        ("looked-for", looked_for, &["failed-lookups"]),
        ("unread", unread, &["opened-never-read"]),
        ("locked", locked, &["lock-wait"]),
        ("locked-by-range", locked_by_range, &["lock-wait"]),
        ("synchronised", synchronised, &["fsync-share"]),
        ("broken", failing, &["failing-io"]),
        ("full-shared-memory", full_memory, &["shm-small"]),
    ]
}

fn ranks_and_saving() -> Vec<Scenario> {
    let synced = plain(|program| {
        for at in 0..200 {
            program.write("/out/log.bin", at * MIB, MIB, 6000).call(Op::FSYNC, "/out/log.bin", 6000, (0, 0, 0));
        }
    });
    let synced_once = plain(|program| {
        (0..200).for_each(|at| {
            program.write("/out/image", at * MIB, MIB, 6000);
        });
        program.call(Op::FSYNC, "/out/image", 1_000_000, (0, 0, 0));
    });
    let uneven = [(0, 300), (1, 100)].map(|(rank, files)| {
        let mut process = Script::ranked(100 + rank, rank);
        (0..files).for_each(|file| {
            process.load(&sample(rank as u64, file), 8 * MIB, 5000);
        });
        process
    });
    let behind = [(0, 1000), (1, 40_000)].map(|(rank, wait_us)| {
        let mut process = Script::ranked(100 + rank, rank);
        (0..100).for_each(|_| {
            process.span("fetch", "dataloader", wait_us).span("train", "compute", 100_000 - wait_us);
        });
        process
    });
    let listed = [0, 1].map(|rank| {
        let mut process = Script::ranked(100 + rank, rank);
        process.call(Op::OPENDIR, "/data/train", 20, (0, 0, 3));
        (0..10_001).for_each(|entry| {
            process.call(Op::READDIR, "/data/train", 20, (0, 0, i64::from(entry < 10_000)));
        });
        process.call(Op::CLOSEDIR, "/data/train", 5, (0, 0, 0));
        (0..200).for_each(|file| {
            process.load(&sample(rank as u64, file), 8 * MIB, 5000);
        });
        process
    });
    // Records of 64 KiB of two ranks in one file: alternating, or each in separate megabytes.
    let records = |by_turns: bool| {
        [0, 1].map(|rank| {
            let mut process = Script::ranked(100 + rank, rank);
            (0..320i64).for_each(|record| {
                let own = record / 16 * 32 + i64::from(rank) * 16 + record % 16;
                let place = if by_turns { 2 * record + i64::from(rank) } else { own };
                process.write("/out/field.bin", place << 16, 1 << 16, 500);
            });
            process
        })
    };
    let saving = |first: i32| (0..2).map(|rank| saved(rank, rank <= first)).collect::<Vec<_>>();
    vec![
        ("synced", synced, &["fsync-share"]),
        ("synced-once", synced_once, &[]),
        ("listed", listed.into(), &["listing"]),
        ("uneven-ranks", uneven.into(), &["byte-imbalance"]),
        ("behind", behind.into(), &["input-bound", "straggler-rank"]),
        ("records-by-turns", records(true).into(), &["shared-block-writes"]),
        ("records-apart", records(false).into(), &[]),
        ("saving", saving(1), &["checkpoint-stalls"]),
        ("one-saves", saving(0), &["checkpoint-one-rank", "checkpoint-stalls"]),
    ]
}

/// Returns a rank that saves after every tenth step, or waits for the one that does.
fn saved(rank: i32, saves: bool) -> Script {
    let mut process = Script::ranked(100 + rank, rank);
    for step in 0..100 {
        process.span("fetch", "dataloader", 1000).span("train", "compute", 79_000);
        if step % 10 == 9 && saves {
            let (now, path) = (process.now(), format!("/out/checkpoint-{rank}-{step}.pt"));
            process
                .write(&path, 0, 64 * MIB, 190_000)
                .span_at(now, 200_000, "save", "checkpoint", (0, step))
                .at(now + 200_000);
        } else if step % 10 == 9 {
            process.span("barrier", "communication", 200_000);
        }
    }
    process
}

/// Returns four workers that read all the time in many calls, except some steps in which only one does. `moved`
/// returns the bytes that each moves in a step with the given number of readers.
fn in_flight(moved: impl Fn(i64) -> i64) -> Vec<Script> {
    const CALLS: i64 = 80;
    let loader = Loader { workers: 4, ..Loader::starved() };
    loader.processes(|worker, number, step| {
        let at_once = if (40..55).contains(&step) { 1 } else { 4 };
        if number < at_once {
            let (path, size) = (sample(number, step), moved(at_once as i64) / CALLS);
            worker.open(&path, 5);
            (0..CALLS).for_each(|at| {
                worker.read(&path, at * size, size, 1200);
            });
            worker.close(&path, 2);
        }
    })
}

/// Returns a trainer that reads its batch itself.
fn no_workers() -> Vec<Script> {
    plain(|trainer| {
        for step in 0..100 {
            let now = trainer.now();
            trainer.load(&sample(0, step), 8 * MIB, 48_000);
            trainer.span_at(now, 50_000, "fetch", "dataloader", (0, step as i32));
            trainer.at(now + 50_000).span("train", "compute", 50_000);
        }
    })
}

/// Adds many opens, stats and closes around large reads.
fn many_opens(worker: &mut Script, number: u64, step: u64) {
    let path = sample(number, step);
    worker
        .open(&path, 20_000)
        .call(Op::FSTAT, &path, 20_000, (0, 0, 0))
        .read(&path, 0, 8 * MIB, 30_000)
        .close(&path, 20_000);
}

/// Returns four workers that take turns reading one batch each and otherwise wait for the next; worker `busy` never
/// waits.
fn taking_turns(wait_us: impl Fn(u64) -> u64, busy: u64) -> Vec<Script> {
    let loader = Loader { compute_us: 49_000, ..Loader::healthy() };
    let mut trainer = Script::new(100, 1);
    let mut starts = Vec::new();
    for step in 0..loader.steps {
        starts.push(trainer.now());
        loader.step(&mut trainer, step, wait_us(step));
    }
    starts.push(trainer.now());
    let worker = |number: u64| {
        let mut worker = Script::new(200 + number as i32, 100);
        for (step, bounds) in (0..).zip(starts.windows(2)) {
            worker.at(bounds[0]);
            if step % 4 == number {
                worker.load(&sample(number, step), 8 * MIB, 30_000);
            }
            let left = bounds[1] - worker.now();
            if number != busy {
                worker.call(Op::READ, "<pipe>", left - 10, (-1, 8, 8));
            }
        }
        worker
    };
    [trainer].into_iter().chain((0..4).map(worker)).collect()
}

/// Returns two epochs with separate workers, which take a second to start.
fn restarted() -> Vec<Script> {
    let loader = Loader::healthy();
    let mut trainer = Script::new(100, 1);
    (0..80).for_each(|step| loader.step(&mut trainer, step, if step == 40 { 1_000_000 } else { 1000 }));
    let worker = |(pid, start): (i32, u64)| {
        let mut worker = Script::new(pid, 100);
        for step in 0..40 {
            worker.at(start + step * loader.step_us() + 10);
            load(30_000)(&mut worker, pid as u64 % 4, step);
        }
        worker
    };
    let workers = [(200, 0), (201, 0), (202, 5_000_000), (203, 5_000_000)].map(worker);
    [trainer].into_iter().chain(workers).collect()
}

fn slow_start() -> Vec<Script> {
    let loader = Loader::healthy();
    plain(|trainer| {
        trainer.load("/env/packages.bin", 8 * MIB, 1000).at(4_000_000);
        (0..100).for_each(|step| loader.step(trainer, step, 1000));
    })
}

fn lost() -> Vec<Script> {
    let mut processes = Loader::healthy().processes(load(30_000));
    processes[1].lost = 12;
    processes
}
