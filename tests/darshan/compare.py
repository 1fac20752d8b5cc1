"""Compares the counters of Darshan logs, as dlio-analyze reads them, with those of Darshan's own library.

    compare.py DLIO_ANALYZE DIR...

DIR contains .darshan files, such as https://github.com/darshan-hpc/darshan-logs. The packages darshan and pandas (pip
install darshan) must be installed; they contain darshan-util. Every counter of every record is compared exactly, as
are reads and writes of DXT and the job. The last line counts what was compared.
"""

import collections
import csv
import io
import math
import pathlib
import struct
import subprocess
import sys

from darshan.backend import cffi_backend as backend

# Modules whose counters the library returns as arrays.
COUNTED = ("POSIX", "STDIO", "MPI-IO", "H5F", "H5D", "PNETCDF_FILE", "PNETCDF_VAR", "DFS", "DAOS")
# Counters of old versions that the library does not convert, or converts into others.
REMOVED = ("POSIX_FOPENS", "POSIX_FREADS", "POSIX_FWRITES", "POSIX_FSEEKS", "PNETCDF_FILE_INDEP_OPENS",
           "PNETCDF_FILE_COLL_OPENS")
TRACED = ("DXT_POSIX", "DXT_MPIIO")


def rows(program, log, query):
    """Returns the rows of a query, as dictionaries of texts."""
    command = [program, str(log), "--no-cache", "--sql", query, "--format", "csv"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"cannot compare {log}: {done.stderr.strip()}")
    return list(csv.DictReader(io.StringIO(done.stdout)))


def expected_records(handle, module):
    """Returns the records of a module as the library reads them."""
    while record := backend.log_get_generic_record(handle, module, dtype="dict"):
        yield record


def counters_of(handle, names):
    """Returns how often each counter of a file has each value."""
    found = collections.Counter()
    for module in COUNTED:
        if module not in handle["modules"]:
            continue
        for record in expected_records(handle, module):
            path = names.get(record["id"]) or f"<darshan {record['id']}>"
            rank = "" if record["rank"] == -1 else str(record["rank"])
            for name, value in record["counters"].items():
                if not absent(module, name, value, handle):
                    found[module, rank, path, name, str(int(value))] += 1
            for name, value in record["fcounters"].items():
                value = mended(module, name, float(value), handle)
                if not absent(module, name, value, handle):
                    found[module, rank, path, name, repr(value)] += 1
    return found


def mended(module, name, value, handle):
    """Returns a time that darshan-util 3.5.0 leaves in the byte order of an old big-endian log."""
    left = ("POSIX_F_META_TIME", "POSIX_F_MAX_READ_TIME", "POSIX_F_MAX_WRITE_TIME")
    if handle["is_big"] and module == "POSIX" and handle["modules"][module]["ver"] < 4 and name in left:
        return struct.unpack(">d", struct.pack("<d", value))[0]
    return value


def absent(module, name, value, handle):
    """Returns true for a number that the library invents or loses, because the module's version differs from its own."""
    version = handle["modules"][module]["ver"]
    # It copies these records without their last two numbers.
    if module == "POSIX" and version in (2, 3) and name.startswith("POSIX_F_VARIANCE_RANK_"):
        return True
    later = {
        "POSIX": [(3, ("FILENOS", "DUPS", "RENAME_SOURCES", "RENAME_TARGETS", "RENAMED_FROM"))],
        "STDIO": [(1, ("FDOPENS",))],
        "H5F": [(2, ("FLUSHES", "USE_MPIIO", "F_META_TIME"))],
        "PNETCDF_FILE": [(2, ("CREATES", "OPENS", "REDEFS", "INDEP_WAITS", "COLL_WAITS", "SYNCS", "BYTES_READ",
                              "BYTES_WRITTEN", "WAIT_FAILURES", "F_WAIT_START_TIMESTAMP", "F_WAIT_END_TIMESTAMP",
                              "F_META_TIME", "F_WAIT_TIME"))],
    }.get(module, [])
    times = ("F_CLOSE_START_TIMESTAMP", "F_OPEN_END_TIMESTAMP")
    later = later + [({"POSIX": 2, "MPI-IO": 2, "H5F": 1, "PNETCDF_FILE": 1}.get(module, 0), times)]
    return any(version <= last and name.split("_", 2 if module == "PNETCDF_FILE" else 1)[-1] in names
               for last, names in later)


