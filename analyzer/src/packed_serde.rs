//! Encodings of counts for other processes, where serde has none or a long one: arrays longer than 32, bytes, sets of
//! files and processes, and columns of numbers.
//!
//! ```text
//! column = minimum: i64, bytes per number: u8, then the lowest byte of each number's difference from the minimum, the next ...
//! ```
//!
//! The common parts of neighboring numbers become adjacent, so that a compressor finds them.

use serde::{Deserialize, Serialize};

/// Encodes bytes as such: by default they would be encoded as a list of numbers.
pub mod bytes {
    use std::fmt;

    use serde::de::{Error, Visitor};
    use serde::{Deserializer, Serializer};

    pub fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(bytes)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Box<[u8]>, D::Error> {
        from.deserialize_bytes(Bytes)
    }

    struct Bytes;

    impl Visitor<'_> for Bytes {
        type Value = Box<[u8]>;

        fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
            f.write_str("bytes")
        }

        fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Box<[u8]>, E> {
            Ok(bytes.into())
        }
    }
}

/// Columns of numbers, all of equal length, concatenated.
#[derive(Default, Serialize, Deserialize)]
pub struct Columns {
    rows: u64,
    #[serde(with = "bytes")]
    packed: Box<[u8]>,
}

impl Columns {
    /// Packs `N` columns; `row` returns the numbers of each thing.
    pub fn of<T, const N: usize>(things: &[T], row: impl Fn(&T) -> [i64; N]) -> Columns {
        let mut packed = Vec::new();
        let mut values = Vec::with_capacity(things.len());
        for column in 0..N {
            values.clear();
            values.extend(things.iter().map(|thing| row(thing)[column]));
            put(&values, (column == 0) as u32, &mut packed);
        }
        Columns { rows: things.len() as u64, packed: packed.into() }
    }

    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Unpacks things, created by `thing` from each row; `None` if the columns are invalid.
    pub fn things<T, const N: usize>(&self, thing: impl Fn([i64; N]) -> T) -> Option<Vec<T>> {
        // Each row takes at least one byte: more rows are damage, not a reason to allocate.
        let rows = usize::try_from(self.rows).ok().filter(|rows| *rows <= self.packed.len())?;
        let mut packed = &self.packed[..];
        let columns = (0..N).map(|_| take(&mut packed, rows)).collect::<Option<Vec<_>>>()?;
        let row = |at: usize| thing(std::array::from_fn(|column| columns[column].value(at)));
        packed.is_empty().then(|| (0..rows).map(row).collect())
    }
}

/// Appends a column; `fewest` is the minimum of bytes per number.
fn put(values: &[i64], fewest: u32, packed: &mut Vec<u8>) {
    let least = values.iter().copied().min().unwrap_or(0);
    let above = |value: &i64| value.wrapping_sub(least) as u64;
    let bytes = (64 - values.iter().map(above).max().unwrap_or(0).leading_zeros()).div_ceil(8).max(fewest);
    packed.extend_from_slice(&least.to_le_bytes());
    packed.push(bytes as u8);
    for byte in 0..bytes {
        packed.extend(values.iter().map(|value| (above(value) >> (8 * byte)) as u8));
    }
}

/// A packed column.
struct Column<'p> {
    least: i64,
    rows: usize,
    bytes: &'p [u8],
}

impl Column<'_> {
    fn value(&self, row: usize) -> i64 {
        let bytes = self.bytes.iter().skip(row).step_by(self.rows).enumerate();
        let above = bytes.fold(0, |above, (at, byte)| above | (*byte as u64) << (8 * at));
        self.least.wrapping_add(above as i64)
    }
}

fn take<'p>(packed: &mut &'p [u8], rows: usize) -> Option<Column<'p>> {
    let least = i64::from_le_bytes(*packed.split_off(..8)?.first_chunk()?);
    let bytes = *packed.split_off_first()? as usize;
    let bytes = packed.split_off(..rows.checked_mul(bytes).filter(|_| bytes <= 8)?)?;
    Some(Column { least, rows: rows.max(1), bytes })
}

