//! The keys in the column `args` that do not come from a program.

/// A key. Every catalog begins its texts with these, so that the number of a key is known without a lookup.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ArgumentKey {
    Flags,
    Mode,
    Whence,
    Offset,
    Target,
    /// The file that bytes came from.
    Source,
    /// The object that a file was sent to.
    SentTo,
    OtherFd,
    Command,
    Count,
    /// A second count.
    Second,
    Value,
    Object,
    Waker,
    WokenUs,
    WakerFlags,
    Child,
    ExitStatus,
    Signal,
    CpuUs,
    MajorFaults,
    MinorFaults,
    RunDelayUs,
    Voluntary,
    Involuntary,
    Unfinished,
}

impl ArgumentKey {
    /// All keys, in order of their numbers.
    pub const ALL: [ArgumentKey; 26] = [
        ArgumentKey::Flags,
        ArgumentKey::Mode,
        ArgumentKey::Whence,
        ArgumentKey::Offset,
        ArgumentKey::Target,
        ArgumentKey::Source,
        ArgumentKey::SentTo,
        ArgumentKey::OtherFd,
        ArgumentKey::Command,
        ArgumentKey::Count,
        ArgumentKey::Second,
        ArgumentKey::Value,
        ArgumentKey::Object,
        ArgumentKey::Waker,
        ArgumentKey::WokenUs,
        ArgumentKey::WakerFlags,
        ArgumentKey::Child,
        ArgumentKey::ExitStatus,
        ArgumentKey::Signal,
        ArgumentKey::CpuUs,
        ArgumentKey::MajorFaults,
        ArgumentKey::MinorFaults,
        ArgumentKey::RunDelayUs,
        ArgumentKey::Voluntary,
        ArgumentKey::Involuntary,
        ArgumentKey::Unfinished,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            ArgumentKey::Flags => "flags",
            ArgumentKey::Mode => "mode",
            ArgumentKey::Whence => "whence",
            ArgumentKey::Offset => "offset",
            ArgumentKey::Target => "target",
            ArgumentKey::Source => "source",
            ArgumentKey::SentTo => "sent_to",
            ArgumentKey::OtherFd => "other_fd",
            ArgumentKey::Command => "command",
            ArgumentKey::Count => "count",
            ArgumentKey::Second => "second",
            ArgumentKey::Value => "value",
            ArgumentKey::Object => "object",
            ArgumentKey::Waker => "waker",
            ArgumentKey::WokenUs => "woken_us",
            ArgumentKey::WakerFlags => "waker_flags",
            ArgumentKey::Child => "child",
            ArgumentKey::ExitStatus => "exit_status",
            ArgumentKey::Signal => "signal",
            ArgumentKey::CpuUs => "cpu_us",
            ArgumentKey::MajorFaults => "major_faults",
            ArgumentKey::MinorFaults => "minor_faults",
            ArgumentKey::RunDelayUs => "run_delay_us",
            ArgumentKey::Voluntary => "voluntary",
            ArgumentKey::Involuntary => "involuntary",
            ArgumentKey::Unfinished => "unfinished",
        }
    }

    /// Returns its number among the texts of every catalog.
    pub const fn number(self) -> u32 {
        self as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Catalog;

    #[test]
    fn keys_have_the_same_numbers_in_every_catalog() {
        let catalog = Catalog::default();
        assert_eq!(catalog.texts().len(), ArgumentKey::ALL.len());
        for key in ArgumentKey::ALL {
            assert_eq!(
                (key.number(), catalog.texts()[key.number() as usize].as_ref()),
                (catalog.text(key.name()), key.name())
            );
        }
    }
}
