#!/usr/bin/env python3
"""Runs the manifests of the Kubernetes recipe in namespaces of this host, in place of a cluster.

    tests/run-kubernetes.py

Each container gets its own root directory, mounts, process ids, host name and network, and the user, groups and lack of
privileges that its manifest requests. The programs of the job are those of this host, and dlio is only in the image that the
recipe calls `dlio`. Needs root, and PyYAML: `tests/setup.sh kubernetes` installs it. Not tested here: images, volumes of a
storage class, the default seccomp profile.
"""

import contextlib
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import yaml

RECIPE = pathlib.Path(__file__).parent.parent / "docs/src/recipes/kubernetes.md"
DIST = pathlib.Path(os.environ["DLIO_DIST"])
# The interpreter of Debian: one below a home directory is not readable for the user of the pod.
PYTHON = "/usr/bin/python3"
PROGRAM = """
import os, sys, time
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print("user", os.getuid(), os.getgid(), "capabilities", int(status["CapEff"], 16), "locked", status["NoNewPrivs"].strip())
print("host", os.uname().nodename, "processes", len([name for name in os.listdir("/proc") if name.isdigit()]))
for _ in range(20):
    open("data", "rb", buffering=0).read(1000)
if os.path.exists("forever"):
    print("ready", flush=True)
    time.sleep(1000)
"""


def expect(holds, what):
    if not holds:
        sys.exit(f"does not hold: {what}")


def manifests():
    """Returns the manifests of the recipe by kind, and its two variables."""
    text = RECIPE.read_text()
    documents = [yaml.safe_load(block) for block in re.findall(r"```yaml[^\n]*\n(.*?)```", text, re.S)]
    by_kind = {document["kind"]: document for document in documents if "kind" in document}
    (variables,) = [document["env"] for document in documents if set(document) == {"env"}]
    return by_kind, variables


def executed():
    """Returns the commands that the recipe runs in the reader: `kubectl exec reader -- COMMAND`."""
    lines = re.findall(r"^kubectl exec reader -- ([^>#\n]+)", RECIPE.read_text(), re.M)
    return [shlex.split(line) for line in lines]


class Cluster:
    """The volumes of claims, and the files of the job's image."""

    def __init__(self, folder):
        self.folder = folder
        self.work = folder / "work"
        self.work.mkdir()
        (self.work / "train.py").write_text(PROGRAM)
        (self.work / "data").write_bytes(bytes(1000))
        folder.chmod(0o755)

    def claim(self, name):
        place = self.folder / f"claim-{name}"
        place.mkdir(exist_ok=True)
        return place


class Pod:
    """A pod: `run` runs one of its containers, with the namespaces of a pod."""

    def __init__(self, cluster, spec, name):
        self.cluster, self.spec, self.name = cluster, spec, name
        self.security = spec["securityContext"]
        expect(self.security["runAsNonRoot"] and self.security["runAsUser"] > 0, f"{name} does not run as root")
        self.volumes = {volume["name"]: self.volume(volume) for volume in spec["volumes"]}

    def volume(self, volume):
        if claim := volume.get("persistentVolumeClaim"):
            place = self.cluster.claim(claim["claimName"])
        else:
            place = self.cluster.folder / f"{self.name}-{volume['name']}"
            place.mkdir()
        os.chown(place, 0, self.security["fsGroup"])
        place.chmod(0o2775)
        return place

    def script(self, container, command, environment):
        """Returns the shell script that makes the root directory of a container and runs a command there."""
        root = self.cluster.folder / f"root-{self.name}-{container['name']}"
        root.mkdir(exist_ok=True)
        mounts = [f"mount -t tmpfs -o mode=755 none {root}", f"hostname {self.name}"]
        for name in ("usr", "bin", "lib", "lib64", "sbin", "etc"):
            if pathlib.Path("/", name).is_symlink():
                mounts.append(f"cp -P /{name} {root}/{name}")
            elif pathlib.Path("/", name).exists():
                mounts.append(f"mkdir {root}/{name} && mount --bind -o ro /{name} {root}/{name}")
        # An image lacks the programs that this host has installed there.
        mounts.append(f"mount -t tmpfs none {root}/usr/local")
        if container["image"].startswith("dlio:"):
            mounts.append(f"cp -r {DIST}/bin {DIST}/lib {root}/usr/local/")
        mounts += [f"mkdir -m 1777 {root}/tmp", f"mkdir {root}/proc {root}/dev {root}/work", f"mount -t proc none {root}/proc"]
        mounts += [f"mknod -m 666 {root}/dev/null c 1 3", f"mount --bind {self.cluster.work} {root}/work"]
        for mount in container.get("volumeMounts", []):
            place = root / mount["mountPath"].lstrip("/")
            mounts.append(f"mkdir -p {place} && mount --bind {self.volumes[mount['name']]} {place}")
        security = container["securityContext"]
        expect(security == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}, f"{self.name} is restricted")
        user, group = self.security["runAsUser"], self.security["runAsGroup"]
        identity = f"--reuid {user} --regid {group} --groups {self.security['fsGroup']}"
        restricted = f"setpriv {identity} --inh-caps=-all --bounding-set=-all --no-new-privs"
        # A container starts without the variables of the host; its image sets PATH.
        variables = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/", **environment}
        settings = " ".join(f"{name}={shlex.quote(str(value))}" for name, value in variables.items())
        inside = f"cd /work && exec {restricted} env -i {settings} {shlex.join(command)}"
        return " && ".join(mounts) + f" && exec chroot {root} /bin/sh -c {shlex.quote(inside)}"

    def start(self, container, command=None, environment=None):
        environment = {**{each["name"]: each["value"] for each in container.get("env", [])}, **(environment or {})}
        command = [PYTHON if word == "python3" else word for word in command or container["command"]]
        script = self.script(container, command, environment)
        isolated = ["unshare", "--mount", "--uts", "--ipc", "--net", "--pid", "--fork", "--kill-child"]
        return subprocess.Popen([*isolated, "sh", "-ec", script], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True)  # fmt: skip

    def run(self, *arguments, **options):
        started = self.start(*arguments, **options)
        printed = started.communicate()[0]
        expect(started.returncode == 0, f"{self.name} succeeds: {started.returncode}\n{printed}")
        return printed


