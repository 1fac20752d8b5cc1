//! The frame of a zip archive, as far as viewers need it: members in order, then a list of them.

/// A member whose bytes have been written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub name: String,
    /// `true` if the bytes are a deflate stream, `false` if they are stored as they are.
    pub deflated: bool,
    pub crc: u32,
    /// Length of the stored bytes, and of the contents.
    pub stored: u64,
    pub raw: u64,
    /// Offset of the member in the archive.
    pub at: u64,
}

/// Larger archives need an extension of the format, which few readers of traces support.
pub const SIZE_MAX: u64 = u32::MAX as u64 - (1 << 20);

const LOCAL: [u8; 4] = *b"PK\x03\x04";
const CENTRAL: [u8; 4] = *b"PK\x01\x02";
const END: [u8; 4] = *b"PK\x05\x06";
/// Version 2.0 of the format.
const VERSION: u16 = 20;
/// Names are UTF-8.
const UTF8: u16 = 1 << 11;
/// January 1, 1980: equal traces make equal archives.
const DATE: u32 = 0x21 << 16;

/// Returns the bytes before those of a member. Their number does not depend on the lengths, so that they can be written
/// again when those are known.
pub fn member_head(member: &Member) -> Vec<u8> {
    let mut head = LOCAL.to_vec();
    put_common(&mut head, member);
    head.extend([0, 0]);
    head.extend(member.name.as_bytes());
    head
}

/// Returns the end of an archive of `size` bytes: the list of its members.
pub fn end(members: &[Member], size: u64) -> Vec<u8> {
    let mut out = Vec::new();
    for member in members {
        out.extend(CENTRAL);
        out.extend(VERSION.to_le_bytes());
        put_common(&mut out, member);
        // No extra field, comment, further disk, or attributes.
        out.extend([0; 14 - 2]);
        out.extend((member.at as u32).to_le_bytes());
        out.extend(member.name.as_bytes());
    }
    let length = out.len() as u32;
    out.extend(END);
    out.extend([0; 4]);
    let count = (members.len() as u16).to_le_bytes();
    out.extend([count, count].concat());
    out.extend(length.to_le_bytes());
    out.extend((size as u32).to_le_bytes());
    out.extend([0, 0]);
    out
}

/// Writes the fields that both heads of a member share, up to the length of its name.
fn put_common(out: &mut Vec<u8>, member: &Member) {
    let method: u16 = if member.deflated { 8 } else { 0 };
    [VERSION, UTF8, method].iter().for_each(|number| out.extend(number.to_le_bytes()));
    let numbers = [DATE, member.crc, member.stored as u32, member.raw as u32];
    numbers.iter().for_each(|number| out.extend(number.to_le_bytes()));
    out.extend((member.name.len() as u16).to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_and_end_have_the_lengths_of_the_format() {
        let member = Member { name: "a.json".into(), deflated: true, crc: 7, stored: 5, raw: 9, at: 0 };
        let head = member_head(&member);
        assert_eq!((head.len(), &head[..4], &head[30..]), (30 + 6, &b"PK\x03\x04"[..], &b"a.json"[..]));
        assert_eq!(head[8..10], 8u16.to_le_bytes());
        assert_eq!(head[14..30], [7, 0, 0, 0, 5, 0, 0, 0, 9, 0, 0, 0, 6, 0, 0, 0]);
        let end = end(&[member.clone(), Member { at: 41, ..member }], 82);
        assert_eq!(end.len(), 2 * (46 + 6) + 22);
        assert_eq!(end[52 + 42..52 + 46], 41u32.to_le_bytes());
        assert_eq!(end[104 + 8..104 + 12], [2, 0, 2, 0]);
        assert_eq!(
            (&end[104 + 12..104 + 16], &end[104 + 16..104 + 20]),
            (&104u32.to_le_bytes()[..], &82u32.to_le_bytes()[..])
        );
    }
}
