//! The origin of a trace that was cut from another one: a text file in its directory, for users and for reports.

use std::path::Path;

use crate::shell_word::shell_word;

/// The name of the file.
const NAME: &str = "origin.txt";

const FIRST_LINE: &str = "A part of another trace, cut by dlio-analyze ";

/// A range of time in nanoseconds since the Unix epoch; `None` means unlimited.
pub type Window = (Option<i64>, Option<i64>);

/// Writes the origin of the trace in `folder`: the traces it was cut from, the command that cut it, and the selected time.
pub fn write(folder: &Path, traces: &[String], command: &[String], window: Window) -> std::io::Result<()> {
    let absolute = |trace: &String| std::path::absolute(trace).map_or(trace.clone(), |path| path.display().to_string());
    let words = |words: Vec<String>| words.iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" ");
    let (from, command) = (words(traces.iter().map(absolute).collect()), words(command.to_vec()));
    let end = |end: Option<i64>| end.map_or(String::new(), |ns| ns.to_string());
    let here = std::env::current_dir().unwrap_or_default();
    let text = format!(
        "{FIRST_LINE}{}.\n\nfrom     {from}\ncommand  {command}\nin       {}\nwindow   {}..{}\n\n\
        The files next to this one contain the events that the filters of this command select, the calls that connect \
        threads and processes (such as fork and connect), the processes that made these events and calls (with host, rank, \
        command and limits), the names of the files that they used, and all samples of the hosts. To cut another part, run \
        the command with other filters.\n",
        env!("CARGO_PKG_VERSION"),
        shell_word(&here.display().to_string()),
        end(window.0),
        end(window.1),
    );
    std::fs::write(folder.join(NAME), text)
}

/// Returns the origin of the trace in a directory; `None` for a whole trace.
pub fn read(folder: &Path) -> Option<Origin> {
    let text = std::fs::read_to_string(folder.join(NAME)).ok()?;
    let line = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)).map(|rest| rest.trim().to_string());
    let window = line("window ").unwrap_or_default();
    let (first, end) =
        window.split_once("..").map_or((None, None), |(first, end)| (first.parse().ok(), end.parse().ok()));
    text.starts_with(FIRST_LINE)
        .then(|| Some(Origin { from: line("from ")?, command: line("command ")?, window: (first, end) }))?
}

/// The origin of a cut trace.
#[derive(Debug, PartialEq, Eq)]
pub struct Origin {
    /// The paths of the whole trace.
    pub from: String,
    pub command: String,
    /// Reports treat the trace as one of which this window is selected: it does not show the start and the end.
    pub window: Window,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_origin_is_read_and_other_files_are_none() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read(folder.path()), None);
        let command = ["dlio-analyze", "/a trace", "--step", "3..4"].map(String::from);
        write(folder.path(), &["/a trace".into()], &command, (Some(5), None)).unwrap();
        let command = "dlio-analyze '/a trace' --step 3..4".into();
        assert_eq!(read(folder.path()), Some(Origin { from: "'/a trace'".into(), command, window: (Some(5), None) }));
        std::fs::write(folder.path().join(NAME), "from me\ncommand it\n").unwrap();
        assert_eq!(read(folder.path()), None);
    }
}
