//! Notifications for programs such as valgrind, which run others on an emulated processor.
//!
//! A notification is a sequence of instructions that change nothing on a real processor and that no compiler
//! generates.

/// The number of the request "this is a stack". A thread may switch to any address within, and it does not belong to
/// the stack the thread comes from. Without the request, a memory checker would treat the switch as allocating or
/// freeing everything between both stacks.
const STACK: usize = 0x1501;

/// Registers one of the tracer's stacks. Registering it twice is unnecessary but harmless.
pub fn register_stack(start: *mut u8, size: usize) {
    if !start.is_null() {
        request(&[STACK, start.addr(), start.addr() + size - 1, 0, 0, 0]);
    }
}

/// Makes a request: a number and its arguments. The response is ignored.
#[cfg(target_arch = "x86_64")]
fn request(request: &[usize; 6]) {
    // SAFETY: rdi is rotated by 128 bits in total, which restores it; a register is exchanged with itself. A checker
    // reads the six numbers and responds in rdx.
    unsafe {
        std::arch::asm!("rol rdi, 3", "rol rdi, 13", "rol rdi, 61", "rol rdi, 51", "xchg rbx, rbx",
            in("rax") request.as_ptr(), inout("rdx") 0usize => _, in("rdi") 0usize, options(nostack));
    }
}

/// Makes a request: a number and its arguments. The response is ignored.
#[cfg(target_arch = "aarch64")]
fn request(request: &[usize; 6]) {
    // SAFETY: x12 is rotated by 128 bits in total, which restores it; a register is copied to itself. A checker reads
    // the six numbers and responds in x3.
    unsafe {
        std::arch::asm!("ror x12, x12, #3", "ror x12, x12, #13", "ror x12, x12, #51", "ror x12, x12, #61",
            "orr x10, x10, x10", in("x4") request.as_ptr(), inout("x3") 0usize => _, in("x12") 0usize, options(nostack));
    }
}
