#!/usr/bin/env python3
"""Tests generation, training, checkpoints and faults with real object stores: OpenStack Swift with its S3 interface, nginx, and an
nginx that redirects every request, like AIStore's proxy.

    tests/run-stores.py [swift] [nginx] [sent-on]

`tests/setup.sh stores` installs them from Debian. They listen only on this host and are stopped afterwards. boto3 and the
server's own log verify the results: the log must have the reported numbers of requests and bytes.
"""

import contextlib
import json
import os
import pathlib
import pwd
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

DIST = pathlib.Path(os.environ["DLIO_BIN_DIR"])
CACHE = os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache"))
CLIENTS = os.path.join(os.environ.get("DLIO_STORES_VENV", os.path.join(CACHE, "dlio-stores-venv")), "bin", "python")
# The user, project and key of Swift's own test account.
KEY_ID, SECRET = "test:tester", "testing"
GENERATE, NO_TRAINING = "workflow.generate_data=true", "workflow.train=false"
SMALL = ["dataset.data_folder=data", "dataset.num_files_train=8", "dataset.record_length_bytes=10000",
         "dataset.record_length_bytes_stdev=0", "reader.batch_size=2", "train.epochs=2", "train.computation_time=0.0001",
         "workflow.checkpoint=false", "storage.storage_type=s3", "storage.storage_root=bucket"]
PARTS = ["storage.storage_options.part_size=5242880", "storage.storage_options.multipart_threshold=5242880"]
LISTED = """
import sys, boto3
store = boto3.client("s3", endpoint_url=sys.argv[1], aws_access_key_id=sys.argv[2], aws_secret_access_key=sys.argv[3],
                     region_name="us-east-1")
for page in store.get_paginator("list_objects_v2").paginate(Bucket="bucket"):
    for found in page.get("Contents", []):
        print(len(store.get_object(Bucket="bucket", Key=found["Key"])["Body"].read()), found["Key"])
print(len(store.list_multipart_uploads(Bucket="bucket").get("Uploads", [])), "uploads")
"""


