#!/usr/bin/env python3
"""Tests the shipped files on other systems: runs programs untraced and traced in roots with other C libraries, compares the runs, and
analyzes the traces there.

    tests/run-systems.py [ROOT ...]

Without roots, installs Debian's older and newer releases once, with debootstrap, below the cache directory (300 MB each). A root
is a directory that contains a system, such as the output of `docker export`. This needs root (chroot). Missing systems are
reported and skipped; the rest must pass.
"""

import os
import pathlib
import shlex
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
DIST = pathlib.Path(os.environ.get("DLIO_DIST", HERE.parent / "target/dist"))
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache"))) / "dlio-systems"
# Releases that this host's mirror may have. The first one compiles the program, which runs on all newer systems and on older
# systems with glibc 2.7 or newer.
RELEASES = {"bullseye": "glibc 2.31", "trixie": "glibc 2.41"}
PLACE = pathlib.PurePosixPath("/tmp/dlio-test")
THREADS_READ = 200
PYTHON = """
import threading
def reads():
    with open("/etc/passwd") as file:
        file.read()
threads = [threading.Thread(target=reads) for _ in range(3)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print("done")
"""


def say(text):
    print(text, flush=True)


def mirror():
    """Returns the address that this host's own packages come from."""
    said = subprocess.run(["apt-get", "indextargets", "--format", "$(SITE)"], capture_output=True, text=True).stdout
    return next((line for line in said.splitlines() if line.rstrip("/").endswith("/debian")), None)


def installed(release):
    """Returns the root of a release of Debian, or None after printing the reason."""
    root = CACHE / release
    if (root / "tmp/installed").exists():
        return root
    if shutil.which("debootstrap") is None:
        return say(f"{release}: skipped: debootstrap is missing (apt-get install debootstrap)")
    CACHE.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(root, ignore_errors=True)
    say(f"{release}: installing it below {CACHE}")
    command = ["debootstrap", "--variant=minbase", "--include=gcc,libc6-dev,python3-minimal", release, root]
    run = subprocess.run([*command, *filter(None, [mirror()])], capture_output=True, text=True)
    if run.returncode != 0:
        return say(f"{release}: left out: the mirror does not have it: {run.stdout.strip().splitlines()[-1:]}")
    (root / "tmp/installed").touch()
    return root


def short(ended):
    """Describes how a program ended: its exit status and the last lines of both outputs."""
    status, printed, said = ended
    return f"status {status}, {printed[-60:]!r}, {said[-200:]!r}"


