//! Tests that the trace contains the calls of HDF5 that programs make, with names and bytes, and the file calls
//! inside them; and that programs do not notice.

use std::collections::BTreeMap;
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use dlio_tests::artefacts;
use dlio_tests::sandbox::Sandbox;
use serde_json::Value;

/// Writes and reads files, and prints how many calls of each kind it made, and their bytes.
const PROGRAM: &str = r#"
import collections, json, os, threading
import numpy as np

import h5py
from h5py import h5s

counts = collections.Counter()

def count(name, data_set="", size=0):
    counts[name, data_set] += 1
    counts["bytes of " + name, data_set] += size

def read(data_set, selection):
    values = data_set[selection]
    count("H5Dread", data_set.name, values.nbytes)
    return values

with h5py.File("a.h5", "w") as file:
    count("H5Fcreate")
    numbers = np.arange(10_000, dtype="f8")
    file.create_dataset("plain", data=numbers)
    count("H5Dcreate", "/plain")
    count("H5Dwrite", "/plain", numbers.nbytes)
    square = np.arange(64 * 64, dtype="i4").reshape(64, 64)
    file.create_dataset("group/packed", data=square, chunks=(16, 16), compression="gzip", shuffle=True)
    count("H5Dcreate", "/group/packed")
    count("H5Dwrite", "/group/packed", square.nbytes)
    file["plain"].attrs["unit"] = np.arange(5)
    count("H5Awrite", "", 40)

