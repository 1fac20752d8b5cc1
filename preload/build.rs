use std::{env, fs, path::Path, process::Command};

const SOURCES: &[&str] = &["src/variadic.c", "src/memory.c", "src/older.c", "src/unwind.c"];
const FIRST: &str = "src/first.ld";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    SOURCES.iter().for_each(|source| println!("cargo::rerun-if-changed={source}"));
    println!("cargo::rerun-if-changed={FIRST}");
    cc::Build::new().files(SOURCES).flag("-fno-builtin").warnings(true).compile("dlio_preload");
    leave_out_libgcc();
    leave_out_the_loader();
    look_up_less();
    map_less();
}

/// Reduces the symbols that the loader has to look up by name in every process: not our own functions, which precede
/// all others of their names, and not the functions through which zstd exposes traces, which no process has. On aarch64 a
/// linker makes these zeros relative to the library, and zstd would call its first byte.
fn look_up_less() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-Bsymbolic-functions");
    if env::var("CARGO_CFG_TARGET_ARCH").as_deref() != Ok("x86_64") {
        return;
    }
    for told in ["compress_begin", "compress_end", "decompress_begin", "decompress_end"] {
        println!("cargo::rustc-cdylib-link-arg=-Wl,--defsym=ZSTD_trace_{told}=0");
    }
}

/// Saves a mapping in every process: constants are placed with the code. The option is for the linker that comes with
/// Rust and is the default; other linkers may not know it.
fn map_less() {
    let variable = |name| env::var(name).unwrap_or_default();
    let is_usual =
        variable("TARGET") == "x86_64-unknown-linux-gnu" && !variable("CARGO_ENCODED_RUSTFLAGS").contains("link");
    let rustc = Command::new(variable("RUSTC")).args(["--print", "sysroot"]).output();
    let sysroot = rustc.map_or_else(|_| String::new(), |output| String::from_utf8_lossy(&output.stdout).trim().into());
    let linker = Path::new(&sysroot).join("lib/rustlib/x86_64-unknown-linux-gnu/bin/gcc-ld/ld.lld");
    if is_usual && linker.exists() {
        println!("cargo::rustc-cdylib-link-arg=-Wl,--no-rosegment");
        // Data that the loader relocates begins with a page, so that it has one page less.
        println!("cargo::rustc-cdylib-link-arg=-Wl,-z,separate-loadable-segments");
        // A copy in the build directory, which another clone may use when this one is gone.
        let script = Path::new(&variable("OUT_DIR")).join("first.ld");
        fs::copy(FIRST, &script).expect("a linker script in the build directory");
        println!("cargo::rustc-cdylib-link-arg=-Wl,-T,{}", script.display());
    }
}

/// Replaces `libgcc_s`: the functions that the standard library needs are in `unwind.c`, and the linker finds an
/// empty library of that name first.
fn leave_out_libgcc() {
    let folder = env::var("OUT_DIR").expect("cargo sets a directory");
    let script = Path::new(&folder).join("libgcc_s.so");
    fs::write(script, "INPUT(-lgcc)\n").expect("a linker script in the build directory");
    println!("cargo::rustc-link-search=native={folder}");
}

/// Removes the dependency on the loader, which is in each process, so that `__tls_get_addr` is found without it. musl
/// has that function but no library with the loader's name. Functions that musl lacks are in `older.c`.
fn leave_out_the_loader() {
    if env::var("CARGO_CFG_TARGET_ENV").as_deref() != Ok("gnu") {
        return;
    }
    for function in ["on_exit", "__register_atfork", "__cxa_at_quick_exit"] {
        println!("cargo::rustc-cdylib-link-arg=-Wl,--wrap={function}");
    }
    let compiler = cc::Build::new().get_compiler();
    let place = |library: &str| {
        let printed = Command::new(compiler.path()).arg(format!("-print-file-name={library}")).output().ok()?;
        let path = String::from_utf8(printed.stdout).ok()?.trim().to_string();
        path.starts_with('/').then_some(path)
    };
    // On other hosts the usual script names the loader, and the library loads with glibc only.
    let (Some(shared), Some(code)) = (place("libc.so.6"), place("libc_nonshared.a")) else { return };
    let folder = env::var("OUT_DIR").expect("cargo sets a directory");
    let script = Path::new(&folder).join("libc.so");
    fs::write(script, format!("GROUP ( {shared} {code} )\n")).expect("a linker script in the build directory");
}
