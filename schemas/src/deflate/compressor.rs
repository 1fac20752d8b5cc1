//! Deflate for writers that know what repeats.
//!
//! A compressor spends its time on searching for repetitions. A writer of events from templates knows them:
//! everything repeats except a few bytes. Here it declares them, and the remaining work is counting symbols and
//! writing their codes. Bytes without a declaration are searched in a simple way.
//!
//! ```text
//! bytes written     ........AAAAAxxAAAAAAyAAA        the template from a known distance before, x and y differ
//! declared          cover, copy 5, literals, copy 6, literal, copy 3
//! zlib stream       head, blocks of up to 16 Ki symbols with separate codes, Adler-32
//! ```

use crate::deflate::huffman::{Code, LENGTH_MAX};

/// Maximum distance of a copy.
pub const REACH: usize = 32 << 10;

/// Symbols per block: its codes take some 80 bytes, and its symbols are kept in memory until it is written.
const BLOCK: usize = 16 << 10;
const FIRST_SYMBOLS: usize = 1 << 10;

/// Symbols for which there is always space: a copy and the eight bytes after it that differ.
const ROOM: usize = 16;

const SHORTEST: usize = 3;
const LONGEST: usize = 258;

const LITERALS: usize = 256;
const END_OF_BLOCK: usize = 256;
const FIRST_LENGTH: usize = 257;
const LENGTH_SYMBOLS: usize = 29;
const DISTANCE_SYMBOLS: usize = 30;

/// The shortest copy of each symbol, and the number of extra bits for its length.
const LENGTHS: [(u16, u8); LENGTH_SYMBOLS] = {
    let mut lengths = [(0, 0); LENGTH_SYMBOLS];
    let (mut symbol, mut length) = (0, SHORTEST as u16);
    while symbol < LENGTH_SYMBOLS {
        let extra = if symbol < 8 { 0 } else { (symbol as u8 - 4) / 4 };
        lengths[symbol] = (length, extra);
        length += 1 << extra;
        symbol += 1;
    }
    // The longest copy has a separate symbol.
    lengths[LENGTH_SYMBOLS - 1] = (LONGEST as u16, 0);
    lengths
};

/// The symbol of each length, starting with the shortest.
const LENGTH_SYMBOL: [u8; LONGEST - SHORTEST + 1] = {
    let mut symbols = [0; LONGEST - SHORTEST + 1];
    let mut i = 0;
    while i < symbols.len() {
        let mut symbol = LENGTH_SYMBOLS - 1;
        while LENGTHS[symbol].0 as usize > i + SHORTEST {
            symbol -= 1;
        }
        symbols[i] = symbol as u8;
        i += 1;
    }
    symbols
};

/// The order in which the lengths of the code-length codes are written.
const ORDER: [usize; 19] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

/// A copy has this bit. `length - 3` is above [`LENGTH_AT`]; below it are the symbol of its distance, above
/// [`DISTANCE_AT`], and the extra bits of the distance.
const COPY: u32 = 1 << 31;
const LENGTH_AT: u32 = 18;
const DISTANCE_AT: u32 = 13;

/// Size of the index of a longer input, as a power of two, and of its first bytes: most traces are short, and each page
/// of memory costs a short-lived process as much as many symbols.
const SEARCHED_BITS: u32 = 12;
const FIRST_SEARCHED_BITS: u32 = 9;
const FIRST_SEARCHED: usize = 8 << 10;

/// The compressor: see the module. Its memory is reused for each stream.
pub struct Deflate {
    /// Grows up to [`BLOCK`]: each page of memory costs a short-lived process as much as many symbols.
    symbols: Vec<u32>,
    used: usize,
    counts: [u32; FIRST_LENGTH + LENGTH_SYMBOLS],
    distances: [u32; 32],
    /// Number of input bytes that are symbols or part of the current copy.
    done: usize,
    /// Length of the current copy, which may still grow.
    copied: usize,
    distance: usize,
    /// Its distance, as a symbol.
    far: u32,
    /// Positions, plus one, where four bytes were last found, by their hash of this many bits.
    met: Vec<u32>,
    met_bits: u32,
    bits: Bits,
    /// Set once a block of this stream is written.
    begun: bool,
}

