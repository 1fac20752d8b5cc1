//! The fields of the library's records, by their offsets. Offsets have been the same since version 0.5, because fields are only
//! appended. If a later version has moved fields, the record shows which layout it has.

use std::ffi::c_char;

use dlio_schemas::native::names::NameKind;

use crate::spans::gpu::{Category, Work};
use crate::spans::library_calls::Number;

/// Kinds of records, `rocprofiler_buffer_tracing_kind_t`.
pub const COPY: u32 = 10;
pub const DISPATCH: u32 = 11;
/// `ROCPROFILER_BUFFER_CATEGORY_TRACING`.
pub const TRACING: u32 = 1;

/// `ROCPROFILER_CALLBACK_TRACING_CODE_OBJECT`; the operation by which it reports a kernel of the code, and the phase in
/// which the code is loaded.
pub const CODE: u32 = 10;
const SYMBOL: u32 = 2;
const LOADED: u32 = 1;

/// `ROCPROFILER_AGENT_TYPE_GPU`.
const GPU: u32 = 2;
/// The size of an agent's description in version 0.5, the oldest one that is known.
pub const AGENT: usize = 296;

/// No field after this number of bytes is read.
pub const LONGEST: usize = 88;

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

fn half(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// A record of a buffer: the work, and what names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    pub work: Work,
    pub what: What,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// A kernel, by its number.
    Kernel(u64),
    /// A copy, by its direction, `rocprofiler_memory_copy_operation_t`.
    Copy(u32),
}

/// Returns the work of a record that `bytes` contains; `None` if it is of another kind or form. `device_of` returns the
/// number of the GPU for an agent's handle.
pub fn parse(bytes: &[u8], device_of: impl Fn(u64) -> Option<u32>) -> Option<Record> {
    let (start, end) = (word(bytes, 40)?, word(bytes, 48)?);
    let work = |category, device| Work { category, start, end, device, stream: None, bytes: None };
    match half(bytes, 8)? {
        DISPATCH => {
            // The description of the dispatch starts with its size. Its place tells that no field before it has grown.
            const SIZES: std::ops::RangeInclusive<u64> = 72..=128;
            word(bytes, 56).filter(|size| SIZES.contains(size))?;
            let queue = u32::try_from(word(bytes, 72)?).ok();
            let work = Work { stream: queue, ..work(Category::Kernel, device_of(word(bytes, 64)?)) };
            Some(Record { work, what: What::Kernel(word(bytes, 80)?) })
        }
        COPY => {
            let (to, from) = (word(bytes, 56)?, word(bytes, 64)?);
            let work = Work {
                bytes: Some(word(bytes, 72)?),
                ..work(Category::Copy, device_of(to).or_else(|| device_of(from)))
            };
            Some(Record { work, what: What::Copy(half(bytes, 12)?) })
        }
        _ => None,
    }
}

/// Returns the number of a copy's name, such as `Memcpy HtoD`.
pub fn copy_name(direction: u32) -> u32 {
    const NAMES: [&str; 5] = ["Memcpy Unknown", "Memcpy HtoH", "Memcpy HtoD", "Memcpy DtoH", "Memcpy DtoD"];
    static NUMBERS: [Number; 5] = [const { Number::new() }; 5];
    let at = if (direction as usize) < NAMES.len() { direction as usize } else { 0 };
    NUMBERS[at].get(NameKind::Span, NAMES[at])
}

/// Returns the address of the kernel's description if a callback reports that a kernel was loaded. Since version 1, the
/// fields follow one more word. Numbers of that word are below 2^32, so the operation of the older form would be zero.
pub fn loaded_kernel(record: &[u64; 8]) -> Option<*const Kernel> {
    let halves = |at: usize| [record[at] as u32, (record[at] >> 32) as u32];
    let is_loaded = |at: usize| halves(at) == [CODE, SYMBOL] && halves(at + 1)[0] == LOADED;
    let payload = [4, 5].into_iter().find(|at| is_loaded(*at)).map(|at| record[at + 2])?;
    (payload != 0).then(|| std::ptr::with_exposed_provenance(payload as usize))
}

