//! Condenses directories to a few rows: nested directories become one row, except where most of the time was spent.

use super::directories::Directory;
use super::files::Use;

/// A row that represents the directories below a common path.
struct Row<'a> {
    /// The common path of the directories, without a trailing slash.
    place: String,
    folders: Vec<&'a Directory>,
}

/// If one part takes this share of a row's time, the row is split into its parts, even if some of them do not get a
/// separate row.
const DOMINANT: f64 = 0.7;

/// Returns at most `most` rows (at least one), the most time first; the remaining directories share a row at the end.
pub fn folded(folders: &[Directory], most: usize) -> Vec<Directory> {
    let mut rows = vec![Row::of(folders.iter().collect())];
    while let Some((at, parts)) = next(&rows) {
        let largest = parts.iter().map(Row::time).max().unwrap_or(0) as f64;
        let is_worth = most > 1 && (rows.len() == 1 || largest >= DOMINANT * rows[at].time() as f64);
        if rows.len() - 1 + parts.len() > most.max(1) && !is_worth {
            break;
        }
        rows.splice(at..=at, parts);
    }
    rows.sort_by_key(|row| std::cmp::Reverse(row.time()));
    let rest = if rows.len() > most.max(1) { rows.split_off(most.max(2) - 1) } else { Vec::new() };
    let mut shown: Vec<Directory> = rows.iter().map(Row::shown).collect();
    if !rest.is_empty() {
        let folders: Vec<_> = rest.into_iter().flat_map(|row| row.folders).collect();
        let directory = format!("elsewhere ({} directories)", folders.len());
        shown.push(Directory { directory, ..Row { place: String::new(), folders }.shown() });
    }
    shown
}

/// Returns the row with the most time that can be split, and its parts.
fn next<'a>(rows: &[Row<'a>]) -> Option<(usize, Vec<Row<'a>>)> {
    let parts = |(at, row): (usize, &Row<'a>)| {
        let parts = row.parts();
        (parts.len() > 1).then(|| (row.time(), at, parts))
    };
    rows.iter().enumerate().filter_map(parts).max_by_key(|(time, ..)| *time).map(|(_, at, parts)| (at, parts))
}

impl<'a> Row<'a> {
    fn of(folders: Vec<&'a Directory>) -> Row<'a> {
        let place = folders.iter().map(|folder| folder.directory.trim_end_matches('/').to_string()).reduce(common);
        Row { place: place.unwrap_or_default(), folders }
    }

    fn time(&self) -> u64 {
        self.folders.iter().map(|folder| folder.use_.time_ns).sum()
    }

    /// Splits a row by the path component after the common path; files directly in the common path are also a part.
    fn parts(&self) -> Vec<Row<'a>> {
        let mut parts: Vec<(&str, Vec<&Directory>)> = Vec::new();
        for folder in &self.folders {
            let below = folder.directory.get(self.place.len()..).unwrap_or_default().trim_start_matches('/');
            let step = below.split('/').next().unwrap_or_default();
            match parts.iter_mut().find(|(name, _)| *name == step) {
                Some((_, list)) => list.push(folder),
                None => parts.push((step, vec![folder])),
            }
        }
        parts.into_iter().map(|(_, list)| Row::of(list)).collect()
    }

    fn shown(&self) -> Directory {
        let mut use_ = Use::default();
        self.folders.iter().for_each(|folder| use_.include(&folder.use_));
        let directory = match self.folders.as_slice() {
            [one] => one.directory.clone(),
            several => format!("{}/... ({} directories)", self.place, several.len()),
        };
        Directory { directory, files: self.folders.iter().map(|folder| folder.files).sum(), use_ }
    }
}

/// Returns the common prefix of two paths, in whole path components.
pub fn common(a: String, b: String) -> String {
    let same = a.split('/').zip(b.split('/')).take_while(|(a, b)| a == b).map(|(name, _)| name);
    same.collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(folders: &[(&str, u64)], most: usize) -> Vec<(String, u64)> {
        let folder = |&(directory, time_ns): &(&str, u64)| Directory {
            directory: directory.into(),
            files: 1,
            use_: Use { time_ns, ..Use::default() },
        };
        let rows = folded(&folders.iter().map(folder).collect::<Vec<_>>(), most);
        rows.into_iter().map(|row| (row.directory, row.use_.time_ns)).collect()
    }

    #[test]
    fn folders_are_shown_apart_where_the_time_went() {
        let folders = [("/data/a/1", 50), ("/data/a/2", 40), ("/data/b", 5), ("/data/b/x", 1), ("/etc", 2), ("/", 1)];
        let row = |path: &str, time| (path.to_string(), time);
        assert_eq!(shown(&folders, 1), [row("/... (6 directories)", 99)]);
        let three = [
            row("/data/a/... (2 directories)", 90),
            row("/data/b/... (2 directories)", 6),
            row("elsewhere (2 directories)", 3),
        ];
        assert_eq!(shown(&folders, 3), three);
        assert_eq!(shown(&folders, 9).len(), 6);
    }

    #[test]
    fn one_folder_and_those_without_a_root_are_themselves() {
        assert_eq!(shown(&[("/data/a", 1)], 5), [("/data/a".into(), 1)]);
        assert_eq!(shown(&[(".", 2), ("runs/1", 1)], 5), [(".".into(), 2), ("runs/1".into(), 1)]);
    }
}
