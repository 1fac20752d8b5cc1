//! `${...}` in a value: another key's value, an environment variable, the time.
//!
//! ```text
//! ${workload.model.name}      from the root          ${.name}   ${..model.name}     relative, one level up per further dot
//! ${oc.env:HOME}              ${oc.env:DATA,/tmp}    with a default if the variable is not set
//! ${now:%Y-%m-%d}             ${hydra:runtime.cwd}
//! \${not one}
//! ```
//!
//! A value that consists of one interpolation takes its type: a number stays a number.

use crate::failure::{Failure, Outcome};
use crate::keys;
use crate::keys::value::{Value, parse_yaml};
use crate::system::clock;
use std::cell::Cell;

/// The maximum number of nested interpolations. A longer chain is a cycle.
const CHAIN_MAX: usize = 32;

/// The maximum length of a value: names and paths are shorter, and a value that contains another one twice doubles each
/// time.
const TEXT_MAX: usize = 1 << 16;

/// The maximum number of interpolations in a tree. A workload has a few; lines that each contain the previous one ten
/// times would never end.
const COUNT_MAX: u32 = 10_000;

/// Returns the tree with every interpolation resolved. `root` is the origin of absolute paths, `place` the path of the
/// tree.
pub fn resolved(root: &Value, tree: &Value, place: &[&str]) -> Outcome<Value> {
    tree_of(&Source { root, left: Cell::new(COUNT_MAX) }, tree, place)
}

struct Source<'a> {
    root: &'a Value,
    /// Interpolations that may still be resolved.
    left: Cell<u32>,
}

fn tree_of(root: &Source, tree: &Value, place: &[&str]) -> Outcome<Value> {
    match tree {
        Value::Text(text) => value_of(root, text, place, 0),
        Value::List(items) => {
            items.iter().map(|item| tree_of(root, item, place)).collect::<Outcome<_>>().map(Value::List)
        }
        Value::Map(entries) => {
            let entry = |(key, value): &(String, Value)| {
                Ok((key.clone(), tree_of(root, value, &[place, &[key.as_str()]].concat())?))
            };
            entries.iter().map(entry).collect::<Outcome<_>>().map(Value::Map)
        }
        other => Ok(other.clone()),
    }
}

/// Resolves a text; `place` is the path of keys to it.
fn value_of(root: &Source, text: &str, place: &[&str], depth: usize) -> Outcome<Value> {
    let wrong = |why: &str| Failure::refused(format!("{}: `{text}` {why}", place.join(".")));
    if !text.contains("${") {
        return Ok(Value::Text(text.into()));
    }
    if depth > CHAIN_MAX {
        return Err(wrong("refers to itself"));
    }
    let left = root.left.get().checked_sub(1).ok_or_else(|| wrong("and what it holds have no end"))?;
    root.left.set(left);
    let (mut done, mut rest) = (String::new(), text);
    while let Some(at) = rest.find("${") {
        if let Some(escaped) = rest[..at].strip_suffix('\\') {
            done.push_str(escaped);
            done.push_str("${");
            rest = &rest[at + 2..];
            continue;
        }
        let end = closing(&rest[at..]).ok_or_else(|| wrong("has no closing }"))?;
        let inside = inner(root, &rest[at + 2..at + end], place, depth)?;
        let value = lookup(root, &inside, place, depth)?;
        let alone = done.is_empty() && at == 0 && at + end + 1 == rest.len();
        if alone {
            return Ok(value);
        }
        done.push_str(&rest[..at]);
        let value = match once_a_value(&inside) {
            Some(key) if matches!(value, Value::Map(_)) => lookup(root, &key, place, depth)?,
            _ => value,
        };
        match &value {
            Value::Text(text) => done.push_str(text),
            other => done.push_str(&other.inline()),
        }
        if done.len() > TEXT_MAX {
            return Err(wrong("expands to more characters than a name can have"));
        }
        rest = &rest[at + end + 1..];
    }
    Ok(Value::Text(done + rest))
}

/// Returns the current key if a section's name in a text refers to the value that it was in older files.
fn once_a_value(path: &str) -> Option<String> {
    let path = path.strip_prefix("workload.")?;
    let key = keys::present_name_of_value(path);
    (key != keys::present_name(path)).then(|| format!("workload.{key}"))
}

/// Resolves the text between the braces, which may contain interpolations.
fn inner(root: &Source, text: &str, place: &[&str], depth: usize) -> Outcome<String> {
    match value_of(root, text, place, depth + 1)? {
        Value::Text(text) => Ok(text),
        other => Ok(other.inline()),
    }
}

/// Returns the position of the brace that closes the first one.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0usize;
    for (at, character) in text.char_indices().skip(1) {
        match character {
            '{' => depth += 1,
            '}' if depth == 1 => return Some(at),
            '}' => depth -= 1,
            _ => {}
        }
    }
    None
}

fn lookup(root: &Source, inside: &str, place: &[&str], depth: usize) -> Outcome<Value> {
    let text_of = |text: String| Ok(Value::Text(text));
    match inside.split_once(':') {
        None => key_value(root, inside, place, depth),
        Some(("now", format)) => text_of(time_as(format)),
        Some(("oc.env", variable)) => environment(variable, place),
        Some(("hydra", "runtime.cwd")) => {
            text_of(std::env::current_dir().unwrap_or_default().to_string_lossy().into_owned())
        }
        Some(("hydra", key)) => key_value(root, &format!("hydra.{key}"), place, depth),
        Some((resolver, _)) => {
            Err(Failure::refused(format!("{}: unknown resolver `${{{resolver}:...}}`", place.join(".")))
                .remedy("known: ${section.key}, ${oc.env:NAME}, ${now:%Y-%m-%d}, ${hydra:runtime.cwd}"))
        }
    }
}

