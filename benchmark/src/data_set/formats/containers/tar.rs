//! The part of the tar format that shards of samples use. Writes plain files with short names and sizes, optionally
//! each with a pax header. Reads other writers' files, including long names of both styles and large sizes.
//!
//! ```text
//! header 512   name 100 · mode 8 · user 8 · group 8 · size 12 · time 12 · checksum 8 · kind 1 · link 100 · "ustar" ... prefix 155
//! data         padded to 512                                                                    (for each member)
//! end          1,024 zeros, padded to 10,240
//! ```

pub const BLOCK: usize = 512;
/// Files are padded to this size, as in Python.
const RECORD: u64 = 10_240;

/// Returns the header of a plain file whose name has at most a hundred bytes.
pub fn header(name: &str, size: u64) -> [u8; BLOCK] {
    header_of(name, size, b'0')
}

fn header_of(name: &str, size: u64, kind: u8) -> [u8; BLOCK] {
    let mut header = [0; BLOCK];
    let mut put = |at: usize, text: &[u8]| header[at..at + text.len()].copy_from_slice(text);
    put(0, name.as_bytes());
    put(100, b"0000444\0");
    put(108, b"0000000\0");
    put(116, b"0000000\0");
    put(124, format!("{size:011o}\0").as_bytes());
    put(136, b"00000000000\0");
    put(156, &[kind]);
    put(257, b"ustar\x0000");
    put(265, b"bigdata");
    put(297, b"bigdata");
    let sum = checksum(&header);
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    header
}

/// Returns the pax blocks that precede a member's header; here they contain its fractional time.
pub fn pax() -> [u8; 2 * BLOCK] {
    const RECORD: &[u8] = b"15 mtime=0.000\n";
    let mut blocks = [0; 2 * BLOCK];
    blocks[..BLOCK].copy_from_slice(&header_of("././@PaxHeader", RECORD.len() as u64, b'x'));
    blocks[BLOCK..BLOCK + RECORD.len()].copy_from_slice(RECORD);
    blocks
}

/// Returns the sum of a header's bytes, with its own field read as blanks.
fn checksum(header: &[u8; BLOCK]) -> u32 {
    let blank = |at: usize| (148..156).contains(&at);
    header.iter().enumerate().map(|(at, byte)| u32::from(if blank(at) { b' ' } else { *byte })).sum()
}

/// Returns the space of a member's data in the file.
pub fn padded(size: u64) -> u64 {
    size.next_multiple_of(BLOCK as u64)
}

/// Returns the number of zeros after the last member, which ends at byte `at`.
pub fn end(at: u64) -> u64 {
    (at + 2 * BLOCK as u64).next_multiple_of(RECORD) - at
}

/// A parsed header.
#[derive(Debug, PartialEq, Eq)]
pub struct Header {
    pub name: String,
    pub size: u64,
    pub kind: u8,
}

impl Header {
    /// Returns `None` for the zeros at the end; an error explains why a block is not a header.
    pub fn parse(block: &[u8; BLOCK]) -> Result<Option<Header>, &'static str> {
        if block.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let sum = number(&block[148..156]).ok_or("this is not a tar header")?;
        if sum != u64::from(checksum(block)) {
            return Err("a header has a wrong checksum");
        }
        let size = number(&block[124..136]).ok_or("a header has no size")?;
        let (name, prefix) = (text(&block[..100]), text(&block[345..500]));
        let posix = &block[257..263] == b"ustar\0";
        let name = if posix && !prefix.is_empty() { format!("{prefix}/{name}") } else { name };
        Ok(Some(Header { name, size, kind: block[156] }))
    }

    pub fn is_file(&self) -> bool {
        matches!(self.kind, b'0' | 0 | b'7')
    }

    /// Returns `true` if its data describe the next member: a long name, or pax records.
    pub fn announces(&self) -> bool {
        matches!(self.kind, b'L' | b'x')
    }
}

fn text(field: &[u8]) -> String {
    let end = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
    String::from_utf8_lossy(&field[..end]).into_owned()
}

/// Parses octal digits between blanks and zeros, or, for larger numbers, bytes after a marker.
fn number(field: &[u8]) -> Option<u64> {
    if field[0] & 0x80 != 0 {
        let first = u64::from(field[0] & 0x7f);
        return field[1..]
            .iter()
            .try_fold(first, |number, byte| number.checked_mul(256)?.checked_add(u64::from(*byte)));
    }
    let digits = text(field);
    let digits = digits.trim();
    if digits.is_empty() { Some(0) } else { u64::from_str_radix(digits, 8).ok() }
}

/// The name and size announced for the next member.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Announced {
    pub name: Option<String>,
    pub size: Option<u64>,
}

impl Announced {
    /// Reads the data of an announcing header; returns `false` if they are invalid.
    pub fn take(&mut self, header: &Header, data: &[u8]) -> bool {
        if header.kind == b'L' {
            self.name = Some(text(data));
            return true;
        }
        let mut rest = data;
        while !rest.is_empty() {
            let Some(record) = next_record(&mut rest) else { return false };
            match record {
                ("path", value) => self.name = Some(value.to_string()),
                ("size", value) => self.size = value.parse().ok(),
                _ => {}
            }
        }
        true
    }
}

/// Reads `LENGTH KEY=VALUE\n`; the length includes itself.
fn next_record<'a>(rest: &mut &'a [u8]) -> Option<(&'a str, &'a str)> {
    let blank = rest.iter().position(|byte| *byte == b' ')?;
    let length: usize = std::str::from_utf8(&rest[..blank]).ok()?.parse().ok()?;
    let record = rest.get(blank + 1..length)?;
    *rest = &rest[length..];
    std::str::from_utf8(record.strip_suffix(b"\n")?).ok()?.split_once('=')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_as_it_was_written() {
        let parsed = Header::parse(&header("000001.jpg", 77)).unwrap().unwrap();
        assert_eq!(parsed, Header { name: "000001.jpg".into(), size: 77, kind: b'0' });
        assert_eq!(Header::parse(&[0; BLOCK]), Ok(None));
        let mut changed = header("a", 1);
        changed[3] = b'x';
        assert!(Header::parse(&changed).is_err() && Header::parse(&[b'q'; BLOCK]).is_err());
    }

    #[test]
    fn announced_name_and_size_apply() {
        let mut announced = Announced::default();
        let of = |kind| Header { name: String::new(), size: 0, kind };
        assert!(announced.take(&of(b'x'), b"30 mtime=1700000000.123456789\n11 size=70\n12 path=a/b\n"));
        assert_eq!((announced.name.as_deref(), announced.size), (Some("a/b"), Some(70)));
        assert!(announced.take(&of(b'L'), b"a/very/long/name\0"));
        assert_eq!(announced.name.as_deref(), Some("a/very/long/name"));
        assert!(!announced.take(&of(b'x'), b"99 path=cut\n") && !announced.take(&of(b'x'), b"noise"));
        let blocks = pax();
        assert!(Announced::default().take(&of(b'x'), &blocks[BLOCK..BLOCK + 15]));
    }

    #[test]
    fn sizes_beyond_octal_digits_are_read() {
        assert_eq!(number(b"\x80\0\0\0\0\0\0\x02\0\0\0\0"), Some(8 << 30));
        assert_eq!((number(b"00000000017\0"), number(b"      17 \0"), number(b"9\0")), (Some(15), Some(15), None));
    }

    #[test]
    fn tar_ends_with_two_empty_blocks_and_padding() {
        assert_eq!((end(0), end(10_240 - 1024), end(10_240 - 512)), (10_240, 1024, 10_240 + 512));
    }
}
