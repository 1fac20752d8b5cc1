//! Prints a workload: sections in reading order, each value with its evidence as a comment.

use std::fmt::Write;

use super::entry::Entry;

const SECTIONS: [&str; 9] =
    ["framework", "model", "workflow", "dataset", "reader", "train", "evaluation", "checkpoint", "metric"];

/// The column of comments, unless the value is longer.
const COMMENTS_AT: usize = 44;

/// Returns the file; `head` are the first comment lines, without their marks.
pub fn print(head: &[String], entries: &[Entry]) -> String {
    let mut out: String = head.iter().map(|line| comment(line)).collect();
    for section in SECTIONS {
        let its: Vec<_> = entries.iter().filter(|entry| entry.key.split('.').next() == Some(section)).collect();
        if let [entry] = its.as_slice()
            && entry.key == section
        {
            line(section, entry, 0, &mut out);
        } else if !its.is_empty() {
            let _ = writeln!(out, "{section}:");
            its.iter().for_each(|entry| line(&entry.key[section.len() + 1..], entry, 2, &mut out));
        }
    }
    out
}

fn comment(text: &str) -> String {
    if text.is_empty() { "#\n".into() } else { format!("# {}\n", one_line(text)) }
}

/// Makes text from the traced host safe in a comment, so that nothing ends it.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

fn line(key: &str, entry: &Entry, indent: usize, out: &mut String) {
    let told = format!("# {}: {}", entry.confidence.name(), one_line(&entry.evidence));
    let mut lines = entry.value.lines();
    let first = lines.next().unwrap_or_default();
    let rest: Vec<_> = lines.collect();
    let start = match first.is_empty() {
        true => format!("{:indent$}{key}:", ""),
        false => format!("{:indent$}{key}: {first}", ""),
    };
    let _ = writeln!(out, "{start:<COMMENTS_AT$} {told}");
    rest.iter().for_each(|line| {
        let _ = writeln!(out, "{:indent$}  {line}", "");
    });
}

/// Quotes a text for YAML.
pub fn quoted(text: &str) -> String {
    let is_plain = !text.is_empty()
        && text.starts_with(|c: char| c.is_ascii_alphabetic() || "./".contains(c))
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c))
        && !["true", "false", "null", "yes", "no", "on", "off"].contains(&text.to_ascii_lowercase().as_str());
    if is_plain { text.into() } else { format!("'{}'", one_line(text).replace('\'', "''")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::entry::Entries;

    #[test]
    fn sections_have_their_values_and_their_evidence() {
        let mut entries = Entries::default();
        entries.certain("reader.batch_size", 4, "16 samples in 4 steps");
        entries.likely("framework", "pytorch", "no file of TensorFlow's");
        entries.guess("reader.profile", "\nsample:\n  - {call: read, bytes: rest}", "a\nb");
        let printed = print(&["job".into()], &entries.0);
        let expected = "\
# job
framework: pytorch                           # likely: no file of TensorFlow's
reader:
  batch_size: 4                              # certain: 16 samples in 4 steps
  profile:                                   # guess: a\u{fffd}b
    sample:
      - {call: read, bytes: rest}
";
        assert_eq!(printed, expected);
    }

    #[test]
    fn texts_stay_texts() {
        let quotes = ["data/x", "12", "it's", "off", "a: b", "# no"].map(quoted);
        assert_eq!(quotes, ["data/x", "'12'", "'it''s'", "'off'", "'a: b'", "'# no'"]);
    }
}
