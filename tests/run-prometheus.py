#!/usr/bin/env python3
"""Tests `dlio top --listen` and the dashboard with a real Prometheus, which scrapes a live traced job.

    tests/run-prometheus.py

Prometheus comes from PATH, or from Debian's package, which is unpacked into the cache directory and not installed. The
configuration is the one in analyzer/TOP.md. Each query of examples/grafana.json must return what `dlio top --once` shows, and a
target that refuses to answer must appear as down, with the reason in the log of the target.
"""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent
BIN = pathlib.Path(os.environ["DLIO_BIN_DIR"])
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache"))) / "dlio-prometheus"
SCRAPES_S = 2
# Scrapes, intervals and `dlio top --once` cover different parts of a job that is only nearly steady.
CLOSE = 0.25


def expect(holds, what):
    if not holds:
        sys.exit(f"does not hold: {what}")


def program(name):
    """Returns the path of a program of Prometheus, from PATH or from Debian's package."""
    if found := shutil.which(name):
        return found
    if not (CACHE / "usr/bin/prometheus").exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        subprocess.run(["apt-get", "download", "-qq", "prometheus"], cwd=CACHE, check=True)
        (package,) = CACHE.glob("prometheus_*.deb")
        subprocess.run(["dpkg", "-x", package, CACHE], check=True)
        package.unlink()
    return str(CACHE / "usr/bin" / name)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def running(command, **options):
    process = subprocess.Popen([str(word) for word in command], start_new_session=True, **options)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        process.wait()


def until(check, process, what, seconds=60):
    """Waits until the check returns something; fails if the process exits."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            if found := check():
                return found
        expect(process.poll() is None, f"{what}: the process runs")
        time.sleep(0.2)
    sys.exit(f"does not hold after {seconds} s: {what}")


class Prometheus:
    def __init__(self, folder, ports):
        self.url = f"http://127.0.0.1:{free_port()}"
        documented = re.search(r"```yaml\n(scrape_configs:.*?)```", (ROOT / "analyzer/TOP.md").read_text(), re.S)[1]
        expect('"127.0.0.1:9411"' in documented, "TOP.md has a configuration")
        targets = ", ".join(f'"127.0.0.1:{port}"' for port in ports)
        config = folder / "prometheus.yml"
        config.write_text(f"global: {{scrape_interval: {SCRAPES_S}s}}\n" + documented.replace('"127.0.0.1:9411"', targets))
        subprocess.run([program("promtool"), "check", "config", config], check=True, stdout=subprocess.DEVNULL)
        self.command = [program("prometheus"), f"--config.file={config}", f"--storage.tsdb.path={folder / 'tsdb'}",
                        f"--web.listen-address={self.url.removeprefix('http://')}", "--log.level=warn"]  # fmt: skip

    def get(self, path, **query):
        with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(query)}", timeout=10) as reply:
            return json.load(reply)["data"]

    def query(self, expression):
        """Returns the values of an expression, by program."""
        rows = self.get("query", query=expression)["result"]
        return {row["metric"].get("program", ""): float(row["value"][1]) for row in rows}

    def target(self, port):
        targets = self.get("targets")["activeTargets"]
        return next(target for target in targets if target["labels"]["instance"] == f"127.0.0.1:{port}")


def panels():
    """Returns the expressions of the dashboard by the panel's title, for all instances."""
    dashboard = json.loads((ROOT / "examples/grafana.json").read_text())
    expressions = {}
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            expressions.setdefault(panel["title"], []).append(target["expr"].replace("$instance", ".*"))
    return dashboard, expressions


def shown_by_top(trace):
    """Returns what `dlio top --once` shows of the job, by the names of the gauges."""
    command = [BIN / "dlio-top", trace, "--once", "--format", "json", "--interval", "4"]
    top = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    (process,) = [process for process in top["processes"] if process["computing_s"] is not None]
    rate = {name: value / top["interval_s"] for name, value in process.items() if isinstance(value, int | float)}
    return {
        "dlio_data_wait_ratio": rate["waiting_s"],
        "dlio_compute_ratio": rate["computing_s"],
        "dlio_checkpoint_ratio": rate["checkpoint_s"],
        "dlio_read_bytes_per_second": rate["bytes_read"],
        "dlio_written_bytes_per_second": rate["bytes_written"],
        "dlio_file_calls_per_second": rate["calls"],
        "dlio_failed_file_calls_per_second": rate["failed"],
        "dlio_threads_in_file_calls": rate["call_s"],
        "dlio_program_processes": 1,
    }


