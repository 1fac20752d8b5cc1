//! Hash of a path or another string, used to recognize it.

/// Returns the hash of a string; `seed` separates kinds of strings that may be equal.
#[inline]
pub fn of(text: &[u8], seed: u64) -> u64 {
    const FOLD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |a: u64, b: u64| {
        let product = (a ^ FOLD) as u128 * (b ^ 0xd1b5_4a32_d192_ed03) as u128;
        product as u64 ^ (product >> 64) as u64
    };
    let (words, rest) = text.as_chunks::<8>();
    let mut state = mix(seed ^ text.len() as u64, FOLD);
    for word in words {
        state = mix(state, u64::from_le_bytes(*word));
    }
    // The last eight bytes, partly for the second time: this takes fewer steps than a copy of the remainder.
    let last = match text.last_chunk::<8>() {
        Some(last) => u64::from_le_bytes(*last),
        None => rest.iter().fold(0, |word, byte| word << 8 | *byte as u64),
    };
    mix(state, last)
}
