//! Groups of files with one extension, with training data separate from evaluation data.

use std::path::Path;

/// Files of one extension in one part of a data set.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct FileGroup {
    /// Lower case and without its dot; for a compressed file both extensions (`csv.gz`). Empty without an extension.
    pub suffix: String,
    /// Whether a directory on its path has a name for evaluation data.
    pub evaluates: bool,
}

/// Directories with data for evaluation.
const EVALUATION: [&str; 6] = ["valid", "validation", "val", "eval", "evaluation", "test"];

/// Extensions of compressors, which do not show the content.
const PACKED: [&str; 6] = ["gz", "bz2", "xz", "zst", "lz4", "lzma"];

/// Prefixes of extensions that a file has until it is complete and is renamed.
const UNFINISHED: [&str; 5] = ["tmp", "temp", "part", "partial", "incomplete"];

/// A longer one is part of the name.
const SUFFIX_MAX: usize = 16;

impl FileGroup {
    pub fn of(path: &str) -> FileGroup {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        let evaluates = folder.split('/').any(|part| EVALUATION.iter().any(|word| part.eq_ignore_ascii_case(word)));
        FileGroup { suffix: suffix(finished(name)), evaluates }
    }

    /// Returns a description: `.npy files`.
    pub fn described(&self) -> String {
        let what = if self.suffix.is_empty() {
            "files without an extension".into()
        } else {
            format!(".{} files", self.suffix)
        };
        if self.evaluates { format!("{what} for evaluation") } else { what }
    }
}

/// Returns the name of a file once it is complete: `model.pt` for `model.pt.partial-node3-17`.
pub fn finished(name: &str) -> &str {
    let is_unfinished = |ending: &str| {
        let word = ending.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
        UNFINISHED.contains(&word.to_ascii_lowercase().as_str())
    };
    let endings = name.match_indices('.').filter(|(at, _)| *at > 0);
    let cut = endings.map(|(at, _)| at).find(|at| is_unfinished(&name[at + 1..]));
    &name[..cut.unwrap_or(name.len())]
}

fn suffix(name: &str) -> String {
    let is_one = |text: &&str| {
        let is_word = text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        !text.is_empty() && text.len() <= SUFFIX_MAX && is_word && !text.bytes().all(|c| c.is_ascii_digit())
    };
    let Some(last) = Path::new(name).extension().and_then(|it| it.to_str()).filter(is_one) else {
        return String::new();
    };
    let last = last.to_ascii_lowercase();
    let stem = &name[..name.len() - last.len() - 1];
    match Path::new(stem).extension().and_then(|it| it.to_str()).filter(is_one) {
        Some(packed) if PACKED.contains(&last.as_str()) => format!("{}.{last}", packed.to_ascii_lowercase()),
        _ => last,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_one_suffix_are_one_family() {
        let family = |path: &str| {
            let FileGroup { suffix, evaluates } = FileGroup::of(path);
            (suffix, evaluates)
        };
        assert_eq!(family("/data/train/img_1_of_8.NPZ"), ("npz".into(), false));
        assert_eq!(family("/data/Val/cat/1.jpeg"), ("jpeg".into(), true));
        assert_eq!(family("a/table.csv.gz"), ("csv.gz".into(), false));
        assert_eq!(family("/data/train-00001-of-01024"), (String::new(), false));
        assert_eq!(family("/data/part.0007"), (String::new(), false));
        assert_eq!(family(".bashrc"), (String::new(), false));
        for unfinished in ["m.pt.tmp", "m.pt.tmp.4711", "m.pt.partial-node3-17", "m.pt.part", "m.pt.TMP_x7"] {
            assert_eq!(family(unfinished), ("pt".into(), false), "{unfinished}");
        }
        assert_eq!(family("/data/a.parts"), ("parts".into(), false));
        assert_eq!(family("/data/validated/x.bin"), ("bin".into(), false));
    }
}
