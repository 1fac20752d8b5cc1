//! Huffman codes of limited length, as deflate writes them: canonical, the first bit lowest.

/// Maximum number of symbols of a deflate code.
pub const SYMBOLS_MAX: usize = 288;

/// The longest code of any table.
pub const LENGTH_MAX: usize = 15;

/// The code of each symbol.
pub struct Code {
    /// Bits of a symbol's code; 0 for an unused symbol.
    pub lengths: [u8; SYMBOLS_MAX],
    /// The code itself, written from its lowest bit.
    pub words: [u16; SYMBOLS_MAX],
}

impl Code {
    /// Returns the best code for symbols with these counts, with no word longer than `longest` bits. At least two
    /// symbols get a code, because readers reject a code with unused bit patterns.
    pub fn of(counts: &[u32], longest: usize) -> Code {
        let mut code = Code { lengths: [0; SYMBOLS_MAX], words: [0; SYMBOLS_MAX] };
        // Counts in the upper part, symbols in the lower.
        let (mut order, mut used) = ([0; SYMBOLS_MAX], 0);
        let mut spare = 2usize.saturating_sub(counts.iter().filter(|&&count| count > 0).count());
        for (symbol, &count) in counts.iter().enumerate() {
            if count == 0 && spare == 0 {
                continue;
            }
            spare -= (count == 0) as usize;
            order[used] = (count as u64) << 16 | symbol as u64;
            used += 1;
        }
        let order = &mut order[..used];
        order.sort_unstable();
        let per_length = limited(order, longest);
        let mut rarest_first = order.iter().map(|entry| (entry & 0xffff) as usize);
        for length in (1..=longest).rev() {
            for symbol in rarest_first.by_ref().take(per_length[length]) {
                code.lengths[symbol] = length as u8;
            }
        }
        code.number(&per_length);
        code
    }

    /// Assigns a word to each symbol: shorter ones first, words of one length in the order of their symbols.
    fn number(&mut self, per_length: &[usize; LENGTH_MAX + 1]) {
        let mut next = [0u16; LENGTH_MAX + 1];
        for length in 1..LENGTH_MAX {
            next[length + 1] = (next[length] + per_length[length] as u16) << 1;
        }
        for (word, &length) in self.words.iter_mut().zip(&self.lengths).filter(|(_, length)| **length > 0) {
            *word = next[length as usize].reverse_bits() >> (16 - length);
            next[length as usize] += 1;
        }
    }
}

/// Returns the number of symbols with a code of each length, none above `longest`. The counts are in ascending order.
fn limited(order: &[u64], longest: usize) -> [usize; LENGTH_MAX + 1] {
    let mut depths = [0; SYMBOLS_MAX];
    let depths = &mut depths[..order.len()];
    depths.iter_mut().zip(order).for_each(|(depth, entry)| *depth = (entry >> 16) as usize);
    shape_tree(depths);
    let mut per_length = [0; LENGTH_MAX + 1];
    depths.iter().for_each(|&depth| per_length[depth.min(longest)] += 1);
    // The words cut to the maximum exceed the available code space; longer codes for other symbols make up for it.
    let room = 1usize << longest;
    let mut taken: usize = (1..=longest).map(|length| per_length[length] << (longest - length)).sum();
    while taken > room {
        let split = (1..longest).rev().find(|&length| per_length[length] > 0).expect("shorter codes");
        per_length[longest] -= 1;
        per_length[split] -= 1;
        per_length[split + 1] += 2;
        taken -= 1;
    }
    per_length
}

/// Turns ascending counts into the depths of a Huffman tree's leaves, in the same memory (Moffat and Katajainen).
fn shape_tree(tree: &mut [usize]) {
    let leaves = tree.len();
    // Inner nodes replace the joined nodes; a joined node notes its parent.
    tree[0] += tree[1];
    let (mut root, mut leaf) = (0, 2);
    for next in 1..leaves - 1 {
        let mut sum = 0;
        for _ in 0..2 {
            if leaf >= leaves || root < next && tree[root] < tree[leaf] {
                sum += tree[root];
                tree[root] = next;
                root += 1;
            } else {
                sum += tree[leaf];
                leaf += 1;
            }
        }
        tree[next] = sum;
    }
    // Depths of inner nodes, from the root.
    tree[leaves - 2] = 0;
    for node in (0..leaves - 2).rev() {
        tree[node] = tree[tree[node]] + 1;
    }
    // Leaves are the nodes of a depth that are not inner nodes.
    let (mut free, mut depth, mut inner, mut next) = (1, 0, leaves - 1, leaves);
    while free > 0 {
        let mut used = 0;
        while inner > 0 && tree[inner - 1] == depth {
            used += 1;
            inner -= 1;
        }
        for _ in used..free {
            next -= 1;
            tree[next] = depth;
        }
        free = 2 * used;
        depth += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every word of the code is used, and none is a prefix of another.
    fn is_whole(code: &Code, longest: usize) -> bool {
        let lengths = code.lengths.iter().filter(|length| **length > 0);
        lengths.map(|&length| 1 << (longest - length as usize)).sum::<usize>() == 1 << longest
    }

    #[test]
    fn frequent_symbols_get_short_codes() {
        let code = Code::of(&[1, 0, 20, 5, 5, 1], 15);
        assert_eq!(code.lengths[..6], [4, 0, 1, 3, 2, 4]);
        assert!(is_whole(&code, 15));
    }

    #[test]
    fn codes_respect_the_maximum_length() {
        // Fibonacci numbers produce the deepest possible tree.
        let mut counts = vec![1u32, 1];
        (2..40).for_each(|i| counts.push(counts[i - 1] + counts[i - 2]));
        for longest in [7, 9, 15] {
            let code = Code::of(&counts, longest);
            assert!(code.lengths.iter().all(|&length| length as usize <= longest));
            assert!(code.lengths[..40].iter().all(|&length| length > 0));
            assert!(is_whole(&code, longest), "{longest}");
        }
    }

    #[test]
    fn few_symbols_make_a_complete_code() {
        for counts in [&[0, 0, 0][..], &[0, 9, 0], &[7, 0, 0], &[3, 2]] {
            let code = Code::of(counts, 15);
            assert!(is_whole(&code, 15), "{counts:?}");
            assert!(counts.iter().zip(code.lengths).all(|(&count, length)| count == 0 || length == 1));
        }
    }

    #[test]
    fn code_words_are_prefix_free() {
        let counts: Vec<u32> = (0..SYMBOLS_MAX as u32).map(|i| i * i % 97).collect();
        let code = Code::of(&counts, 15);
        let words: Vec<_> = code.words.iter().zip(code.lengths).filter(|(_, length)| *length > 0).collect();
        for (i, (word, length)) in words.iter().enumerate() {
            let begins = |other: &u16| other & ((1u32 << length) - 1) as u16 == **word;
            assert!(!words[i + 1..].iter().any(|(other, longer)| longer >= length && begins(other)));
        }
    }
}
