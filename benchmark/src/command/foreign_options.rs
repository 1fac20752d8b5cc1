//! Options of other programs that users type after `dlio bench`, and what to write instead.

use crate::keys::KEYS;

/// What to write instead of an option; `N` and others stand for its value.
const OTHERS: &[(&[&str], &str)] = &[
    (&["--workload", "-w"], "workload=NAME"),
    (&["-n", "-np", "--np", "--nprocs", "--nproc", "--num-ranks", "--num-processes"], "--ranks=N"),
    (&["--dry-run", "--print-config", "--show"], "--cfg, which prints the configuration"),
    (&["-o", "--output", "--output-dir", "--results-dir"], "++hydra.run.dir=DIR"),
    (&["--config", "--config-file", "-f", "--file"], "workload=FILE"),
    (&["--force", "--overwrite"], "--regenerate"),
    (&["--generate", "--generate-data"], "++workload.workflow.generate_data=true"),
    (&["--profile"], "--trace"),
];

/// Returns the hint for an unknown option, as typed: `--name`, `--name=value` or `-n`.
pub fn hint(typed: &str) -> Option<String> {
    let (option, value) = typed.split_once('=').map_or((typed, None), |(option, value)| (option, Some(value)));
    if let Some((_, instead)) = OTHERS.iter().find(|(options, _)| options.contains(&option)) {
        return Some(format!("write {instead}"));
    }
    let word = option.strip_prefix("--")?.replace('-', "_");
    let name = word.rsplit('.').next().unwrap_or_default();
    let key = KEYS.iter().find(|key| key.path.rsplit('.').next() == Some(name))?;
    Some(format!("write ++workload.{}={}", key.path, value.unwrap_or("VALUE")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_other_programs_have_a_hint() {
        for (typed, expected) in [
            ("--workload", "write workload=NAME"),
            ("-n", "write --ranks=N"),
            ("--num_files_train=8", "write ++workload.dataset.num_files_train=8"),
            ("--batch-size", "write ++workload.reader.batch_size=VALUE"),
            ("--workload.train.epochs=2", "write ++workload.train.epochs=2"),
        ] {
            assert_eq!(hint(typed).as_deref(), Some(expected), "{typed}");
        }
        assert_eq!(hint("--nonsense"), None);
    }
}
