"""Jobs whose data come from a server, which is outside the trace if not said otherwise."""

import concurrent.futures
import contextlib
import os
import socket
import ssl
import subprocess
import sys
import urllib.request

from alone import own_batches
from clock import compute_for
from loaders import Loader, train, untraced
from processes import SLOW
from registry import job

HERE = os.path.dirname(os.path.abspath(__file__))


@contextlib.contextmanager
def server(seconds, *options, traced=False):
    """The port of a server."""
    command = [sys.executable, os.path.join(HERE, "server.py"), str(seconds), *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=None if traced else untraced())
    try:
        yield int(process.stdout.readline())
    finally:
        process.terminate()
        process.wait()


def fetch(url, context=None):
    with urllib.request.urlopen(url, context=context) as response:
        return response.read()


def requests(port, number=2, decode=0.0, scheme="http", path=str):
    """A maker of batches: it requests samples and decodes each."""
    context = ssl._create_unverified_context() if scheme == "https" else None

    def make(index, work):
        total = 0
        for sample in range(index * number, (index + 1) * number):
            with work.at("network"):
                content = fetch(f"{scheme}://127.0.0.1:{port}/{path(sample)}", context)
            total += content[0]
            compute_for(decode)
        return total

    return make


@job("network")
def http():
    """2 workers request samples over HTTP, 25 ms each | no data file, and not decoding"""
    with server(0.025) as port:
        return train(Loader(requests(port), 40), 0.008)


@job("network")
def http_without_workers():
    """the training thread requests each sample itself, over HTTP | neither readers nor files"""
    with server(0.025) as port:
        return train(own_batches(requests(port, number=1), 60, rest="cpu"), 0.02)


@job("network")
def https():
    """HTTP over TLS | the bytes are ciphertext"""
    subject = ["-subj", "/CN=127.0.0.1"]
    files = ["-keyout", "server.pem", "-out", "server.crt"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *files, *subject]
    subprocess.run(command, check=True, capture_output=True, env=untraced())
    with open("server.pem", "a") as into, open("server.crt") as certificate:
        into.write(certificate.read())
    with server(0.025, "server.pem") as port:
        return train(Loader(requests(port, scheme="https"), 40), 0.008)


@job("cpu")
def http_decode():
    """samples over HTTP at once, then 20 ms of decoding | network traffic that costs nothing"""
    with server(0) as port:
        return train(Loader(requests(port, number=1, decode=0.02), 60), 0.004)


@job("network")
def http_8_threads():
    """one worker process with 8 threads that fetch, as clients of object stores do | the maker is not the receiving thread"""
    with server(0.1) as port:
        state = {}

        def make(index, work):
            pool = state.setdefault("pool", concurrent.futures.ThreadPoolExecutor(8))
            with work.at("network"):
                return sum(pool.map(lambda _: len(fetch(f"http://127.0.0.1:{port}/0")), range(8)))

        return train(Loader(make, 20, workers=1), 0.03)


@job("network")
def plain_socket():
    """one worker reads samples from a plain TCP socket, 15 ms each | `recv`, and no library that could be known"""
    with server(0.015) as port:
        state = {}

        def make(index, work):
            client = state.setdefault("client", socket.socket())
            with work.at("network"):
                if index == 0:
                    client.connect(("127.0.0.1", port))
                client.sendall(b"GET /0 HTTP/1.1\r\nHost: x\r\n\r\n")
                left = 64 << 10
                head = client.recv(1 << 20)
                left -= len(head) - head.index(b"\r\n\r\n") - 4 if b"\r\n\r\n" in head else 0
                while left > 0:
                    left -= len(client.recv(left))
            return index

        return train(Loader(make, 60, workers=1), 0.006)


@job("network", SLOW, also=("storage",))
def server_in_the_trace():
    """the server is traced as well, its disk is slow | storage of the server; the chain crosses TCP"""
    with server(0, traced=True) as port:
        return train(Loader(requests(port, path=SLOW.path), 40), 0.008)


@job("network")
def download_then_read():
    """the first epoch downloads to local files, 3 more read them | two phases"""
    with server(0.025) as port:

        def make(index, work):
            name = f"downloaded.{index % 20}"
            if index < 20:
                content = requests(port, number=2)(index, work)
                with open(name, "wb") as file:
                    file.write(bytes([content % 251]) * 65536)
            with work.at("storage"), open(name, "rb", buffering=0) as file:
                return file.read(65536)[0]

        return train(Loader(make, 80), 0.012)


@job("network", also=("start",))
def slow_name_server():
    """each worker needs 1 s before its connection is made, then all is fast | start, and network"""
    with server(0) as port:
        state = {}

        def make(index, work):
            if not state:
                with work.at("network"):
                    state["delay"] = socket.create_server(("127.0.0.1", 0), backlog=1)
                    client = socket.create_connection(state["delay"].getsockname())
                    client.settimeout(1)
                    with contextlib.suppress(TimeoutError):
                        client.recv(1)
            return requests(port)(index, work)

        return train(Loader(make, 50), 0.012)


@job("none")
def http_healthy():
    """samples over HTTP, batches come in time | requests are not waits"""
    with server(0.01) as port:
        return train(Loader(requests(port, number=1), 50), 0.04)
