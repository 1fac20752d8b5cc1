//! Links what is shipped so that it runs with every glibc since 2.17, whichever one the building machine has.
//!
//! A linker binds each function to the newest version that the machine's C library has, and to the library that has it
//! there. Both changed: `pthread_create` is `GLIBC_2.34` of `libc.so.6` today and was `GLIBC_2.2.5` of `libpthread.so.0`. An
//! older loader refuses such a program; a newer one still has the older versions, for the programs of that time. So a
//! build script makes stubs: libraries that hold names and no code, each name with the version and in the library that it
//! had in 2.17. The linker finds them before the machine's own. What 2.17 does not have is in no stub: a reference that may
//! stay open (a weak one, as the standard library of Rust makes them) is bound by name alone when the program starts, and
//! the few others are in `stand_ins.c`.
//!
//! Where stubs cannot be made, the program is linked as usual, and a line says so.

mod stubs;
mod symbols;

use std::path::PathBuf;
use std::{env, fs};

/// C code, which is compiled for each package that is linked: its name and its text.
type Source = (&'static str, &'static str);

const STAND_INS: Source = ("stand_ins.c", include_str!("stand_ins.c"));
const PROGRAMS: Source = ("programs.c", include_str!("programs.c"));

/// Links the programs of the package whose build script calls this.
pub fn programs() {
    // The compiler's own library is the machine's, and may ask its C library for more than the stubs have.
    const ARGUMENTS: &[&str] = &["-Wl,--wrap=__libc_start_main", "-Wl,--allow-shlib-undefined"];
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
        // The machine's C library is an old one itself.
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
