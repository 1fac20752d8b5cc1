//! Samples all processes of a trace directory.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use dlio_schemas::native::Damage;
use dlio_schemas::native::block::Opener;
use dlio_schemas::native::fields::{Fields, key};
use nix::time::{ClockId, clock_gettime};

use super::folder::{Folder, Place};
use super::machine;
use super::process::{Activity, Seen, Unseen, Watched};
use super::snapshot::{Board, ProcessRow, Snapshot, Total, VERSION};
use crate::catalog::Process;
use crate::load::native::reader::{is_here, is_running, process_of};
use crate::summary::training::Role;
use crate::summary::tree::{names, parents};

/// The largest number of blocks decoded per snapshot, over all processes: some 130,000 events and 10 ms, 0.5 % of a
/// core at the default interval. The decoded blocks represent the rest.
const BLOCKS_A_LOOK: usize = 64;

/// The largest number for the first snapshot, which covers everything since the processes started.
const BLOCKS_AT_FIRST: usize = 512;

/// A process, and its work since its start.
struct Member {
    watched: Watched,
    total: Total,
}

/// The processes of a directory.
pub struct Watch {
    dir: PathBuf,
    members: HashMap<PathBuf, Member>,
    /// Rings that are not sampled, and why: their process was killed, runs elsewhere, or cannot be read.
    passed: HashMap<PathBuf, Passed>,
    /// The boot time of the previous snapshot.
    looked: Option<Duration>,
    opener: Opener,
    /// `true` if every event before the first snapshot is decoded, regardless of their number.
    is_thorough: bool,
}

#[derive(Clone, PartialEq, Debug)]
enum Passed {
    Killed,
    Elsewhere,
    Unreadable(Damage),
}

impl Watch {
    pub fn new(dir: &Path, is_thorough: bool) -> io::Result<Watch> {
        let opener = Opener::default();
        Ok(Watch {
            dir: dir.into(),
            members: HashMap::new(),
            passed: HashMap::new(),
            looked: None,
            opener,
            is_thorough,
        })
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Takes a snapshot. The first one has no interval and covers everything since each process started.
    pub fn look(&mut self) -> io::Result<Snapshot> {
        let folder = Folder::read(&self.dir)?;
        self.meet(&folder.rings);
        let now = boot_time();
        let interval = self.looked.replace(now).map(|before| now.saturating_sub(before));
        let seen = self.look_at_members(now, interval.is_none());
        let mut board = Board::default();
        if interval.is_some() {
            seen.values().for_each(|seen| board.add(seen));
        }
        let (files_touched, files) = board.files();
        let killed = self.passed.values().filter(|passed| **passed == Passed::Killed).count();
        Ok(Snapshot {
            schema: "dlio-top",
            version: VERSION,
            folder: self.dir.display().to_string(),
            ts: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as i64),
            interval_s: interval.map_or(0.0, |interval| interval.as_secs_f64()),
            sum: board.sum(),
            exact: seen.values().all(|seen| seen.is_exact),
            lost: self.members.values().map(|member| member.watched.lost).sum(),
            ended: (folder.ended + killed) as u64,
            unreadable: self.unreadable(),
            operations: board.operations(self.members.values().map(|member| &member.total)),
            files,
            files_touched,
            processes: self.rows(&seen, interval.is_some()),
            machines: machine::look(&self.dir, SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()),
        })
    }

    /// Adds new processes, and forgets rings that were removed.
    fn meet(&mut self, rings: &[Place]) {
        let there: HashSet<&PathBuf> = rings.iter().map(|place| &place.ring).collect();
        self.passed.retain(|ring, _| there.contains(ring));
        for place in rings {
            if self.members.contains_key(&place.ring) || self.passed.get(&place.ring).is_some_and(Passed::stays) {
                continue;
            }
            match Watched::new(&place.ring, place.file.clone()) {
                Ok(watched) => match Passed::of(&watched.fields) {
                    None => {
                        self.passed.remove(&place.ring);
                        self.members.insert(place.ring.clone(), Member { watched, total: Total::default() });
                    }
                    Some(passed) => drop(self.passed.insert(place.ring.clone(), passed)),
                },
                Err(Unseen::Ended) => {}
                // The ring may be in creation: try again in the next snapshot.
                Err(Unseen::Unreadable(damage)) => {
                    self.passed.insert(place.ring.clone(), Passed::Unreadable(damage));
                }
            }
        }
    }

