//! The kernel's clocks without the C library. Some libraries interpose `clock_gettime` to show a program a different time, but a
//! trace records the real time.
//!
//! The kernel maps a small shared object, the vDSO, into every process. Its functions read a clock in 25 ns; a system
//! call takes a few hundred. The vDSO's address is in the auxiliary vector, and its functions are in its symbol
//! table.

use std::sync::atomic::{AtomicPtr, Ordering::*};

type ClockGetTime = unsafe extern "C" fn(libc::clockid_t, *mut libc::timespec) -> i32;

/// The function; null before the lookup, and if it was not found.
static FUNCTION: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

#[cfg(target_arch = "x86_64")]
const NAME: &[u8] = b"__vdso_clock_gettime";
#[cfg(target_arch = "aarch64")]
const NAME: &[u8] = b"__kernel_clock_gettime";

/// Looks up the function. Before this, and if it is not found, the clocks use system calls.
pub fn find() {
    // SAFETY: reads the auxiliary vector. The object at this address is an ELF object, mapped whole and permanently.
    let found = unsafe {
        let base = libc::getauxval(libc::AT_SYSINFO_EHDR);
        (base != 0).then(|| symbol(base as *const u8)).flatten()
    };
    FUNCTION.store(found.unwrap_or(std::ptr::null()).cast_mut(), Release);
}

/// Switches to system calls: the function reads the time-stamp counter, which the program has forbidden.
pub fn forget() {
    FUNCTION.store(std::ptr::null_mut(), Release);
}

/// Returns `true` if the function was found.
pub fn is_found() -> bool {
    !FUNCTION.load(Relaxed).is_null()
}

/// Reads a clock; returns `false` if the caller must use a system call.
#[inline]
pub fn clock(clock: libc::clockid_t, now: &mut libc::timespec) -> bool {
    let function = FUNCTION.load(Relaxed);
    if function.is_null() {
        return false;
    }
    // SAFETY: the vDSO's function of this name has this signature; it fails for clocks it does not know.
    unsafe { std::mem::transmute::<*mut (), ClockGetTime>(function)(clock, now) == 0 }
}

/// The tables named in an object's dynamic section.
#[derive(Clone, Copy)]
struct Tables {
    symbols: *const libc::Elf64_Sym,
    names: *const u8,
    count: usize,
}

/// Returns the address of [`NAME`] in the object.
///
/// # Safety
/// A whole ELF object is mapped at `base`.
unsafe fn symbol(base: *const u8) -> Option<*const ()> {
    // SAFETY: by the contract; the tables are read only as far as the object declares.
    unsafe {
        let (tables, bias) = tables(base)?;
        let symbols = std::slice::from_raw_parts(tables.symbols, tables.count);
        let is_it = |symbol: &&libc::Elf64_Sym| {
            symbol.st_shndx != 0
                && std::ffi::CStr::from_ptr(tables.names.add(symbol.st_name as usize).cast()).to_bytes() == NAME
        };
        symbols.iter().find(is_it).map(|symbol| bias.add(symbol.st_value as usize).cast())
    }
}

/// Returns the tables of an object and the start of its symbols.
///
/// # Safety
/// A whole ELF object is mapped at `base`.
unsafe fn tables(base: *const u8) -> Option<(Tables, *const u8)> {
    const DT_HASH: i64 = 4;
    const DT_STRTAB: i64 = 5;
    const DT_SYMTAB: i64 = 6;
    const DT_GNU_HASH: i64 = 0x6fff_fef5;
    // SAFETY: by the contract.
    unsafe {
        let head = &*base.cast::<libc::Elf64_Ehdr>();
        let parts = std::slice::from_raw_parts(
            base.add(head.e_phoff as usize).cast::<libc::Elf64_Phdr>(),
            head.e_phnum as usize,
        );
        let loaded = parts.iter().find(|part| part.p_type == libc::PT_LOAD)?;
        let bias = base.wrapping_add(loaded.p_offset as usize).wrapping_sub(loaded.p_vaddr as usize);
        let dynamic = parts.iter().find(|part| part.p_type == libc::PT_DYNAMIC)?;
        let entries = std::slice::from_raw_parts(
            bias.wrapping_add(dynamic.p_vaddr as usize).cast::<[i64; 2]>(),
            dynamic.p_memsz as usize / size_of::<[i64; 2]>(),
        );
        let table = |kind| entries.iter().find(|[k, _]| *k == kind).map(|[_, at]| bias.wrapping_add(*at as usize));
        let count = match (table(DT_HASH), table(DT_GNU_HASH)) {
            // Buckets, chains; there is one chain per symbol.
            (Some(hash), _) => *hash.cast::<u32>().add(1) as usize,
            (None, Some(hash)) => hashed(hash.cast()),
            (None, None) => return None,
        };
        Some((Tables { symbols: table(DT_SYMTAB)?.cast(), names: table(DT_STRTAB)?, count }, bias))
    }
}

/// Returns the number of symbols in a GNU hash table: up to the end of the chain that starts last.
///
/// # Safety
/// A GNU hash table is mapped at `table`.
unsafe fn hashed(table: *const u32) -> usize {
    // SAFETY: by the contract: buckets, first symbol, words of the filter, shift; filter, buckets, chains.
    unsafe {
        let (buckets, first, words) = (*table as usize, *table.add(1) as usize, *table.add(2) as usize);
        let bucket = table.add(4 + words * 2);
        let chain = bucket.add(buckets);
        let mut last = (0..buckets).map(|i| *bucket.add(i) as usize).max().unwrap_or(0);
        if last < first {
            return first;
        }
        while *chain.add(last - first) & 1 == 0 {
            last += 1;
        }
        last + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vdso_clock_equals_the_c_library_clock() {
        find();
        let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        for id in [libc::CLOCK_MONOTONIC, libc::CLOCK_REALTIME, libc::CLOCK_BOOTTIME] {
            let mut before = now;
            // SAFETY: the variable is ours.
            unsafe { libc::clock_gettime(id, &mut before) };
            assert!(clock(id, &mut now), "no vDSO here");
            let ns = |time: libc::timespec| time.tv_sec * 1_000_000_000 + time.tv_nsec;
            assert!((0..1_000_000_000).contains(&(ns(now) - ns(before))), "clock {id}");
        }
    }
}
