//! Generates shell completions for `dlio`: its options, and values that clap does not know: names of workloads and
//! keys, and the options of `dlio analyze` and `dlio top`, which are separate programs.

use clap::Command;
use clap_complete::Shell;

use crate::keys::KEYS;
use crate::workload::presets::{ALIASES, WORKLOADS};

/// Returns the script of a shell, which completes workload names after `workload=` and `workloads show`.
pub fn script(shell: Shell, command: &mut Command) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, command, "dlio", &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    let names = names();
    match shell {
        Shell::Bash => script + &BASH.replace("NAMES", &names.join(" ")).replace("KEYS", &keys().join(" ")),
        Shell::Zsh => zsh(&script, &names),
        Shell::Fish => script + &fish(&names),
        _ => script,
    }
}

fn names() -> Vec<&'static str> {
    let workloads = WORKLOADS.iter().map(|(name, _)| *name);
    let mut names: Vec<_> = workloads.chain(ALIASES.iter().map(|(alias, _)| *alias)).collect();
    names.sort_unstable();
    names
}

/// Returns the keys, with the equals sign that precedes their values.
fn keys() -> Vec<String> {
    KEYS.iter().map(|key| format!("workload.{}=", key.path)).collect()
}

/// By default, Readline treats the text after an equals sign as a separate word.
const BASH: &str = r#"
_dlio_workloads() {
    local typed="${COMP_LINE:0:COMP_POINT}"
    local word="${typed##*[[:space:]]}"
    local show='[[:space:]]workloads[[:space:]]+show[[:space:]]+[^[:space:]]*$'
    if [[ "${COMP_WORDS[1]}" =~ ^(analyze|top)$ && ${COMP_CWORD} -gt 1 ]]; then
        local other="dlio-${COMP_WORDS[1]}"
        complete -p "${other}" >/dev/null 2>&1 || source <("${other}" completions bash 2>/dev/null)
        [[ "$(complete -p "${other}" 2>/dev/null)" =~ -F[[:space:]]([^[:space:]]+) ]] || return 0
        COMP_WORDS=("${other}" "${COMP_WORDS[@]:2}")
        COMP_CWORD=$((COMP_CWORD - 1))
        "${BASH_REMATCH[1]}" "${other}" "$2" "$3"
    elif [[ "${word}" =~ ^([+~]*)(workload[.][^=]*)$ ]]; then
        COMPREPLY=( $(compgen -P "${BASH_REMATCH[1]}" -W "KEYS" -- "${BASH_REMATCH[2]}") )
        compopt -o nospace 2>/dev/null
    elif [[ "${word}" == workload=* ]]; then
        COMPREPLY=( $(compgen -W "NAMES" -- "${word#workload=}") )
        [[ "${COMP_WORDBREAKS}" == *=* ]] || COMPREPLY=( "${COMPREPLY[@]/#/workload=}" )
    elif [[ "${typed}" =~ ${show} ]]; then
        COMPREPLY=( $(compgen -W "NAMES" -- "${word}") )
    else
        _dlio "$@"
    fi
}
complete -F _dlio_workloads -o bashdefault -o default dlio
"#;

/// Words after these are completed as the command line of a separate program.
const OTHERS: [&str; 2] = ["analyze", "top"];

fn fish_of_others() -> String {
    let row = |verb: &str| {
        format!(
            "complete -c dlio -n \"__fish_seen_subcommand_from {verb}\" -a \"(complete -C\\\"dlio-{verb} \\\"(commandline -ct))\"\n"
        )
    };
    OTHERS.map(row).concat()
}

/// Returns the script for zsh with names inserted in two places.
fn zsh(script: &str, names: &[&str]) -> String {
    let assigned = names.iter().map(|name| format!("workload={name}"));
    let assigned: Vec<_> = assigned.chain(keys().into_iter().map(|key| format!("++{key}"))).collect();
    let line = |line: &str| {
        let words = match line {
            line if line.contains("'::overrides -- ") => assigned.join(" "),
            line if line.starts_with("':name -- ") => names.join(" "),
            line => return line.to_string() + "\n",
        };
        line.replace(":_default'", &format!(":({words})'")) + "\n"
    };
    script.lines().map(line).collect()
}

fn fish(names: &[&str]) -> String {
    let assigned = names.iter().map(|name| format!("workload={name}"));
    let assigned: Vec<_> = assigned.chain(keys().into_iter().map(|key| format!("++{key}"))).collect();
    let row = |verb: &str, words: &[String]| {
        format!("complete -c dlio -n \"__fish_seen_subcommand_from {verb}\" -f -a \"{}\"\n", words.join(" "))
    };
    let names: Vec<_> = names.iter().map(|name| name.to_string()).collect();
    row("bench", &assigned) + &row("show", &names) + &fish_of_others()
}
