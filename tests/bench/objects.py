#!/usr/bin/env python3
"""Compares clients of an object store: GETs of large and of small objects from nginx on this host, by CPU time.

    tests/bench/objects.py     needs nginx (Debian's nginx-light); boto3 and s3fs where `make test-stores` has installed them, and
                               s3torchconnector, by which DLIO reads with PyTorch, where `make test-torch` has

Each client runs once with a few passes and once with many; the difference is the result, so the start of the client does not count.
"""

import contextlib
import os
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
CACHE = os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache"))
CLIENTS = os.path.join(os.environ.get("DLIO_STORES_VENV", os.path.join(CACHE, "dlio-stores-venv")), "bin", "python")
TORCH = os.path.join(os.environ.get("DLIO_TORCH_VENV", os.path.join(CACHE, "dlio-torch-venv")), "bin", "python")
BINARIES = os.environ.get("DLIO_BIN_DIR", os.path.join(HERE, "../../target/dist/bin"))
# Name, objects, bytes per sample, samples per batch, passes of the fast clients and of Python's.
SETS = [("big", 12, 64 << 20, 1, 4, 2), ("small", 2000, 63 * 63, 100, 10, 1)]
CONFIGURATION = """daemon off; pid {folder}/pid; error_log {folder}/error.log; worker_processes 2; events {{}}
http {{ access_log off; sendfile on; tcp_nopush on; keepalive_requests 1000000; client_body_temp_path {folder}/body;
  server {{ listen 127.0.0.1:{port}; root {folder}/store; }} }}
"""
BOTO3 = """
import sys, boto3
store = boto3.client("s3", endpoint_url=sys.argv[1])
for _ in range(int(sys.argv[3])):
    for number in range(int(sys.argv[4])):
        store.get_object(Bucket="bucket", Key=sys.argv[2] % number)["Body"].read()
"""
S3FS = """
import sys, s3fs
store = s3fs.S3FileSystem(endpoint_url=sys.argv[1])
for _ in range(int(sys.argv[3])):
    for number in range(int(sys.argv[4])):
        store.cat_file("bucket/" + sys.argv[2] % number)
"""
# Creates its client like DLIO, and reads whole objects.
CONNECTOR = """
import sys
from s3torchconnector._s3client import S3Client, S3ClientConfig
store = S3Client("us-east-1", endpoint=sys.argv[1], s3client_config=S3ClientConfig(force_path_style=True, max_attempts=5))
for _ in range(int(sys.argv[3])):
    for number in range(int(sys.argv[4])):
        store.get_object("bucket", sys.argv[2] % number).read()
"""


def cpu(command):
    """Returns the CPU seconds of a command and its child processes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"{command[0]} failed: {done.stderr}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@contextlib.contextmanager
def nginx(folder):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    path = os.path.join(folder, "nginx.conf")
    with open(path, "w", encoding="utf-8") as file:
        user = "user root;\n" if os.geteuid() == 0 else ""
        file.write(user + CONFIGURATION.format(folder=folder, port=port))
    server = subprocess.Popen(["nginx", "-c", path])
    try:
        for _ in range(1000):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.01)
        yield port
    finally:
        server.terminate()
        server.wait()


def bench(*overrides):
    keys = {"reader.read_threads": 0, "train.computation_time": 0, "dataset.record_length_bytes_stdev": 0,
            "dataset.format": "npy", "workflow.checkpoint": "false", "workflow.evaluation": "false"}
    typed = [f"++workload.{key}={value}" for key, value in keys.items()]
    return [os.path.join(BINARIES, "dlio"), "bench", "--quiet", "workload=unet3d", *typed, *overrides]


def main():
    if not shutil.which("nginx"):
        sys.exit("nginx is missing: the package nginx-light of the distribution")
    with tempfile.TemporaryDirectory(prefix="dlio-objects-") as folder, contextlib.ExitStack() as stack:
        os.makedirs(os.path.join(folder, "store", "bucket"))
        os.chmod(folder, 0o755)
        loop = os.path.join(folder, "http_loop")
        subprocess.run(["cc", "-O2", "-o", loop, os.path.join(HERE, "programs", "http_loop.c")], check=True)
        os.chdir(folder)
        port = stack.enter_context(nginx(folder))
        endpoint = f"http://127.0.0.1:{port}"
        os.environ.update(AWS_ENDPOINT_URL=endpoint, AWS_ACCESS_KEY_ID="key", AWS_SECRET_ACCESS_KEY="secret", AWS_REGION="us-east-1")
        print(f"{'':<8} {'':<12} {'GB a CPU s':>12} {'requests a CPU s':>18}")
        for name, count, size, batch, passes, slow_passes in SETS:
            data = [f"++workload.dataset.num_files_train={count}", f"++workload.dataset.record_length_bytes={size}",
                    f"++workload.reader.batch_size={batch}", f"++hydra.run.dir={folder}/run"]
            made = [f"++workload.dataset.data_folder={folder}/store/bucket/{name}", "++workload.workflow.generate_data=true",
                    "++workload.workflow.train=false"]
            subprocess.run(bench(*data, *made), check=True, capture_output=True)
            asked = ["++workload.storage.storage_type=s3", "++workload.storage.storage_root=bucket", f"++workload.dataset.data_folder={name}"]
            digits = len(str(count))
            key = f"{name}/train/img_%0{digits}d_of_{count}.npy"
            sides = {
                "plain loop": (passes, lambda times: [loop, str(port), str(times), "/bucket/" + key, str(count)]),
                "dlio": (passes, lambda times: bench(*data, *asked, f"++workload.train.epochs={times}")),
            }
            for client, python, code in (("boto3", CLIENTS, BOTO3), ("s3fs", CLIENTS, S3FS), ("connector", TORCH, CONNECTOR)):
                if os.path.exists(python):
                    words = [python, "-c", code, endpoint, key]
                    sides[client] = (slow_passes, lambda times, words=words: [*words, str(times), str(count)])
            for client, (times, command) in sides.items():
                seconds = max(cpu(command(1 + times)) - cpu(command(1)), 1e-9)
                requests = times * count
                print(f"{name:<8} {client:<12} {requests * (size + 128) / 1e9 / seconds:>12.2f} {requests / seconds:>18,.0f}", flush=True)


main()
