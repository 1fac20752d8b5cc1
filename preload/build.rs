use std::{env, fs, path::Path};

const SOURCES: &[&str] = &["src/variadic.c", "src/memory.c", "src/older.c", "src/unwind.c"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    SOURCES.iter().for_each(|source| println!("cargo::rerun-if-changed={source}"));
    cc::Build::new().files(SOURCES).flag("-fno-builtin").warnings(true).compile("dlio_preload");
    leave_out_libgcc();
    look_up_less();
}

/// What the loader has to look up by name, in every process that starts: not our own functions, which are the first of
/// their names anyway, and not the ones through which zstd would tell of itself, which nobody has.
fn look_up_less() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-Bsymbolic-functions");
    for told in ["compress_begin", "compress_end", "decompress_begin", "decompress_end"] {
        println!("cargo::rustc-cdylib-link-arg=-Wl,--defsym=ZSTD_trace_{told}=0");
    }
}

/// What the standard library asks of `libgcc_s` is in `unwind.c`: the linker finds an empty library of that name first.
fn leave_out_libgcc() {
    let folder = env::var("OUT_DIR").expect("cargo names a folder");
    let script = Path::new(&folder).join("libgcc_s.so");
    fs::write(script, "INPUT(-lgcc)\n").expect("a linker script in the folder of the build");
    println!("cargo::rustc-link-search=native={folder}");
}