fn environment(variable: &str, place: &[&str]) -> Outcome<Value> {
    let (name, otherwise) = match variable.split_once(',') {
        Some((name, otherwise)) => (name.trim(), Some(otherwise.trim())),
        None => (variable.trim(), None),
    };
    match (std::env::var(name), otherwise) {
        (Ok(value), _) => Ok(Value::Text(value)),
        (Err(_), Some(otherwise)) => Ok(Value::Text(otherwise.trim_matches(['\'', '"']).into())),
        (Err(_), None) => {
            Err(Failure::refused(format!("{}: the environment variable {name} is not set", place.join(".")))
                .remedy(format!("set it, or write ${{oc.env:{name},VALUE}} with a default")))
        }
    }
}

fn key_value(root: &Source, path: &str, place: &[&str], depth: usize) -> Outcome<Value> {
    let absolute = absolute(path, place);
    let keys: Vec<&str> = absolute.split('.').collect();
    let found = match keys.as_slice() {
        ["workload", rest @ ..] => {
            let present = keys::present_name(&rest.join("."));
            let path: Vec<&str> = ["workload"].into_iter().chain(present.split('.')).collect();
            root.root.at(&path).cloned().or_else(|| default_of(&present))
        }
        keys => root.root.at(keys).cloned(),
    };
    match found {
        Some(Value::Text(text)) => value_of(root, &text, &keys, depth + 1),
        Some(value) => Ok(value),
        None => {
            let near = keys::suggestion(absolute.strip_prefix("workload.").unwrap_or(&absolute));
            let remedy = near.map(|near| format!("did you mean ${{workload.{near}}}?")).unwrap_or_default();
            Err(Failure::refused(format!("{}: `${{{path}}}` does not exist", place.join("."))).remedy(remedy))
        }
    }
}

fn default_of(path: &str) -> Option<Value> {
    parse_yaml(path, keys::find(path)?.default).ok()
}

/// Returns the absolute path. One leading dot is the level of the value, and each additional dot is one level higher.
fn absolute(path: &str, place: &[&str]) -> String {
    let dots = path.len() - path.trim_start_matches('.').len();
    if dots == 0 {
        return path.into();
    }
    let above = &place[..place.len().saturating_sub(dots)];
    above.iter().copied().chain([&path[dots..]]).collect::<Vec<_>>().join(".")
}

fn time_as(format: &str) -> String {
    let now = clock::local_time();
    [("%Y", 0..4), ("%m", 5..7), ("%d", 8..10), ("%H", 11..13), ("%M", 14..16), ("%S", 17..19), ("%f", 20..26)]
        .into_iter()
        .fold(format.to_string(), |text, (code, place)| text.replace(code, &now[place]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meant(text: &str) -> Outcome<Value> {
        let root = parse_yaml("t", text).unwrap();
        resolved(&root, &root, &[])
    }

    fn at(tree: &Value, path: &str) -> String {
        tree.at(&path.split('.').collect::<Vec<_>>()).unwrap().inline()
    }

    #[test]
    fn value_can_refer_to_another_key() {
        let tree = meant(
            "workload: {model: {name: unet}, dataset: {data_folder: 'data/${workload.model.name}/x', prefix: '${.data_folder}', \
             num: '${workload.reader.batch_size}', up: '${..model.name}'}, reader: {batch_size: 4}, \
             a: ['${workload.reader.batch_size}', '${workload.train.epochs}'], whole: '${workload.model}'}",
        )
        .unwrap();
        assert_eq!(at(&tree, "workload.dataset.data_folder"), "data/unet/x");
        assert_eq!(at(&tree, "workload.dataset.prefix"), "data/unet/x");
        assert_eq!(tree.at(&["workload", "dataset", "num"]), Some(&Value::Int(4)));
        assert_eq!(at(&tree, "workload.dataset.up"), "unet");
        assert_eq!(at(&tree, "workload.a"), "[4, 1]", "a key that was not given has its default");
        assert_eq!(at(&tree, "workload.whole.name"), "unet");
    }

    #[test]
    fn the_environment_and_the_time_are_known() {
        let tree =
            meant("a: '${oc.env:PATH}'\nb: '${oc.env:DLIO_NOT_SET,none}'\nc: 'x-${now:%Y}'\nd: '\\${a}'\n").unwrap();
        assert_eq!(tree.get("a"), Some(&Value::Text(std::env::var("PATH").unwrap())));
        assert_eq!(tree.get("b"), Some(&Value::Text("none".into())));
        assert_eq!(at(&tree, "c").len(), 6);
        assert_eq!(tree.get("d"), Some(&Value::Text("${a}".into())));
    }

    #[test]
    fn rejects_missing_and_cyclic_references() {
        for (text, word) in [
            ("a: '${workload.modle.name}'", "workload.model.name"),
            ("a: '${b}'\nb: '${a}'", "itself"),
            ("a: '${oc.env:DLIO_NOT_SET}'", "DLIO_NOT_SET"),
            ("a: '${open'", "closing"),
            ("a: '${what:x}'", "unknown resolver"),
            (&format!("a0: {}\n{}", "x".repeat(64), doubling(20)), "more characters"),
            (&format!("a0: ''\n{}", doubling(30)), "no end"),
        ] {
            let refused = meant(text).unwrap_err().to_string();
            assert!(refused.contains(word), "{text}: {refused}");
        }
    }

    fn doubling(lines: usize) -> String {
        (1..=lines).map(|line| format!("a{line}: '${{a{0}}}${{a{0}}}'\n", line - 1)).collect()
    }
}
