#!/usr/bin/env python3
"""Tests the packages of `make packages`: each is installed in a fresh Debian root, run, and removed; nothing may be left.

    tests/run-packages.py [NAME ...]      NAME: tarball, deb, rpm, wheel, recipes, pod; default: all

The root (Debian 12, 350 MB) is installed with debootstrap below the cache directory, once, and mounted under a fresh overlay for
each package. It has no Rust, no compiler and no curl. This needs root (chroot). The .rpm is installed with `rpm --root`: it is not
tested on a system of the Red Hat family.
"""

import functools
import hashlib
import http.server
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

HERE = Path(__file__).resolve().parent
DIST = Path(os.environ.get("DLIO_DIST", HERE.parent / "target/dist"))
PACKAGES = Path(os.environ.get("DLIO_PACKAGES", DIST / "packages"))
CACHE = Path(os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache"))) / "dlio-systems"
RELEASE, INCLUDED = "bookworm", "python3-venv"
PROGRAMS = ("dlio", "dlio-analyze", "dlio-top", "dlio_benchmark")
# Paths that installing and removing any package changes.
OF_THE_SYSTEM = ("var/lib/dpkg", "var/lib/rpm", "var/log", "var/cache", "root", "tmp", "run", "dev", "proc", "etc/ld.so.cache")
# Lintian's tags that do not apply, and why.
SUPPRESSED = {
    "bogus-mail-host": "MAINTAINER is set by the person who publishes",
    "initial-upload-closes-no-bugs": "it is not an upload to Debian",
    "embedded-library": "the C libraries in it are named in the bill of materials",
    "shared-library-lacks-prerequisites": "libdliotrace_rocm.so is only looked up by ROCm and needs no library",
}
SMALL = (
    "workload=unet3d ++workload.dataset.num_files_train=4 ++workload.dataset.record_length_bytes=20000 "
    "++workload.dataset.record_length_bytes_stdev=0 ++workload.reader.batch_size=2 ++workload.train.epochs=1 "
    "++workload.train.computation_time=0.01 ++workload.workflow.generate_data=true ++workload.workflow.checkpoint=false"
)


class Wrong(Exception):
    pass


def expect(holds, what):
    if not holds:
        raise Wrong(what)


def mirror():
    """Returns the address that this host's own packages come from."""
    printed = subprocess.run(["apt-get", "indextargets", "--format", "$(SITE)"], capture_output=True, text=True).stdout
    return next((line for line in printed.splitlines() if line.rstrip("/").endswith("/debian")), None)


def base():
    """Returns the root that the packages are installed in; it never changes."""
    root = CACHE / f"{RELEASE}-packages"
    if not (root / "tmp/installed").exists():
        if shutil.which("debootstrap") is None:
            sys.exit("cannot make a root: debootstrap is missing; run `make setup-packages`")
        CACHE.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(root, ignore_errors=True)
        print(f"{RELEASE}: installing it below {CACHE}", flush=True)
        command = ["debootstrap", "--variant=minbase", f"--include={INCLUDED}", RELEASE, root]
        ran = subprocess.run([*command, *filter(None, [mirror()])], capture_output=True, text=True)
        if ran.returncode:
            sys.exit(f"debootstrap failed: {ran.stdout[-500:]}{ran.stderr[-500:]}")
        (root / "tmp/installed").touch()
    return root


class Root:
    """A fresh root: the base under an empty layer, which holds all changes."""

    def __init__(self, scratch):
        self.path, self.layer, work = scratch / "root", scratch / "layer", scratch / "work"
        for folder in (self.path, self.layer, work):
            folder.mkdir()
        self.mounts = []
        options = f"lowerdir={base()},upperdir={self.layer},workdir={work}"
        self.mount("overlay", self.path, "-t", "overlay", "-o", options)
        self.mount("proc", self.path / "proc", "-t", "proc")
        self.mount(PACKAGES, self.path / "mnt", "--bind", "-o", "ro")

    def mount(self, what, where, *options):
        subprocess.run(["mount", *options, what, where], check=True)
        self.mounts.append(where)

    def leave(self):
        while self.mounts:
            subprocess.run(["umount", self.mounts.pop()], check=True)

    def run(self, line, status=0):
        """Runs a line of shell in the root; returns its output."""
        environment = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "LC_ALL": "C.UTF-8", "HOME": "/root"}
        ran = subprocess.run(
            ["chroot", self.path, "/bin/bash", "-euc", f"cd /tmp; {line}"], env=environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300,
        )  # fmt: skip
        expect(ran.returncode == status, f"exit status {ran.returncode} instead of {status}: {line}\n{ran.stdout[-1500:]}")
        return ran.stdout

    def left(self):
        """Returns the changed paths that are not the package manager's own. A directory counts only if it has files."""
        files = (path.relative_to(self.layer) for path in self.layer.rglob("*") if path.is_symlink() or not path.is_dir())
        return sorted(str(path) for path in files if not str(path).startswith(OF_THE_SYSTEM))

    def new_folders(self):
        folders = (path.relative_to(self.layer) for path in self.layer.rglob("*") if path.is_dir() and not path.is_symlink())
        return sorted(str(path) for path in folders if not (base() / path).exists() and not str(path).startswith(OF_THE_SYSTEM))


