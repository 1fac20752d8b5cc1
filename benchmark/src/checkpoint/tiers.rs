//! Checkpoints that do not block training: written in the background, or to a fast directory and copied from there to
//! their final one.
//!
//! ```text
//! save    fast_folder, then continue training ..... copied to checkpoint_folder, synced, then the fast copy may be deleted
//! load    from the fast directory if the file is there, else from the slow one
//! ```
//!
//! A file in the fast directory is deleted only when the slow directory has it on its device, so a crash leaves each
//! file whole in one of them. The newest checkpoint is kept in both.

use crate::checkpoint::files::tensorflow::NEWEST;
use crate::checkpoint::writer_process::{Background, BackgroundWork, Work};
use crate::checkpoint::{Mechanism, Shard, Streamed, TransferStats, is_full};
use crate::config::Checkpoints;
use crate::failure::{Failure, Outcome};
use crate::system::terminal;
use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};

pub struct Tiered {
    streamed: Streamed,
    slow: PathBuf,
    fast: Option<PathBuf>,
    background: Option<Background>,
    /// The shards that this rank writes of each checkpoint.
    shards: Vec<Shard>,
    /// Checkpoints in the fast directory that are also on the slow device and may be deleted.
    spare: VecDeque<PathBuf>,
    /// Checkpoints that did not fit in the fast directory.
    pub direct: u64,
}

impl Tiered {
    /// With a background process, this must be called while the process has one thread.
    pub fn new(config: &Checkpoints, shards: &[Shard]) -> Outcome<Tiered> {
        let Checkpoints { fsync, random, verify, direct, transfer_size, .. } = *config;
        let streamed = Streamed { fsync, random, verify, direct, transfer_size };
        let beside = config.fast_folder.is_some() || config.asynchronous;
        let background =
            if beside { Some(Background::start(streamed.clone(), shards, config.drain_rate)?) } else { None };
        Ok(Tiered {
            streamed,
            slow: config.folder.clone(),
            fast: config.fast_folder.clone(),
            background,
            shards: shards.to_vec(),
            spare: VecDeque::new(),
            direct: 0,
        })
    }

    /// Writes the file that completes a checkpoint of all ranks. Only without a background process.
    pub fn conclude(&self, folder: &Path, name: &str, bytes: &[u8]) -> Outcome<TransferStats> {
        self.streamed.conclude(folder, name, bytes)
    }

    /// Returns `true` if there is a background process.
    pub fn has_one_beside(&self) -> bool {
        self.background.is_some()
    }

    /// Returns the number of checkpoints that the background process has not finished.
    pub fn unfinished(&self) -> u64 {
        self.background.as_ref().map_or(0, Background::unfinished)
    }

    /// Waits for the work in the background; returns the total of that work.
    pub fn drain(&mut self) -> Outcome<BackgroundWork> {
        let Some(background) = &mut self.background else { return Ok(BackgroundWork::default()) };
        let done = background.drain()?;
        let hidden = background.hidden;
        self.note(done);
        self.thin_out(1);
        Ok(hidden)
    }

    fn note(&mut self, done: Vec<Work>) {
        self.spare.extend(done.into_iter().filter_map(|work| match work {
            Work::Copy { from, .. } => Some(from),
            Work::Write(_) => None,
        }));
    }

    /// Deletes the oldest copies in the fast directory until `left` remain.
    fn thin_out(&mut self, left: usize) {
        while self.spare.len() > left {
            let Some(folder) = self.spare.pop_front() else { return };
            for name in self.shards.iter().flat_map(Shard::names).chain([NEWEST.to_string()]) {
                // It may be gone already; the slow directory has it.
                let _ = fs::remove_file(folder.join(name));
            }
            // The directory remains as long as other ranks have files in it.
            let _ = fs::remove_dir(folder);
        }
    }

    fn other_place(&self, folder: &Path) -> Option<PathBuf> {
        Some(self.fast.as_ref()?.join(folder.strip_prefix(&self.slow).ok()?))
    }

    fn save_fast(&mut self, fast: PathBuf, slow: &Path, shards: &[Shard]) -> Outcome<TransferStats> {
        self.thin_out(1);
        let mut saved = self.streamed.save(&fast, shards);
        if saved.as_ref().is_err_and(is_full) {
            // Wait for the copy in progress: its original can then be deleted, which may free enough space.
            self.drain()?;
            self.thin_out(0);
            saved = self.streamed.save(&fast, shards);
        }
        if saved.as_ref().is_err_and(is_full) {
            self.direct += 1;
            terminal::warn(format_args!(
                "warning: no space for a checkpoint in {}; writing it to {}",
                fast.display(),
                slow.display()
            ));
            self.remove_what_is_there(&fast, shards);
            return self.streamed.save(slow, shards);
        }
        let saved = saved?;
        self.background_of()?.submit(Work::Copy { from: fast, to: slow.to_path_buf() })?;
        Ok(saved)
    }

    fn remove_what_is_there(&self, fast: &Path, shards: &[Shard]) {
        for name in shards.iter().flat_map(Shard::names) {
            let _ = fs::remove_file(fast.join(name));
        }
    }

    fn background_of(&mut self) -> Outcome<&mut Background> {
        self.background.as_mut().ok_or_else(|| Failure::refused("the background writer does not exist"))
    }
}

impl Mechanism for Tiered {
    fn save(&mut self, folder: &Path, shards: &[Shard]) -> Outcome<TransferStats> {
        if let Some(background) = &mut self.background {
            let done = background.done()?;
            self.note(done);
        }
        match (self.other_place(folder), &mut self.background) {
            (Some(fast), _) => self.save_fast(fast, folder, shards),
            (None, Some(background)) => {
                // Only one checkpoint is written at a time, and the previous one may not be finished.
                background.drain()?;
                background.submit(Work::Write(folder.to_path_buf()))?;
                // Bytes are counted when they are written, which is later.
                Ok(TransferStats::default())
            }
            (None, None) => self.streamed.save(folder, shards),
        }
    }

    fn load(&mut self, folder: &Path, shards: &[Shard]) -> Outcome<TransferStats> {
        let Some(fast) = self.other_place(folder) else {
            // Without a fast directory the file may still be being written.
            self.drain()?;
            return self.streamed.load(folder, shards);
        };
        let mut all = TransferStats::default();
        for shard in shards {
            let one = std::slice::from_ref(shard);
            let place = if fast.join(shard.last_name()).exists() { &fast } else { folder };
            let moved = match self.streamed.load(place, one) {
                // It was deleted between the two checks, because the slow directory has it.
                Err(_) if !fast.join(shard.last_name()).exists() => self.streamed.load(folder, one)?,
                done => done?,
            };
            all.bytes += moved.bytes;
        }
        Ok(all)
    }
}
