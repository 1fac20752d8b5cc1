//! The end of a process image: its native trace is converted to the requested format, immediately or after the
//! command run by `dlio trace` has ended.
//!
//! The new file is written under a temporary name and renamed, and only then is the native one removed, so at least
//! one of them always exists. If anything fails, the native file remains and contains a note. Memory is reserved
//! first, because the compression libraries do not survive a failed allocation.

use std::ffi::CStr;
use std::io;

use dlio_schemas::decimal::decimal;
use dlio_schemas::export::export;
use dlio_schemas::native::file::Image;
use dlio_schemas::native::ring::Ring;
use dlio_schemas::{chrome, perfetto};

use crate::kernel::memory::Reserve;
use crate::kernel::path_buffer::PathBuffer;
use crate::kernel::sys;
use crate::life::shutdown;
use crate::life::shutdown::ClosedImage;
use crate::process::config::{self, AUTO_EVENTS_MAX, Format};
use crate::thread::{chunk, stack};
use crate::trace::files::{dlt_path, ring_path};
use crate::trace::{blocks, header_page, ring_file, sigbus, trace_dirs, write_errors};

/// Memory needed for a conversion: mostly buffers of the libraries and of a block, and the data kept per name and
/// thread. Measured: 2.3 MB, for any number of events.
const CONVERTING: usize = 6 << 20;
const CONVERTING_NAME: usize = 384;
const CONVERTING_THREAD: usize = 16 << 10;

/// Represents a status that the C library does not report. A reported status has eight bits, or is the value that a
/// program passed.
const UNKNOWN_STATUS: i32 = i32::MIN;

/// The way an image ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    Exit(i32),
    Exec,
    /// The process is about to end without a notification, and one of its children continues.
    Detach,
}

/// Returns `true` if there is anything to write or report: most short-lived processes make no event.
pub fn is_needed() -> bool {
    !header_page::page().is_null() || header_page::lost_early() > 0
}

/// Closes the image and converts it.
pub fn finish(ending: Ending) {
    let mut text = *b"exit    ";
    let ended = match ending {
        Ending::Exec => b"exec",
        Ending::Detach => b"exit 0".as_slice(),
        Ending::Exit(UNKNOWN_STATUS) => b"exit".as_slice(),
        Ending::Exit(status) => {
            let mut digits = [0; 20];
            let number = decimal(status as i64 & 0xff, &mut digits);
            text[5..5 + number.len()].copy_from_slice(number);
            &text[..5 + number.len()]
        }
    };
    let config = config::get();
    let Some(closed) = shutdown::close(ended, config.format != Format::Native) else {
        if ring_file::is_cut() {
            sys::say(&[
                b"the file ",
                ring_path().to_bytes(),
                b" was truncated by another process; its events are lost",
            ]);
        }
        return report_no_image();
    };
    report_losses(&closed);
    let is_asked_for = config.format != Format::Native && config.converter.is_none();
    if closed.written && is_asked_for && !blocks::has_counted() && blocks::may_be_exported() {
        let few = blocks::events() <= AUTO_EVENTS_MAX;
        stack::on_large_stack(|| match config.format {
            Format::Perfetto => convert(&closed, b".pftrace", to_perfetto),
            Format::Auto if few => convert(&closed, b".pftrace", to_perfetto),
            Format::Chrome => convert(&closed, b".json.gz", to_chrome),
            Format::Auto | Format::Native => {}
        });
    }
}

