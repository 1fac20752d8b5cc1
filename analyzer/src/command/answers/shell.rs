//! `--shell`: runs queries interactively, with editing and a history on a terminal, or line by line from a pipe. Both
//! accept the same statements and commands.

use std::io::{BufRead, IsTerminal, Write};
use std::path::PathBuf;

use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;

use super::answer::{Answer, print};
use crate::atomic_file::Output;
use crate::command::arguments::Arguments;
use crate::command::interrupts::Interrupts;
use crate::command::listing;
use crate::command::outcome::Outcome;
use crate::command::refusals::failure::Failure;
use crate::command::shared_trace::SharedTrace;

const HELP: &str = "\
A query ends with a semicolon.
  .tables           the tables (\\d too)
  .schema [TABLE]   what their columns hold (\\d TABLE too)
  .help             this
  .quit             leave (quit, exit and \\q too)
";

struct Shell;

pub fn requested(typed: &Arguments) -> Option<Box<dyn Answer>> {
    typed.shell.then(|| Box::new(Shell) as Box<dyn Answer>)
}

impl Answer for Shell {
    fn give(&mut self, trace: &SharedTrace, out: &mut Output) -> Result<Outcome, Failure> {
        let tables = trace.queries()?;
        run(Interrupts::heard().map_err(Failure::Write)?, |step, interrupts| {
            match step {
                Step::Ask(sql) => tables.run(sql, interrupts, out)?,
                Step::Say(text) => drop(print(text, out)?),
                Step::Leave => {}
            }
            out.flush().map_err(Failure::Write)
        })?;
        Ok(Outcome::default())
    }
}

/// An action that a line requests.
#[derive(Debug, PartialEq)]
enum Step {
    Ask(String),
    Say(String),
    Leave,
}

/// Carries out each step; Ctrl-C interrupts it. A query that fails is reported, and the shell continues.
fn run(
    mut interrupts: Interrupts,
    mut act: impl FnMut(&Step, &mut Interrupts) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut act_on = |step: &Step, interrupts: &mut Interrupts| match act(step, interrupts) {
        Err(error) if error.is_broken_pipe() => Err(error),
        Err(error) => {
            notice!("{error}");
            Ok(())
        }
        Ok(()) => Ok(()),
    };
    if std::io::stdin().is_terminal() {
        edited(&mut interrupts, &mut act_on)
    } else {
        piped(&mut |step| act_on(step, &mut interrupts))
    }
}

fn piped(act: &mut dyn FnMut(&Step) -> Result<(), Failure>) -> Result<(), Failure> {
    let mut typed = Typed::default();
    for line in std::io::stdin().lock().lines() {
        for step in typed.line(&line.map_err(Failure::Write)?) {
            if step == Step::Leave {
                return Ok(());
            }
            act(&step)?;
        }
    }
    typed.rest().map_or(Ok(()), |step| act(&step))
}

fn edited(
    interrupts: &mut Interrupts,
    act: &mut dyn FnMut(&Step, &mut Interrupts) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let wrong = |error: ReadlineError| Failure::Write(std::io::Error::other(error.to_string()));
    let mut editor = DefaultEditor::new().map_err(wrong)?;
    let history = history();
    // Errors are ignored: there may not be a history yet.
    let _ = history.as_ref().map(|path| editor.load_history(path));
    act(&Step::Say(HELP.into()), interrupts)?;
    let mut typed = Typed::default();
    'lines: loop {
        // Forget a Ctrl-C that was meant for the previous query. While a line is edited, Ctrl-C is a key and not a
        // signal.
        interrupts.forget();
        let line = match editor.readline(if typed.is_empty() { "sql> " } else { "...> " }) {
            Ok(line) => line,
            Err(ReadlineError::Interrupted) => {
                typed = Typed::default();
                continue;
            }
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(wrong(error)),
        };
        for step in typed.line(&line) {
            match &step {
                Step::Leave => break 'lines,
                Step::Ask(sql) => editor.add_history_entry(format!("{sql};")).map_err(wrong)?,
                Step::Say(_) => editor.add_history_entry(&line).map_err(wrong)?,
            };
            // A history that cannot be saved is not a failure. It is saved now, so it survives any exit.
            let _ = history.as_ref().map(|path| editor.append_history(path));
            act(&step, interrupts)?;
        }
    }
    Ok(())
}

