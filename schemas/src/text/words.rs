//! Suggestions for mistyped words, which allocate nothing because a traced process uses them, too; and the system's
//! words for an error.

/// Longer words are compared by their first letters.
const LENGTH_MAX: usize = 63;

/// Returns the word within a third of its length in edits, nearest first.
pub fn nearest<'a>(wrong: &str, words: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let wrong = wrong.to_ascii_lowercase();
    let scored = words.map(|word| (edits(&wrong, &word.to_ascii_lowercase()), word));
    let close = scored.filter(|(edits, word)| *edits <= word.len().max(wrong.len()) / 3);
    close.min_by_key(|(edits, _)| *edits).map(|(_, word)| word)
}

/// Returns the Levenshtein distance in bytes, computed one row at a time.
pub fn edits(left: &str, right: &str) -> usize {
    let mut row = [0; LENGTH_MAX + 1];
    let right = &right.as_bytes()[..right.len().min(LENGTH_MAX)];
    (0..=right.len()).for_each(|i| row[i] = i);
    for (i, l) in left.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, r) in right.iter().enumerate() {
            let replaced = diagonal + usize::from(l != *r);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[right.len()]
}

/// Returns a message without the numbers that Rust adds to the system's words: `No such file or directory (os error 2)`.
pub fn without_error_numbers(message: &str) -> String {
    const OPENING: &str = " (os error ";
    let mut out = String::with_capacity(message.len());
    let mut rest = message;
    while let Some((before, after)) = rest.split_once(OPENING) {
        out.push_str(before);
        match after.split_once(')') {
            Some((number, after)) if number.parse::<i32>().is_ok() => rest = after,
            _ => {
                out.push_str(OPENING);
                rest = after;
            }
        }
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_errors_are_left_out() {
        let error = std::io::Error::from_raw_os_error(2);
        assert_eq!(
            without_error_numbers(&format!("cannot read x: {error}; pass y")),
            "cannot read x: No such file or directory; pass y"
        );
        for kept in ["a (os error of mine)", "a (os error 2", ""] {
            assert_eq!(without_error_numbers(kept), kept);
        }
    }

    #[test]
    fn typos_are_few_edits_away() {
        assert_eq!([edits("kitten", "sitting"), edits("", "abc"), edits("same", "same")], [3, 3, 0]);
        assert_eq!(edits("x", &"x".repeat(100)), 62);
        assert_eq!(nearest("wal_s", ["wall_s", "io.s"].into_iter()), Some("wall_s"));
        assert_eq!(nearest("S3", ["aistore", "s3"].into_iter()), Some("s3"));
        assert_eq!(nearest("nothing like it", ["wall_s", "io.s"].into_iter()), None);
    }
}
