//! The modules of a log, and the messages on those that are not whole.

use dlio_schemas::native::Damage;

/// A kind of module. Its place in the list is its number.
pub struct Known {
    pub name: &'static str,
    /// The first version of logs that has a slot for it.
    pub since: u32,
    partial: &'static str,
    damaged: &'static str,
    skipped: &'static str,
}

macro_rules! known {
    ($($since:literal $name:literal,)*) => {
        &[$(Known {
            name: $name,
            since: $since,
            partial: concat!("module ", $name, " is partial: Darshan had no memory for more records, so numbers are \
                too low; raise DARSHAN_MODMEM and MAX_RECORDS when recording"),
            damaged: concat!("module ", $name, " is truncated or damaged: only its first records are used"),
            skipped: concat!("module ", $name, " is skipped: dlio-analyze does not read it, or not this version"),
        },)*]
    };
}

/// All modules, by number.
pub const ALL: &[Known] = known![
    0 "NULL",
    0 "POSIX",
    0 "MPI-IO",
    0 "H5F",
    20 "H5D",
    0 "PNETCDF_FILE",
    41 "PNETCDF_VAR",
    0 "BG/Q",
    0 "LUSTRE",
    0 "STDIO",
    0 "DXT_POSIX",
    0 "DXT_MPIIO",
    0 "MDHIM",
    0 "APXC",
    0 "APMPI",
    0 "HEATMAP",
    0 "DFS",
    0 "DAOS",
];

const UNKNOWN: &str = "a module that dlio-analyze does not know is skipped";

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Presence {
    Whole,
    /// The memory for its records was exhausted.
    Partial,
    /// A part cannot be decompressed, or is missing.
    Damaged,
}

/// A module of a log, decompressed.
pub struct Module {
    pub number: usize,
    pub version: u32,
    pub bytes: Vec<u8>,
    pub presence: Presence,
}

impl Module {
    /// Returns its name; empty if it is unknown.
    pub fn name(&self) -> &'static str {
        ALL.get(self.number).map_or("", |known| known.name)
    }

    /// Returns the note on a module that is not whole.
    pub fn damage(&self) -> Option<Damage> {
        let known = ALL.get(self.number)?;
        match self.presence {
            Presence::Whole => None,
            Presence::Partial => Some(Damage::Broken(known.partial)),
            Presence::Damaged => Some(Damage::Broken(known.damaged)),
        }
    }

    /// Returns the note on a module that is not read.
    pub fn skipped(&self) -> Damage {
        Damage::Remark(ALL.get(self.number).map_or(UNKNOWN, |known| known.skipped))
    }
}