/// Encodes lists of long arrays, concatenated.
pub mod arrays {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<T: Serialize, const N: usize, S: Serializer>(list: &[[T; N]], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(list.iter().flatten())
    }

    pub fn deserialize<'de, T: Deserialize<'de> + Copy, const N: usize, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<[T; N]>, D::Error> {
        let flat = Vec::<T>::deserialize(from)?;
        let (whole, rest) = flat.as_chunks();
        if rest.is_empty() { Ok(whole.to_vec()) } else { Err(D::Error::custom("a list with a different length")) }
    }
}

/// Encodes sets of pairs, a file in the upper half and a process in the lower, as the gaps between the files of each
/// process.
pub mod pairs {
    use std::collections::{BTreeMap, HashSet};

    use foldhash::fast::RandomState;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    type Pairs = HashSet<u64, RandomState>;

    pub fn serialize<S: Serializer>(pairs: &Pairs, to: S) -> Result<S::Ok, S::Error> {
        let mut files: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        pairs.iter().for_each(|pair| files.entry(*pair as u32).or_default().push((pair >> 32) as u32));
        for list in files.values_mut() {
            list.sort_unstable();
            (1..list.len()).rev().for_each(|at| list[at] -= list[at - 1]);
        }
        files.serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Pairs, D::Error> {
        let files = BTreeMap::<u32, Vec<u32>>::deserialize(from)?;
        let mut pairs = Pairs::default();
        for (process, gaps) in files {
            let mut file = 0u32;
            for gap in gaps {
                file = file.wrapping_add(gap);
                pairs.insert((file as u64) << 32 | process as u64);
            }
        }
        Ok(pairs)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use foldhash::fast::RandomState;
    use serde::{Deserialize, Serialize};

    use super::Columns;

    #[derive(Serialize, Deserialize, PartialEq, Debug)]
    struct Both {
        #[serde(with = "super::arrays")]
        rows: Vec<[u64; 65]>,
        #[serde(with = "super::pairs")]
        users: HashSet<u64, RandomState>,
    }

    #[test]
    fn columns_round_trip_and_truncated_ones_fail() {
        let rows = [(0, i64::MIN, 7), (255, i64::MAX, 7), (256, 0, 7), (70_000, -1, 7)];
        let columns = Columns::of(&rows, |row| [row.0, row.1, row.2]);
        let sent = rmp_serde::to_vec(&columns).unwrap();
        let arrived: Columns = rmp_serde::from_slice(&sent).unwrap();
        assert_eq!(arrived.things(|[a, b, c]| (a, b, c)).unwrap(), rows);
        // 3 bytes, 8 and none per row.
        assert_eq!(arrived.packed.len(), 3 * 9 + 4 * (3 + 8));
        assert!(arrived.things(|[a, b]: [i64; 2]| (a, b)).is_none());
        assert!(arrived.things(|[a, b, c, d]: [i64; 4]| (a, b, c, d)).is_none());
        for rows in [3, 5, u64::MAX] {
            let packed = arrived.packed.clone();
            assert!(Columns { rows, packed }.things(|[a, b, c]| (a, b, c)).is_none());
        }
        let none: [i64; 0] = [];
        assert_eq!(Columns::of(&none, |value| [*value]).things(|[value]| value).unwrap(), none);
    }

    #[test]
    fn encoded_values_round_trip() {
        let users = [(7u64, 1u64), (3, 1), (u32::MAX as u64, 0), (0, u32::MAX as u64)];
        let both = Both {
            rows: vec![[3; 65], std::array::from_fn(|i| i as u64)],
            users: users.into_iter().map(|(file, process)| file << 32 | process).collect(),
        };
        let sent = rmp_serde::to_vec(&both).unwrap();
        assert_eq!(rmp_serde::from_slice::<Both>(&sent).unwrap(), both);
        assert!(rmp_serde::from_slice::<Both>(&sent[..sent.len() - 1]).is_err());
    }
}
