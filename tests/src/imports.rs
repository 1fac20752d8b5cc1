//! The imports of a crate's files, and their circles.
//!
//! They are read from the tokens of the sources: `use`, and every path of modules and imported names. Re-exports are
//! followed to the definition. A child that uses its parent's items makes no import, because both are one module in
//! two files; tests are excluded.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// Segments, starting at the root of the crate.
type Path = Vec<String>;

/// A longer chain of imports is itself circular.
const CHAIN_MAX: usize = 32;

/// The modules of one crate.
#[derive(Default)]
pub struct Imports {
    files: Vec<String>,
    /// The file of each module, including inline modules.
    modules: BTreeMap<Path, usize>,
    /// The imports of each module, by their local names.
    names: BTreeMap<Path, BTreeMap<String, Path>>,
    /// Every path used in a module.
    paths: Vec<(Path, Path)>,
}

impl Imports {
    /// Reads a crate whose files are below `src`, a path that ends in a slash.
    pub fn of<'s>(src: &str, sources: impl IntoIterator<Item = (&'s str, &'s str)>) -> Imports {
        let mut found = Imports::default();
        for (name, text) in sources {
            let Some(below) = name.strip_prefix(src).and_then(|below| below.strip_suffix(".rs")) else { continue };
            let mut module: Path = below.split('/').map(str::to_string).collect();
            module.pop_if(|last| last == "mod" || (below == "lib" && last == "lib"));
            found.files.push(name.into());
            found.modules.insert(module.clone(), found.files.len() - 1);
            let tokens: TokenStream = text.parse().unwrap_or_else(|error| panic!("{name}: {error}"));
            found.read(&module, tokens.into_iter().collect());
        }
        found
    }

    fn read(&mut self, module: &Path, tokens: Vec<TokenTree>) {
        let mut at = 0;
        while at < tokens.len() {
            at += match &tokens[at] {
                TokenTree::Punct(punct) if punct.as_char() == '#' && is_for_tests(tokens.get(at + 1)) => {
                    item_length(&tokens[at..])
                }
                TokenTree::Ident(word) if word == "use" => self.read_use(module, &tokens[at + 1..]),
                TokenTree::Ident(word) if word == "mod" => self.read_module(module, &tokens[at + 1..]),
                TokenTree::Ident(_) => self.read_path(module, &tokens[at..]),
                TokenTree::Group(group) => {
                    self.read(module, group.stream().into_iter().collect());
                    1
                }
                _ => 1,
            };
        }
    }

    /// Reads an inline module; returns the number of its tokens.
    fn read_module(&mut self, module: &Path, tokens: &[TokenTree]) -> usize {
        if let [TokenTree::Ident(name), TokenTree::Group(body), ..] = tokens {
            let inner = [&module[..], &[name.to_string()]].concat();
            self.modules.insert(inner.clone(), self.files.len() - 1);
            self.read(&inner, body.stream().into_iter().collect());
            return 3;
        }
        1
    }

    fn read_use(&mut self, module: &Path, tokens: &[TokenTree]) -> usize {
        let length = tokens.iter().position(|token| is(token, ';')).unwrap_or(tokens.len());
        let mut leaves = Vec::new();
        use_leaves(&tokens[..length], &[], &mut leaves);
        for (name, path) in leaves {
            self.names.entry(module.clone()).or_default().insert(name, path.clone());
            self.paths.push((module.clone(), path));
        }
        length + 1
    }

    fn read_path(&mut self, module: &Path, tokens: &[TokenTree]) -> usize {
        let (path, length) = path(tokens);
        if path.len() > 1 {
            self.paths.push((module.clone(), path));
        }
        length
    }

    /// Returns the file that defines the item of a path, if it is part of this crate.
    fn file(&self, module: &[String], path: &[String], chain: usize) -> Option<usize> {
        let (first, rest) = path.split_first().filter(|_| chain < CHAIN_MAX)?;
        match first.as_str() {
            "crate" => self.below(&[], rest, chain),
            "self" => self.below(module, rest, chain),
            "super" => {
                let above = &module[..module.len().checked_sub(1)?];
                let path = [&["self".to_string()], rest].concat();
                if rest.first().is_some_and(|next| next == "super") {
                    self.file(above, rest, chain)
                } else {
                    self.file(above, &path, chain)
                }
            }
            _ if self.modules.contains_key(&[module, std::slice::from_ref(first)].concat()) => {
                self.below(module, path, chain)
            }
            _ => {
                let imported = self.names.get(module)?.get(first).filter(|imported| imported.first() != Some(first))?;
                self.file(module, &[imported, rest].concat(), chain + 1)
            }
        }
    }

    /// Returns the file like [`file`](Self::file), for a path that begins in `module`.
    fn below(&self, module: &[String], path: &[String], chain: usize) -> Option<usize> {
        let here = self.modules.get(module).copied();
        let Some((first, rest)) = path.split_first() else { return here };
        let inner = [module, std::slice::from_ref(first)].concat();
        if self.modules.contains_key(&inner) {
            return self.below(&inner, rest, chain);
        }
        let handed_on = self.names.get(module).and_then(|names| names.get(first));
        handed_on.and_then(|path| self.file(module, &[path, rest].concat(), chain + 1)).or(here)
    }

    /// Returns each file that imports from another one, with that one.
    pub fn arrows(&self) -> Vec<(&str, &str)> {
        let named = |(from, to): (usize, usize)| (self.files[from].as_str(), self.files[to].as_str());
        self.pairs().into_iter().filter(|(from, to)| from != to).map(named).collect()
    }

    /// Returns the files that import from others, without parents.
    fn pairs(&self) -> BTreeSet<(usize, usize)> {
        let parents = |module: &Path| -> BTreeSet<usize> {
            (0..=module.len()).filter_map(|length| self.modules.get(&module[..length]).copied()).collect()
        };
        let arrow = |(module, path): &(Path, Path)| {
            let (from, to) = (*self.modules.get(module)?, self.file(module, path, 0)?);
            (!parents(module).contains(&to)).then_some((from, to))
        };
        self.paths.iter().filter_map(arrow).collect()
    }

    /// Returns the files that import from this one.
    pub fn users(&self, file: &str) -> Vec<&str> {
        let to = self.files.iter().position(|name| name == file);
        self.pairs()
            .iter()
            .filter(|(from, found)| Some(*found) == to && from != found)
            .map(|(from, _)| self.files[*from].as_str())
            .collect()
    }

    /// Returns groups of files each of which reaches all others of its group, the largest first.
    pub fn circles(&self) -> Vec<Vec<&str>> {
        let arrows = self.pairs();
        let reached: Vec<BTreeSet<usize>> = (0..self.files.len()).map(|from| reached(from, &arrows)).collect();
        let circle = |from: usize| -> BTreeSet<usize> {
            reached[from].iter().copied().filter(|&to| reached[to].contains(&from)).collect()
        };
        let circles: BTreeSet<BTreeSet<usize>> = (0..self.files.len()).map(circle).filter(|it| it.len() > 1).collect();
        let named = |circle: BTreeSet<usize>| circle.into_iter().map(|file| self.files[file].as_str()).collect();
        let mut circles: Vec<Vec<&str>> = circles.into_iter().map(named).collect();
        circles.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
        circles
    }
}

