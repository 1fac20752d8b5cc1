//! The protection of pages that belong to a loaded object.

use crate::kernel::sys;

/// Addresses from the start of a page to the start of another.
pub type Pages = std::ops::Range<usize>;

/// Returns the pages from the one that contains `start` to the last one before `end`, as the loader rounds them.
pub fn whole_pages(start: usize, end: usize) -> Pages {
    start & !(sys::PAGE - 1)..end & !(sys::PAGE - 1)
}

/// Makes pages of an object's data readable, or writable as well. errno stays as it is.
pub fn protect(pages: &Pages, is_writable: bool) -> bool {
    let protection = libc::PROT_READ | if is_writable { libc::PROT_WRITE } else { 0 };
    // SAFETY: the data of an object is never executed, and remains readable.
    unsafe { sys::call(libc::SYS_mprotect, [pages.start, pages.len(), protection as usize, 0, 0, 0]) == 0 }
}

/// Returns `true` if the kernel lists these pages as read-only.
pub fn are_read_only(pages: &Pages) -> bool {
    let fd = sys::open(c"/proc/self/maps", libc::O_RDONLY) as i32;
    if fd < 0 {
        return false;
    }
    let mut buffer = [0u8; 2048];
    let (mut kept, mut is_found) = (0, false);
    loop {
        let read = sys::read(fd, &mut buffer[kept..]).len();
        let used = kept + read;
        let end = buffer[..used].iter().rposition(|&byte| byte == b'\n').map_or(used, |at| at + 1);
        is_found |= buffer[..end].split(|&byte| byte == b'\n').any(|line| covers_read_only(line, pages));
        if read == 0 || is_found {
            break;
        }
        buffer.copy_within(end..used, 0);
        kept = used - end;
    }
    sys::close(fd);
    is_found
}

/// Returns `true` for a line such as `7f0012345000-7f0012346000 r--p ...` that covers the pages.
fn covers_read_only(line: &[u8], pages: &Pages) -> bool {
    let Ok(line) = str::from_utf8(line) else { return false };
    let mut words = line.split(' ');
    let range = words.next().and_then(|range| range.split_once('-'));
    let number = |text| usize::from_str_radix(text, 16).ok();
    let Some((start, end)) = range.and_then(|(start, end)| Some((number(start)?, number(end)?))) else { return false };
    start <= pages.start && pages.end <= end && words.next() == Some("r--p")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_read_only_after_they_were_protected() {
        let memory = sys::map_memory(4 * sys::PAGE);
        let pages = whole_pages(memory.addr() + sys::PAGE + 8, memory.addr() + 3 * sys::PAGE + 8);
        assert_eq!(pages, memory.addr() + sys::PAGE..memory.addr() + 3 * sys::PAGE);
        assert!(!are_read_only(&pages));
        assert!(protect(&pages, false) && are_read_only(&pages));
        assert!(!are_read_only(&(pages.start..pages.end + sys::PAGE)));
        assert!(protect(&pages, true) && !are_read_only(&pages));
        sys::unmap(memory, 4 * sys::PAGE);
    }

    #[test]
    fn only_a_read_only_line_that_covers_all_pages_matches() {
        let pages = 0x2000..0x4000;
        for (line, is_covered) in [
            ("2000-4000 r--p 00000000 08:01 7 /lib/a.so", true),
            ("1000-5000 r--p 00000000 08:01 7 /lib/a.so", true),
            ("2000-4000 rw-p 00000000 08:01 7 /lib/a.so", false),
            ("2000-3000 r--p 00000000 08:01 7 /lib/a.so", false),
            ("", false),
        ] {
            assert_eq!(covers_read_only(line.as_bytes(), &pages), is_covered, "{line}");
        }
    }
}