def lost(handle, row):
    """Returns true for a number that the library loses."""
    return row["counter"].startswith("POSIX_F_VARIANCE_RANK_") and handle["modules"]["POSIX"]["ver"] in (2, 3)


def read_counters(program, log, handle):
    """Returns the counters of a log like counters_of."""
    query = "select module, rank, path, counter, value, number from counters"
    found = collections.Counter()
    for row in rows(program, log, query):
        if row["module"] in COUNTED and row["counter"] not in REMOVED and not lost(handle, row):
            value = row["value"] or repr(float(row["number"]))
            found[row["module"], row["rank"], row["path"], row["counter"], value] += 1
    return found


def segments_of(handle, names, start_ns):
    """Returns how often each traced read and write occurs."""
    found = collections.Counter()
    for module in TRACED:
        if module not in handle["modules"]:
            continue
        layer = "mpiio" if module == "DXT_MPIIO" else "posix"
        while record := backend.log_get_dxt_record(handle, module, dtype="dict"):
            path = names.get(record["id"]) or f"<darshan {record['id']}>"
            for name in ("read", "write"):
                for segment in record[f"{name}_segments"]:
                    begin = math.floor(segment["start_time"] * 1e9 + 0.5)
                    dur = max(0, math.floor(segment["end_time"] * 1e9 + 0.5) - begin)
                    offset = "" if segment["offset"] < 0 else str(segment["offset"])
                    found[layer, name, str(record["rank"]), path, offset, str(segment["length"]),
                          str(start_ns + begin), str(dur)] += 1
    return found


def read_segments(program, log):
    """Returns the events of a log like segments_of."""
    query = "select layer, name, rank, file, pos, bytes, ts, dur from events"
    return collections.Counter(tuple(row.values()) for row in rows(program, log, query))


def compare(program, log):
    """Compares one log; returns the numbers of counters and segments, and the differences."""
    handle = backend.log_open(str(log))
    if not handle["handle"]:
        return 0, 0, ["darshan-util cannot open it"]
    job = backend.log_get_job(handle)
    backend.log_get_modules(handle)
    handle["is_big"] = log.read_bytes()[8:16] == (6567223).to_bytes(8, "big")
    names = backend.log_get_name_records(handle)
    mine, theirs = read_counters(program, log, handle), counters_of(handle, names)
    differences = [f"counter {key}: {mine[key]} times, expected {theirs[key]}"
                   for key in mine.keys() | theirs.keys() if mine[key] != theirs[key]]
    [of_job] = rows(program, log, "select job_id, uid, processes, start_ts from jobs")
    start_ns = job["start_time_sec"] * 10**9 + job["start_time_nsec"]
    wanted = [job["jobid"], job["uid"], job["nprocs"], start_ns]
    if [int(value) for value in of_job.values()] != wanted:
        differences.append(f"job {of_job}, expected {wanted}")
    read, traced = read_segments(program, log), segments_of(handle, names, start_ns)
    differences += [f"segment {key}: {read[key]} times, expected {traced[key]}"
                    for key in read.keys() | traced.keys() if read[key] != traced[key]]
    backend.log_close(handle)
    return sum(theirs.values()), sum(traced.values()), differences


def main():
    """Compares all logs of the directories."""
    program, *directories = sys.argv[1:]
    logs = sorted(log for directory in directories for log in pathlib.Path(directory).rglob("*.darshan"))
    if not logs:
        raise SystemExit("cannot compare: the directories contain no .darshan files")
    counters = segments = failed = 0
    for log in logs:
        of_log, traced, differences = compare(program, log)
        counters, segments, failed = counters + of_log, segments + traced, failed + bool(differences)
        print(f"{'DIFFERS' if differences else 'equal'}  {of_log} counters, {traced} segments  {log.name}")
        for difference in sorted(differences)[:5]:
            print(f"    {difference}")
    print(f"{len(logs)} logs, {counters} counters, {segments} segments: {failed} logs differ")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
