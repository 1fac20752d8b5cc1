//! The import slots of loaded objects: the words through which an object calls functions of other objects.
//!
//! An exported hook would be found by `dlsym` and by weak references where no such library is loaded, and it could not
//! know which of several libraries its caller was bound to. So the slots of objects that call a library are changed
//! instead, after the loader has filled them.

use std::ffi::{CStr, c_char, c_void};
use std::sync::atomic::{AtomicUsize, Ordering::*};

use dlio_tracer::kernel::pages::{Pages, are_read_only, protect, whole_pages};
use libc::dl_phdr_info;

#[repr(C)]
struct DynamicEntry {
    tag: isize,
    value: usize,
}

#[repr(C)]
struct Relocation {
    offset: usize,
    info: usize,
    addend: isize,
}

#[repr(C)]
struct Symbol {
    name: u32,
    info: u8,
    other: u8,
    section: u16,
    value: usize,
    size: usize,
}

const DT_NEEDED: isize = 1;
const DT_PLTRELSZ: isize = 2;
const DT_STRTAB: isize = 5;
const DT_SYMTAB: isize = 6;
const DT_RELA: isize = 7;
const DT_RELASZ: isize = 8;
const DT_SONAME: isize = 14;
const DT_JMPREL: isize = 23;
const DT_RELACOUNT: isize = 0x6fff_fff9;

/// The types of relocations that fill the slots of functions.
#[cfg(target_arch = "x86_64")]
const SLOT_TYPES: [u32; 2] = [6, 7];
#[cfg(target_arch = "aarch64")]
const SLOT_TYPES: [u32; 2] = [1025, 1026];

unsafe extern "C" {
    fn dlio_defined(object: *const dl_phdr_info, name: *const c_char) -> *mut c_void;
}

/// A loaded object, while the loader lists it: nothing can unload it in that time.
pub struct Object<'a> {
    info: &'a dl_phdr_info,
    entries: &'a [DynamicEntry],
    names: *const c_char,
    symbols: *const Symbol,
}

/// A slot that calls a function of another object.
#[derive(Clone, Copy)]
pub struct Slot {
    place: *const AtomicUsize,
    /// The address in the slot: that of the function, or of the code by which this object looks it up at the first
    /// call.
    pub target: usize,
}

/// The outcome of changing the slots of an object.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Changed {
    /// All of them.
    Done,
    /// The loader has not finished with the object, which another thread is loading.
    Later,
}

impl<'a> Object<'a> {
    /// Returns an object; `None` if it has no symbols.
    ///
    /// # Safety
    /// The loader has just passed `info` to a callback, which has not returned yet.
    pub unsafe fn of(info: &'a dl_phdr_info) -> Option<Object<'a>> {
        let dynamic = headers(info).iter().find(|header| header.p_type == libc::PT_DYNAMIC)?;
        let first =
            std::ptr::with_exposed_provenance::<DynamicEntry>(info.dlpi_addr as usize + dynamic.p_vaddr as usize);
        let count = dynamic.p_memsz as usize / size_of::<DynamicEntry>();
        // SAFETY: the loader has mapped the object's dynamic section.
        let entries = unsafe { std::slice::from_raw_parts(first, count) };
        let end = entries.iter().position(|entry| entry.tag == 0).unwrap_or(count);
        let mut object = Object { info, entries: &entries[..end], names: std::ptr::null(), symbols: std::ptr::null() };
        object.names = object.address(DT_STRTAB)?;
        object.symbols = object.address(DT_SYMTAB)?;
        Some(object)
    }

    /// Returns the name by which other objects need this one; its path if it has none.
    pub fn name(&self) -> &'a CStr {
        // SAFETY: the object's table of names contains it.
        self.value(DT_SONAME).map_or(path_of(self.info), |at| unsafe { CStr::from_ptr(self.names.add(at)) })
    }

    pub fn base(&self) -> usize {
        self.info.dlpi_addr as usize
    }

    /// Returns `true` if an address is in the object's memory.
    pub fn contains(&self, address: usize) -> bool {
        headers(self.info).iter().filter(|header| header.p_type == libc::PT_LOAD).any(|header| {
            let start = self.base().wrapping_add(header.p_vaddr as usize);
            (start..start + header.p_memsz as usize).contains(&address)
        })
    }

    /// Returns the address of a function that the object defines; null if it does not.
    pub fn defined(&self, name: &CStr) -> *mut c_void {
        // SAFETY: an object that the loader has just listed, and a terminated name.
        unsafe { dlio_defined(self.info, name.as_ptr()) }
    }