/// Returns all files that are reachable from one.
fn reached(from: usize, arrows: &BTreeSet<(usize, usize)>) -> BTreeSet<usize> {
    let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
    while let Some(file) = next.pop() {
        let onward = arrows.range((file, 0)..=(file, usize::MAX)).map(|(_, to)| *to);
        next.extend(onward.filter(|to| seen.insert(*to)));
    }
    seen
}

fn is(token: &TokenTree, punct: char) -> bool {
    matches!(token, TokenTree::Punct(found) if found.as_char() == punct)
}

/// `[cfg(test)]`
fn is_for_tests(attribute: Option<&TokenTree>) -> bool {
    attribute.is_some_and(|attribute| attribute.to_string().replace(' ', "") == "[cfg(test)]")
}

/// Returns the number of tokens of an item, including its attributes: up to its body or its semicolon.
fn item_length(tokens: &[TokenTree]) -> usize {
    let ends = |token: &TokenTree| match token {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        token => is(token, ';'),
    };
    tokens.iter().position(ends).map_or(tokens.len(), |at| at + 1)
}

/// Returns the path that tokens begin with, and how many tokens it has.
fn path(tokens: &[TokenTree]) -> (Path, usize) {
    let (mut path, mut at) = (Path::new(), 0);
    while let Some(TokenTree::Ident(word)) = tokens.get(at) {
        path.push(word.to_string());
        at += 1;
        match &tokens[at..] {
            [a, b, TokenTree::Ident(_), ..] if is(a, ':') && is(b, ':') => at += 2,
            _ => break,
        }
    }
    (path, at)
}

