#!/usr/bin/env python3
"""Writes the bill of materials and the license texts of everything in the shipped programs and libraries.

    notices.py DIR     writes DIR/sbom.cdx.json (CycloneDX 1.5) and DIR/THIRD-PARTY.txt

Components are the crates that cargo would link into the programs, the preload libraries and the Python engine, the C libraries that
some of these crates contain, and Rust's standard library. Texts are the files that a crate ships. A crate without one gets
the standard text of its license; an unknown license is an error, so a new crate cannot be forgotten. C libraries inside crates
are listed in BUNDLED by hand.
"""

import hashlib
import html
import json
import os
import re
import subprocess
import sys
import uuid
from datetime import datetime, timezone
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PLATFORM = "x86_64-unknown-linux-gnu"
# Workspaces and the crates of each that are shipped.
SHIPPED = {
    "Cargo.toml": ["dlio-benchmark", "dlio-analyzer", "dlio-preload", "dlio-inline", "dlio-rocm"],
    "python/Cargo.toml": ["dlio-python"],
}
# C libraries inside crates: crate, directory, name, license, file with the version, and its pattern.
BUNDLED = [
    ("zstd-sys", "zstd", "zstd", "BSD-3-Clause", None, r"\+zstd\.(.+)"),
    ("hdf5-metno-src", "ext/hdf5", "HDF5", "BSD-3-Clause", "src/H5public.h", r'H5_VERS_INFO "HDF5 library version: (.+?)"'),
    ("libz-sys", "src/zlib", "zlib", "Zlib", "zlib.h", r'ZLIB_VERSION "(.+?)"'),
    ("libdeflate-sys", "libdeflate", "libdeflate", "MIT", "libdeflate.h", r'LIBDEFLATE_VERSION_STRING\s+"(.+?)"'),
    ("lzf-sys", "source", "liblzf", "BSD-2-Clause", "lzf.h", r"LZF_VERSION 0x(\w+)"),
]
# Crates without `license` in their manifest, and what their text is.
UNSTATED = {"hdf5-metno-src": "BSD-3-Clause"}
TEXT_FILE = re.compile(r"^(licen[cs]e|copying|notice|unlicense|copyright)", re.I)
# Directories of crates whose texts belong to code that is not linked.
NOT_LINKED = ("zlib-ng", "tests", "benches", "examples")


def metadata(manifest):
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", PLATFORM]
    ran = subprocess.run([*command, "--manifest-path", ROOT / manifest], stdout=subprocess.PIPE, check=True)
    return json.loads(ran.stdout)


def linked(manifest, names):
    """Returns the packages that are linked into the crates `names`, without code that only the compiler runs."""
    data = metadata(manifest)
    packages = {package["id"]: package for package in data["packages"]}
    depends = {node["id"]: node["deps"] for node in data["resolve"]["nodes"]}
    todo, seen = [key for key, package in packages.items() if package["name"] in names], set()
    if len(todo) != len(names):
        sys.exit(f"{manifest}: expected the crates {names}")
    while todo:
        key = todo.pop()
        if key in seen or any("proc-macro" in target["kind"] for target in packages[key]["targets"]):
            continue
        seen.add(key)
        todo += [dep["pkg"] for dep in depends[key] if any(kind["kind"] is None for kind in dep["dep_kinds"])]
    return [packages[key] for key in seen]


def components():
    """Returns all packages, by name and version; those of this repository have no source."""
    found = {}
    for manifest, names in SHIPPED.items():
        found |= {(package["name"], package["version"]): package for package in linked(manifest, names)}
    return [found[key] for key in sorted(found)]


def folder(package):
    return Path(package["manifest_path"]).parent


def license_of(package):
    stated = package["license"] or UNSTATED.get(package["name"])
    if not stated:
        sys.exit(f"{package['name']}: its manifest has no license; add it to UNSTATED in {__file__}")
    return re.sub(r"\s*/\s*", " OR ", stated)


def bundled(package):
    """Returns the C libraries inside a crate as (name, version, license)."""
    for crate, place, name, license_, file, pattern in BUNDLED:
        if crate == package["name"]:
            text = (folder(package) / place / file).read_text() if file else package["version"]
            version = re.search(pattern, text)
            if version is None:
                sys.exit(f"{crate}: cannot find the version of {name}")
            number = version[1]
            yield name, f"{int(number, 16) >> 8}.{int(number, 16) & 255}" if name == "liblzf" else number, license_


# ---- license texts ---------------------------------------------------------------------------------------------------


def texts(package):
    """Returns the license files of a crate; a crate that contains other projects has theirs in subdirectories."""
    home = folder(package)
    found = [home / name for name in sorted(os.listdir(home)) if TEXT_FILE.match(name)]
    if package["links"]:
        inner = (path for path in sorted(home.rglob("*")) if TEXT_FILE.match(path.name) and path.parent != home)
        found += [path for path in inner if not set(path.relative_to(home).parts) & set(NOT_LINKED)]
    read = [path.read_text(errors="replace") for path in found if path.is_file()]
    # zstd may be used under a BSD license or the GPL, and ships both texts.
    return [text for text in read if "GNU GENERAL PUBLIC LICENSE" not in text[:200]]


