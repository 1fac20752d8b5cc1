//! Large statics that are mostly never touched. They are in a section separate from the small ones, which then share
//! a page or two: a short-lived process touches few pages, and each page costs it as much as ten system calls.
//!
//! The compiler knows that the section contains only zeros, and no linker mixes it with other sections.

/// Defines a large static, initially zero.
#[macro_export]
macro_rules! large {
    ($(#[$about:meta])* static $name:ident: $of:ty = $value:expr;) => {
        $(#[$about])*
        #[unsafe(link_section = ".llvm.linkonce.b.dlio")]
        static $name: $of = $value;
    };
}