/// A function that writes a whole image in another format.
type Conversion = fn(&Image, &[u8], &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()>;

fn to_perfetto(image: &Image, bytes: &[u8], sink: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
    let writer = perfetto::write::Writer::new(sink, &Default::default())?;
    whole(export(image, bytes, Box::new(writer))?.damaged)
}

pub(crate) fn whole(damaged: u64) -> io::Result<()> {
    if damaged == 0 { Ok(()) } else { Err(io::ErrorKind::InvalidData.into()) }
}

fn to_chrome(image: &Image, bytes: &[u8], sink: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
    let options = chrome::Options { gzip: true, ..Default::default() };
    whole(export(image, bytes, Box::new(chrome::Writer::new(sink, &options)))?.damaged)
}

/// Replaces the native file with a converted one, if it can be written completely.
fn convert(closed: &ClosedImage, ending: &[u8], conversion: Conversion) {
    let name = closed.path.to_bytes();
    let stem = name.iter().rposition(|&byte| byte == b'.').map_or(name, |dot| &name[..dot]);
    let (mut part, mut whole, mut digits) = (PathBuffer::new(), PathBuffer::new(), [0; 20]);
    whole.push(stem).push(ending);
    part.push(stem).push(ending).push(b".").push(decimal((sys::random() >> 1) as i64, &mut digits)).push(b".part");
    let room = CONVERTING + chunk::names_assigned() * CONVERTING_NAME + ring_file::threads() * CONVERTING_THREAD;
    let Some(_reserve) = Reserve::of(room) else { return };
    let mapped = shutdown::whole_ring(closed);
    let Some(bytes) = mapped.or_else(|| read(closed.path)) else { return };
    let image = match closed.is_ring {
        true => Ring::parse(bytes).map(|ring| Image::from_ring(&ring)),
        false => Image::from_dlt(bytes),
    };
    // A damaged file is not converted: a reader can report its gaps, and another format cannot.
    let whole_in = image.ok().filter(|image| image.damage.is_empty());
    let written = whole_in.is_some_and(|image| write(part.as_c_str(), |sink| conversion(&image, bytes, sink)));
    if written && trace_dirs::rename(part.as_c_str(), whole.as_c_str()) == 0 {
        trace_dirs::unlink(closed.path);
    } else {
        trace_dirs::unlink(part.as_c_str());
    }
    if mapped.is_none() {
        sigbus::release(bytes.as_ptr());
        sys::unmap(bytes.as_ptr().cast_mut(), bytes.len());
    }
}

fn read(path: &CStr) -> Option<&'static [u8]> {
    let fd = trace_dirs::open(path, libc::O_RDONLY) as i32;
    let length = sys::size(fd).max(0) as usize;
    let mapped = if length > 0 { sys::map_to_read(fd, length) } else { std::ptr::null() };
    sys::close(fd);
    sigbus::guard_reading(mapped.cast_mut(), length);
    // SAFETY: the file belongs to this image and is complete: it is not changed while it is mapped, and truncation
    // leaves zeros.
    (!mapped.is_null()).then(|| unsafe { std::slice::from_raw_parts(mapped, length) })
}

/// Runs `content` with a sink that appends to a new file.
pub(crate) fn write(
    path: &CStr,
    content: impl FnOnce(&mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()>,
) -> bool {
    let fd = trace_dirs::open(path, libc::O_WRONLY | libc::O_CREAT) as i32;
    if fd < 0 {
        return false;
    }
    let mut sink = |bytes: &[u8]| match sys::write_all(fd, bytes) {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(-error as i32)),
    };
    let written = sys::without_signal(libc::SIGXFSZ, || content(&mut sink).is_ok());
    sys::close(fd);
    written
}

/// Prints the losses and their reasons once.
fn report_losses(closed: &ClosedImage) {
    if closed.lost == 0 {
        if !closed.written && closed.is_ring && config::get().has_spool() {
            report_stranded(closed);
        }
        return;
    }
    let (mut lost, mut errno) = ([0; 20], [0; 20]);
    let count = decimal(closed.lost as i64, &mut lost);
    // Under a seccomp filter that forbids checking, a mapped file is assumed to exist.
    let is_mapped = closed.is_ring && blocks::is_forbidden();
    let (is, path): (&[u8], &[u8]) = match is_mapped || trace_dirs::exists(closed.path) {
        true => (b"); the trace is ", closed.path.to_bytes()),
        false => (b"); this process has no trace", b""),
    };
    let mut digits = [0; 20];
    let [colon, file, of, owner] = planted(closed.trouble, &mut digits);
    sys::say(&[
        count,
        b" events were lost (",
        write_errors::reason(closed.trouble, &mut errno),
        colon,
        file,
        of,
        owner,
        is,
        path,
    ]);
}

/// Returns the owner and the name of the file that occupies our file's name.
fn planted(errno: i32, digits: &mut [u8; 20]) -> [&[u8]; 4] {
    let found =
        [libc::EEXIST, libc::ELOOP, libc::ESTALE].contains(&errno).then(|| sys::status_at(dlt_path())).flatten();
    match found {
        Some(found) => [b": ", dlt_path().to_bytes(), b", owned by user ", decimal(found.owner as i64, digits)],
        None => [b""; 4],
    }
}

/// Reports a trace that is complete but not in its directory.
fn report_stranded(closed: &ClosedImage) {
    let mut errno = [0; 20];
    let reason = write_errors::reason(closed.trouble, &mut errno);
    sys::say(&[
        b"cannot write the trace (",
        reason,
        b"); the recorded events are in ",
        closed.path.to_bytes(),
        b"; the next traced program moves them to the trace directory when it has space",
    ]);
}

/// Reports that no image could be created; there is no other record of it.
fn report_no_image() {
    let mut lost = [0; 20];
    if header_page::page().is_null() && !write_errors::is_reported() && header_page::lost_early() > 0 {
        let count = decimal(header_page::lost_early() as i64, &mut lost);
        sys::say(&[count, b" events were lost (no memory for a ring); this process has no trace"]);
    }
}
