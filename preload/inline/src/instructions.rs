//! Redirects system calls that programs make by their own instructions:
//!
//! ```text
//! mov eax, NUMBER             jmp stub                    stub:  ...
//! ...                  ->     ...                                call handler
//! syscall                     syscall                            jmp next
//! next                        next
//! ```
//!
//! Only the five bytes of the `mov` are replaced, so a jump to any other instruction does what it did. Between the two
//! instructions, only those are accepted that move registers or constants, which work at any address; other places
//! are left unchanged.

use std::ffi::{CStr, c_int, c_void};

const PAGE: usize = 4096;
/// `mov eax, constant` and `syscall`.
const MOV_EAX: u8 = 0xb8;
const SYSCALL: [u8; 2] = [0x0f, 0x05];
/// Maximum distance of the two.
const BETWEEN: usize = 24;
const STUB: usize = 96;
/// More places than any object has.
const PLACES: usize = 64;
/// A jump reaches addresses within this distance.
const REACH: usize = 0x7000_0000;

/// A function that stands in for the instruction.
struct Wanted {
    number: u32,
    handler: usize,
    redirected: usize,
}

/// Redirects all places in loaded objects that make the kernel's call with this number, and returns how many.
///
/// # Safety
/// `handler` takes the registers of a system call and changes only those that the kernel changes. No other thread runs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlio_redirect_instructions_v1(number: u32, handler: *const c_void) -> usize {
    if !std::arch::is_x86_feature_detected!("xsave") {
        return 0;
    }
    let mut wanted = Wanted { number, handler: handler.addr(), redirected: 0 };
    // SAFETY: the callback gets this pointer.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut wanted).cast()) };
    wanted.redirected
}

/// # Safety
/// As the loader calls it.
unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _size: usize, wanted: *mut c_void) -> c_int {
    // SAFETY: the loader passes a description of an object, and the pointer given above.
    let (info, wanted) = unsafe { (&*info, &mut *wanted.cast::<Wanted>()) };
    // SAFETY: a terminated name, or null.
    let name = if info.dlpi_name.is_null() { c"" } else { unsafe { CStr::from_ptr(info.dlpi_name) } };
    // SAFETY: the loader's table of this object.
    let segments = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum as usize) };
    let loaded = segments.iter().filter(|segment| segment.p_type == libc::PT_LOAD);
    let range = |segment: &libc::Elf64_Phdr| (info.dlpi_addr + segment.p_vaddr, segment.p_memsz);
    let has = |address: usize| {
        loaded.clone().map(range).any(|(start, size)| (start..start + size).contains(&(address as u64)))
    };
    if is_hooked(name.to_bytes()) || has(wanted.handler) || has(visit as *const () as usize) {
        return 0;
    }
    let start = loaded.clone().map(|segment| range(segment).0).min().unwrap_or(0) as usize;
    for segment in loaded.clone().filter(|segment| segment.p_flags & libc::PF_X != 0) {
        let from = (info.dlpi_addr + segment.p_vaddr) as usize;
        if segment.p_flags & libc::PF_R != 0 {
            // SAFETY: segments stay mapped, and this one can be read.
            let code = unsafe { std::slice::from_raw_parts(from as *const u8, segment.p_filesz as usize) };
            // SAFETY: it is code of this object.
            unsafe { redirect(code, start, wanted) };
        }
    }
    0
}

/// Returns `true` for libraries whose functions are hooked, and for the kernel's and the loader's own.
fn is_hooked(name: &[u8]) -> bool {
    let file = name.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    [&b"libc.so"[..], b"libc-", b"ld-", b"linux-vdso", b"libpthread", b"liburing.so"]
        .iter()
        .any(|start| file.starts_with(start))
}

/// A place: the address of the `mov`, and the instructions between.
#[derive(Clone, Copy)]
struct Place {
    at: usize,
    between: usize,
}

/// # Safety
/// `code` is the code of an object that starts at `start`.
unsafe fn redirect(code: &[u8], start: usize, wanted: &mut Wanted) {
    let mut places = [Place { at: 0, between: 0 }; PLACES];
    let mut found = 0;
    let mut from = 0;
    while let Some(place) = next_place(code, from, wanted.number).filter(|_| found < PLACES) {
        places[found] = place;
        (found, from) = (found + 1, place.at + 5);
    }
    if found == 0 {
        return;
    }
    let Some(stubs) = memory_near(start, code.as_ptr() as usize + code.len(), found * STUB) else { return };
    for (at, place) in places[..found].iter().enumerate() {
        // SAFETY: the memory has space for all stubs.
        unsafe { write_stub(stubs + at * STUB, code, *place, wanted) };
    }
    let size = (found * STUB).next_multiple_of(PAGE);
    // SAFETY: our own mapping.
    if unsafe { libc::mprotect(stubs as *mut c_void, size, libc::PROT_READ | libc::PROT_EXEC) } != 0 {
        return;
    }
    for (at, place) in places[..found].iter().enumerate() {
        // SAFETY: by the contract of this module, no other thread runs this code.
        wanted.redirected += unsafe { write_jump(code.as_ptr() as usize + place.at, stubs + at * STUB) } as usize;
    }
}