class System:
    def __init__(self, name, root):
        self.name, self.root = name, pathlib.Path(root)
        self.place = self.root / PLACE.relative_to("/")
        self.failed = []
        shutil.rmtree(self.place, ignore_errors=True)
        for folder in ("bin", "lib"):
            shutil.copytree(DIST / folder, self.place / folder, symlinks=True)
        # Files that a container's image lacks, because the runtime provides them.
        for name in ("dev/null", "dev/random", "dev/urandom"):
            device, ours = self.root / name, os.stat(f"/{name}")
            device.parent.mkdir(exist_ok=True)
            if not device.exists():
                os.mknod(device, ours.st_mode, ours.st_rdev)
        (self.root / "proc").mkdir(exist_ok=True)
        self.has_mounted = not (self.root / "proc/self").exists()
        if self.has_mounted:
            subprocess.run(["mount", "-t", "proc", "proc", self.root / "proc"], check=True)

    def leave(self):
        if self.has_mounted:
            subprocess.run(["umount", self.root / "proc"], check=True)
        shutil.rmtree(self.place)

    def run(self, line, **variables):
        """Runs a line in its shell; returns the exit status, stdout and stderr."""
        # Set inside the root: chroot itself is a program of this system.
        settings = " ".join(f"{name}={shlex.quote(value)}" for name, value in variables.items())
        inner = f"cd {PLACE} && {settings} exec /bin/sh -c {shlex.quote(line)}"
        environment = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "LC_ALL": "C"}
        command = ["chroot", str(self.root), "/bin/sh", "-c", inner]
        run = subprocess.run(command, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        return run.returncode, run.stdout, run.stderr

    def has(self, command):
        return self.run(f"command -v {command}")[0] == 0

    def expect(self, holds, what):
        if not holds:
            self.failed.append(what)
            say(f"{self.name}: does not hold: {what}")

    def check(self, name, line, reads=1):
        """Checks that results are equal with and without the library, however it is loaded, and that a trace has all `reads`."""
        untraced = self.run(line)
        library = {"LD_PRELOAD": f"{PLACE}/lib/libdliotrace.so"}
        for loading in ({}, {"LD_BIND_NOW": "1"}, {"DLIO_TRACE_INLINE": "1"}):
            traced = self.run(line, **library, **loading, DLIO_TRACE_DIR=f"{PLACE}/traces/{name}-preloaded")
            how = " ".join(["preloaded", *loading])
            self.expect(traced == untraced, f"{name}, {how}: {short(traced)}; untraced: {short(untraced)}")
        folder = f"{PLACE}/traces/{name}"
        status, printed, said = self.run(f"bin/dlio trace -q -o {folder} -- sh -c {shlex.quote(line)}")
        self.expect((status, printed) == untraced[:2], f"{name} by dlio trace: {short((status, printed, said))}")
        query = "select count(*) from events where name in ('read', 'pread')"
        status, printed, said = self.run(f'bin/dlio-analyze {folder} --strict --format csv --sql "{query}"')
        found = int(printed.split()[-1]) if status == 0 else 0
        self.expect(status == 0 and found >= reads, f"{name}: {found} of {reads} reads ({status}: {said.strip()[-200:]})")

    def check_all(self, program, module):
        version = self.run("ldd --version")[1].splitlines()[:1]
        before = len(self.failed)
        self.check("reads", "cat /etc/passwd")
        self.check("pipeline", "cat /etc/passwd | head -n 3; exec cat /etc/passwd")
        for file in (program, module):
            shutil.copy2(file, self.place / file.name)
        self.check("program", f"./{program.name} ./{module.name}", THREADS_READ)
        if self.has("python3"):
            (self.place / "script.py").write_text(PYTHON)
            self.check("python", "python3 script.py", 3)
        if len(self.failed) == before:
            say(f"{self.name}: holds ({' '.join(version) or 'no ldd'})")


def compiled(compiler):
    """Compiles the program and a library for it in a root that has a compiler."""
    for source in ("program.c", "module.c"):
        shutil.copy2(HERE / "systems" / source, compiler.place / source)
    line = "cc -o program program.c -ldl -lpthread && cc -shared -fPIC -o module.so module.c"
    status, _, said = compiler.run(line)
    if status != 0:
        sys.exit(f"{compiler.name}: the program is not compiled: {said}")
    kept = [CACHE / "program", CACHE / "module.so"]
    for file in kept:
        shutil.copy2(compiler.place / file.name, file)
    return kept


def main():
    if os.geteuid() != 0:
        return say("other systems: left out: chroot takes root")
    if not (DIST / "built").exists():
        sys.exit(f"nothing is built in {DIST}; run `make build` first")
    roots = {release: installed(release) for release in RELEASES}
    systems = [System(f"{name} ({RELEASES[name]})", root) for name, root in roots.items() if root]
    if not systems:
        return say("other systems: left out: there is none to compile the program in")
    systems += [System(root, root) for root in sys.argv[1:]]
    program, module = compiled(systems[0])
    for system in systems:
        system.check_all(program, module)
        system.leave()
    failed = sum(len(system.failed) for system in systems)
    print(f"{len(systems) - sum(bool(system.failed) for system in systems)} passed, {failed} failed")
    sys.exit(failed > 0)


main()
