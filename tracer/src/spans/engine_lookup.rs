//! The choice of a process's engine, if there are several.
//!
//! Every program and library that links this crate contains an engine. The preloaded one has priority, because its
//! table is exported. If nothing is preloaded, a Python module and a Rust library in one process must still share an
//! engine. So each engine contains an ELF note, which the loader maps and lists, and all of them choose the first
//! engine in the loader's list.
//!
//! ```text
//!  .note.dlio   | 5 | 8 | version of the table | "dlio\0" + 3 | distance from here to the pointer |
//!  .data.rel.ro | pointer to the table |
//! ```

use std::ffi::{c_int, c_void};
use std::mem::offset_of;
use std::sync::atomic::{AtomicPtr, Ordering::*};

use crate::spans::own::OWN;
use crate::spans::table::{SYMBOL, Table, VERSION};

const NAME: &[u8; 8] = b"dlio\0\0\0\0";
/// Offset of the distance, after three numbers and the name.
const DISTANCE_AT: usize = 20;
const NOTE_SIZE: usize = DISTANCE_AT + 8;

std::arch::global_asm!(
    ".pushsection .data.rel.ro.dlio_engine,\"aw\",@progbits",
    ".balign 8",
    ".Ldlio_engine:",
    ".quad {table}",
    ".popsection",
    ".pushsection .note.dlio,\"a\",@note",
    ".balign 4",
    ".long 5",
    ".long 8",
    ".long {version}",
    ".asciz \"dlio\"",
    ".balign 4",
    ".quad .Ldlio_engine - .",
    ".popsection",
    table = sym OWN,
    version = const VERSION,
);

static FOUND: AtomicPtr<Table> = AtomicPtr::new(std::ptr::null_mut());

/// Returns the engine of this process.
#[inline(always)]
pub fn get() -> &'static Table {
    let found = FOUND.load(Acquire);
    // SAFETY: tables are statics.
    if found.is_null() { find() } else { unsafe { &*found } }
}

#[cold]
fn find() -> &'static Table {
    // SAFETY: a terminated name; the symbol exported under it is a function of this signature.
    let exported = unsafe {
        let address = libc::dlsym(libc::RTLD_DEFAULT, SYMBOL.as_ptr());
        std::mem::transmute::<*mut c_void, Option<extern "C" fn() -> *const Table>>(address)
    };
    let table = exported.map_or_else(first, |table| table());
    // SAFETY: a table is a static of the program or library it comes from.
    let table = unsafe { table.as_ref() }.filter(|table| table.version == VERSION).unwrap_or(&OWN);
    if table.size as usize >= offset_of!(Table, start) + size_of::<usize>() {
        (table.start)();
    }
    FOUND.store(std::ptr::from_ref(table).cast_mut(), Release);
    table
}

/// Returns the table of the first engine in the loader's list; null if there is none, as in a program without a
/// loader.
fn first() -> *const Table {
    let mut found: *const Table = std::ptr::null();
    // SAFETY: the callback gets the pointer passed here, and no object is unloaded during the walk.
    unsafe { libc::dl_iterate_phdr(Some(visit_object), (&raw mut found).cast()) };
    found
}

/// Inspects one object; any result but zero ends the walk.
///
/// # Safety
/// The loader calls it with a mapped object and a pointer to the result.
unsafe extern "C" fn visit_object(object: *mut libc::dl_phdr_info, _: usize, found: *mut c_void) -> c_int {
    // SAFETY: the loader describes an object that is mapped; its segments of notes are readable.
    unsafe {
        let headers = std::slice::from_raw_parts((*object).dlpi_phdr, (*object).dlpi_phnum as usize);
        for notes in headers.iter().filter(|header| header.p_type == libc::PT_NOTE && is_mapped(header, headers)) {
            let start = ((*object).dlpi_addr + notes.p_vaddr) as *const u8;
            if let Some(table) = note_in(std::slice::from_raw_parts(start, notes.p_memsz as usize)) {
                found.cast::<*const Table>().write(table);
                return 1;
            }
        }
    }
    0
}

/// Returns `true` if a segment is part of one that was loaded: a file may describe notes that are not loaded.
fn is_mapped(part: &libc::Elf64_Phdr, segments: &[libc::Elf64_Phdr]) -> bool {
    segments
        .iter()
        .filter(|segment| segment.p_type == libc::PT_LOAD)
        .any(|loaded| part.p_vaddr >= loaded.p_vaddr && part.p_vaddr + part.p_memsz <= loaded.p_vaddr + loaded.p_memsz)
}

/// Returns the table that a segment's notes point to.
///
/// # Safety
/// The notes are those of a loaded object, at their loaded address.
unsafe fn note_in(mut notes: &[u8]) -> Option<*const Table> {
    while let Some(numbers) = notes.first_chunk::<12>() {
        let number = |at: usize| u32::from_ne_bytes(numbers[at..at + 4].try_into().expect("four bytes")) as usize;
        let (name, content) = (number(0).next_multiple_of(4), number(4).next_multiple_of(4));
        if name == NAME.len() && number(8) == VERSION as usize && notes.len() >= NOTE_SIZE && &notes[12..20] == NAME {
            let distance = isize::from_ne_bytes(notes[DISTANCE_AT..NOTE_SIZE].try_into().expect("eight bytes"));
            // SAFETY: a note of this name and version was made by this crate: see the drawing.
            return Some(unsafe { notes.as_ptr().add(DISTANCE_AT).offset(distance).cast::<*const Table>().read() });
        }
        notes = notes.get(12 + name + content..)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_with_a_linked_engine_finds_it() {
        assert!(std::ptr::eq(first(), &OWN));
    }

    #[test]
    fn foreign_and_truncated_notes_are_skipped() {
        let build_id = [4u32.to_ne_bytes(), 4u32.to_ne_bytes(), 3u32.to_ne_bytes(), *b"GNU\0", [1; 4]].concat();
        // SAFETY: none of these notes was made by this crate.
        unsafe {
            assert!(note_in(&build_id).is_none());
            assert!(note_in(&build_id[..10]).is_none());
            assert!(note_in(&[0xff; 40]).is_none());
            assert!(note_in(&[0; 40]).is_none());
        }
    }
}