def compare(prometheus, trace):
    """Compares each query of the dashboard with `dlio top`."""
    shown = shown_by_top(trace)
    dashboard, expressions = panels()
    for title, list_ in expressions.items():
        for expression in list_:
            name, _, condition = expression.partition("{")
            found = prometheus.query(expression)
            if condition.endswith("> 0"):
                expect(not found and prometheus.query(name) == {"live": 0}, f"{title}: no event was lost: {found}")
                continue
            expect(list(found) == ["live"], f"{title}: {expression} returns the job: {found}")
            value, top = found["live"], shown[name]
            print(f"{title}: {value:.4g}, dlio top: {top:.4g}", flush=True)
            # Calls of a few microseconds are too short a part of the time for a small difference.
            close = 1.0 if name == "dlio_threads_in_file_calls" else CLOSE
            expect(top > 0 and abs(value / top - 1) < close, f"{title}: {value} is near {top}, which dlio top shows")
    # The variable of the dashboard lists the jobs.
    (variable,) = [variable for variable in dashboard["templating"]["list"] if variable["type"] == "query"]
    metric, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["query"]).groups()
    values = prometheus.get(f"label/{label}/values", **{"match[]": metric})
    expect(len(values) == 1, f"the variable of the dashboard lists the job: {values}")


def main():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="dlio-prometheus."))
    live = folder / "live"
    include = ROOT / "tracer/include"
    subprocess.run(["cc", "-O1", "-I", include, "-o", live, HERE / "dashboard/live.c", "-ldl"], check=True)
    (folder / "work").mkdir()
    trace, many, port, refusing = folder / "trace", folder / "many", free_port(), free_port()
    prometheus = Prometheus(folder, [port, refusing])
    with contextlib.ExitStack() as stack:
        job = stack.enter_context(
            running([BIN / "dlio", "trace", "-q", "-o", trace, "--", live, folder / "work"], stdin=subprocess.PIPE)
        )
        until(lambda: list(trace.glob("*.ring")), job, "the job is traced")
        listening = stack.enter_context(running([BIN / "dlio-top", trace, "--listen", port], stderr=subprocess.DEVNULL))
        # More programs than one directory may have as series.
        command = "for i in $(seq 70); do cp /bin/cat p$i; ./p$i /etc/passwd waits > /dev/null & done; wait"
        (folder / "programs").mkdir()
        os.mkfifo(folder / "programs/waits")
        stack.enter_context(running([BIN / "dlio", "trace", "-q", "--all", "-o", many, "--", "sh", "-c", command],
                                    cwd=folder / "programs"))  # fmt: skip
        until(lambda: len(list(many.glob("p*.ring"))) >= 70, listening, "70 programs run")
        stack.enter_context(running([BIN / "dlio-top", many, "--listen", refusing], stderr=subprocess.DEVNULL))
        server = stack.enter_context(running(prometheus.command))
        scraped = f'count_over_time(dlio_processes{{instance="127.0.0.1:{port}"}}[1m]) >= 4'
        until(lambda: prometheus.query(scraped), server, "Prometheus has scraped the job four times")
        compare(prometheus, trace)
        target = prometheus.target(port)
        expect((target["health"], target["lastError"]) == ("up", ""), f"the target is up: {target}")
        target = until(lambda: prometheus.target(refusing) if prometheus.target(refusing)["lastError"] else None,
                       server, "Prometheus has scraped the directory with 70 programs")  # fmt: skip
        expect(target["health"] == "down" and "503" in target["lastError"], f"too many series are refused: {target}")
        expect(not prometheus.query(f'dlio_program_processes{{instance="127.0.0.1:{refusing}"}}'), "they are not stored")
        print(f"more than 64 programs: {target['lastError']}")
        job.stdin.close()
        job.wait()
        # The series of a job that has ended go away, instead of staying at their last value.
        until(lambda: not prometheus.query(f'dlio_program_processes{{instance="127.0.0.1:{port}"}}'), server, "no process is left")
    shutil.rmtree(folder)
    print("dlio top and Prometheus agree")


main()
