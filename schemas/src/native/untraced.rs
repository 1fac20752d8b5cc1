//! The list of programs that were started by traced ones and leave no trace: a text file in the trace directory.

/// Its name. A line contains the Unix time in nanoseconds, the process id, the reason in a word and the program's
/// path.
pub const LIST: &str = "untraced.list";

/// No library can be preloaded into the program.
pub const STATIC: &str = "static";
/// The program would not start with the library.
pub const OTHER_LIBRARY: &str = "other-library";
/// The program has another architecture or word size.
pub const OTHER_MACHINE: &str = "other-machine";
/// The program gains privileges when it starts, so the loader ignores the library.
pub const PRIVILEGED: &str = "privileged";
/// A Go program, whose system calls bypass the C library.
pub const GO: &str = "go";
/// A process that was recorded by ptrace until it used ptrace itself, or was about to be traced by another process.
pub const OWN_PTRACE: &str = "own-ptrace";

/// A program of the list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Untraced {
    /// Unix time.
    pub began_ns: u64,
    pub process: u32,
    /// One of those above.
    pub reason: String,
    pub program: String,
}

/// Returns the programs of a list, in the order in which they were started. A truncated line is ignored.
pub fn parse(list: &[u8]) -> impl Iterator<Item = Untraced> {
    list.split_inclusive(|&byte| byte == b'\n').filter_map(|line| parse_line(&String::from_utf8_lossy(line)))
}

fn parse_line(line: &str) -> Option<Untraced> {
    let mut words = line.strip_suffix('\n')?.splitn(4, ' ');
    let (began_ns, process) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let (reason, program) = (words.next()?.to_string(), words.next()?.to_string());
    Some(Untraced { began_ns, process, reason, program })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_contains_a_program() {
        let all: Vec<_> =
            parse(b"1700000000000000000 42 static /opt/a b/tool\n17 x static /tool\n\n17 42 stat").collect();
        let expected = Untraced {
            began_ns: 1_700_000_000_000_000_000,
            process: 42,
            reason: STATIC.to_string(),
            program: "/opt/a b/tool".to_string(),
        };
        assert_eq!(all, [expected]);
    }
}