impl Default for Deflate {
    fn default() -> Deflate {
        Deflate {
            symbols: vec![0; FIRST_SYMBOLS],
            used: 0,
            counts: [0; FIRST_LENGTH + LENGTH_SYMBOLS],
            distances: [0; 32],
            done: 0,
            copied: 0,
            distance: 0,
            far: 0,
            met: vec![0; 1 << FIRST_SEARCHED_BITS],
            met_bits: FIRST_SEARCHED_BITS,
            bits: Bits::default(),
            begun: false,
        }
    }
}

impl Deflate {
    /// Searches for repetitions in the input that has not been declared yet.
    #[inline(always)]
    pub fn cover(&mut self, input: &[u8]) {
        if self.done < input.len() {
            self.search(input);
        }
    }

    fn search(&mut self, input: &[u8]) {
        if input.len() > FIRST_SEARCHED && self.met_bits < SEARCHED_BITS {
            self.met_bits = SEARCHED_BITS;
            self.met.clear();
            self.met.resize(1 << SEARCHED_BITS, 0);
        }
        let bits = self.met_bits;
        while self.done < input.len() {
            let at = self.done;
            let here = four(input, at).map(|four| (four, hash(four, bits)));
            let met = here.map_or(0, |(_, hash)| std::mem::replace(&mut self.met[hash], at as u32 + 1) as usize);
            let before = (met > 0 && at + 1 - met <= REACH).then(|| met - 1);
            match before.filter(|&before| four(input, before) == here.map(|(four, _)| four)) {
                Some(before) => {
                    let length = shared(&input[before..], &input[at..]);
                    self.copy(input, length, at - before);
                    // The bytes after it are also indexed from here.
                    if let Some(four) = four(input, at + length - 2) {
                        self.met[hash(four, bits)] = (at + length - 2) as u32 + 1;
                    }
                }
                None => {
                    self.put_copy(input);
                    self.put_literal(input[at]);
                    self.done += 1;
                }
            }
        }
    }

    /// Declares that the last `length` bytes of the input repeat those `distance` before, at most [`REACH`]. The
    /// exceptions are in `changes`, in order: the position of eight bytes that differ, and the bits that differ.
    #[inline(always)]
    pub fn repeat(&mut self, input: &[u8], length: usize, distance: usize, changes: &[(usize, u64)]) {
        let start = input.len() - length;
        self.cover(&input[..start]);
        if self.distance != distance {
            self.turn_to(input, distance);
        }
        let mut told = 0;
        for &(place, change) in changes {
            let first = place + change.trailing_zeros() as usize / 8;
            let after = place + change.ilog2() as usize / 8 + 1;
            self.copied += first - told;
            self.done = start + first;
            self.put_copy(input);
            for &byte in &input[start + first..start + after] {
                self.put_literal(byte);
            }
            told = after;
        }
        self.copied += length - told;
        self.done = input.len();
    }

    /// Copies the next bytes from `distance` before.
    fn copy(&mut self, input: &[u8], length: usize, distance: usize) {
        if self.distance != distance {
            self.turn_to(input, distance);
        }
        self.copied += length;
        self.done += length;
    }

    #[cold]
    fn turn_to(&mut self, input: &[u8], distance: usize) {
        self.put_copy(input);
        let (symbol, extra) = distance_symbol(distance);
        self.far = (symbol as u32) << DISTANCE_AT | extra;
        self.distance = distance;
    }

    /// Returns the whole stream. The next stream starts with a new input.
    pub fn finish(&mut self, input: &[u8]) -> &[u8] {
        self.cover(input);
        self.put_copy(input);
        self.put_block(true);
        self.bits.align();
        self.bits.put(libdeflater::adler32(input).swap_bytes() as u64, 32);
        self.begun = false;
        self.done = 0;
        self.met.fill(0);
        self.bits.written()
    }

    #[inline(always)]
    fn put_literal(&mut self, byte: u8) {
        self.counts[byte as usize] += 1;
        self.put_symbol(byte as u32);
    }

    /// Writes the current copy, and leaves space for a few literals.
    #[inline(always)]
    fn put_copy(&mut self, input: &[u8]) {
        self.make_room();
        match self.copied {
            0 => (),
            SHORTEST..=LONGEST => {
                self.put_piece(self.copied);
                self.copied = 0;
            }
            _ => self.put_pieces(input),
        }
    }

