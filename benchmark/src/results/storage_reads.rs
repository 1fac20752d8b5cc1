//! Bytes that were read from storage for a rank, as the kernel counts them. The other bytes that the rank's reads returned came
//! from memory.

use dlio_schemas::control_groups::line;

use crate::system::file_calls::kernel_text;

/// Returns the bytes that storage has read so far for this process, its worker processes and their ended children.
/// `None` if the kernel does not count them or a worker is gone.
pub fn so_far(workers: &[libc::pid_t]) -> Option<u64> {
    let of = |process: &str| {
        let text = kernel_text(format!("/proc/{process}/io")).ok()?;
        line(text.as_bytes(), b"read_bytes")
    };
    workers.iter().try_fold(of("self")?, |sum, worker| Some(sum + of(&worker.to_string())?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_process_is_unknown() {
        // No process has this id: the kernel's limit is 2^22.
        assert_eq!(so_far(&[1 << 23]), None);
        // Without /proc/self/io, nothing is known.
        assert_eq!(so_far(&[]).is_some(), std::path::Path::new("/proc/self/io").exists());
    }
}
