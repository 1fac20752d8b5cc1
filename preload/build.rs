fn main() {
    println!("cargo::rerun-if-changed=src/variadic.c");
    println!("cargo::rerun-if-changed=src/memory.c");
    cc::Build::new()
        .files(["src/variadic.c", "src/memory.c"])
        .flag("-fno-builtin")
        .warnings(true)
        .compile("dlio_preload");
}