/// Collects every name that a `use` brings into scope, and its path.
fn use_leaves(tokens: &[TokenTree], before: &[String], leaves: &mut Vec<(String, Path)>) {
    for tree in tokens.split(|token| is(token, ',')) {
        let (own, length) = path(tree);
        let whole = [before, &own].concat();
        match &tree[length..] {
            [a, b, TokenTree::Group(group), ..] if is(a, ':') && is(b, ':') => {
                use_leaves(&group.stream().into_iter().collect::<Vec<_>>(), &whole, leaves);
            }
            [TokenTree::Ident(word), TokenTree::Ident(name), ..] if word == "as" => {
                leaves.push((name.to_string(), without_self(whole)));
            }
            _ => {
                let whole = without_self(whole);
                leaves.extend(whole.last().cloned().map(|name| (name, whole)));
            }
        }
    }
}

/// `a::self` is `a`.
fn without_self(mut path: Path) -> Path {
    let _ = path.len() > 1 && path.pop_if(|last| last == "self").is_some();
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circles(sources: &[(&'static str, &'static str)]) -> Vec<Vec<String>> {
        let owned = |circle: Vec<&str>| circle.into_iter().map(str::to_string).collect();
        Imports::of("x/src/", sources.iter().copied()).circles().into_iter().map(owned).collect()
    }

    #[test]
    fn files_that_import_each_other_are_a_circle() {
        let of = |c: &'static str| {
            let a = "use crate::b::c::{self, Thing as Other};";
            circles(&[("x/src/a.rs", a), ("x/src/b/mod.rs", "mod c;"), ("x/src/b/c.rs", c)]).len()
        };
        assert_eq!(of("fn f() { format!(\"{}\", crate::a::NAME) }"), 1);
        assert_eq!(of("fn f() { \"crate::a\"; /* crate::a */ }"), 0);
        assert_eq!(of("#[cfg(test)] mod tests { use crate::a::NAME; }"), 0);
        assert_eq!(of("mod inner { use super::super::super::a; }"), 1);
    }

    #[test]
    fn re_exports_are_followed() {
        let root = ("x/src/lib.rs", "mod a; mod b; pub use a::Thing; use b::other;");
        let found = circles(&[root, ("x/src/a.rs", "use crate::other;"), ("x/src/b.rs", "fn f(_: super::Thing) {}")]);
        assert_eq!(found, [["x/src/a.rs", "x/src/b.rs"]]);
    }

    #[test]
    fn a_child_may_use_its_parent() {
        let parent = ("x/src/a/mod.rs", "mod b; fn f() { b::g() } pub struct Own;");
        assert!(circles(&[parent, ("x/src/a/b.rs", "use super::Own; use crate::a::Own as Same;")]).is_empty());
    }
}