def standard_texts(package, known):
    """Returns the texts for the license of a crate that ships none: of one alternative, and of each part of a sum."""
    result = []
    for part in license_of(package).strip("()").split(" AND "):
        choices = [choice.strip(" ()") for choice in part.split(" OR ")]
        text = next((known[choice] for choice in choices if choice in known), None)
        if text is None:
            sys.exit(f"{package['name']} has no license file, and the text of {part} is unknown; add it to {__file__}")
        authors = ", ".join(package["authors"]) or package["repository"] or package["name"]
        result.append(f"(The crate ships no license file. Authors: {authors})\n\n{text}")
    return result


def common(packages):
    """Returns standard texts by license: this repository's own, and files that crates with one license ship."""
    known = {"MIT": (ROOT / "LICENSE-MIT").read_text().split("\n\n", 2)[2], "Apache-2.0": (ROOT / "LICENSE-APACHE").read_text()}
    for package in packages:
        stated = license_of(package)
        found = texts(package) if " " not in stated else []
        if len(found) == 1:
            known.setdefault(stated, re.sub(r"(?im)^\s*copyright .*\n", "", found[0]))
    return known


def rust_texts():
    sysroot = subprocess.run(["rustc", "--print", "sysroot"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    notice = Path(sysroot) / "share/doc/rust/COPYRIGHT-library.html"
    if not notice.exists():
        return [(ROOT / "LICENSE-MIT").read_text().split("\n\n", 2)[2], (ROOT / "LICENSE-APACHE").read_text()]
    text = re.sub(r"<(style|script|head).*?</\1>", "", notice.read_text(), flags=re.S)
    return [re.sub(r"\n\s*\n(\s*\n)+", "\n\n", html.unescape(re.sub(r"<[^>]+>", "", text))).strip() + "\n"]


def rust_version():
    return subprocess.run(["rustc", "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout.split()[1]


def notices(packages):
    groups, table, known = {}, [], common(packages)
    foreign = [package for package in packages if package["source"]]
    for package in foreign:
        name = f"{package['name']} {package['version']}"
        inside = ", ".join(f"{library} {version}" for library, version, _ in bundled(package))
        table.append(f"{name}: {license_of(package)}{f' (contains {inside})' if inside else ''}")
        for text in texts(package) or standard_texts(package, known):
            groups.setdefault(" ".join(text.split()), (text, []))[1].append(name)
    table.append(f"Rust standard library {rust_version()}: MIT OR Apache-2.0")
    for text in rust_texts():
        groups.setdefault(" ".join(text.split()), (text, []))[1].append(f"Rust standard library {rust_version()}")
    rule = "=" * 100
    parts = ["Software of others in the programs and libraries of dlio, and their licenses.\n", *table, ""]
    for text, names in groups.values():
        parts += [rule, *names, rule, "", text.strip(), ""]
    return "\n".join(parts) + "\n"


# ---- bill of materials -----------------------------------------------------------------------------------------------


def component(kind, name, version, license_, **more):
    return {"type": kind, "name": name, "version": version, "licenses": [{"expression": license_}], **more}


def of_package(package, sums):
    name, version = package["name"], package["version"]
    purl = f"pkg:cargo/{name}@{version}"
    more = {"purl": purl, "bom-ref": purl}
    if (name, version) in sums:
        more["hashes"] = [{"alg": "SHA-256", "content": sums[name, version]}]
    return component("library", name, version, license_of(package), **more)


def checksums():
    """Returns the checksums of the crates, as in the lock files."""
    found = {}
    for manifest in SHIPPED:
        lock = (ROOT / manifest).with_suffix(".lock").read_text()
        for name, version, sum_ in re.findall(r'name = "(.+?)"\nversion = "(.+?)"\nsource = .+?\nchecksum = "(.+?)"', lock):
            found[name, version] = sum_
    return found


def bill(packages):
    sums, own = checksums(), next(package for package in packages if package["name"] == "dlio-benchmark")
    listed = [of_package(package, sums) for package in packages if package["source"]]
    for package in packages:
        for name, version, license_ in bundled(package):
            ref = f"pkg:generic/{name.lower()}@{version}"
            listed.append(component("library", name, version, license_, purl=ref, **{"bom-ref": ref}))
    rust = f"pkg:generic/rust-std@{rust_version()}"
    listed.append(component("library", "rust-std", rust_version(), "MIT OR Apache-2.0", purl=rust, **{"bom-ref": rust}))
    moment = datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", 0)), timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    digest = hashlib.sha256(json.dumps(listed, sort_keys=True).encode()).hexdigest()
    return {
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1, "serialNumber": f"urn:uuid:{uuid.UUID(digest[:32])}",
        "metadata": {
            "timestamp": moment,
            "component": component("application", "dlio", own["version"], license_of(own), **{"bom-ref": "dlio"}),
        },
        "components": listed,
        "dependencies": [{"ref": "dlio", "dependsOn": [entry["bom-ref"] for entry in listed]}],
    }  # fmt: skip


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: notices.py DIR")
    place, packages = Path(sys.argv[1]), components()
    place.mkdir(parents=True, exist_ok=True)
    (place / "THIRD-PARTY.txt").write_text(notices(packages))
    (place / "sbom.cdx.json").write_text(json.dumps(bill(packages), indent=1) + "\n")


main()