    /// Splits the copy into lengths that a symbol can represent. A rest that is too short becomes literals.
    #[inline(never)]
    fn put_pieces(&mut self, input: &[u8]) {
        let mut left = std::mem::take(&mut self.copied);
        while left >= SHORTEST {
            let length = match left - left.min(LONGEST) {
                // The rest must be long enough for another copy.
                1 | 2 => left - SHORTEST,
                _ => left.min(LONGEST),
            };
            self.make_room();
            self.put_piece(length);
            left -= length;
        }
        self.make_room();
        input[self.done - left..self.done].iter().for_each(|&byte| self.put_literal(byte));
    }

    #[inline(always)]
    fn put_piece(&mut self, length: usize) {
        let above = (length - SHORTEST) as u8;
        self.counts[FIRST_LENGTH + LENGTH_SYMBOL[above as usize] as usize] += 1;
        self.distances[(self.far >> DISTANCE_AT) as usize & 31] += 1;
        self.put_symbol(COPY | (above as u32) << LENGTH_AT | self.far);
    }

    #[inline(always)]
    fn put_symbol(&mut self, symbol: u32) {
        if let Some(place) = self.symbols.get_mut(self.used) {
            *place = symbol;
            self.used += 1;
        }
    }

    #[inline(always)]
    fn make_room(&mut self) {
        if self.used + ROOM > self.symbols.len() {
            self.grow_or_put_block();
        }
    }

    #[cold]
    fn grow_or_put_block(&mut self) {
        match self.symbols.len() {
            BLOCK.. => self.put_block(false),
            length => self.symbols.resize(2 * length, 0),
        }
    }

    #[cold]
    fn put_block(&mut self, last: bool) {
        if !std::mem::replace(&mut self.begun, true) {
            self.bits.begin();
            // zlib: deflate with a window of 32 KiB, the fastest level.
            self.bits.put(0x0178, 16);
        }
        self.counts[END_OF_BLOCK] = 1;
        let distances = &self.distances[..DISTANCE_SYMBOLS];
        let codes = (Code::of(&self.counts, LENGTH_MAX), Code::of(distances, LENGTH_MAX));
        self.bits.reserve(self.used);
        // A block with its own codes.
        self.bits.put(last as u64 | 2 << 1, 3);
        self.put_codes(&codes.0, &codes.1);
        put_symbols(&self.symbols[..self.used], &codes.0, &codes.1, &mut self.bits);
        self.used = 0;
        self.counts.fill(0);
        self.distances.fill(0);
    }

    /// Writes the lengths of both codes, which are themselves encoded.
    fn put_codes(&mut self, literals: &Code, distances: &Code) {
        let used = |code: &Code| code.lengths.iter().rposition(|&length| length > 0).map_or(0, |last| last + 1);
        let (literal_lengths, distance_lengths) = (used(literals).max(FIRST_LENGTH), used(distances).max(1));
        let lengths = [&literals.lengths[..literal_lengths], &distances.lengths[..distance_lengths]].concat();
        let runs = runs(&lengths);
        let mut counts = [0; ORDER.len()];
        runs.iter().for_each(|(symbol, ..)| counts[*symbol] += 1);
        let code = Code::of(&counts, 7);
        let written = ORDER.iter().rposition(|&symbol| code.lengths[symbol] > 0).map_or(4, |last| last + 1).max(4);
        self.bits.put((literal_lengths - FIRST_LENGTH) as u64, 5);
        self.bits.put(distance_lengths as u64 - 1, 5);
        self.bits.put(written as u64 - 4, 4);
        ORDER[..written].iter().for_each(|&symbol| self.bits.put(code.lengths[symbol] as u64, 3));
        for (symbol, extra, width) in runs {
            self.bits.put(code.words[symbol] as u64, code.lengths[symbol] as u32);
            self.bits.put(extra as u64, width);
        }
    }
}

