//! The symbols of a C library, and the library and version in which glibc 2.17 had them.

/// The version that everything is linked for.
pub const OLDEST: Version = Version(2, 17, 0);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Version(pub u32, pub u32, pub u32);

impl Version {
    /// Parses the name of a version, `GLIBC_2.2.5`; `None` for private versions of the C library and those of other
    /// libraries.
    pub fn parse(name: &str) -> Option<Version> {
        let mut numbers = name.strip_prefix("GLIBC_")?.split('.').map(str::parse);
        let mut next = || numbers.next().unwrap_or(Ok(0)).ok();
        Some(Version(next()?, next()?, next()?))
    }

    pub fn name(self) -> String {
        let Version(major, minor, patch) = self;
        if patch == 0 { format!("GLIBC_{major}.{minor}") } else { format!("GLIBC_{major}.{minor}.{patch}") }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Symbol {
    pub name: String,
    pub version: Version,
    /// `true` if a linker chooses this version for a program that names none.
    pub is_default: bool,
    pub kind: Kind,
    pub size: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Function,
    Variable,
    PerThread,
}

/// Parses the symbols that a library defines from the output of `readelf --dyn-syms --wide`.
pub fn parse(text: &str) -> Vec<Symbol> {
    text.lines().filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<Symbol> {
    // Number, address, size, kind, binding, visibility, section, name.
    let words: Vec<&str> = line.split_whitespace().collect();
    let [_, _, size, kind, _, _, section, full, ..] = words[..] else { return None };
    let (name, version) = full.split_once('@')?;
    let kind = match kind {
        "FUNC" | "IFUNC" => Kind::Function,
        "OBJECT" => Kind::Variable,
        "TLS" => Kind::PerThread,
        _ => return None,
    };
    let size = size.strip_prefix("0x").map_or_else(|| size.parse(), |digits| u64::from_str_radix(digits, 16)).ok()?;
    let is_default = version.starts_with('@');
    let version = Version::parse(version.trim_start_matches('@'))?;
    (section != "UND").then(|| Symbol { name: name.to_string(), version, is_default, kind, size })
}

/// Returns the symbols of `library` that 2.17 had: each in its newest version that is not newer than 2.17, with its
/// library.
pub fn in_oldest(mut symbols: Vec<Symbol>, library: &'static str) -> Vec<(&'static str, Symbol)> {
    symbols.sort_by(|a, b| (&a.name, a.version).cmp(&(&b.name, b.version)));
    let versions_of_one = symbols.chunk_by(|a, b| a.name == b.name);
    let mut chosen = Vec::new();
    for versions in versions_of_one {
        let Some(old) = versions.iter().rfind(|symbol| symbol.version <= OLDEST) else { continue };
        // A function that moved into the C library got an additional version there.
        let is_usual = versions.iter().any(|symbol| symbol.is_default && symbol.version <= OLDEST);
        let place = if is_usual || library != "libc.so.6" { library } else { former_place(&old.name) };
        chosen.push((place, old.clone()));
    }
    chosen
}

/// Returns the former library of a function that has moved into `libc.so.6` since 2.17.
fn former_place(name: &str) -> &'static str {
    const PLACES: &[(&str, &[&str])] = &[
        ("libpthread.so.0", &["pthread_", "__pthread_", "sem_"]),
        ("libdl.so.2", &["dl"]),
        ("librt.so.1", &["aio_", "lio_", "mq_", "shm_", "timer_"]),
        ("libutil.so.1", &["forkpty", "login", "logout", "logwtmp", "openpty"]),
    ];
    let has = |starts: &[&str]| starts.iter().any(|start| name.starts_with(start));
    PLACES.iter().find(|(_, starts)| has(starts)).map_or("libc.so.6", |(library, _)| library)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "
Symbol table '.dynsym' contains 3110 entries:
   Num:    Value          Size Type    Bind   Vis      Ndx Name
     1: 0000000000000000     0 OBJECT  GLOBAL DEFAULT  UND _dl_argv@GLIBC_PRIVATE (37)
    40: 00000000000872f0  2490 FUNC    GLOBAL DEFAULT   16 pthread_create@GLIBC_2.2.5
    41: 00000000000872f0  2490 FUNC    GLOBAL DEFAULT   16 pthread_create@@GLIBC_2.34
    42: 000000000009d2a0    67 IFUNC   GLOBAL DEFAULT   16 memcpy@@GLIBC_2.14
    43: 000000000009d2a0    67 IFUNC   GLOBAL DEFAULT   16 memcpy@GLIBC_2.2.5
    44: 00000000001db2a8     8 OBJECT  WEAK   DEFAULT   36 environ@@GLIBC_2.2.5
    45: 00000000000fb3d0    57 FUNC    GLOBAL DEFAULT   16 fstat64@@GLIBC_2.33
    46: 00000000000fb400    57 FUNC    GLOBAL DEFAULT   16 __fxstat64@GLIBC_2.2.5
    47: 00000000000fb410   0x39 FUNC    GLOBAL DEFAULT   16 __nss_lookup@@GLIBC_PRIVATE
";

    #[test]
    fn each_symbol_has_its_former_library() {
        let all = parse(TEXT);
        assert_eq!(all.len(), 7);
        let places = in_oldest(all, "libc.so.6");
        let places: Vec<_> =
            places.iter().map(|(library, symbol)| (*library, symbol.name.as_str(), symbol.version.name())).collect();
        let expected = [
            ("libc.so.6", "__fxstat64", "GLIBC_2.2.5"),
            ("libc.so.6", "environ", "GLIBC_2.2.5"),
            ("libc.so.6", "memcpy", "GLIBC_2.14"),
            ("libpthread.so.0", "pthread_create", "GLIBC_2.2.5"),
        ];
        assert_eq!(places, expected.map(|(library, name, version)| (library, name, version.to_string())));
    }

    #[test]
    fn versions_are_ordered_by_their_numbers() {
        assert!(Version::parse("GLIBC_2.2.5") < Version::parse("GLIBC_2.17"));
        assert!(Version::parse("GLIBC_2.34").unwrap() > OLDEST);
        assert_eq!(Version::parse("GLIBC_PRIVATE"), None);
    }
}
