//! `--completions SHELL` and `--man DIR`: completion scripts and manual pages.

use std::io::Write;
use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;
use dlio_schemas::ops::{Layer, OPS};

use super::arguments::Arguments;
use super::refusals::failure::Failure;
use crate::findings::rules::RULES;
use crate::replay::change::KEYS;
use crate::summary::report::SECTIONS;

/// Prints completions. They are generated in memory first, because the generator panics when a write fails.
pub fn print_completions(shell: Shell) -> Result<(), Failure> {
    let mut out = crate::terminal::stdout();
    out.write_all(script(shell).as_bytes()).and_then(|()| out.flush()).map_err(Failure::Write)
}

/// Writes the manual page, which has the content of `--help`.
pub fn write_manual(folder: &Path) -> Result<(), Failure> {
    let written = std::fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(Arguments::command(), folder));
    written.map_err(|error| Failure::unwritable(folder, error))
}

/// Returns the script of a shell, which also completes each element of a comma-separated list.
fn script(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "dlio-analyze", &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    match shell {
        Shell::Bash => script + &bash(),
        Shell::Zsh => zsh(&script),
        Shell::Fish => script + &fish(),
        _ => script,
    }
}

/// Returns the options that take lists, and the elements of these.
fn lists() -> [(&'static str, Vec<String>); 5] {
    let names = |names: &mut dyn Iterator<Item = &'static str>| names.map(String::from).collect::<Vec<_>>();
    [
        ("section", names(&mut SECTIONS.iter().map(|section| section.name))),
        ("ignore", names(&mut RULES.iter().map(|rule| rule.id))),
        ("cat", names(&mut Layer::ALL.iter().map(|layer| layer.name()))),
        ("call", names(&mut OPS.iter().map(|info| info.name))),
        ("what-if", KEYS.iter().map(|(key, _)| format!("{key}=")).collect()),
    ]
}

/// Readline replaces only what follows its last separator, `=` among them: earlier elements may be part of it.
fn bash() -> String {
    let case =
        |(option, names): (&str, Vec<String>)| format!("            --{option}) names=\"{}\" ;;\n", names.join(" "));
    let cases: String = lists().map(case).concat();
    r#"
_dlio_analyze_lists() {
    local typed="${COMP_LINE:0:COMP_POINT}" names=""
    if [[ "${typed}" =~ [[:space:]](--[a-z-]+|-e)[[:space:]=]+([^[:space:]]*)$ ]]; then
        local option="${BASH_REMATCH[1]/#-e/--call}" last="${BASH_REMATCH[2]##*,}"
        case "${option}" in
CASES        esac
        if [[ -n "${names}" ]]; then
            COMPREPLY=( $(compgen -P "${2%"${last}"}" -W "${names}" -- "${last}") )
            compopt -o nospace 2>/dev/null
            return 0
        fi
    fi
    _dlio__analyze "$@"
}
complete -F _dlio_analyze_lists -o bashdefault -o default dlio-analyze
"#
    .replace("CASES", &cases)
}

fn zsh(script: &str) -> String {
    let line = |line: &str| {
        let list = lists().into_iter().find(|(option, _)| line.contains(&format!("--{option}=[")));
        match list.zip(line.rsplit_once(':')) {
            Some(((_, names), (start, end))) if end.contains('\'') => {
                let after = &end[end.rfind('\'').unwrap_or(0)..];
                format!("{start}:_sequence compadd - {}{after}\n", names.join(" "))
            }
            _ => format!("{line}\n"),
        }
    };
    script.lines().map(line).collect()
}

fn fish() -> String {
    let row = |(option, names): (&str, Vec<String>)| {
        format!(
            "complete -c dlio-analyze -l {option} -x -a \"(__fish_complete_list , 'printf %s\\\\n {}')\"\n",
            names.join(" ")
        )
    };
    lists().map(row).concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_list_has_its_elements_in_every_shell() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = script(shell);
            for (option, names) in lists() {
                let line = script
                    .lines()
                    .find(|line| line.contains(option) && names.iter().all(|name| line.contains(name.as_str())));
                assert!(line.is_some(), "{shell}: {option}");
            }
        }
    }
}