fn put_symbols(symbols: &[u32], literals: &Code, distances: &Code, bits: &mut Bits) {
    // The bits of a symbol in the lower part, their number in the upper part.
    let entry = |code: &Code, symbol: usize| code.words[symbol] as u32 | (code.lengths[symbol] as u32) << 24;
    let literal: [u32; LITERALS] = std::array::from_fn(|byte| entry(literals, byte));
    let length: [u32; 256] = std::array::from_fn(|above| {
        let symbol = LENGTH_SYMBOL[above] as usize;
        let (shortest, extra) = LENGTHS[symbol];
        let code = entry(literals, FIRST_LENGTH + symbol);
        let more = (above + SHORTEST - shortest as usize) as u32;
        (code + ((extra as u32) << 24)) | more << (code >> 24)
    });
    // The number of bits with the extra bits in the upper part, without them in the middle.
    let distance: [u32; 32] = std::array::from_fn(|symbol| {
        let (code, extra) = (entry(distances, symbol), (symbol as u32 / 2).saturating_sub(1));
        (code + (extra << 24)) | (code >> 24) << 16
    });
    let Bits { out, at, waiting, count } = bits;
    let (mut to, mut held, mut held_count) = (*at, *waiting, *count);
    for &symbol in symbols {
        let (code, width) = if symbol & COPY == 0 {
            let code = literal[symbol as u8 as usize];
            ((code & 0xff_ffff) as u64, code >> 24)
        } else {
            let near = length[(symbol >> LENGTH_AT) as u8 as usize];
            let far = distance[(symbol >> DISTANCE_AT) as usize & 31];
            let extra = symbol & ((1 << DISTANCE_AT) - 1);
            let far_bits = (far & 0xffff | extra << (far >> 16 & 0xff)) as u64;
            ((near & 0xff_ffff) as u64 | far_bits << (near >> 24), (near >> 24) + (far >> 24))
        };
        held |= code << held_count;
        held_count += width;
        out[to..to + 8].copy_from_slice(&held.to_le_bytes());
        to += (held_count >> 3) as usize;
        held >>= held_count & !7;
        held_count &= 7;
    }
    (*at, *waiting, *count) = (to, held, held_count);
    let end = entry(literals, END_OF_BLOCK);
    bits.put((end & 0xff_ffff) as u64, end >> 24);
}

/// Returns code lengths as symbols with their extra bits: repeated lengths are run-length encoded.
fn runs(lengths: &[u8]) -> Vec<(usize, u32, u32)> {
    let mut found = Vec::new();
    for run in lengths.chunk_by(|one, next| one == next) {
        let (length, mut left) = (run[0], run.len());
        while length == 0 && left >= 3 {
            let now = left.min(138);
            found.push(if now < 11 { (17, now as u32 - 3, 3) } else { (18, now as u32 - 11, 7) });
            left -= now;
        }
        if length > 0 {
            found.push((length as usize, 0, 0));
            left -= 1;
            while left >= 3 {
                let now = left.min(6);
                found.push((16, now as u32 - 3, 2));
                left -= now;
            }
        }
        found.extend((0..left).map(|_| (length as usize, 0, 0)));
    }
    found
}

/// Returns the symbol of a distance, and its extra bits.
fn distance_symbol(distance: usize) -> (usize, u32) {
    let above = distance as u32 - 1;
    if above < 4 {
        return (above as usize, 0);
    }
    let width = 30 - above.leading_zeros();
    ((2 * width + (above >> width)) as usize, above & ((1 << width) - 1))
}

#[inline(always)]
fn four(input: &[u8], at: usize) -> Option<u32> {
    input.get(at..)?.first_chunk().map(|four| u32::from_le_bytes(*four))
}

#[inline(always)]
fn hash(four: u32, bits: u32) -> usize {
    (four.wrapping_mul(0x9e37_79b1) >> (32 - bits)) as usize
}

/// Returns the length of the common prefix of two slices.
fn shared(one: &[u8], other: &[u8]) -> usize {
    let eights = one.chunks_exact(8).zip(other.chunks_exact(8));
    let same = 8 * eights.take_while(|(one, other)| one == other).count();
    let rest = one[same..].iter().zip(&other[same..]);
    same + rest.take_while(|(one, other)| one == other).count()
}

/// A bit stream, lowest bit first.
#[derive(Default)]
struct Bits {
    out: Vec<u8>,
    at: usize,
    waiting: u64,
    count: u32,
}

impl Bits {
    fn begin(&mut self) {
        (self.at, self.waiting, self.count) = (0, 0, 0);
        self.reserve(0);
    }

    /// Reserves space for a block of `symbols` symbols: a symbol takes at most 48 bits, the codes and the ends of a
    /// stream 400 bytes.
    fn reserve(&mut self, symbols: usize) {
        let room = self.at + 6 * symbols + 1024;
        if self.out.len() < room {
            self.out.resize(room, 0);
        }
    }