    /// Returns the names of the libraries that the object is linked to.
    pub fn needed(&self) -> impl Iterator<Item = &'a CStr> {
        let names = self.names;
        // SAFETY: the object's table of names contains them.
        let name = move |entry: &DynamicEntry| unsafe { CStr::from_ptr(names.add(entry.value)) };
        self.entries.iter().filter(|entry| entry.tag == DT_NEEDED).map(name)
    }

    /// Replaces targets of slots by those that `chosen` returns for the name of the function and the slot.
    pub fn change(&self, mut chosen: impl FnMut(&CStr, Slot) -> Option<usize>) -> Changed {
        let mut guard = ReadOnlyData::Unknown;
        for relocation in self.relocations() {
            if !SLOT_TYPES.contains(&(relocation.info as u32)) {
                continue;
            }
            // SAFETY: the loader has used this relocation, so its symbol and name exist.
            let name = unsafe {
                let symbol = &*self.symbols.add(relocation.info >> 32);
                CStr::from_ptr(self.names.add(symbol.name as usize))
            };
            let place = std::ptr::with_exposed_provenance::<AtomicUsize>(self.base().wrapping_add(relocation.offset));
            // SAFETY: as above: an aligned word in the object's data.
            let target = unsafe { (*place).load(Relaxed) };
            let slot = Slot { place, target };
            let Some(instead) = chosen(name, slot) else { continue };
            if !guard.opens(self, slot) {
                return Changed::Later;
            }
            slot.set(instead);
        }
        Changed::Done
    }

    /// Returns `true` if the object has a slot for a function.
    pub fn calls(&self, function: &CStr) -> bool {
        let mut found = false;
        self.change(|name, _| {
            found |= name == function;
            None
        });
        found
    }

    fn relocations(&self) -> impl Iterator<Item = &'a Relocation> {
        // Those that involve no symbol come first.
        let skipped = self.value(DT_RELACOUNT).unwrap_or(0);
        let data = self.list(DT_RELA, DT_RELASZ);
        data.iter().skip(skipped).chain(self.list(DT_JMPREL, DT_PLTRELSZ))
    }

    fn list(&self, start: isize, size: isize) -> &'a [Relocation] {
        match (self.address::<Relocation>(start), self.value(size)) {
            // SAFETY: the object's own table.
            (Some(first), Some(size)) => unsafe { std::slice::from_raw_parts(first, size / size_of::<Relocation>()) },
            _ => &[],
        }
    }

    fn value(&self, tag: isize) -> Option<usize> {
        self.entries.iter().find(|entry| entry.tag == tag).map(|entry| entry.value)
    }

    /// The loader has added the base to addresses in a dynamic section, unless the section is read-only.
    fn address<T>(&self, tag: isize) -> Option<*const T> {
        let value = self.value(tag)?;
        let address = if value < self.base() { value.wrapping_add(self.base()) } else { value };
        Some(std::ptr::with_exposed_provenance(address))
    }

    /// Returns the pages that the loader makes read-only when it has filled the object's slots.
    fn read_only_data(&self) -> Pages {
        let Some(header) = headers(self.info).iter().find(|header| header.p_type == libc::PT_GNU_RELRO) else {
            return 0..0;
        };
        let start = self.base().wrapping_add(header.p_vaddr as usize);
        let end = start + header.p_memsz as usize;
        whole_pages(start, end)
    }
}

/// Returns the path of an object; empty for the program.
pub fn path_of(info: &dl_phdr_info) -> &CStr {
    // SAFETY: a terminated name, for as long as the object is loaded.
    if info.dlpi_name.is_null() { c"" } else { unsafe { CStr::from_ptr(info.dlpi_name) } }
}

fn headers(info: &dl_phdr_info) -> &[libc::Elf64_Phdr] {
    // SAFETY: the loader's own table.
    unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum as usize) }
}

impl Slot {
    /// Sets the target, unless another thread has just done so.
    fn set(self, instead: usize) {
        // SAFETY: an aligned word in the data of an object that cannot be unloaded now, which is writable.
        let _ = unsafe { (*self.place).compare_exchange(self.target, instead, AcqRel, Relaxed) };
    }
}

/// The pages of an object that are read-only once its slots are filled, writable while this value exists.
enum ReadOnlyData {
    Unknown,
    Writable(Pages),
}

impl ReadOnlyData {
    /// Makes the page of a slot writable. Returns `false` if it is not read-only yet.
    fn opens(&mut self, object: &Object, slot: Slot) -> bool {
        let pages = object.read_only_data();
        if !pages.contains(&slot.place.addr()) || matches!(self, ReadOnlyData::Writable(_)) {
            return true;
        }
        if !are_read_only(&pages) || !protect(&pages, true) {
            return false;
        }
        *self = ReadOnlyData::Writable(pages);
        true
    }
}

impl Drop for ReadOnlyData {
    fn drop(&mut self) {
        if let ReadOnlyData::Writable(pages) = self {
            protect(pages, false);
        }
    }
}
