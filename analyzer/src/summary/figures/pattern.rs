//! Names that differ only in numbers.

/// Replaces each group of consecutive digits in a path by `#`.
pub fn pattern(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    let mut before = false;
    for c in path.chars() {
        let is_digit = c.is_ascii_digit();
        match is_digit {
            true if before => {}
            true => out.push('#'),
            false => out.push(c),
        }
        before = is_digit;
    }
    out
}

/// Returns the glob of names with one pattern, such as `/data/set3/part-*.npz`: numbers that all have in common remain.
pub fn glob(names: &[&str]) -> String {
    let pieces = |name: &str| -> Vec<(bool, String)> {
        let mut pieces: Vec<(bool, String)> = Vec::new();
        for c in name.chars() {
            let is_digit = c.is_ascii_digit();
            match pieces.last_mut().filter(|(digits, _)| *digits == is_digit) {
                Some((_, piece)) => piece.push(c),
                None => pieces.push((is_digit, c.into())),
            }
        }
        pieces
    };
    let all: Vec<_> = names.iter().map(|name| pieces(name)).collect();
    let Some((first, others)) = all.split_first() else { return String::new() };
    let piece = |(at, (_, piece)): (usize, &(bool, String))| {
        let is_common = others.iter().all(|other| other.get(at).is_some_and(|(_, other)| other == piece));
        if is_common { piece.clone() } else { "*".into() }
    };
    first.iter().enumerate().map(piece).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_become_one_sign() {
        assert_eq!(pattern("/data/set3/part-000017.npz"), "/data/set#/part-#.npz");
        assert_eq!(pattern("#1/a12b3"), "##/a#b#");
    }

    #[test]
    fn common_numbers_remain_in_a_glob() {
        assert_eq!(glob(&["/data/set3/part-07.npz", "/data/set3/part-18.npz"]), "/data/set3/part-*.npz");
        assert_eq!(glob(&["/t8/one"]), "/t8/one");
    }
}
