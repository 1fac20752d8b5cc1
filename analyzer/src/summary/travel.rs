//! Forms in which counts travel between processes, where serde has none: arrays beyond 32, and sets of files and processes.

/// Lists of long arrays, one behind the other.
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
        if rest.is_empty() { Ok(whole.to_vec()) } else { Err(D::Error::custom("a list of another length")) }
    }
}

/// Sets of pairs, a file in the upper half and a process in the lower: the gaps between the files of each process.
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

    #[derive(Serialize, Deserialize, PartialEq, Debug)]
    struct Both {
        #[serde(with = "super::arrays")]
        rows: Vec<[u64; 65]>,
        #[serde(with = "super::pairs")]
        users: HashSet<u64, RandomState>,
    }

    #[test]
    fn what_arrives_is_what_was_sent() {
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
