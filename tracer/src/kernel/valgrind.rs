//! What programs that run others on a processor of their own making, as valgrind does, have to be told.
//!
//! They are told by instructions that change nothing on a real processor and that no compiler makes.

/// The number of the request "this is a stack". Each address within is one that a thread may switch to, and that is no frame of
/// the stack it comes from: to a checker of memory it would be one that takes, or gives back, all that lies between both.
const STACK: usize = 0x1501;

/// Tells of a stack of ours. A second time is one too many and does no harm.
pub fn tell_of_stack(start: *mut u8, size: usize) {
    if !start.is_null() {
        request(&[STACK, start.addr(), start.addr() + size - 1, 0, 0, 0]);
    }
}

/// Makes a request, with its arguments behind its number. The answer is not asked for.
#[cfg(target_arch = "x86_64")]
fn request(request: &[usize; 6]) {
    // SAFETY: rdi goes round by 128 bits and is what it was; a register takes its own place. A checker reads the six numbers
    // and answers in rdx.
    unsafe {
        std::arch::asm!("rol rdi, 3", "rol rdi, 13", "rol rdi, 61", "rol rdi, 51", "xchg rbx, rbx",
            in("rax") request.as_ptr(), inout("rdx") 0usize => _, in("rdi") 0usize, options(nostack));
    }
}

/// As above.
#[cfg(target_arch = "aarch64")]
fn request(request: &[usize; 6]) {
    // SAFETY: x12 goes round by 128 bits and is what it was; a register takes its own place. A checker reads the six numbers
    // and answers in x3.
    unsafe {
        std::arch::asm!("ror x12, x12, #3", "ror x12, x12, #13", "ror x12, x12, #51", "ror x12, x12, #61",
            "orr x10, x10, x10", in("x4") request.as_ptr(), inout("x3") 0usize => _, in("x12") 0usize, options(nostack));
    }
}
