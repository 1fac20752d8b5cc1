//! Statics that are large and for the most part never touched lie apart from the small ones, which then share a page or two: a
//! process that does little touches few pages, and each one costs it as much as ten system calls.
//!
//! Their section is one that the compiler knows to hold nothing but zeros, and that no linker puts among the others.

/// Defines one. What it holds in the beginning are zeros.
#[macro_export]
macro_rules! large {
    ($(#[$about:meta])* static $name:ident: $of:ty = $value:expr;) => {
        $(#[$about])*
        #[unsafe(link_section = ".llvm.linkonce.b.dlio")]
        static $name: $of = $value;
    };
}