def works(root, before=""):
    """Uses all four programs in the root; `before` is a line of shell that makes them available."""
    def run(line):
        return root.run(f"{before}{line}")

    for program in PROGRAMS:
        expect("0.1" in run(f"{program} --version"), f"{program} prints its version")
    run("rm -rf t; dlio trace -o t -- ls /usr")
    expect(run("dlio-analyze t").strip(), "the report of `ls` is not empty")
    run("rm -rf t; dlio trace -q -o t -- sh -c 'cat /etc/passwd | head -n 1'")
    query = "select count(*) from events where file = '/etc/passwd' and name = 'read'"
    count = run(f'dlio-analyze t --format csv --sql "{query}"').split()[-1]
    expect(int(count) > 0, f"{count} reads of /etc/passwd were recorded")
    run("dlio-top t --once --format json")
    run(f"dlio bench {SMALL} --trace=b ++hydra.run.dir=run -q")
    run("dlio_benchmark " + SMALL)
    run("rm -rf t b run data hydra_log checkpoints")


def has_documents(root, prefix):
    share = root.path / prefix / "share"
    for page in ("dlio.1", "dlio_benchmark.1", "dlio-trace.1", "dlio-analyze.1", "dlio-top.1"):
        expect(any((share / "man/man1").glob(f"{page}*")), f"manual page {page}")
    for program in PROGRAMS[:3]:
        completion = share / "bash-completion/completions" / program
        expect(subprocess.run(["bash", "-n", completion]).returncode == 0, f"{completion} is a shell script")
        expect((share / f"zsh/site-functions/_{program}").exists(), f"{program} completes in zsh")
        expect((share / f"fish/vendor_completions.d/{program}.fish").exists(), f"{program} completes in fish")
    notices = (share / "doc/dlio/THIRD-PARTY.txt").read_text()
    listed = {part["name"] for part in json.loads((share / "doc/dlio/sbom.cdx.json").read_text())["components"]}
    for name in ("HDF5", "zstd", "zlib", "libdeflate", "liblzf", "datafusion", "pyo3", "rust-std"):
        expect(name in listed, f"the bill of materials lists {name}")
    expect("HDF5 1.14" in notices and "Meta Platforms" in notices, "the notices have the texts of HDF5 and zstd")
    expect(os.readlink(root.path / prefix / "bin/dlio_benchmark") == "dlio", "dlio_benchmark is a link")


def nothing_left(root):
    expect(not root.left(), f"left after removal: {root.left()[:10]}")
    expect(not root.new_folders(), f"directories left after removal: {root.new_folders()[:10]}")


def only(pattern):
    found = sorted(PACKAGES.glob(pattern))
    expect(len(found) == 1, f"one {pattern} in {PACKAGES}: {[path.name for path in found]}")
    return found[0]


# ---- packages ---------------------------------------------------------------------------------------------------------