/// Input that is not a complete statement yet.
#[derive(Default)]
struct Typed(String);

impl Typed {
    fn is_empty(&self) -> bool {
        self.0.trim().is_empty()
    }

    /// Adds a line and returns the steps that it completes.
    fn line(&mut self, line: &str) -> Vec<Step> {
        if self.is_empty()
            && let Some(step) = command(line)
        {
            return vec![step];
        }
        self.0.push_str(line);
        self.0.push('\n');
        let mut steps = Vec::new();
        while let Some(end) = end_of_statement(&self.0) {
            let statement: String = self.0.drain(..=end).collect();
            steps.extend(asked(statement.trim_end_matches(';')));
        }
        steps
    }

    /// Returns the last statement, which does not need a semicolon.
    fn rest(self) -> Option<Step> {
        asked(&self.0)
    }
}

fn asked(statement: &str) -> Option<Step> {
    let statement = statement.trim();
    (!statement.is_empty()).then(|| Step::Ask(statement.into()))
}

fn command(line: &str) -> Option<Step> {
    let mut words = line.trim().trim_end_matches(';').split_whitespace();
    let (word, table) = (words.next()?, words.next());
    let text = match (word, table) {
        ("quit" | "exit" | ".quit" | ".exit" | "\\q", None) => return Some(Step::Leave),
        (".help" | "help" | "\\?", None) => HELP.into(),
        (".tables" | "\\d" | "\\dt", None) => listing::names(),
        (".schema", None) => listing::everything(),
        (".schema" | "\\d", Some(table)) => {
            listing::one(table).unwrap_or_else(|| format!("unknown table {table}; .tables lists them\n"))
        }
        _ if word.starts_with(['.', '\\']) => format!("unknown command {word}; .help lists them\n"),
        _ => return None,
    };
    Some(Step::Say(text))
}

/// Returns the position of the first semicolon outside strings, names and comments.
fn end_of_statement(text: &str) -> Option<usize> {
    let (mut within, mut before) = (None, ' ');
    for (at, c) in text.char_indices() {
        match within {
            None if c == ';' => return Some(at),
            None if c == '\'' || c == '"' => within = Some(c),
            None if c == '-' && before == '-' => within = Some('\n'),
            Some(end) if c == end => within = None,
            _ => {}
        }
        before = c;
    }
    None
}

fn history() -> Option<PathBuf> {
    let home = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from);
    let folder = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".local/state")))?.join("dlio");
    std::fs::create_dir_all(&folder).ok()?;
    Some(folder.join("analyze-history"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(sql: &str) -> Step {
        Step::Ask(sql.into())
    }

    #[test]
    fn statements_end_with_a_semicolon_that_is_in_no_text() {
        let mut typed = Typed::default();
        assert_eq!(typed.line("select 1; select ';' -- one; two"), [ask("select 1")]);
        assert_eq!(typed.line(", \";\";; select"), [ask("select ';' -- one; two\n, \";\"")]);
        assert_eq!((typed.line("quit"), typed.rest()), (vec![], Some(ask("select\nquit"))));
    }

    #[test]
    fn commands_stand_on_lines_of_their_own() {
        let leaving = ["quit", "exit;", ".quit", "\\q", " .exit "];
        assert!(leaving.into_iter().all(|line| Typed::default().line(line) == [Step::Leave]));
        let answer = |line: &str| match command(line) {
            Some(Step::Say(text)) => text,
            other => panic!("{line}: {other:?}"),
        };
        assert!(answer(".help").contains(".schema") && answer(".tables").contains("one row per host"));
        assert!(answer("\\d hosts").contains("boot_id") && answer(".schema").contains("boot_id"));
        assert!(answer(".schema none").contains("unknown table none") && answer(".none").contains("unknown command"));
        assert_eq!(command("select 1"), None);
    }
}
