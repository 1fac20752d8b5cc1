//! Runs every program of `tests/programs`, in every case: untraced, then traced in each format.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};

use dlio_tests::compile::compile;
use dlio_tests::directives::{Case, cases};
use dlio_tests::sandbox::{Run, Sandbox};
use dlio_tests::{artefacts, home, seen, verdict};
use libtest_mimic::{Arguments, Failed, Trial};

/// The programs wait for each other and for the disk more than they compute.
const THREADS: usize = 4;

fn main() {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = arguments.test_threads.or(Some(THREADS));
    libtest_mimic::run(&arguments, trials()).exit();
}

fn trials() -> Vec<Trial> {
    let folder = home().join("programs");
    let mut sources: Vec<_> = fs::read_dir(&folder).into_iter().flatten().flatten().map(|e| e.path()).collect();
    sources.sort();
    sources.iter().flat_map(|source| trials_of(source)).collect()
}

fn trials_of(source: &Path) -> Vec<Trial> {
    let stem = source.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let text = fs::read_to_string(source).unwrap_or_default();
    let all = match cases(&text) {
        Ok(all) => all,
        Err(error) => return vec![Trial::test(stem, move || Err(Failed::from(error)))],
    };
    let source = Arc::new(source.to_path_buf());
    let mut names = HashSet::new();
    all.into_iter()
        .map(|case| {
            let plain = case.name.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
            let name = if plain.is_empty() { stem.clone() } else { format!("{stem}::{plain}") };
            assert!(names.insert(name.clone()), "two cases are called {name}");
            let source = Arc::clone(&source);
            Trial::test(name.clone(), move || check(&name.replace("::", "."), &source, &case).map_err(Failed::from))
        })
        .collect()
}

/// Runs one case in all its formats.
fn check(name: &str, source: &Path, case: &Case) -> Result<(), String> {
    let preload = artefacts::library()?;
    let sandbox = Sandbox::new(name).map_err(|error| error.to_string())?;
    missing(&case.needs)?;
    let program = Program::build(source, case, &sandbox)?;
    let untraced = sandbox.run(&mut program.command(case, &sandbox, &preload), !case.hurries)?;
    expected_ending(case, &untraced)?;
    let formats: Vec<&str> = match case.formats.is_empty() {
        true => vec!["native", "auto"],
        false => case.formats.iter().map(String::as_str).collect(),
    };
    for format in formats {
        sandbox.clear().map_err(|error| error.to_string())?;
        let mut command = program.command(case, &sandbox, &preload);
        // Set last by a case that needs another value.
        let own = |variable: &str| case.variables.iter().any(|(name, _)| name == variable);
        for (variable, value) in [("DLIO_TRACE_DIR", sandbox.trace()), ("DLIO_TRACE_FORMAT", PathBuf::from(format))] {
            if !own(variable) {
                command.env(variable, value);
            }
        }
        let traced = sandbox.run(command.env("LD_PRELOAD", &preload), !case.hurries)?;
        let found = seen::read(&sandbox.trace());
        let differences = verdict::differences(case, format, &untraced, &traced, &found);
        if !differences.is_empty() {
            return Err(format!("as {format}:\n  {}", differences.join("\n  ")));
        }
    }
    Ok(())
}

fn expected_ending(case: &Case, run: &Run) -> Result<(), String> {
    let expected = case.exit.as_deref().unwrap_or("42");
    match run.exit == expected {
        true => Ok(()),
        false => {
            let errors = String::from_utf8_lossy(&run.errors);
            Err(format!("untraced it ends with {}, expected {expected}; it says: {errors}", run.exit))
        }
    }
}

/// Returns the requirements that this host lacks.
fn missing(needs: &[String]) -> Result<(), String> {
    let has = |command: &String| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|folder| folder.join(command).exists())
    };
    match needs.iter().find(|need| !has(need)) {
        Some(command) => Err(format!("needs {command}: `make setup-test` installs it")),
        None => Ok(()),
    }
}

/// A program ready to be run.
struct Program {
    line: Vec<PathBuf>,
    library: PathBuf,
    source: PathBuf,
}

impl Program {
    fn build(source: &Path, case: &Case, sandbox: &Sandbox) -> Result<Program, String> {
        let library = sandbox.root().join("library.so");
        if let Some(name) = &case.library {
            let source = home().join("libraries").join(name);
            compile(&source, &library, &["-shared", "-fPIC"])?;
        }
        let line = match source.extension().and_then(|ending| ending.to_str()) {
            Some("c") => {
                let binary = sandbox.root().join("program");
                let built = library.to_string_lossy();
                let flags: Vec<String> = case.compile.iter().map(|flag| flag.replace("{library}", &built)).collect();
                compile(source, &binary, &flags.iter().map(String::as_str).collect::<Vec<_>>())?;
                vec![binary]
            }
            Some("py") => vec![python()?, source.to_path_buf()],
            Some("sh") => vec!["sh".into(), source.to_path_buf()],
            _ => return Err(format!("{}: a program is .c, .py or .sh", source.display())),
        };
        Ok(Program { line, library, source: source.to_path_buf() })
    }

    fn command(&self, case: &Case, sandbox: &Sandbox, preload: &Path) -> Command {
        let fill = |text: &str| {
            let places = [
                ("{work}", sandbox.work()),
                ("{trace}", sandbox.trace()),
                ("{root}", sandbox.root().to_path_buf()),
                ("{library}", self.library.clone()),
                ("{preload}", preload.to_path_buf()),
                ("{source}", self.source.clone()),
            ];
            places.iter().fold(text.to_string(), |text, (name, path)| text.replace(name, &path.to_string_lossy()))
        };
        let mut command = Command::new(&self.line[0]);
        command.args(&self.line[1..]).args(case.arguments.iter().map(|argument| fill(argument)));
        let ours = |name: &std::ffi::OsStr| name.to_string_lossy().starts_with("DLIO_") || name == "LD_PRELOAD";
        for (name, _) in std::env::vars_os().filter(|(name, _)| ours(name)) {
            command.env_remove(name);
        }
        command.envs(case.variables.iter().map(|(name, value)| (name, fill(value))));
        command
    }
}

/// Returns the interpreter itself: python3 may be a script that searches for it.
fn python() -> Result<PathBuf, String> {
    static FOUND: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let ask = || {
        let output = Command::new("python3").args(["-c", "import sys; print(sys.executable, end='')"]).output();
        let output = output.map_err(|error| format!("python3: {error}; `make setup-test` installs it"))?;
        Ok(PathBuf::from(String::from_utf8_lossy(&output.stdout).into_owned()))
    };
    FOUND.get_or_init(ask).clone()
}