with h5py.File("a.h5", "r") as file:
    count("H5Fopen")
    plain, packed = file["plain"], file["group/packed"]
    for i in range(200):
        assert read(plain, np.s_[i * 10 : i * 10 + 10])[0] == i * 10
    assert read(plain, np.s_[:]).sum() == numbers.sum()
    assert read(packed, np.s_[3:5, 0:64:2]).shape == (2, 32)
    assert list(read(packed, np.s_[[1, 5, 9], 3])) == [67, 323, 579]
    assert read(packed, np.s_[square > 4000]).size == 95
    assert list(plain.attrs["unit"]) == [0, 1, 2, 3, 4]
    count("H5Aread", "", 40)
    try:
        file["missing"]
    except KeyError as error:
        assert "missing" in str(error), error
    try:
        h5py.File("none.h5", "r")
    except FileNotFoundError:
        count("H5Fopen")
    # A whole read through the interface of the library, with the same type again and again.
    whole = np.empty(10_000)
    for _ in range(3):
        plain.id.read(h5s.ALL, h5s.ALL, whole)
        count("H5Dread", "/plain", whole.nbytes)
    chunk = packed.id.read_direct_chunk((0, 0))[1]
    count("H5Dread_chunk", "/group/packed", len(chunk))
    # Several threads, one after another inside the library.
    def work():
        for _ in range(50):
            plain[0:100]
    threads = [threading.Thread(target=work) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    for _ in range(200):
        count("H5Dread", "/plain", 800)
    child = os.fork()
    if child == 0:
        assert plain[7] == 7
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    count("H5Dread", "/plain", 8)
file.close()

with h5py.File("grow.h5", "w") as file:
    count("H5Fcreate")
    rows = file.create_dataset("rows", (0,), maxshape=(None,), dtype="i2", chunks=(64,))
    count("H5Dcreate", "/rows")
    for i in range(1, 5):
        rows.resize((100 * i,))
        rows[:] = np.arange(100 * i, dtype="i2")
        count("H5Dwrite", "/rows", 200 * i)

print(json.dumps([[name, data_set, number] for (name, data_set), number in sorted(counts.items())]))
"#;

fn python() -> PathBuf {
    env::var_os("DLIO_TEST_PYTHON").map_or_else(|| PathBuf::from("python3"), PathBuf::from)
}

/// Returns the Python of the test environment with a program.
fn program(sandbox: &Sandbox) -> Command {
    let path = sandbox.root().join("program.py");
    std::fs::write(&path, PROGRAM).unwrap();
    let mut command = Command::new(python());
    command.arg(path).current_dir(sandbox.work()).env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && errors.is_empty(), "{command:?}: {} {errors}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

fn traced(sandbox: &Sandbox, format: &str) -> String {
    let mut command = program(sandbox);
    let library = artefacts::library().unwrap();
    let command = command.env("LD_PRELOAD", library).env("DLIO_TRACE_DIR", sandbox.trace());
    output(command.env("DLIO_TRACE_FORMAT", format))
}

fn analyze(arguments: &[&str]) -> Value {
    let mut command = Command::new(artefacts::command("dlio-analyze").unwrap());
    serde_json::from_str(&output(command.args(arguments).args(["--format", "json"]))).unwrap()
}

fn rows(trace: &Path, sql: &str) -> Vec<Vec<Value>> {
    let found = analyze(&[trace.to_str().unwrap(), "--sql", sql]);
    let cells = |row: &Value| match row {
        Value::Object(cells) => cells.values().cloned().collect(),
        other => panic!("{other} is not a row"),
    };
    found.as_array().unwrap().iter().map(cells).collect()
}

/// By name and data set.
type Counts = BTreeMap<(String, String), i64>;

fn counted(printed: &str) -> Counts {
    let rows: Vec<(String, String, i64)> = serde_json::from_str(printed).unwrap();
    rows.into_iter().filter(|(.., number)| *number > 0).map(|(name, set, number)| ((name, set), number)).collect()
}

fn recorded(trace: &Path, wanted: &Counts) -> Counts {
    let sql = "select name, coalesce(args['dataset'], '') as data_set, count(*) as n, coalesce(sum(bytes), 0) as bytes
        from events where layer = 'hdf5' group by 1, 2";
    let mut found = Counts::new();
    for row in rows(trace, sql) {
        let text = |at: usize| row[at].as_str().unwrap_or_default().to_string();
        let number = |at: usize| row[at].as_i64().unwrap();
        found.insert((text(0), text(1)), number(2));
        found.insert((format!("bytes of {}", text(0)), text(1)), number(3));
    }
    found.into_iter().filter(|(key, _)| wanted.contains_key(key)).collect()
}

#[test]
fn trace_contains_the_calls_that_the_program_counts() {
    let sandbox = Sandbox::new("hdf5-counts").unwrap();
    let untraced = output(&mut program(&sandbox));
    for format in ["native", "auto"] {
        sandbox.clear().unwrap();
        let printed = traced(&sandbox, format);
        assert_eq!(printed, untraced, "the output as {format}");
        let wanted = counted(&printed);
        assert_eq!(recorded(&sandbox.trace(), &wanted), wanted, "{format}");
    }
}

#[test]
fn calls_on_files_are_inside_the_calls_that_make_them() {
    let sandbox = Sandbox::new("hdf5-nested").unwrap();
    traced(&sandbox, "native");
    let trace = sandbox.trace();
    // Every call on an HDF5 file is inside a call of the library of its thread, one level below it.
    let outside = "select count(*) as n from events p where layer = 'posix' and class in ('read', 'write')
        and file like '%.h5' and not exists (select 1 from events h where h.layer = 'hdf5' and h.proc = p.proc
        and h.tid = p.tid and h.ts <= p.ts and h.ts + h.dur >= p.ts + p.dur and h.depth < p.depth)";
    assert_eq!(rows(&trace, outside), [[Value::from(0)]]);
    let report = analyze(&[trace.to_str().unwrap(), "--section", "hdf5"]);
    let sets = report["hdf5"].as_array().unwrap();
    let row = |name: &str| {
        let of_name = |row: &&Value| row["data_set"] == name && row["file"].as_str().unwrap().ends_with("/a.h#");
        sets.iter().find(of_name).unwrap_or_else(|| panic!("no row of {name}: {sets:#?}"))
    };
    let (plain, packed) = (row("/plain"), row("/group/packed"));
    assert_eq!((&plain["chunk"], &plain["filters"]), (&Value::from(""), &Value::from("")));
    assert_eq!((&packed["chunk"], &packed["filters"]), (&Value::from("16x16"), &Value::from("shuffle,deflate")));
    assert_eq!((&packed["chunk_bytes"], &packed["shape"]), (&Value::from(1024), &Value::from("64x64")));
    // The reads below a data set equal the reads of the file by the same threads in these calls.
    let below = "select count(*) as n, sum(p.bytes) as bytes from events p join events h on h.proc = p.proc
        and h.tid = p.tid and h.ts <= p.ts and h.ts + h.dur >= p.ts + p.dur
        where p.layer = 'posix' and p.class = 'read' and h.layer = 'hdf5' and h.args['dataset'] = '/plain'
        and h.file like '%/a.h5'";
    let found = &rows(&trace, below)[0];
    assert_eq!((&plain["reads_below"]["calls"], &plain["reads_below"]["bytes"]), (&found[0], &found[1]));
    // The library's calls are not I/O on files.
    let all = analyze(&[trace.to_str().unwrap(), "--section", "dataset"]);
    let posix = "select sum(bytes) as bytes from events where layer in ('posix', 'stdio') and class = 'read'
        and file not like '<%'";
    assert_eq!(all["dataset"]["bytes_read"], rows(&trace, posix)[0][0]);
}

/// Calls the library through addresses that it looks up itself.
const LOOKED_UP: &str = r#"
import ctypes, glob, importlib.util, os
whole = ctypes.CDLL(None)
assert not hasattr(whole, "H5Dread") and not hasattr(whole, "H5Fopen"), "no HDF5 is loaded"
package = os.path.dirname(importlib.util.find_spec("h5py").origin)
[path] = glob.glob(os.path.join(os.path.dirname(package), "h5py.libs", "libhdf5-*.so*"))
library = ctypes.CDLL(path)
library.H5Fcreate.restype = ctypes.c_int64
library.H5Fcreate.argtypes = [ctypes.c_char_p, ctypes.c_uint, ctypes.c_int64, ctypes.c_int64]
library.H5Fclose.argtypes = library.H5Idec_ref.argtypes = [ctypes.c_int64]
library.H5Eset_auto2.argtypes = [ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p]
library.H5Eget_num.argtypes, library.H5Eget_num.restype = [ctypes.c_int64], ctypes.c_ssize_t
file = library.H5Fcreate(b"made.h5", 2, 0, 0)
assert file > 0
library.H5Eset_auto2(0, None, None)
print(library.H5Fclose(file), library.H5Fclose(file), library.H5Eget_num(0))
import h5py
with h5py.File("made.h5", "r") as file:
    print(list(file))
"#;

#[test]
fn looked_up_functions_are_recorded_and_errors_stay_the_programs_own() {
    let sandbox = Sandbox::new("hdf5-looked-up").unwrap();
    let command = || {
        let mut command = Command::new(python());
        command.args(["-c", LOOKED_UP]).current_dir(sandbox.work());
        command
    };
    let untraced = output(&mut command());
    let library = artefacts::library().unwrap();
    let traced = output(command().env("LD_PRELOAD", library).env("DLIO_TRACE_DIR", sandbox.trace()));
    assert_eq!(traced, untraced);
    let sql = "select name, errno, count(*) as n from events where layer = 'hdf5'
        and name in ('H5Fcreate', 'H5Fopen', 'H5Fclose') group by 1, 2 order by 1, 2 nulls first";
    let of = |name: &str, errno: Option<i64>| vec![Value::from(name), Value::from(errno), Value::from(1)];
    let closed = [of("H5Fclose", None), of("H5Fclose", Some(5))];
    let wanted = [closed.to_vec(), vec![of("H5Fcreate", None), of("H5Fopen", None)]].concat();
    assert_eq!(rows(&sandbox.trace(), sql), wanted);
}
