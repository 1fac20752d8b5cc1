//! Compares the files that a run needs with the files that exist, and prints the command that generates them.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::run::Run;
use crate::checkpoint::{self, Shard, Shards};
use crate::config::{Config, LoaderKind};
use crate::data_set::fingerprint::{self, Difference, Fingerprint, Use};
use crate::data_set::generate;
use crate::data_set::layout::{Layout, Split};
use crate::data_set::missing_files::{self, Missing};
use crate::failure::{Failure, Kind, Outcome};
use crate::keys::value::Value;
use crate::spans;
use crate::store::{self, settings};
use crate::system::file_calls;

impl Run {
    /// Returns the command that generates the missing data set of this run.
    pub(super) fn generate_command(&self) -> String {
        let typed = self.called.iter().chain(self.overrides.iter().map(|typed| &typed.typed));
        let words: Vec<String> = typed.map(|word| shell_word(&settings::masked(word))).collect();
        format!("{} ++workload.workflow.generate_data=true ++workload.workflow.train=false", words.join(" "))
    }

    /// Checks that the data exist or fit on the disk, and that checkpoints can be written. The other ranks of a
    /// launched run may be on other hosts.
    pub fn check_disk(&mut self, launched: bool) -> Outcome<()> {
        store::enter(self.config.store.as_ref());
        // A data set that is read was compared with its fingerprint earlier.
        let Config { workflow, store: in_store, checkpoint, dataset, .. } = &self.config;
        if in_store.is_some() && workflow.generate {
            store::preflight(&Layout::new(dataset).path(Split::Train, 0))?;
        } else if in_store.is_some() && !workflow.train && store::is_object(&checkpoint.folder) {
            store::preflight(&checkpoint.folder.join(".dlio"))?;
        }
        self.check_data()?;
        let Config { workflow, checkpoint, .. } = &self.config;
        if self.config.only_checkpoints() && checkpoint.writes <= 0 {
            checkpoint::check_existence(checkpoint)?;
        }
        // Without training, a run may only read checkpoints.
        let saves = workflow.checkpoint && (workflow.train || checkpoint.writes > 0);
        if saves {
            let fast = checkpoint.fast_folder.iter().map(|folder| ("fast_folder", folder));
            let mut folders = [("checkpoint_folder", &checkpoint.folder)].into_iter().chain(fast);
            folders.try_for_each(|(key, folder)| checkpoint::check_folder(key, folder))?;
        }
        if saves { self.check_room(launched) } else { Ok(()) }
    }

    /// Refuses checkpoints that do not fit on their disk, together with the data set if that is to be generated on the
    /// same disk.
    fn check_room(&self, launched: bool) -> Outcome<()> {
        let Config { workflow, checkpoint: checkpoints, dataset, model, framework, .. } = &self.config;
        let (folder, ranks) = (&checkpoints.folder, self.ranks);
        let Some(free) = file_calls::free_bytes(folder).ok().filter(|_| !store::is_object(folder)) else {
            return Ok(());
        };
        let shards = Shards { model, checkpoints, framework: *framework, ranks };
        let own = || shards.of(0).iter().map(Shard::bytes).sum();
        let each: u64 = if launched { own() } else { shards.total_bytes() };
        let count = checkpoint::written(&self.config, ranks);
        let needed = count.saturating_mul(each);
        if needed == 0 {
            return Ok(());
        }
        let layout = Layout::new(dataset);
        let device = |path: &Path| std::fs::metadata(path).ok().map(|found| found.dev());
        let beside = workflow.generate
            && !store::is_object(&dataset.folder)
            && device(generate::existing(&dataset.folder)) == device(folder);
        let data = if beside { generate::expected_bytes(&layout)? } else { 0 };
        // Existing files are overwritten.
        let there = || {
            let data = if beside { data.saturating_sub(generate::present(&layout).1) } else { 0 };
            needed.saturating_sub(checkpoint::existing_bytes(folder)).saturating_add(data)
        };
        if needed.saturating_add(data) <= free || there() <= free {
            return Ok(());
        }
        let in_units = generate::in_units;
        let with_data = if beside { format!(" in addition to {} of data", in_units(data)) } else { String::new() };
        let what = format!(
            "the checkpoints of the run need {} ({count} of {}){with_data}, {} has {} free",
            in_units(needed),
            in_units(each),
            folder.display(),
            in_units(free)
        );
        Err(Failure::new(Kind::System, what).remedy(
            "write fewer or smaller checkpoints, or choose another directory with \
                ++workload.checkpoint.checkpoint_folder=DIR",
        ))
    }

    /// Compares the configuration with the recorded generation of the existing files. Requested settings must match;
    /// the rest is adopted from the files.
    pub(super) fn adopt_data_set(&mut self) -> Outcome<()> {
        if !self.reads_data() || self.config.workflow.generate {
            return Ok(());
        }
        for split in self.splits() {
            self.read_in_part(split);
            let layout = Layout::new(&self.config.dataset);
            let Some(made) = Fingerprint::read(&layout, split)? else { continue };
            let differences = made.differences(&Fingerprint::of(&layout, split)?);
            let (asked, open): (Vec<_>, Vec<_>) =
                differences.into_iter().partition(|difference| self.asks_for(difference));
            if !asked.is_empty() {
                return Err(self.other_data_set(&asked));
            }
            self.take_over(&open)?;
        }
        Ok(())
    }

