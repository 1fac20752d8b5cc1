//! A loaded library: where it is, and under which name other objects need it.

use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*};

use dlio_tracer::kernel::hash;

use super::imports::Object;

/// A place for a loaded library; all zeros if it is free.
pub struct Entry {
    /// The library's address in memory; zero if this entry is free.
    base: AtomicUsize,
    /// Hash of the name by which other objects need it.
    name: AtomicU64,
    /// `true` while the library is listed by the loader.
    is_listed: AtomicBool,
    /// Loaded with the program, so that all objects are bound to it.
    is_global: AtomicBool,
}

impl Entry {
    pub const fn new() -> Entry {
        Entry {
            base: AtomicUsize::new(0),
            name: AtomicU64::new(0),
            is_listed: AtomicBool::new(false),
            is_global: AtomicBool::new(false),
        }
    }

    pub fn is_at(&self, base: usize) -> bool {
        self.base.load(Acquire) == base
    }

    pub fn is_used(&self) -> bool {
        !self.is_at(0)
    }

    pub fn is_global(&self) -> bool {
        self.is_global.load(Relaxed)
    }

    /// Returns `true` if an object that needs a library of this name is bound to this one.
    pub fn is_named(&self, name: &CStr) -> bool {
        self.name.load(Relaxed) == hash_of(name)
    }

    /// Takes the entry for a library, whose functions and hooks are known.
    pub fn occupy(&self, object: &Object, is_global: bool) {
        self.is_global.store(is_global, Relaxed);
        self.name.store(hash_of(object.name()), Relaxed);
        self.is_listed.store(true, Relaxed);
        self.base.store(object.base(), Release);
    }

    /// Notes whether the loader lists the library.
    pub fn set_listed(&self, is_listed: bool) {
        self.is_listed.store(is_listed, Relaxed);
    }

    /// Frees the entry if the loader no longer lists the library. Returns `true` if it was freed.
    pub fn free_unless_listed(&self) -> bool {
        let is_gone = !self.is_listed.load(Relaxed);
        if is_gone {
            self.base.store(0, Release);
        }
        is_gone
    }
}

fn hash_of(name: &CStr) -> u64 {
    hash::of(name.to_bytes(), 0)
}

/// Returns the names in a text of terminated names: one text needs no relocation, unlike a list of pointers.
pub fn terminated(names: &'static str) -> impl Iterator<Item = &'static CStr> {
    names.as_bytes().split_inclusive(|&byte| byte == 0).filter_map(|name| CStr::from_bytes_with_nul(name).ok())
}