@contextlib.contextmanager
def cluster():
    with tempfile.TemporaryDirectory(prefix="dlio-kubernetes.") as folder:
        yield Cluster(pathlib.Path(folder))


def job(cluster, name, change=lambda spec: spec):
    """Returns the pod of the job and its container, after its init containers have run."""
    spec = change(yaml.safe_load(yaml.safe_dump(manifests()[0]["Job"]["spec"]["template"]["spec"])))
    pod = Pod(cluster, spec, name)
    for container in spec["initContainers"]:
        pod.run(container)
    return pod, spec["containers"][0]


def reader(cluster, number=iter(range(100))):
    spec = manifests()[0]["Pod"]["spec"]
    pod = Pod(cluster, {**spec}, f"reader-{next(number)}")
    return lambda *command: pod.run(spec["containers"][0], list(command))


def rows(cluster, trace, sql):
    return reader(cluster)("dlio-analyze", trace, "--format", "csv", "--sql", sql).split()[1:]


READS = "select count(*) from events where file like '%/data' and name = 'read'"


def test_job():
    """The job, its reader, and the commands in the reader."""
    with cluster() as nodes:
        pod, container = job(nodes, "train")
        printed = pod.run(container)
        expect("user 1000 1000 capabilities 0 locked 1" in printed and "host train processes 2" in printed, printed)
        expect("dlio: 1 process recorded in /traces/run1" in printed, printed)
        inner = reader(nodes)("sh", "-c", "command -v dlio; command -v dlio-analyze")
        expect(inner.split() == ["/usr/local/bin/dlio", "/usr/local/bin/dlio-analyze"], inner)
        text, page = [reader(nodes)(*command) for command in executed() if command[0] == "dlio-analyze"]
        expect("dlio" in text or "TRAINING" in text, text)
        expect(page.startswith("<!") and page.rstrip().endswith("</html>"), page[:200])
        expect(rows(nodes, "/traces/run1", READS) == ["20"], "the reads of the job are in the trace")


def test_variables():
    """The two variables in place of the command."""
    _, variables = manifests()
    with cluster() as nodes:
        pod, container = job(nodes, "train")
        pod.run({**container, "env": variables, "command": ["python3", "train.py"]})
        expect(rows(nodes, "/traces/run1", READS) == ["20"], "the reads of the job are in the trace")


def test_several_pods():
    """Two pods of a job write into one directory; each is a rank on a host of its own."""
    with cluster() as nodes:
        pods = [job(nodes, f"train-worker-{rank}") for rank in range(2)]
        shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "train-worker-0", "MASTER_PORT": "23456"}
        started = [pod.start(container, environment={**shared, "RANK": str(rank)}) for rank, (pod, container) in enumerate(pods)]
        printed = [process.communicate()[0] for process in started]
        expect(all(process.returncode == 0 for process in started), printed)
        expect(sum("recorded in" in text for text in printed) == 1, f"one summary: {printed}")
        found = rows(nodes, "/traces/run1", "select rank, host from processes where events > 0 order by rank")
        expect(found == ["0,train-worker-0", "1,train-worker-1"], found)


def test_eviction():
    """`dlio top` in a running pod; then the pod is killed, and its calls are in the trace."""
    with cluster() as nodes:
        (nodes.work / "forever").touch()
        pod, container = job(nodes, "train")
        running = pod.start(container)
        while "ready" not in (line := running.stdout.readline()):
            expect(line, "the pod is ready")
        first = pathlib.Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()[0]
        command = re.search(r"kubectl exec job/train -- (/dlio/bin/dlio top \S+ --once)", RECIPE.read_text())[1]
        enter = ["nsenter", "--target", first, "--mount", "--uts", "--ipc", "--net", "--pid", "--root"]
        user = ["setpriv", "--reuid", "1000", "--regid", "1000", "--groups", "1000", "--bounding-set=-all", "--no-new-privs"]
        live = subprocess.run([*enter, *user, *command.split()], capture_output=True, text=True, check=False)
        expect(live.returncode == 0 and "train.py" in live.stdout, f"dlio top shows the job: {live}")
        os.kill(int(first), signal.SIGKILL)
        running.communicate()
        rings = list(nodes.claim("traces").glob("run1/*.ring"))
        expect(len(rings) == 1, f"the ring is in the volume: {rings}")
        expect(rows(nodes, "/traces/run1", READS) == ["20"], "the reads of the killed pod are in the trace")


def main():
    if os.geteuid() != 0:
        sys.exit("cannot make namespaces: run this test as root")
    expect(pathlib.Path(PYTHON).exists() and shutil.which("unshare") and shutil.which("setpriv"), f"{PYTHON}, unshare, setpriv")
    for test in (test_job, test_variables, test_several_pods, test_eviction):
        began = time.monotonic()
        test()
        print(f"{test.__name__}: {test.__doc__} ({time.monotonic() - began:.1f} s)", flush=True)


main()
