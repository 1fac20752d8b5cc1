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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_become_one_sign() {
        assert_eq!(pattern("/data/set3/part-000017.npz"), "/data/set#/part-#.npz");
        assert_eq!(pattern("#1/a12b3"), "##/a#b#");
    }
}
