//! Queries one after another: with editing and a history on a terminal, line by line from a pipe.

use std::io::{BufRead, IsTerminal};
use std::path::PathBuf;

use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;

use super::run::Failure;

const HELP: &str = "\
Tables: events, files, processes, hosts. A query ends with a semicolon.
  describe events;    show tables;    \\q to leave";

/// Gives each query to `ask`; one that fails is said and forgotten.
pub fn run(mut ask: impl FnMut(&str) -> Result<(), Failure>) -> Result<(), Failure> {
    let mut said = |sql: &str| match ask(sql) {
        Err(error) if error.is_broken_pipe() => Err(error),
        Err(error) => {
            eprintln!("{error}");
            Ok(())
        }
        Ok(()) => Ok(()),
    };
    if std::io::stdin().is_terminal() { edited(&mut said) } else { piped(&mut said) }
}

fn piped(ask: &mut dyn FnMut(&str) -> Result<(), Failure>) -> Result<(), Failure> {
    let mut query = String::new();
    for line in std::io::stdin().lock().lines() {
        query.push_str(&line.map_err(Failure::Write)?);
        query.push('\n');
        while let Some((sql, rest)) = query.split_once(';') {
            ask(sql.trim())?;
            query = rest.into();
        }
    }
    if query.trim().is_empty() { Ok(()) } else { ask(query.trim()) }
}

fn edited(ask: &mut dyn FnMut(&str) -> Result<(), Failure>) -> Result<(), Failure> {
    let wrong = |error: ReadlineError| Failure::Write(std::io::Error::other(error.to_string()));
    let mut editor = DefaultEditor::new().map_err(wrong)?;
    let history = history();
    // Without a history yet there is nothing to load.
    let _ = history.as_ref().map(|path| editor.load_history(path));
    println!("{HELP}");
    let mut query = String::new();
    loop {
        match editor.readline(if query.is_empty() { "sql> " } else { "...> " }) {
            Ok(line) if query.is_empty() && matches!(line.trim(), "\\q" | "quit" | "exit") => break,
            Ok(line) => query.push_str(&(line + "\n")),
            Err(ReadlineError::Interrupted) => query.clear(),
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(wrong(error)),
        }
        if query.trim_end().ends_with(';') {
            let sql = query.trim().trim_end_matches(';').to_string();
            editor.add_history_entry(format!("{sql};")).map_err(wrong)?;
            ask(&sql)?;
            query.clear();
        }
    }
    // A history that cannot be kept is no reason to fail.
    let _ = history.map(|path| editor.save_history(&path));
    Ok(())
}

fn history() -> Option<PathBuf> {
    let home = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from);
    let folder = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".local/state")))?.join("dlio");
    std::fs::create_dir_all(&folder).ok()?;
    Some(folder.join("analyze-history"))
}