/// Returns the next place at or after an offset.
fn next_place(code: &[u8], from: usize, number: u32) -> Option<Place> {
    let bytes = number.to_le_bytes();
    let mut at = from;
    while let Some(next) = code.get(at + 1..).and_then(|rest| rest.iter().position(|byte| *byte == bytes[0])) {
        at += next + 1;
        let begin = at - 1;
        let is_mov = code[begin] == MOV_EAX && code.get(at..at + 4) == Some(&bytes[..]);
        // A prefix makes it another register.
        let is_prefixed = begin > 0 && code[begin - 1] & 0xf0 == 0x40;
        if is_mov
            && !is_prefixed
            && begin >= from
            && let Some(between) = between(&code[begin + 5..])
        {
            return Some(Place { at: begin, between });
        }
    }
    None
}

/// Returns the length of the instructions before a `syscall`, if all of them move registers or constants and leave the
/// number alone.
fn between(code: &[u8]) -> Option<usize> {
    let mut at = 0;
    while at <= BETWEEN {
        let rest = code.get(at..)?;
        if rest.starts_with(&SYSCALL) {
            return Some(at);
        }
        at += movable(rest)?;
    }
    None
}

/// Returns the length of an instruction that can be moved.
fn movable(code: &[u8]) -> Option<usize> {
    let (prefix, code) = match code.first()? {
        prefix @ 0x40..=0x4f => (*prefix, &code[1..]),
        _ => (0, code),
    };
    let length = (prefix != 0) as usize;
    let (opcode, second) = (*code.first()?, *code.get(1)?);
    let is_of_registers = second >> 6 == 3;
    // The number of the register that is written: the lower or the middle bits.
    let written = match opcode {
        0x89 | 0x31 if is_of_registers => second & 7 | (prefix & 1) << 3,
        0x8b | 0x33 if is_of_registers => second >> 3 & 7 | (prefix & 4) << 1,
        0xb8..=0xbf if prefix & 8 == 0 => opcode & 7 | (prefix & 1) << 3,
        _ => return None,
    };
    let size = if opcode >= 0xb8 { 5 } else { 2 };
    (written != 0 && code.len() >= size).then_some(length + size)
}

/// Reserves memory that a jump from anywhere in an object reaches.
fn memory_near(start: usize, end: usize, size: usize) -> Option<usize> {
    const STEP: usize = 1 << 16;
    const NO_REPLACE: c_int = 0x10_0000;
    let size = size.next_multiple_of(PAGE);
    let before = (1..4096).filter_map(|step| (start & !(STEP - 1)).checked_sub(step * STEP));
    let after = (1..4096).map(|step| (end & !(STEP - 1)) + step * STEP);
    before.chain(after).find_map(|address| {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | NO_REPLACE;
        // SAFETY: does not replace a mapping; older kernels treat the address as a hint.
        let mapped =
            unsafe { libc::mmap(address as *mut c_void, size, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
        if mapped == libc::MAP_FAILED {
            return None;
        }
        let is_near = (mapped as usize).abs_diff(start).max((mapped as usize).abs_diff(end)) < REACH;
        if !is_near {
            // SAFETY: just mapped.
            unsafe { libc::munmap(mapped, size) };
        }
        is_near.then_some(mapped as usize)
    })
}

/// # Safety
/// There are [`STUB`] bytes at `stub`.
unsafe fn write_stub(stub: usize, code: &[u8], place: Place, wanted: &Wanted) {
    let next = code.as_ptr() as usize + place.at + 5 + place.between + SYSCALL.len();
    let mut bytes = [0x90u8; STUB];
    let mut used = 0;
    let mut put = |part: &[u8]| {
        bytes[used..used + part.len()].copy_from_slice(part);
        used += part.len();
    };
    put(&code[place.at + 5..place.at + 5 + place.between]);
    // lea rsp, [rsp - 128]: the program may use the bytes below.
    put(&[0x48, 0x8d, 0x64, 0x24, 0x80]);
    // mov rax, handler; call rax
    put(&[0x48, 0xb8]);
    put(&wanted.handler.to_le_bytes());
    put(&[0xff, 0xd0]);
    // lea rsp, [rsp + 128]
    put(&[0x48, 0x8d, 0xa4, 0x24, 0x80, 0, 0, 0]);
    // jmp [rip]; next
    put(&[0xff, 0x25, 0, 0, 0, 0]);
    put(&next.to_le_bytes());
    // SAFETY: by the contract above.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), stub as *mut u8, STUB) };
}

/// Replaces five bytes of code by a jump. Returns `false` if the code cannot be written.
///
/// # Safety
/// No other thread runs this code.
unsafe fn write_jump(at: usize, stub: usize) -> bool {
    let first = at & !(PAGE - 1);
    let size = (at + 5 - first).next_multiple_of(PAGE);
    let distance = (stub as i64 - (at as i64 + 5)) as i32;
    // SAFETY: the pages are code of the program, and stay it.
    unsafe {
        if libc::mprotect(first as *mut c_void, size, libc::PROT_READ | libc::PROT_WRITE) != 0 {
            return false;
        }
        let mut jump = [0xe9, 0, 0, 0, 0];
        jump[1..].copy_from_slice(&distance.to_le_bytes());
        std::ptr::copy_nonoverlapping(jump.as_ptr(), at as *mut u8, 5);
        libc::mprotect(first as *mut c_void, size, libc::PROT_READ | libc::PROT_EXEC);
    }
    true
}
