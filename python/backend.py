"""Builds the wheel of dliotrace: the package's modules, the compiled engine, the tracing library and the programs.

    dliotrace/*.py
    dliotrace/_start/*.py            what `run --torch` runs before the program
    dliotrace/_engine.abi3.so        built here with cargo
    dliotrace/lib/*.so               from $DLIO_DIST/lib, which `make build` fills
    dliotrace/bin/dlio*              from $DLIO_DIST/bin, those that exist

lib/ and bin/ are side by side, as in any other installation, where the programs find the library. This is a build backend
for pip (PEP 517), so `pip wheel python/` works on every host with Rust and needs nothing else but Python.
"""

import base64
import hashlib
import os
import shutil
import subprocess
import sysconfig
import tempfile
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
NAME, VERSION = "dliotrace", "0.1.0"
TAG = f"cp310-abi3-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
INFO = f"{NAME}-{VERSION}.dist-info"
PROGRAMS = ("dlio", "dlio-analyze", "dlio-top")

METADATA = f"""Metadata-Version: 2.1
Name: {NAME}
Version: {VERSION}
Summary: Spans for Python programs, in one trace with their I/O
License: MIT OR Apache-2.0
Requires-Python: >=3.10
Description-Content-Type: text/markdown

"""
WHEEL = f"""Wheel-Version: 1.0
Generator: {NAME}
Root-Is-Purelib: false
Tag: {TAG}
"""
ENTRY_POINTS = """[console_scripts]
dlio = dliotrace.__main__:dlio
dlio-analyze = dliotrace.__main__:dlio_analyze
"""


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    name = f"{NAME}-{VERSION}-{TAG}.whl"
    with tempfile.TemporaryDirectory() as scratch:
        entries = contents(scratch)
        path = os.path.join(wheel_directory, name)
        write_wheel(path + ".part", entries)
    os.replace(path + ".part", path)
    return name


def build_sdist(sdist_directory, config_settings=None):
    raise NotImplementedError("the engine's sources lie outside this folder: build a wheel from a clone instead")


def contents(scratch):
    """Path in the wheel -> (content, mode)."""
    entries = {}
    package = os.path.join(HERE, NAME)
    for folder in ("", "_start/"):
        for file in sorted(os.listdir(os.path.join(package, folder))):
            if file.endswith((".py", ".pyi", ".typed")):
                entries[f"{NAME}/{folder}{file}"] = load(os.path.join(package, folder, file), 0o644)
    entries[f"{NAME}/_engine.abi3.so"] = load(build_engine(), 0o755)
    for inside, file, mode in installed():
        entries[f"{NAME}/{inside}"] = load(stripped(file, scratch), mode)
    if any(path.startswith(f"{NAME}/bin/") for path in entries):
        entries[f"{INFO}/entry_points.txt"] = (ENTRY_POINTS.encode(), 0o644)
    readme = load(os.path.join(HERE, "README.md"), 0o644)[0]
    entries[f"{INFO}/METADATA"] = (METADATA.encode() + readme, 0o644)
    entries[f"{INFO}/WHEEL"] = (WHEEL.encode(), 0o644)
    for licence in ("LICENSE-MIT", "LICENSE-APACHE"):
        entries[f"{INFO}/licenses/{licence}"] = load(os.path.join(HERE, "..", licence), 0o644)
    return entries


def load(path, mode):
    with open(path, "rb") as file:
        return file.read(), mode


def target_folder():
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.environ.get("CARGO_TARGET_DIR") or os.path.join(cache, "dlio-target")


def build_engine():
    # A separate directory: otherwise the programs' build and this one would wait for each other's lock.
    target = os.path.join(target_folder(), "python")
    command = ["cargo", "build", "--release", "--locked", "--target-dir", target]
    subprocess.run([*command, "--manifest-path", os.path.join(HERE, "Cargo.toml")], check=True)
    return os.path.join(target, "release", "libdliotrace_engine.so")


def installed():
    dist = os.environ.get("DLIO_DIST") or os.path.join(target_folder(), "dist")
    library = os.path.join(dist, "lib", "libdliotrace.so")
    if not os.path.isfile(library):
        raise SystemExit(f"{library} is missing: `make build` makes it, and DLIO_DIST says where it is")
    yield "lib/libdliotrace.so", library, 0o755
    yield "lib/libdliotrace_inline.so", os.path.join(dist, "lib", "libdliotrace_inline.so"), 0o755
    if os.environ.get("DLIO_WHEEL_PROGRAMS", "1") != "0":
        for program in PROGRAMS:
            path = os.path.join(dist, "bin", program)
            if os.path.isfile(path):
                yield f"bin/{program}", path, 0o755


def stripped(path, scratch):
    """Returns a copy without debug information, which is most of a program's size."""
    strip = shutil.which("strip")
    if strip is None:
        return path
    copy = os.path.join(scratch, os.path.basename(path))
    subprocess.run([strip, "--strip-debug", "-o", copy, path], check=True)
    return copy


def write_wheel(path, entries):
    record = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, (content, mode) in entries.items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(content)}")
            put(wheel, name, content, mode)
        record.append(f"{INFO}/RECORD,,")
        put(wheel, f"{INFO}/RECORD", "\n".join([*record, ""]).encode(), 0o644)


def put(wheel, name, content, mode):
    # A fixed date, so that equal sources give an equal wheel.
    info = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
    info.external_attr = (0o100000 | mode) << 16
    info.compress_type = zipfile.ZIP_DEFLATED
    wheel.writestr(info, content, compresslevel=6)
