//! Links the shipped programs and libraries so that they run with every glibc since 2.17, whatever the glibc of the
//! build host.
//!
//! A linker binds each function to its newest version in the host's C library, and to the library that contains it
//! there. Both have changed: `pthread_create` is `GLIBC_2.34` of `libc.so.6` today and was `GLIBC_2.2.5` of
//! `libpthread.so.0`. An older loader rejects such a program; a newer one still has the older versions, for the
//! programs of that time. So a build script makes stubs: libraries of names without code, each name with the version
//! and in the library that it had in 2.17. The linker finds them before the host's own. A symbol that 2.17 lacks is
//! in no stub. If its reference is weak, as those of Rust's standard library are, it is bound by name alone when the
//! program starts. The few others are in `stand_ins.c`.
//!
//! If stubs cannot be made, the program is linked as usual, and a message reports that.

mod stubs;
mod symbols;

use std::path::PathBuf;
use std::{env, fs};

/// C code that is compiled for each linked package: its name and its text.
type Source = (&'static str, &'static str);

const STAND_INS: Source = ("stand_ins.c", include_str!("stand_ins.c"));
const PROGRAMS: Source = ("programs.c", include_str!("programs.c"));

/// Links the programs of the package whose build script calls this.
pub fn programs() {
    // The compiler's own library belongs to the host, and may need more of its C library than the stubs contain. A program at a
    // fixed address needs no relocations, which cost 100 page faults per start of `dlio`.
    const ARGUMENTS: &[&str] = &["-Wl,--wrap=__libc_start_main", "-Wl,--allow-shlib-undefined", "-no-pie"];
    link("rustc-link-arg-bins", &[STAND_INS, PROGRAMS], ARGUMENTS);
}

/// Links the shared library of the package whose build script calls this.
pub fn library() {
    link("rustc-cdylib-link-arg", &[STAND_INS], &[]);
}

fn link(instruction: &str, sources: &[Source], arguments: &[&str]) {
    println!("cargo::rerun-if-changed=build.rs");
    if env::var("TARGET").as_deref() != Ok("x86_64-unknown-linux-gnu") || env::var("HOST") != env::var("TARGET") {
        return;
    }
    let folder = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets a directory")).join("stubs");
    let made = fs::create_dir_all(&folder).map_err(|error| error.to_string()).and_then(|()| stubs::make(&folder));
    match made {
        Ok(true) => {}
        // The host's C library is itself an old one.
        Ok(false) => return,
        Err(why) => {
            println!("cargo::warning=linked for C libraries as new as this host's: {why}");
            return;
        }
    }
    let sources = sources.iter().map(|(name, text)| {
        let path = folder.join(name);
        fs::write(&path, text).expect("space in the build directory");
        path
    });
    for object in cc::Build::new().files(sources).flag("-fno-builtin").warnings(true).compile_intermediates() {
        println!("cargo::{instruction}={}", object.display());
    }
    println!("cargo::{instruction}=-L{}", folder.display());
    for argument in arguments {
        println!("cargo::{instruction}={argument}");
    }
}