    /// Samples each process, and removes processes that have ended.
    fn look_at_members(&mut self, now: Duration, is_first: bool) -> HashMap<PathBuf, Seen> {
        let blocks = match is_first {
            true if self.is_thorough => usize::MAX,
            true => BLOCKS_AT_FIRST,
            false => BLOCKS_A_LOOK,
        };
        let blocks_each = (blocks / self.members.len().max(1)).max(1);
        let (mut seen, mut gone) = (HashMap::new(), Vec::new());
        for (ring, member) in &mut self.members {
            let looked = member.watched.look(now.as_nanos() as u64, blocks_each, &mut self.opener);
            match looked {
                Ok(found) if is_running(&member.watched.fields) => {
                    member.total.add(&found);
                    seen.insert(ring.clone(), found);
                }
                Ok(_) => gone.push((ring.clone(), Some(Passed::Killed))),
                Err(Unseen::Ended) => gone.push((ring.clone(), None)),
                Err(Unseen::Unreadable(damage)) => gone.push((ring.clone(), Some(Passed::Unreadable(damage)))),
            }
        }
        for (ring, passed) in gone {
            self.members.remove(&ring);
            passed.map(|passed| self.passed.insert(ring, passed));
        }
        seen
    }

    fn unreadable(&self) -> Vec<String> {
        let elsewhere = self.passed.values().filter(|passed| **passed == Passed::Elsewhere).count();
        let note = |(ring, passed): (&PathBuf, &Passed)| match passed {
            Passed::Unreadable(damage) => Some(format!("{}: {damage}", ring.display())),
            _ => None,
        };
        let mut found: Vec<String> = self.passed.iter().filter_map(note).collect();
        found.sort();
        if elsewhere > 0 {
            found.push(format!("{elsewhere} on other hosts: their memory is not visible from here"));
        }
        found
    }

    fn rows(&self, seen: &HashMap<PathBuf, Seen>, has_interval: bool) -> Vec<ProcessRow> {
        let members: Vec<(&PathBuf, &Member)> = self.members.iter().collect();
        let processes: Vec<Process> = members.iter().map(|(ring, member)| process(&member.watched, ring)).collect();
        let (names, parents) = (names(&processes), parents(&processes));
        let trains = |member: &Member| {
            member.watched.known[Activity::Computing as usize] || member.watched.known[Activity::Waiting as usize]
        };
        let is_worker = |number: usize| names[number].starts_with("worker ");
        let makes_workers =
            |number: usize| (0..members.len()).any(|other| is_worker(other) && parents[other] == Some(number as u32));
        let row = |(number, (ring, member)): (usize, &(&PathBuf, &Member))| {
            let role = match () {
                () if is_worker(number) => Some(Role::Reader.name()),
                () if trains(member) || makes_workers(number) => Some(Role::Trainer.name()),
                () => None,
            };
            let now = seen.get(*ring);
            ProcessRow {
                host: member.watched.fields.get(key::HOST).unwrap_or_default().into(),
                pid: processes[number].pid,
                rank: processes[number].rank,
                name: names[number].clone(),
                role,
                threads: member.watched.threads as u64,
                now: now.and_then(|seen| seen.now.clone()),
                activity: now.and_then(|seen| seen.activity),
                lost: member.watched.lost,
                threads_unseen: member.watched.unseen,
                ..member.total.row(now.filter(|_| has_interval))
            }
        };
        members.iter().enumerate().map(row).collect()
    }
}

impl Passed {
    /// Returns why a process is not sampled, or `None` if it is.
    fn of(fields: &Fields) -> Option<Passed> {
        match () {
            () if !is_here(fields) => Some(Passed::Elsewhere),
            () if !is_running(fields) => Some(Passed::Killed),
            () => None,
        }
    }

    /// Returns `true` if the reason is permanent.
    fn stays(&self) -> bool {
        !matches!(self, Passed::Unreadable(_))
    }
}

fn process(watched: &Watched, ring: &Path) -> Process {
    process_of(&watched.fields, ring, 0, 0, None)
}

/// Returns the clock that traces use, which continues while the host is suspended.
fn boot_time() -> Duration {
    clock_gettime(ClockId::CLOCK_BOOTTIME).map_or(Duration::ZERO, Duration::from)
}
