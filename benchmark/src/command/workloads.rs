//! `dlio workloads`: the lists and explanations it prints.

use crate::data_set::formats;
use crate::failure::{Failure, Outcome};
use crate::keys::{self, KEYS, Key, Kind};
use crate::workload::presets::{self, ALIASES, WORKLOADS};
use std::fmt::Write;

pub fn list() -> String {
    let mut text = String::new();
    for (name, yaml) in WORKLOADS {
        let aliases: Vec<&str> = ALIASES.iter().filter(|(_, target)| target == name).map(|(alias, _)| *alias).collect();
        let also = if aliases.is_empty() { String::new() } else { format!(" (also {})", aliases.join(", ")) };
        let _ = writeln!(text, "{name:<26} {}{also}", presets::summary(yaml));
    }
    text.push_str("\n`dlio workloads show NAME` prints one, `dlio bench workload=NAME` runs it\n");
    text
}

pub fn show(name: &str) -> Outcome<String> {
    let found = presets::find(name, None)?;
    let yaml = WORKLOADS.iter().find(|(known, _)| *known == found.name).map_or("", |(_, yaml)| yaml);
    let alias = found.alias.map(|alias| format!("# {alias} is {}\n", found.name)).unwrap_or_default();
    Ok(format!("{alias}{yaml}"))
}

pub fn explain(key: Option<&str>) -> Outcome<String> {
    let Some(asked) = key else {
        return Ok(KEYS.iter().map(line).collect());
    };
    let path = keys::present_name(asked.strip_prefix("workload.").unwrap_or(asked));
    if let Some(key) = KEYS.iter().find(|key| key.path == path) {
        return Ok(whole(key));
    }
    let below: String = KEYS.iter().filter(|key| key.path.starts_with(&format!("{path}."))).map(line).collect();
    if !below.is_empty() {
        return Ok(below);
    }
    // Also finds a key by its last word, which messages use.
    let named: Vec<&Key> = KEYS.iter().filter(|key| key.path.rsplit('.').next() == Some(path.as_str())).collect();
    match named.as_slice() {
        [] => {}
        [key] => return Ok(whole(key)),
        several => return Ok(several.iter().map(|key| line(key)).collect()),
    }
    // Otherwise, finds all keys that contain the text.
    let holding: String = KEYS.iter().filter(|key| path.len() > 2 && key.path.contains(&path)).map(line).collect();
    if !holding.is_empty() {
        return Ok(holding);
    }
    let near = keys::suggestion(&path).map(|near| format!("did you mean {near}? ")).unwrap_or_default();
    let remedy = format!("{near}`dlio workloads explain` lists all keys");
    Err(Failure::refused(format!("unknown key `{asked}`")).remedy(remedy))
}

fn line(key: &Key) -> String {
    format!("{:<48} {:<12} {}\n", key.path, key.default, key.meaning)
}

fn whole(key: &Key) -> String {
    let kind = match key.kind {
        Kind::Flag => "true or false".to_string(),
        Kind::Whole => "an integer".into(),
        Kind::Number => "a number".into(),
        Kind::Text => "a string".into(),
        Kind::Choice(words) => format!("one of {}", words.join(", ")),
        Kind::Format => format!("one of {}", formats::names().join(", ")),
        Kind::Wholes => "a list of integers".into(),
        Kind::Time => "seconds, or {mean, stdev}, or {type: normal|uniform|gamma|exponential|poisson, ...}".into(),
        Kind::Free => "anything".into(),
    };
    format!(
        "workload.{}\n  {}\n  takes    {kind}\n  default  {}\n  affects  {}\n  example  ++workload.{}={}\n",
        key.path, key.meaning, key.default, key.affects, key.path, key.default
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_a_section_and_everything_can_be_explained() {
        assert!(explain(Some("workload.reader.batch_size")).unwrap().contains("samples per step"));
        assert!(explain(Some("hdf6")).is_err());
        assert!(explain(Some("num_files")).unwrap().contains("dataset.num_files_eval"));
        assert!(explain(Some("num_files_train")).unwrap().starts_with("workload.dataset.num_files_train\n"));
        assert_eq!(explain(Some("dataset.hdf5")).unwrap().lines().count(), 3);
        assert_eq!(explain(None).unwrap().lines().count(), KEYS.len());
        assert!(explain(Some("reader.batchsize")).unwrap_err().to_string().contains("reader.batch_size"));
    }

    #[test]
    fn every_workload_is_listed_and_shown() {
        let list = list();
        for (name, _) in WORKLOADS {
            assert!(list.contains(name));
            assert!(show(name).unwrap().contains("workflow:"));
        }
        assert!(show("unet3d").unwrap().starts_with("# unet3d is unet3d_h100"));
    }
}
