//! The form of a row: one hooked function, its arguments, and the event recorded for it.
//!
//! ```text
//! rows! { Posix
//!     [pread pread64] (fd: i32, into: *mut c_void, size: usize, at: i64) -> isize; {
//!         unless leaves_out(fd);                      only passed on, if true
//!         with file = closing(fd);                    evaluated before the real call
//!         |done, ret| moved_at(done, Op::PREAD, fd, at, size as i64, ret as i64)
//!     }
//! }
//! ```
//!
//! The real function is called exactly once, and nothing before it can fail. errno remains as that call left it: all
//! later code calls the kernel without the C library.

/// Defines the hooks of a table: see the module's drawing.
#[macro_export]
macro_rules! rows {
    ($layer:ident $([$($name:ident)+] $args:tt -> $ret:ty; $body:tt)*) => {
        $($($crate::row!($layer $name $args -> $ret; $body);)+)*
    };
}

/// Defines one name of a row.
#[macro_export]
macro_rules! row {
    ($layer:ident $name:ident ($($arg:ident: $of:ty),*) -> $ret:ty; {
        $(unless $guard:expr;)?
        $(with $before:ident = $look:expr;)?
        |$done:pat_param, $result:ident| $record:expr
    }) => {
        /// # Safety
        /// As the C library's function of this name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $of),*) -> $ret {
            $crate::real!(next: $name($($of),*) -> $ret);
            // SAFETY: the arguments are passed on unchanged.
            #[allow(clippy::macro_metavars_in_unsafe, reason = "a row is the body of an unsafe function")]
            unsafe {
                if false $(|| $guard)? {
                    return next($($arg),*);
                }
                let Some(call) = dlio_tracer::calls::call::begin(dlio_tracer::ops::Layer::$layer) else {
                    return next($($arg),*);
                };
                $(let $before = $look;)?
                let $result = next($($arg),*);
                let $done = call.end();
                $record;
                $result
            }
        }
    };
}

/// Binds the real function of a name, or returns as if the system lacked it.
#[macro_export]
macro_rules! real {
    ($next:ident: $name:ident($($of:ty),*) -> $ret:ty) => {
        #[used]
        #[unsafe(link_section = "dlio_next")]
        static NEXT: $crate::next::Next = $crate::next::Next::new(stringify!($name));
        let address = NEXT.get();
        if address.is_null() {
            return <$ret as $crate::next::Missing>::missing();
        }
        // SAFETY: the function of this name has this signature.
        let $next = unsafe {
            std::mem::transmute::<*mut std::ffi::c_void, unsafe extern "C" fn($($of),*) -> $ret>(address)
        };
    };
}

/// Converts a name to a C string.
#[macro_export]
macro_rules! c_name {
    ($name:ident) => {{
        const NAME: &std::ffi::CStr =
            match std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => panic!("a name without zeros"),
            };
        NAME
    }};
}

/// Defines a function implemented in C (see `variadic.c`): a jump, which leaves every argument in place.
#[macro_export]
macro_rules! variadic {
    ($($name:ident -> $function:ident;)*) => {$(
        /// # Safety
        /// As the C library's function of this name.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name() {
            unsafe extern "C" {
                fn $function();
            }
            #[cfg(target_arch = "x86_64")]
            std::arch::naked_asm!("jmp {}", sym $function);
            #[cfg(target_arch = "aarch64")]
            std::arch::naked_asm!("b {}", sym $function);
        }
    )*};
}
