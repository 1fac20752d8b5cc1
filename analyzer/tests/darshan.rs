//! Darshan's binary logs, written by a generator that shares no code with the reader.

mod support;

use std::path::Path;

use dlio_analyzer::load::Trace;
use dlio_schemas::native::Damage;
use support::darshan::{Big, Compression, Little, Log, Module, Record, Segment, sample};
use support::program::analyze;
use support::temp_dir;

fn query(path: &Path, sql: &str) -> String {
    let done = analyze(&[path.to_str().unwrap(), "--no-cache", "--sql", sql, "--format", "csv"]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

const SUMS: &str =
    "select module, rank, path, counter, value, number from counters where number <> 0 order by module, path, counter";

#[test]
fn byte_orders_and_compressions_give_equal_counters() {
    let folder = temp_dir("darshan-orders");
    let mut results = Vec::new();
    for (number, compression) in [Compression::Zlib, Compression::Bzip2, Compression::None].into_iter().enumerate() {
        for (order, bytes) in [
            ("little", sample(Log::new(compression)).write::<Little>()),
            ("big", sample(Log::new(compression)).write::<Big>()),
        ] {
            let path = folder.path().join(format!("{number}-{order}.darshan"));
            std::fs::write(&path, bytes).unwrap();
            results.push(query(&path, SUMS));
        }
    }
    let expected = "module,rank,path,counter,value,number\n\
        POSIX,0,/data/a,POSIX_BYTES_READ,16384,16384.0\n\
        POSIX,0,/data/a,POSIX_F_MAX_READ_TIME,,0.2\n\
        POSIX,0,/data/a,POSIX_F_READ_TIME,,0.5\n\
        POSIX,0,/data/a,POSIX_READS,4,4.0\n\
        POSIX,,/data/shared,POSIX_BYTES_WRITTEN,1048576,1048576.0\n\
        POSIX,,/data/shared,POSIX_F_META_TIME,,0.125\n\
        POSIX,,/data/shared,POSIX_F_WRITE_TIME,,1.25\n\
        POSIX,,/data/shared,POSIX_OPENS,2,2.0\n\
        POSIX,,/data/shared,POSIX_WRITES,10,10.0\n\
        STDIO,0,<STDOUT>,STDIO_BYTES_WRITTEN,300,300.0\n\
        STDIO,0,<STDOUT>,STDIO_F_WRITE_TIME,,0.001\n\
        STDIO,0,<STDOUT>,STDIO_OPENS,1,1.0\n\
        STDIO,0,<STDOUT>,STDIO_WRITES,3,3.0\n";
    for result in &results {
        assert_eq!(result, expected);
    }
    assert_eq!(results.len(), 6);
}

#[test]
fn job_facts_and_sums_are_in_sql() {
    let folder = temp_dir("darshan-job");
    for id in 1..=3 {
        let log = sample(Log::new(Compression::Zlib).job(id, 1000 + id / 3));
        std::fs::write(folder.path().join(format!("{id}.darshan")), log.write::<Little>()).unwrap();
    }
    let jobs = query(
        folder.path(),
        "select job_id, uid, program, processes, end_ts - start_ts ns, bytes_read, bytes_written, io_ns, mounts, library \
         from jobs order by job_id",
    );
    let row = |id: u32, uid: u32| {
        format!("{id},{uid},ior,2,2500000000,16384,1048876,1876000000,\"/ (ext4), /data (lustre)\",3.4.0\n")
    };
    let head = "job_id,uid,program,processes,ns,bytes_read,bytes_written,io_ns,mounts,library\n";
    assert_eq!(jobs, head.to_string() + &row(1, 1000) + &row(2, 1000) + &row(3, 1001));
    let report = analyze(&[folder.path().to_str().unwrap(), "--no-cache"]);
    let report = String::from_utf8(report.stdout).unwrap();
    assert!(report.contains("Jobs with the most I/O time"), "{report}");
}

#[test]
fn counts_claim_neither_waits_nor_concurrency() {
    let folder = temp_dir("darshan-claims");
    let path = folder.path().join("a.darshan");
    std::fs::write(&path, sample(Log::new(Compression::Zlib)).write::<Little>()).unwrap();
    let report = analyze(&[path.to_str().unwrap(), "--no-cache", "--full"]);
    let report = String::from_utf8(report.stdout).unwrap();
    assert!(report.starts_with("UNKNOWN"), "{report}");
    assert!(report.contains("When I/O was active is unknown"), "{report}");
    assert!(!report.contains("I/O was active for"), "{report}");
    let json = analyze(&[path.to_str().unwrap(), "--no-cache", "--format", "json"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert!(json["time"]["io_ns"].is_null() && json["time"]["other_ns"].is_null(), "{}", json["time"]);
    assert_eq!((&json["dataset"]["bytes_read"], &json["tally"]["untimed"]), (&16384.into(), &20.into()));
}

#[test]
fn traced_segments_become_events_and_count_once() {
    let folder = temp_dir("darshan-dxt");
    let path = folder.path().join("a.darshan");
    let segments = [4096, 0, 8192, 12288].map(|offset| Segment { offset, length: 4096, start: 0.25, end: 0.375 });
    let log = sample(Log::new(Compression::Zlib)).module(10, 1, Module::traced(7, 0, "node7", &[], &segments));
    std::fs::write(&path, log.write::<Big>()).unwrap();
    let events = query(&path, "select name, layer, host, rank, file, pos, bytes, dur from events order by pos");
    let rows = [0, 4096, 8192, 12288].map(|pos| format!("read,posix,node7,0,/data/a,{pos},4096,125000000\n"));
    assert_eq!(events, format!("name,layer,host,rank,file,pos,bytes,dur\n{}", rows.concat()));
    let files = query(&path, "select path, bytes_read, bytes_written from files order by path");
    assert_eq!(files, "path,bytes_read,bytes_written\n/data/a,16384,0\n/data/shared,0,1048576\n<STDOUT>,0,300\n");
}

#[test]
fn old_versions_lack_counters() {
    let folder = temp_dir("darshan-old");
    let path = folder.path().join("a.darshan");
    // POSIX 3 lacks five integers, POSIX 2 also two timestamps.
    let record = Record::new(7, 0).int(1, 4).int(9, 16384).float(6, 0.5).of(64, 15);
    let log = Log::new(Compression::Zlib).version("3.00").name(7, "/data/a").module(1, 2, Module::records([record]));
    std::fs::write(&path, log.write::<Big>()).unwrap();
    let expected = "module,rank,path,counter,value,number\nPOSIX,0,/data/a,POSIX_BYTES_READ,16384,16384.0\n\
        POSIX,0,/data/a,POSIX_F_READ_TIME,,0.5\nPOSIX,0,/data/a,POSIX_READS,4,4.0\n";
    assert_eq!(query(&path, SUMS), expected);
}

fn notes(path: &Path) -> Result<Vec<Damage>, String> {
    let trace = Trace::open(&[path.display().to_string()], 1).map_err(|error| error.to_string())?;
    let notes = trace.notes.lock().unwrap();
    Ok(notes.iter().map(|note| note.what.clone()).collect())
}

#[test]
fn partial_and_unknown_modules_are_named() {
    let folder = temp_dir("darshan-partial");
    let path = folder.path().join("a.darshan");
    let log = sample(Log::new(Compression::Zlib)).partial(1).module(14, 1, Module::bytes(&[1; 40])).module(
        40,
        1,
        Module::bytes(&[1; 40]),
    );
    std::fs::write(&path, log.write::<Big>()).unwrap();
    let found = notes(&path).unwrap().iter().map(Damage::to_string).collect::<Vec<_>>().join("\n");
    assert!(found.contains("module POSIX is partial"), "{found}");
    assert!(found.contains("module APMPI is skipped"), "{found}");
    assert!(found.contains("a module that dlio-analyze does not know is skipped"), "{found}");
    assert_eq!(found.lines().count(), 3, "{found}");
}

#[test]
fn truncated_logs_give_their_beginning() {
    let folder = temp_dir("darshan-cut");
    let path = folder.path().join("a.darshan");
    let whole = sample(Log::new(Compression::None)).write::<Little>();
    let mut rows = Vec::new();
    for size in (0..whole.len()).step_by(97) {
        std::fs::write(&path, &whole[..size]).unwrap();
        match notes(&path) {
            Ok(notes) => {
                assert!(!notes.is_empty(), "{size} of {} bytes are not the whole log", whole.len());
                rows.push(query(&path, "select count(*) from counters"));
            }
            Err(error) => assert!(error.contains("a.darshan"), "{error}"),
        }
    }
    assert!(rows.first().is_some_and(|first| first.ends_with("\n0\n")), "{rows:?}");
    assert!(rows.last().is_some_and(|last| last.ends_with("\n172\n")), "{rows:?}");
}

#[test]
fn log_without_header_is_explained() {
    let folder = temp_dir("darshan-unfinished");
    let path = folder.path().join("a.darshan_partial");
    let mut bytes = sample(Log::new(Compression::Zlib)).write::<Little>();
    bytes[..1328].fill(0);
    std::fs::write(&path, bytes).unwrap();
    let error = notes(&path).unwrap_err();
    assert!(error.contains("a Darshan log without a header") && error.contains("a.darshan_partial"), "{error}");
}

#[test]
fn public_logs_can_be_read() {
    // A clone of https://github.com/darshan-hpc/darshan-logs; make test-darshan compares each of its counters.
    let Ok(folder) = std::env::var("DARSHAN_LOGS") else { return eprintln!("skipped: DARSHAN_LOGS is not set") };
    let counts = query(Path::new(&folder), "select count(*) > 0 from counters where number <> 0");
    assert!(counts.contains("true"), "{counts}");
}