    /// Appends up to 56 bits.
    #[inline(always)]
    fn put(&mut self, bits: u64, count: u32) {
        self.waiting |= bits << self.count;
        self.count += count;
        self.out[self.at..self.at + 8].copy_from_slice(&self.waiting.to_le_bytes());
        self.at += (self.count >> 3) as usize;
        self.waiting >>= self.count & !7;
        self.count &= 7;
    }

    fn align(&mut self) {
        self.put(0, (8 - self.count) & 7);
    }

    fn written(&self) -> &[u8] {
        &self.out[..self.at]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inflated(stream: &[u8], length: usize) -> Vec<u8> {
        let mut out = vec![0; length];
        let used = libdeflater::Decompressor::new().zlib_decompress(stream, &mut out).unwrap();
        assert_eq!(used, length);
        out
    }

    fn deflated(deflate: &mut Deflate, input: &[u8]) -> Vec<u8> {
        deflate.finish(input).to_vec()
    }

    fn noise(length: usize, seed: u32) -> Vec<u8> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        (0..length).map(|_| next()).collect()
    }

    #[test]
    fn undeclared_bytes_round_trip() {
        let text = b"/data/train/part-0001.npz ".repeat(4000);
        let mut deflate = Deflate::default();
        for input in [&b""[..], b"a", b"aaaa", b"abcabcabcabcabd", &text, &noise(100_000, 1), &[0; 70_000]] {
            let stream = deflated(&mut deflate, input);
            assert_eq!(inflated(&stream, input.len()), input);
        }
        assert!(deflated(&mut deflate, &text).len() < text.len() / 50);
        assert!(deflated(&mut deflate, &noise(100_000, 1)).len() < 101_000);
    }

    /// Templates with a byte that differs, at distances up to the maximum, and runs of every length around the
    /// longest copy.
    #[test]
    fn declared_repeats_round_trip() {
        let mut deflate = Deflate::default();
        for length in (1..20).chain(250..270).chain([515, 516, 517, 518, 519, 4096]) {
            for distance in [length, length + 1, REACH] {
                let mut input = noise(distance, length as u32);
                deflate.cover(&input);
                for turn in [0, 1, 0, 1] {
                    let at = input.len();
                    let again = input[at - distance..][..length].to_vec();
                    input.extend_from_slice(&again);
                    let change = (length.max(8) - 8, 1 << (8 * (length.min(8) - 1)));
                    let last = input.last_mut().unwrap();
                    *last ^= turn;
                    deflate.repeat(&input, length, distance, &[change][..turn as usize]);
                }
                assert_eq!(deflate.done, input.len());
                let stream = deflated(&mut deflate, &input);
                assert_eq!(inflated(&stream, input.len()), input, "{length} from {distance}");
            }
        }
    }

    #[test]
    fn copies_of_one_distance_become_one() {
        let mut deflate = Deflate::default();
        let mut input = b"abcdefgh".to_vec();
        deflate.cover(&input);
        for _ in 0..32 {
            input.extend_from_slice(b"abcdefgh");
            deflate.repeat(&input, 8, 8, &[]);
        }
        let stream = deflated(&mut deflate, &input);
        assert_eq!(inflated(&stream, input.len()), input);
        assert!(stream.len() < 40, "{}", stream.len());
    }

    #[test]
    fn every_length_and_distance_has_its_symbol() {
        for length in SHORTEST..=LONGEST {
            let (shortest, extra) = LENGTHS[LENGTH_SYMBOL[length - SHORTEST] as usize];
            let above = length - shortest as usize;
            assert!(above < 1 << extra, "{length}");
        }
        let ends = [(1, 0), (4, 3), (5, 4), (6, 4), (7, 5), (24_576, 28), (24_577, 29), (REACH, 29)];
        assert!(ends.into_iter().all(|(distance, symbol)| distance_symbol(distance).0 == symbol));
    }

    #[test]
    fn lengths_are_encoded_in_all_three_ways() {
        let lengths = [&[3; 9][..], &[0; 2], &[5], &[0; 150], &[4, 4, 4, 4]].concat();
        let mut again = Vec::new();
        for (symbol, extra, _) in runs(&lengths) {
            let (length, times) = match symbol {
                16 => (*again.last().unwrap(), 3 + extra),
                17 => (0, 3 + extra),
                18 => (0, 11 + extra),
                length => (length as u8, 1),
            };
            again.extend((0..times).map(|_| length));
        }
        assert_eq!(again, lengths);
        assert!(runs(&lengths).len() < 15);
    }
}