def test_download(scratch):
    """The documented line, with a server on this host."""
    handler = functools.partial(QuietHandler, directory=PACKAGES)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        place = f"http://127.0.0.1:{server.server_address[1]}"
        for at, works_there in ((place, True), (f"{place}/recipes", False)):
            prefix = scratch / ("right" if works_there else "wrong")
            line = f"curl -fsSL {place}/install.sh | sh -s -- --from {at} --prefix {prefix}"
            ran = subprocess.run(["sh", "-c", line], capture_output=True, text=True)
            expect((ran.returncode == 0) == works_there == prefix.exists(), f"{line}: {ran.stdout}{ran.stderr}")
        server.shutdown()
    subprocess.run([scratch / "right/bin/dlio", "--version"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["sh", PACKAGES / "install.sh", "--uninstall", "--prefix", scratch / "right"], check=True, stdout=subprocess.DEVNULL)
    expect(not list((scratch / "right").iterdir()), f"left: {list((scratch / 'right').iterdir())}")


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def test_tarball(root):
    test_download(root.path.parent)
    damaged = root.path / "tmp/damaged"
    damaged.mkdir()
    for file in (PACKAGES / "SHA256SUMS", only("dlio-*-x86_64-linux.tar.gz")):
        shutil.copy(file, damaged)
    with only("dlio-*-x86_64-linux.tar.gz").open("rb") as whole, (damaged / only("dlio-*-x86_64-linux.tar.gz").name).open("wb") as changed:
        changed.write(whole.read()[:-1] + b"x")
    printed = root.run("sh /mnt/install.sh --from damaged", status=1)
    expect("its checksum differs" in printed, printed)
    nothing_left(root)
    root.run("sh /mnt/install.sh --from https://localhost/dlio", status=1)
    printed = root.run("sh /mnt/install.sh --from /mnt")
    expect("installed dlio-" in printed, printed)
    works(root)
    has_documents(root, "usr/local")
    root.run("sh /mnt/install.sh --from /mnt")  # over an existing installation
    root.run("sh /mnt/install.sh --uninstall")
    nothing_left(root)
    root.run("mkdir 'a b'; sh /mnt/install.sh --from /mnt --prefix 'a b'; 'a b/bin/dlio' trace -q -o t -- ls > /dev/null; 'a b/bin/dlio-analyze' t")
    root.run("sh /mnt/install.sh --uninstall --prefix 'a b'; test -z \"$(find 'a b' -type f)\"; rm -rf t")


def test_deb(root):
    package = only("*.deb")
    command = ["lintian", "--allow-root", "--fail-on", "error,warning", "--suppress-tags", ",".join(SUPPRESSED), package]
    ran = subprocess.run(command, capture_output=True, text=True)
    expect(ran.returncode == 0, f"lintian:\n{ran.stdout}{ran.stderr}")
    root.run(f"dpkg -i /mnt/{package.name}")
    works(root)
    has_documents(root, "usr")
    root.run("dpkg --verify dlio; dpkg --purge dlio")
    nothing_left(root)


def test_rpm(root):
    package = only("*.rpm")
    filters = HERE.parent / "packaging/dlio.rpmlintrc"
    found = subprocess.run(["rpmlint", "-r", filters, package], capture_output=True, text=True).stdout
    errors = [line for line in found.splitlines() if " E: " in line]
    expect("1 packages" in found and not errors, f"rpmlint: {errors or found}")
    requires = subprocess.run(["rpm", "-qp", "--requires", package], capture_output=True, text=True, check=True).stdout
    newer = [found for found in re.findall(r"GLIBC_2\.(\d+)", requires) if int(found) > 17]
    expect(not newer and "GLIBC_2.17" in requires, f"requires glibc 2.17: {requires}")
    rpm = ["rpm", "--force-debian", "--root", root.path, "--dbpath", "/var/lib/rpm"]
    # Its database does not list Debian's packages.
    subprocess.run([*rpm, "-i", "--nodeps", package], check=True)
    works(root)
    has_documents(root, "usr")
    subprocess.run([*rpm, "-V", "--nodeps", "dlio"], check=True)
    subprocess.run([*rpm, "-e", "dlio"], check=True)
    nothing_left(root)


def test_wheel(root):
    wheel = only("dliotrace-*.whl")
    expect(re.search(r"-cp310-abi3-manylinux\w*_x86_64", wheel.name), f"the tag of {wheel.name}")
    tools = CACHE.parent / "dlio-wheel-venv/bin"
    tag = subprocess.run([tools / "auditwheel", "show", wheel], capture_output=True, text=True).stdout
    expect('"manylinux_2_17_x86_64"' in " ".join(tag.split()).split("This constrains")[0], f"auditwheel: {tag}")
    both = [wheel, only("dliotrace-*.tar.gz")]
    check = subprocess.run([tools / "twine", "check", "--strict", *both], capture_output=True, text=True)
    expect(check.returncode == 0, f"twine: {check.stdout}{check.stderr}")
    root.run("python3 -m venv venv")
    before = root.run("find venv -not -name '*.pyc' -not -name __pycache__ | sort")
    root.run(f"venv/bin/pip install --quiet --no-index /mnt/{shlex.quote(wheel.name)}")
    works(root, "PATH=/tmp/venv/bin:$PATH; ")
    script = "import dliotrace\nwith dliotrace.span('step', cat='compute'): open('/etc/passwd').read()"
    root.run(f"venv/bin/python -m dliotrace run -q -o s -c {shlex.quote(script)}")
    spans = root.run("venv/bin/dlio-analyze s --format csv --sql \"select count(*) from events where name = 'step' or file = '/etc/passwd'\"")
    expect(int(spans.split()[-1]) > 1, f"{spans.split()[-1]} events of the script")
    root.run("venv/bin/pip uninstall --quiet --yes dliotrace")
    after = root.run("find venv -not -name '*.pyc' -not -name __pycache__ | sort")
    expect(before == after, f"pip uninstall left {set(after.split()) - set(before.split())}")


def test_recipes(root):
    recipes = PACKAGES / "recipes"
    tarball = only("dlio-*-x86_64-linux.tar.gz")
    digest = hashlib.sha256(tarball.read_bytes()).hexdigest()
    compile((recipes / "spack/dlio/package.py").read_text(), "package.py", "exec")
    for recipe in ("spack/dlio/package.py", "conda/dlio/recipe.yaml"):
        text = (recipes / recipe).read_text()
        expect(digest in text and tarball.name in text, f"{recipe} names the tarball and its checksum")
    for recipe in recipes.rglob("*"):
        expect(recipe.is_dir() or not re.search(r"@[A-Z]+@", recipe.read_text()), f"{recipe} is complete")
    # The steps of the container file, in the fresh root.
    container = (recipes / "Containerfile").read_text()
    copied = re.search(r"^COPY (.+) /tmp/dlio/$", container, re.M)[1].split()
    (root.path / "tmp/dlio").mkdir()
    for name in copied:
        shutil.copy(PACKAGES / name, root.path / "tmp/dlio")
    root.run(re.search(r"^RUN (.+)$", container, re.M)[1])
    root.run("dlio --help")
    # Every path that the module file sets exists in the tarball.
    for place in re.findall(r"\$root/(\S+)", (recipes / "modulefile").read_text()):
        expect((root.path / "usr/local" / place).exists(), f"the module file names {place}")


def test_pod(root):
    """Runs the commands of the Kubernetes recipe as its user, without capabilities: the root is the image, then the job's container."""
    text = (HERE.parent / "docs/src/recipes/kubernetes.md").read_text()
    commands = [command.replace(",", "") for command in re.findall(r"^ +command: \[(.+)\]$", text, re.M)]
    expect(len(commands) == 3, f"the recipe has the commands of three containers: {commands}")
    copy, train, _ = commands
    user = re.search(r"^ +runAsUser: (\d+)$", text, re.M)[1]
    restricted = f"setpriv --reuid {user} --regid {user} --clear-groups --inh-caps=-all --bounding-set=-all --no-new-privs"
    root.run(f"sh /mnt/install.sh --from /mnt; mkdir /dlio /traces /work; chown {user} /dlio /traces /work")
    root.run(f"{restricted} {copy}")
    root.run("sh /mnt/install.sh --uninstall")
    capabilities = root.run(f"{restricted} grep CapEff /proc/self/status").split()[-1]
    expect(int(capabilities, 16) == 0, f"the container has no capabilities: {capabilities}")
    (root.path / "work/train.py").write_text("print(len(open('/etc/passwd').read()) > 0)\n")
    printed = root.run(f"cd /work; {restricted} {train}")
    expect("True" in printed and "1 process recorded" in printed, printed)
    trace = re.search(r"-o (\S+)", train)[1]
    query = "select count(*) from events where file = '/etc/passwd' and name = 'read'"
    count = root.run(f'{restricted} /dlio/bin/dlio-analyze {trace} --format csv --sql "{query}"').split()[-1]
    expect(int(count) > 0, f"{count} reads of /etc/passwd were recorded")
    # The variables in place of the command.
    variables = dict(re.findall(r"\{name: (LD_PRELOAD|DLIO_TRACE_DIR), value: (\S+)\}", text))
    expect(len(variables) == 2, f"the recipe has two variables: {variables}")
    setting = " ".join(f"{name}={value}" for name, value in variables.items())
    root.run(f"rm -r {trace}; cd /work; {restricted} env {setting} python3 train.py")
    count = root.run(f'{restricted} /dlio/bin/dlio-analyze {trace} --format csv --sql "{query}"').split()[-1]
    expect(int(count) > 0, f"{count} reads of /etc/passwd were recorded with two variables")
    root.run("rm -r /dlio /traces /work")


TESTS = {
    "tarball": test_tarball, "deb": test_deb, "rpm": test_rpm, "wheel": test_wheel, "recipes": test_recipes, "pod": test_pod,
}  # fmt: skip


def main():
    names = sys.argv[1:] or list(TESTS)
    if unknown := set(names) - set(TESTS):
        sys.exit(f"unknown: {', '.join(unknown)}; there are {', '.join(TESTS)}")
    if os.geteuid() != 0:
        sys.exit("cannot test packages: chroot needs root")
    if not (PACKAGES / "SHA256SUMS").exists():
        sys.exit(f"there are no packages in {PACKAGES}; run `make packages`")
    subprocess.run(["sha256sum", "--quiet", "-c", "SHA256SUMS"], cwd=PACKAGES, check=True)
    failed = 0
    for name in names:
        with tempfile.TemporaryDirectory(prefix="dlio-packages.") as scratch:
            root = Root(Path(scratch))
            try:
                TESTS[name](root)
                print(f"{name}: installed, run and removed", flush=True)
            except (Wrong, subprocess.SubprocessError) as error:
                failed += 1
                print(f"{name}: {error}", file=sys.stderr, flush=True)
            finally:
                root.leave()
    print(f"{len(names) - failed} passed, {failed} failed")
    sys.exit(failed > 0)


main()