/// The first fields of a kernel's description.
#[repr(C)]
pub struct Kernel {
    pub size: u64,
    pub number: u64,
    _code: u64,
    pub name: *const c_char,
}

/// Returns the handle and the number of an agent that is a GPU.
pub fn gpu(agent: &[u8; AGENT]) -> Option<(u64, u32)> {
    let is_gpu = half(agent, 16) == Some(GPU);
    Some((word(agent, 8)?, half(agent, 288)?)).filter(|_| is_gpu)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(length: usize, halves: &[(usize, u32)], words: &[(usize, u64)]) -> Vec<u8> {
        let mut record = vec![0xee; length];
        halves.iter().for_each(|(at, value)| record[*at..at + 4].copy_from_slice(&value.to_ne_bytes()));
        words.iter().for_each(|(at, value)| record[*at..at + 8].copy_from_slice(&value.to_ne_bytes()));
        record
    }

    #[test]
    fn records_are_parsed_and_truncated_or_unknown_ones_are_not() {
        let device_of = |agent: u64| (agent >= 100).then(|| agent as u32 - 100);
        let kernel = record(184, &[(8, DISPATCH)], &[(40, 5), (48, 9), (56, 72), (64, 103), (72, 7), (80, 41)]);
        let work = Work { category: Category::Kernel, start: 5, end: 9, device: Some(3), stream: Some(7), bytes: None };
        assert_eq!(parse(&kernel, device_of), Some(Record { work, what: What::Kernel(41) }));
        (0..88).for_each(|length| assert_eq!(parse(&kernel[..length], device_of), None, "cut at {length}"));
        let moved = record(192, &[(8, DISPATCH)], &[(56, 5103), (64, 72)]);
        assert_eq!(parse(&moved, device_of), None, "fields before the description have grown");
        for (to, from, device) in [(101, 1, Some(1)), (1, 102, Some(2)), (1, 2, None)] {
            let copy = record(80, &[(8, COPY), (12, 2)], &[(40, 5), (48, 9), (56, to), (64, from), (72, 4096)]);
            let work = Work { category: Category::Copy, device, stream: None, bytes: Some(4096), ..work };
            assert_eq!(parse(&copy, device_of), Some(Record { work, what: What::Copy(2) }));
            (0..80).for_each(|length| assert_eq!(parse(&copy[..length], device_of), None, "cut at {length}"));
        }
        assert_eq!(parse(&record(184, &[(8, 12)], &[]), device_of), None);
    }

    #[test]
    fn loaded_kernels_are_found_in_both_forms() {
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let old = [1, 2, 3, 4, pair(CODE, SYMBOL), pair(LOADED, 0xeeee), 64, 0xeeee];
        let new = [1, 2, 3, 4, 10, pair(CODE, SYMBOL), pair(LOADED, 0xeeee), 64];
        for record in [old, new] {
            assert_eq!(loaded_kernel(&record).map(|kernel| kernel.addr()), Some(64));
        }
        let unloaded = [1, 2, 3, 4, pair(CODE, SYMBOL), pair(2, 0), 64, 0];
        let other = [1, 2, 3, 4, pair(CODE, 1), pair(LOADED, 0), 64, 0];
        let empty = [1, 2, 3, 4, pair(CODE, SYMBOL), pair(LOADED, 0), 0, 0];
        assert!([unloaded, other, empty].iter().all(|record| loaded_kernel(record).is_none()));
    }

    #[test]
    fn processors_are_no_gpus() {
        let agent = |kind| record(AGENT, &[(16, kind), (288, 3)], &[(8, 77)]);
        let gpu_of = |kind| gpu(&agent(kind).try_into().unwrap());
        assert_eq!((gpu_of(GPU), gpu_of(1)), (Some((77, 3)), None));
    }
}
