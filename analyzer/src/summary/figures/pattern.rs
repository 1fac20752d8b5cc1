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

/// The names of one pattern as a shell writes them, such as `/data/set3/part-*.npz`: numbers that all names have in
/// common remain.
#[derive(Default)]
pub struct Glob<'a> {
    first: Option<&'a str>,
    /// One bit per number of a name: set if names differ in it. Numbers beyond these bits count as different.
    differ: u64,
}

impl<'a> Glob<'a> {
    /// Adds a name that has the same pattern as the others.
    pub fn add(&mut self, name: &'a str) {
        let Some(first) = self.first else {
            self.first = Some(name);
            return;
        };
        for (place, (one, other)) in numbers(first).zip(numbers(name)).take(u64::BITS as usize).enumerate() {
            self.differ |= ((one != other) as u64) << place;
        }
    }

    pub fn text(&self) -> String {
        let first = self.first.unwrap_or_default();
        let mut out = String::with_capacity(first.len());
        let mut rest = first;
        for (place, number) in numbers(first).enumerate() {
            let start = number.as_ptr().addr() - rest.as_ptr().addr();
            let stays = place < u64::BITS as usize && self.differ >> place & 1 == 0;
            out.push_str(&rest[..start]);
            out.push_str(if stays { number } else { "*" });
            rest = &rest[start + number.len()..];
        }
        out + rest
    }
}

/// Returns the groups of consecutive digits of a name.
fn numbers(name: &str) -> impl Iterator<Item = &str> {
    name.split(|c: char| !c.is_ascii_digit()).filter(|number| !number.is_empty())
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
        let glob = |names: &[&'static str]| {
            let mut glob = Glob::default();
            names.iter().for_each(|name| glob.add(name));
            glob.text()
        };
        assert_eq!(glob(&["/data/set3/part-07.npz", "/data/set3/part-18.npz"]), "/data/set3/part-*.npz");
        assert_eq!(glob(&["/1/a2b", "/1/a3b", "/2/a2b"]), "/*/a*b");
        assert_eq!(glob(&["/t8/one"]), "/t8/one");
        assert_eq!(glob(&["17", "18"]), "*");
    }
}
