//! Libraries for the linker: names with versions, without code.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::symbols::{self, Kind, OLDEST, Symbol, Version};

/// Libraries, with the linker options that name them (`-lpthread`). All of them are part of every glibc since 2.17.
const LIBRARIES: &[(&str, &str)] = &[
    ("libc.so.6", "c"),
    ("libm.so.6", "m"),
    ("libpthread.so.0", "pthread"),
    ("libdl.so.2", "dl"),
    ("librt.so.1", "rt"),
    ("libutil.so.1", "util"),
];

/// Makes the stubs in a directory. Returns `false`, and makes none, if this host's C library has threads in a
/// separate library, as those before 2.34 had.
pub fn make(folder: &Path) -> Result<bool, String> {
    let compiler = cc::Build::new().try_get_compiler().map_err(|error| error.to_string())?.path().to_owned();
    let mut all: BTreeMap<&str, Vec<Symbol>> = BTreeMap::new();
    for library in ["libc.so.6", "libm.so.6"] {
        let path = find(&compiler, library)?;
        println!("cargo::rerun-if-changed={}", path.display());
        let mut command = Command::new("readelf");
        let found = symbols::parse(&run(command.args(["--dyn-syms", "--wide"]).arg(&path).env("LC_ALL", "C"))?);
        let has_threads = found.iter().any(|symbol| symbol.name == "pthread_create" && symbol.version > OLDEST);
        if library == "libc.so.6" && !has_threads {
            return Ok(false);
        }
        for (place, symbol) in symbols::in_oldest(found, library) {
            all.entry(place).or_default().push(symbol);
        }
    }
    for (library, option) in LIBRARIES {
        let found = all.remove(library).unwrap_or_default();
        let path = folder.join(if *option == "c" { "libc.so.6".into() } else { format!("lib{option}.so") });
        stub(&compiler, &found, library, &path)?;
    }
    // In addition to the shared library: the code that the C library links into each program, and the variables of
    // the loader.
    let code = find(&compiler, "libc_nonshared.a")?;
    let loader = find(&compiler, "ld-linux-x86-64.so.2")?;
    let (shared, code, loader) = (folder.join("libc.so.6"), code.display(), loader.display());
    let script = format!("GROUP ( {} {code} AS_NEEDED ( {loader} ) )\n", shared.display());
    fs::write(folder.join("libc.so"), script).map_err(|error| error.to_string())?;
    Ok(true)
}

/// Returns the path of a library in the compiler's directories.
fn find(compiler: &Path, library: &str) -> Result<PathBuf, String> {
    let printed = run(Command::new(compiler).arg(format!("-print-file-name={library}")))?;
    let path = PathBuf::from(printed.trim());
    // A bare name means that the file does not exist.
    if path.is_absolute() { Ok(path) } else { Err(format!("{} knows no {library}", compiler.display())) }
}

fn stub(compiler: &Path, symbols: &[Symbol], library: &str, path: &Path) -> Result<(), String> {
    let [code, versions] = ["s", "versions"].map(|ending| path.with_extension(format!("so.{ending}")));
    fs::write(&code, assembly(symbols)).map_err(|error| error.to_string())?;
    fs::write(&versions, version_script(symbols)).map_err(|error| error.to_string())?;
    let mut command = Command::new(compiler);
    command.args(["-shared", "-nostdlib", "-o"]).arg(path).arg(&code).arg(format!("-Wl,-soname,{library}"));
    run(command.arg(format!("-Wl,--version-script={}", versions.display())))?;
    Ok(())
}

/// Returns assembly that gives each symbol a separate address, its kind and its size, which is all that the linker
/// needs.
fn assembly(symbols: &[Symbol]) -> String {
    let mut text = String::new();
    for Symbol { name, kind, size, .. } in symbols {
        let (section, kind, size) = match kind {
            Kind::Function => (".text", "function", 1),
            Kind::Variable => (".data", "object", *size),
            Kind::PerThread => (".section .tdata,\"awT\",@progbits", "tls_object", *size),
        };
        let _ =
            writeln!(text, "{section}\n.globl {name}\n.type {name},@{kind}\n{name}: .zero {size}\n.size {name},{size}");
    }
    text + ".section .note.GNU-stack,\"\",@progbits\n"
}

fn version_script(symbols: &[Symbol]) -> String {
    let versions: BTreeSet<Version> = symbols.iter().map(|symbol| symbol.version).collect();
    let mut text = String::new();
    for version in versions {
        let _ = writeln!(text, "{} {{ global:", version.name());
        for symbol in symbols.iter().filter(|symbol| symbol.version == version) {
            let _ = writeln!(text, "    {};", symbol.name);
        }
        let _ = writeln!(text, "}};");
    }
    text
}

fn run(command: &mut Command) -> Result<String, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("cannot run {program}: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("{program} ended with {}: {}", output.status, said.lines().next().unwrap_or_default()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