    /// Handles more files than requested: the first of them are read, as in DLIO.
    fn read_in_part(&mut self, split: Split) {
        let layout = Layout::new(&self.config.dataset);
        if self.config.store.is_some() || layout.has_set(split) {
            return;
        }
        if let Some(total) = layout.larger_set(split) {
            self.config.dataset.named[split as usize] = total;
            let (files, folder) = (layout.files(split), layout.dataset.folder.join(split.folder()));
            let note = format!("reading the first {files} of {total} files in {}", folder.display());
            self.notes.extend((files > 0).then_some(note));
        }
    }

    fn reads_data(&self) -> bool {
        self.config.workflow.train && self.config.reader.loader != LoaderKind::Synthetic
    }

    fn splits(&self) -> impl Iterator<Item = Split> + use<> {
        let evaluates = self.config.workflow.evaluate;
        [Split::Train, Split::Valid].into_iter().filter(move |split| *split == Split::Train || evaluates)
    }

    /// Returns `true` if the configuration sets the key, which has another name for the shape.
    fn asks_for(&self, difference: &Difference) -> bool {
        let has = |key: &str| {
            let path: Vec<&str> = ["dataset"].into_iter().chain(key.split('.')).collect();
            !matches!(self.composed.workload.at(&path), None | Some(Value::Null))
        };
        match difference.key.as_str() {
            "record_dims" | "record_length_bytes" | "record_length_bytes_stdev" => {
                has("record_dims") || has("record_length_bytes") || has("record_length_bytes_stdev")
            }
            "writer" => false,
            key => has(key),
        }
    }

    fn other_data_set(&self, differences: &[Difference]) -> Failure {
        let place = self.config.dataset.folder.display();
        let what = format!(
            "the data set in {place} was generated with {}",
            fingerprint::listed(differences, &self.config.dataset)
        );
        Failure::new(Kind::MissingData, what).remedy(format!(
            "use these values to measure it, or generate the other one with\n    {}",
            self.generate_command()
        ))
    }

    fn missing_data_set(&self, layout: &Layout, missing: &Missing) -> Failure {
        let (split, command) = (missing.split, self.generate_command());
        let files = layout.files(split);
        let generate = format!("generate it with\n    {command}");
        if missing.all && missing.count < files {
            return Failure::new(Kind::MissingData, missing.describe(layout))
                .remedy(format!("generate the missing files with\n    {command}"));
        }
        let Some(total) = layout.smaller_set(split) else {
            let names = missing.names.iter().take(1).map(|path| path.display().to_string());
            let there = contents(&layout.dataset.folder.join(split.folder()));
            let what = format!("cannot find the data set: {} does not exist{there}", names.collect::<String>());
            return Failure::new(Kind::MissingData, what).remedy(generate);
        };
        let folder = layout.dataset.folder.join(split.folder());
        let what = format!(
            "{} contains a data set with {total} files, but the configuration has {}",
            folder.display(),
            layout.files(split)
        );
        let key = split.files_key();
        Failure::new(Kind::MissingData, what)
            .remedy(format!("read it with ++workload.dataset.{key}={total}, or keep it and {generate}"))
    }

    fn take_over(&mut self, differences: &[Difference]) -> Outcome<()> {
        let known = differences.iter().filter(|difference| difference.key != "writer");
        for (difference, made) in known.filter_map(|difference| Some((difference, difference.made.as_ref()?))) {
            self.composed.workload.put(&difference.path(), Value::from(made));
            let note = format!("reading the data set with the values it was generated with: {}", difference.text());
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
        let mut config = Config { workflow: self.config.workflow.clone(), ..Config::read(&self.composed.workload)? };
        config.dataset.named = self.config.dataset.named;
        config.dataset.listed = self.config.dataset.listed.clone();
        self.config = config;
        Ok(())
    }

    fn check_data(&mut self) -> Outcome<()> {
        let layout = Layout::new(&self.config.dataset);
        let folder = &layout.dataset.folder;
        if (self.config.workflow.generate || self.reads_data()) && folder.exists() && !folder.is_dir() {
            return Err(Failure::refused(format!("cannot use {} for data: it is not a directory", folder.display()))
                .remedy("choose another directory with ++workload.dataset.data_folder=DIR"));
        }
        if self.config.workflow.generate {
            return generate::check_space(&layout);
        }
        if !self.reads_data() {
            return Ok(());
        }
        // A generation in progress may replace the files.
        drop(fingerprint::lock(&layout, Use::Read)?);
        for split in self.splits() {
            let found = {
                let _span = spans::span("data.check", spans::PIPELINE, &[("files", layout.files(split))]);
                missing_files::of(&layout, split)?
            };
            match found {
                Some(missing) if self.goes_on && missing.all && missing.count < layout.files(split) => {
                    self.notes.push(missing.describe(&layout));
                }
                Some(missing) => return Err(self.missing_data_set(&layout, &missing)),
                None => {}
            }
        }
        for split in self.splits() {
            // Files generated by dlio have a record of how.
            if Fingerprint::read(&layout, split)?.is_none()
                && let Some(difference) = fingerprint::looked_at(&layout, split)?
            {
                self.notes
                    .push(format!("the data set differs from the configuration and is read unchanged: {difference}"));
            }
        }
        Ok(())
    }
}

/// Returns which names a directory contains instead of those that were expected.
fn contents(folder: &Path) -> String {
    const SHOWN: usize = 2;
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).take(1000).collect();
    names.sort();
    let more = if names.len() > SHOWN { ", ..." } else { "" };
    names.truncate(SHOWN);
    if names.is_empty() { String::new() } else { format!("; {} contains {}{more}", folder.display(), names.join(", ")) }
}

fn shell_word(text: &str) -> String {
    let plain = text.chars().all(|c| c.is_alphanumeric() || "+=._/:-~,@%".contains(c));
    if plain { text.to_string() } else { format!("'{}'", text.replace('\'', "'\\''")) }
}