def expect(holds: bool, what: str) -> None:
    if not holds:
        sys.exit(f"does not hold: {what}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def until(answers, process: subprocess.Popen, what: str) -> None:
    """Waits until the server responds; fails if it exits."""
    for _ in range(600):
        with contextlib.suppress(OSError):
            answers()
            return
        expect(process.poll() is None, f"{what} starts")
        time.sleep(0.05)
    sys.exit(f"{what} does not respond")


def connects(port: int):
    return lambda: socket.create_connection(("127.0.0.1", port)).close()


@contextlib.contextmanager
def started(commands: dict[str, list[str]], folder: pathlib.Path):
    """Programs that this script stops, the last one started first."""
    running = []
    try:
        for name, command in commands.items():
            log = open(folder / f"{name}.log", "w", encoding="utf-8")
            running.append(subprocess.Popen(command, stdout=log, stderr=log))
        yield running
    finally:
        for process in reversed(running):
            process.terminate()
        for process in running:
            process.wait()


SWIFT_SERVER = """[DEFAULT]
bind_ip = 127.0.0.1
bind_port = {port}
workers = 0
user = {user}
swift_dir = {folder}
devices = {folder}
mount_check = false
log_name = {kind}
[pipeline:main]
pipeline = {pipeline}
[app:{kind}-server]
use = egg:swift#{kind}
{more}
"""
SWIFT_PROXY = """
allow_account_management = true
account_autocreate = true
[filter:s3api]
use = egg:swift#s3api
location = us-east-1
[filter:tempauth]
use = egg:swift#tempauth
user_test_tester = testing .admin
[filter:cache]
use = egg:swift#memcache
memcache_servers = 127.0.0.1:{cache}
[filter:catch_errors]
use = egg:swift#catch_errors
[filter:gatekeeper]
use = egg:swift#gatekeeper
[filter:bulk]
use = egg:swift#bulk
[filter:slo]
use = egg:swift#slo
[filter:copy]
use = egg:swift#copy
"""


@contextlib.contextmanager
def swift(folder: pathlib.Path):
    """Starts Swift with one disk: four servers and the cache they share. Returns its endpoint and the process that listens on it."""
    user = pwd.getpwuid(os.geteuid()).pw_name
    ports = {kind: free_port() for kind in ("account", "container", "object", "proxy", "cache")}
    (folder / "disk").mkdir()
    (folder / "swift.conf").write_text("[swift-hash]\nswift_hash_path_suffix = tests\n[storage-policy:0]\nname = one\ndefault = yes\n")
    pipeline = "catch_errors gatekeeper cache s3api tempauth copy bulk slo proxy-server"
    commands = {"memcached": ["memcached", "-u", user, "-l", "127.0.0.1", "-p", str(ports["cache"])]}
    for kind in ("account", "container", "object", "proxy"):
        storage = kind != "proxy"
        if storage:
            builder = str(folder / f"{kind}.builder")
            for words in (["create", "4", "1", "1"], ["add", f"r1z1-127.0.0.1:{ports[kind]}/disk", "1"], ["rebalance"]):
                subprocess.run(["swift-ring-builder", builder, *words], check=True, capture_output=True)
        text = SWIFT_SERVER.format(port=ports[kind], user=user, folder=folder, kind=kind,
                                   pipeline=f"{kind}-server" if storage else pipeline,
                                   more="" if storage else SWIFT_PROXY.format(cache=ports["cache"]))
        (folder / f"{kind}.conf").write_text(text)
        commands[kind] = [f"swift-{kind}-server", str(folder / f"{kind}.conf")]
    with started(commands, folder) as running:
        for kind, process in zip(("cache", "account", "container", "object", "proxy"), running):
            until(connects(ports[kind]), process, f"Swift's {kind}")
        yield f"http://127.0.0.1:{ports['proxy']}", running[-1]


NGINX = """{user}daemon off; pid {folder}/pid; error_log {folder}/error.log; worker_processes 1; events {{}}
http {{
  log_format counted '$request_method $status $body_bytes_sent $uri'; access_log {folder}/access.log counted;
  sendfile on; tcp_nopush on; client_max_body_size 0; client_body_temp_path {folder}/body; keepalive_requests 100000;
  server {{ listen 127.0.0.1:{port}; root {folder}/disk;
    location / {{ dav_methods PUT DELETE; create_full_put_path on; if ($request_method = PUT) {{ add_header ETag '"put"' always; }} }} }}
  server {{ listen 127.0.0.1:{front}; location / {{ return 307 http://127.0.0.1:{port}$uri?ais_pid=p&ais_ts=1; }} }}
}}
"""


@contextlib.contextmanager
def nginx(folder: pathlib.Path, sends_on: bool):
    """Starts nginx, which ignores signatures. A bucket is a directory."""
    port, front = free_port(), free_port()
    (folder / "disk" / "bucket").mkdir(parents=True)
    user = "user root;\n" if os.geteuid() == 0 else ""
    (folder / "nginx.conf").write_text(NGINX.format(user=user, folder=folder, port=port, front=front))
    with started({"nginx": ["nginx", "-c", str(folder / "nginx.conf")]}, folder) as running:
        until(connects(front), running[0], "nginx")
        yield f"http://127.0.0.1:{front if sends_on else port}"


class Bench:
    """Runs `dlio bench` with one store."""

    def __init__(self, endpoint: str, folder: pathlib.Path):
        self.folder, self.said = folder, ""
        self.variables = dict(os.environ, AWS_ENDPOINT_URL=endpoint, AWS_ACCESS_KEY_ID=KEY_ID, AWS_SECRET_ACCESS_KEY=SECRET)
        for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL_S3", "AWS_SESSION_TOKEN", "S3_ENDPOINT_URIS"):
            self.variables.pop(name, None)

    def command(self, *keys: str, workload="unet3d", options=(), before=()) -> list[str]:
        typed = [f"++workload.{key}" for key in keys]
        return [*before, str(DIST / "dlio"), "bench", *options, f"workload={workload}", "++hydra.run.dir=run", *typed]

    def start(self, *keys: str, **how) -> subprocess.Popen:
        return subprocess.Popen(self.command(*keys, **how), env=self.variables, cwd=self.folder, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def ended(self, process: subprocess.Popen, status: int) -> dict:
        said, _ = process.communicate(timeout=300)
        expect(process.returncode == status, f"it ends with {status}, not {process.returncode}: {said}")
        self.said = said
        summary = self.folder / "run" / "summary.json"
        return json.loads(summary.read_text()) if summary.exists() else {}

    def run(self, *keys: str, status=0, **how) -> dict:
        return self.ended(self.start(*keys, **how), status)

    def refused(self, words: str, *keys: str, status=4, **how) -> None:
        self.run(*keys, status=status, **how)
        expect(words in self.said, f"{words}: {self.said}")
        expect(len(re.findall("^dlio: ", self.said, re.MULTILINE)) == 1, f"one sentence: {self.said}")


def figure(summary: dict, name: str) -> int:
    return sum(epoch["object"][name] for epoch in summary["epoch"])


FORMATS = {
    "npz": [], "npy": ["dataset.num_samples_per_file=3"], "png": [],
    "hdf5": ["dataset.num_samples_per_file=3"], "parquet": ["dataset.num_samples_per_file=3"],
    "indexed_binary": ["dataset.num_samples_per_file=3"],
    "tfrecord": ["dataset.num_samples_per_file=20", "framework=tensorflow", "reader.data_loader=tensorflow"],
    "webdataset": ["dataset.num_samples_per_file=20"], "mds": ["dataset.num_samples_per_file=20"],
}
WAYS = [(["reader.read_threads=0"], []), (["reader.read_threads=2"], []),
        (["reader.read_threads=2", "storage.storage_options.prefetch_window=4"], ["--ranks=2"])]


def whole_way(bench: Bench, log: pathlib.Path | None) -> None:
    """Generates, verifies and reads every format; if the server has a log, its counts must equal the reported ones."""
    for form, more in FORMATS.items():
        keys = [*SMALL, *more, f"dataset.format={form}", f"dataset.data_folder=data/{form}"]
        bench.run(*keys, GENERATE, NO_TRAINING, options=["--verify"])
        for way, options in WAYS:
            before = len(log.read_text().splitlines()) if log else 0
            summary = bench.run(*keys, *way, options=options)
            if log:
                lines = [line.split(" ") for line in log.read_text().splitlines()[before:]]
                seen = [(int(status), int(size)) for method, status, size, path in lines
                        if method == "GET" and ".dlio" not in path]
                sizes = sum(size for status, size in seen if status < 300)
                found = figure(summary, "get_requests"), figure(summary, "bytes_read")
                expect(found == (len(seen), sizes), f"{form} {way}: {found} reported, {(len(seen), sizes)} counted")
        print(f"ok   {form}: generated, verified, read by 0 and 2 workers and by 2 ranks", flush=True)


# GETs of the data and their bytes in each epoch, over all ranks.
BY_EPOCH = """
with epochs as (select epoch, min(ts) as began, max(ts + dur) as ended from events where name = 'epoch' group by epoch)
select epochs.epoch, count(*) as gets, sum(bytes) as bytes from events join epochs on ts >= began and ts < ended
where events.name = 'object.get' and file like 's3://bucket/data/traced/%' group by 1 order by 1
"""


def three_counts(bench: Bench, log: pathlib.Path | None) -> None:
    """Checks that trace, report and server agree on the requests and bytes of each epoch."""
    ways = {"two readers": [], "a window": ["storage.storage_options.prefetch_window=3"],
            "a tier": ["storage.cache.folder=tier", "storage.storage_options.prefetch_window=3"]}
    keys = [*SMALL, "dataset.format=npz", "dataset.data_folder=data/traced", "reader.read_threads=2", "train.epochs=3"]
    bench.run(*keys, GENERATE, NO_TRAINING)
    for way, more in ways.items():
        before = len(log.read_text().splitlines()) if log else 0
        # The trace of this run only.
        shutil.rmtree(bench.folder / "run" / "trace", ignore_errors=True)
        summary = bench.run(*keys, *more, options=["--trace"])
        reported = [(epoch["object"]["get_requests"], epoch["object"]["bytes_read"]) for epoch in summary["epoch"]]
        asked = [str(DIST / "dlio-analyze"), str(bench.folder / "run" / "trace"), "--sql", BY_EPOCH, "--format", "csv"]
        rows = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.splitlines()[1:]
        traced = {int(epoch): (int(gets), int(moved)) for epoch, gets, moved in (row.split(",") for row in rows)}
        expect([traced.get(epoch + 1, (0, 0)) for epoch in range(3)] == reported, f"{way}: {traced} traced, {reported} reported")
        if log:
            lines = [line.split(" ") for line in log.read_text().splitlines()[before:]]
            sizes = [int(size) for method, _, size, path in lines if method == "GET" and "/data/traced/train/" in path]
            counted = []
            for gets, _ in reported:
                counted.append((len(sizes[:gets]), sum(sizes[:gets])))
                sizes = sizes[gets:]
            expect(counted == reported and not sizes, f"{way}: {counted} counted, {reported} reported")
        print(f"ok   {way}: (requests, bytes) of each epoch are {reported} in trace and report"
              f"{' and the log of the server' if log else ''}", flush=True)


def checkpoints(bench: Bench) -> None:
    """Writes checkpoints in several concurrent parts, and reads them back with their checksums."""
    model = ["storage.storage_type=s3", "storage.storage_root=bucket", "model.num_layers=1",
             "model.transformer.hidden_size=128", "model.transformer.ffn_hidden_size=512", "model.transformer.vocab_size=40000",
             "checkpoint.checkpoint_folder=ckpt", "checkpoint.num_checkpoints_write=2", "checkpoint.num_checkpoints_read=2",
             "checkpoint.time_between_checkpoints=0", "storage.storage_options.verify_writes=true", *PARTS]
    for form, options in (("framework", []), ("safetensors", ["--ranks=2"])):
        bench.run(*model, f"checkpoint.format={form}", workload="llama_7b", options=options)
        expect("saved" in bench.said and "loaded" in bench.said, bench.said)
        print(f"ok   checkpoints: {form}, in parts of 5 MiB, verified", flush=True)


def listed(bench: Bench) -> dict[str, int]:
    """Returns the size of each object and the number of open uploads, from boto3."""
    words = [CLIENTS, "-c", LISTED, bench.variables["AWS_ENDPOINT_URL"], KEY_ID, SECRET]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    expect(done.returncode == 0, f"boto3 lists the bucket: {done.stderr}")
    return {name: int(size) for size, name in (line.split(" ", 1) for line in done.stdout.splitlines())}


def faults(bench: Bench) -> None:
    """Checks the errors of a real server."""
    option = "storage.storage_options."
    bench.refused("SignatureDoesNotMatch", *SMALL, f"{option}access_key_id={KEY_ID}", f"{option}secret_access_key=wrong")
    bench.refused("refuses key", *SMALL, f"{option}access_key_id=nobody:here", f"{option}secret_access_key=wrong", GENERATE)
    elsewhere = [key.replace("storage_root=bucket", "storage_root=elsewhere") for key in SMALL]
    bench.refused("there is no bucket elsewhere", *elsewhere, GENERATE, status=3)
    bench.refused("min ahead of the store's", *SMALL, GENERATE, before=["faketime", "-f", "+20m"])
    print("ok   a wrong key, secret, bucket and clock are one sentence each", flush=True)


def killed_generation(bench: Bench, disk: pathlib.Path) -> None:
    large = [*SMALL, *PARTS, "dataset.data_folder=large", "dataset.record_length_bytes=40000000", "dataset.num_files_train=2",
             "reader.batch_size=1", GENERATE, NO_TRAINING]
    running = bench.start(*large)

    def has_a_part() -> None:
        if not any(part.stat().st_size == 5 << 20 for part in disk.glob("objects/**/*.data")):
            raise OSError

    until(has_a_part, running, "a generation in parts")
    running.kill()
    running.communicate()
    half = [name for name, size in listed(bench).items() if name.startswith("large/train/") and size < 39_900_000]
    expect(not half, f"nothing is half there: {half}")
    bench.run(*large, options=["--verify"])
    expect(listed(bench)["uploads"] == 0, "what a killed generation left is given up by the next")
    print("ok   a generation that is killed leaves nothing half written", flush=True)


def standstill(bench: Bench, proxy: subprocess.Popen) -> None:
    """Checks a server that hangs, and one that has ended."""
    keys = [*SMALL, "dataset.data_folder=data/npz", "dataset.format=npz"]
    (bench.folder / "run" / "summary.json").unlink(missing_ok=True)
    running = bench.start(*keys, "storage.storage_options.stall_timeout=2", "train.computation_time=0.2", "train.epochs=6")
    until((bench.folder / "run" / "summary.json").stat, running, "a training run")
    proxy.send_signal(signal.SIGSTOP)
    # Longer than its timeout.
    time.sleep(5)
    proxy.send_signal(signal.SIGCONT)
    expect(figure(bench.ended(running, 0), "retries_stalled") > 0, "a server that stood still was asked again")
    print("ok   a server that stands still for five seconds is asked again", flush=True)
    proxy.terminate()
    proxy.wait()
    bench.refused("cannot connect to", *keys, "storage.storage_options.s3_max_attempts=2")
    print("ok   a server that is gone is one sentence", flush=True)


def on_swift(folder: pathlib.Path) -> None:
    with swift(folder) as (endpoint, proxy):
        bench = Bench(endpoint, folder)
        bench.run(*SMALL, GENERATE, NO_TRAINING, "storage.storage_options.create_bucket=true")
        whole_way(bench, None)
        three_counts(bench, None)
        checkpoints(bench)
        there = listed(bench)
        expect(there.pop("uploads") == 0 and len(there) > 8 * len(FORMATS), f"the store has all objects: {there}")
        faults(bench)
        killed_generation(bench, folder / "disk")
        standstill(bench, proxy)


def on_nginx(folder: pathlib.Path, sends_on: bool = False) -> None:
    with nginx(folder, sends_on) as endpoint:
        bench = Bench(endpoint, folder)
        whole_way(bench, folder / "access.log")
        if not sends_on:
            three_counts(bench, folder / "access.log")


STORES = {"swift": on_swift, "nginx": on_nginx, "sent-on": lambda folder: on_nginx(folder, sends_on=True)}


def main() -> None:
    for name in sys.argv[1:] or STORES:
        with tempfile.TemporaryDirectory(prefix="dlio-stores.") as folder:
            print(f"{name}:", flush=True)
            STORES[name](pathlib.Path(folder))


main()
