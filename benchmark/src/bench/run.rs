//! A run that is ready to start, and the directory its ranks write into.

use super::request::Request;
use crate::config::Config;
use crate::data_set::fingerprint::{self, Use};
use crate::data_set::generate;
use crate::data_set::layout::Layout;
use crate::failure::{Failure, Outcome};
use crate::keys;
use crate::keys::grammar::Override;
use crate::keys::value::Value;
use crate::results::run_folder::RunFolder;
use crate::store::settings;
use crate::system::{locate, processes, terminal};
use crate::workload::presets::Composed;
use std::fs::File;
use std::path::{Path, PathBuf};

/// A run that is ready to start.
#[derive(Debug)]
pub struct Run {
    pub config: Config,
    pub composed: Composed,
    pub overrides: Vec<Override>,
    pub folder: PathBuf,
    /// No directory was given: a new one is created even if another run starts in the same second.
    pub(super) own_folder: bool,
    /// Differences from the behavior that the keys may suggest, one line each.
    pub notes: Vec<String>,
    /// The words of this command that precede its overrides.
    pub called: Vec<String>,
    /// The data set is to be generated first although not requested: none exists and the location is the default.
    pub generate_first: bool,
    /// Samples that cannot be read are counted and skipped, those of missing files included.
    pub(super) goes_on: bool,
    pub(super) ranks: u64,
    /// Keeps other runs out of the run directory as long as it is open.
    pub(super) lock: Option<File>,
    /// Keeps other runs out of the data set while it is generated.
    pub(super) data_lock: Option<File>,
}

impl Run {
    /// Returns the value of the key that `workflow.query` names.
    pub fn answer(&self) -> Option<String> {
        let key = self.config.workflow.query.as_deref()?;
        let path: Vec<&str> = key.split('.').collect();
        let tree = settings::without_secrets(&self.composed.workload);
        let typed = tree.at(&path).map(Value::inline);
        typed.or_else(|| keys::find(key).map(|key| key.default.to_string())).or(Some("None".into()))
    }

    /// Prints which run this is, if it differs from the arguments.
    pub fn introduce(&self, request: &Request) {
        if request.quiet || locate::is_traced() {
            return;
        }
        if let Some(alias) = &self.composed.found.alias {
            terminal::line(format_args!("workload {alias} is {}", self.composed.found.name));
        }
        if self.generate_first {
            terminal::line(format_args!(
                "no data set in {}; generating it first",
                self.config.dataset.folder.display()
            ));
        }
    }

    /// Creates the run directory if none was given: one that no other run has, even one of the same second.
    pub fn reserve_folder(&mut self) -> Outcome<()> {
        if !self.own_folder {
            return Ok(());
        }
        let failed = |path: &Path, error| {
            Failure::unwritable("create the run directory", path, error)
                .remedy("choose another run directory with ++hydra.run.dir=DIR")
        };
        let wanted = self.folder.clone();
        if let Some(above) = wanted.parent() {
            std::fs::create_dir_all(above).map_err(|error| failed(above, error))?;
        }
        for number in 1.. {
            match std::fs::create_dir(&self.folder) {
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                    let mut name = wanted.clone().into_os_string();
                    name.push(format!("-{number}"));
                    self.folder = PathBuf::from(name);
                }
                made => {
                    made.map_err(|error| failed(&self.folder, error))?;
                    break;
                }
            }
        }
        self.own_folder = false;
        Ok(())
    }

    /// Returns the configuration that the ranks of a run must agree on.
    pub fn terms(&self) -> String {
        let mut config = self.config.clone();
        // It may contain the time, and rank 0 decides it.
        config.output.folder = None;
        format!("{config:#?}")
    }

    /// Prepares everything that all ranks write into: the run directory, and whether another program's files are among
    /// the data set's.
    pub(super) fn open(&mut self, request: &Request, launched: bool) -> Outcome<(RunFolder, [bool; 2])> {
        self.check_disk(launched)?;
        processes::note_interrupts();
        self.reserve_folder()?;
        let folder = RunFolder::create(self.folder.clone())?;
        self.lock = folder.lock()?;
        folder.clear()?;
        let foreign = self.prepare_generation(request)?;
        if !request.quiet {
            self.notes.iter().for_each(|note| terminal::line(format_args!("note: {note}")));
        }
        let subfolder = match self.composed.hydra.get("output_subdir") {
            Some(Value::Text(name)) => name.as_str(),
            _ => ".hydra",
        };
        folder.write_configuration(subfolder, &self.composed.written, &self.composed.hydra, &self.overrides)?;
        Ok((folder, foreign))
    }

    /// Removes or refuses files that were generated with other settings.
    fn prepare_generation(&mut self, request: &Request) -> Outcome<[bool; 2]> {
        if !self.config.workflow.generate {
            return Ok([false; 2]);
        }
        let layout = Layout::new(&self.config.dataset);
        generate::make_folders(&layout)?;
        self.data_lock = fingerprint::lock(&layout, Use::Generate)?;
        let prepared = generate::of_data(fingerprint::prepare(&layout, request.regenerate))?;
        self.notes.extend(prepared.words);
        Ok(prepared.foreign)
    }
}
