//! The tree of a configuration, as parsed from a YAML file or an override, without its meaning.
//!
//! Scalars are resolved here and not by the YAML library: the workloads are written for a YAML 1.1 reader, where `off`
//! is false and `True` is true, and Hydra's own grammar resolves differently (`off` is a word there).

use crate::failure::{Failure, Outcome};
use saphyr_parser::{Event, Parser, ScalarStyle};
use serde_json::{Map as JsonMap, Number, Value as Json};
use std::fmt::Write;

#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    List(Vec<Value>),
    /// In file order: people read configuration files.
    Map(Vec<(String, Value)>),
}

impl Value {
    pub fn empty() -> Value {
        Value::Map(Vec::new())
    }

    pub fn get(&self, key: &str) -> Option<&Value> {
        self.entries().iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    pub fn at(&self, path: &[&str]) -> Option<&Value> {
        path.iter().try_fold(self, |node, key| node.get(key))
    }

    pub fn entries(&self) -> &[(String, Value)] {
        match self {
            Value::Map(entries) => entries,
            _ => &[],
        }
    }

    /// Sets `value` at `path` and creates the maps that lead to it. A scalar on the path is replaced.
    pub fn put(&mut self, path: &[&str], value: Value) {
        let Some((first, rest)) = path.split_first() else {
            *self = value;
            return;
        };
        self.child(first).put(rest, value);
    }

    fn child(&mut self, key: &str) -> &mut Value {
        if !matches!(self, Value::Map(_)) {
            *self = Value::empty();
        }
        let Value::Map(entries) = self else { unreachable!("made a map above") };
        let place = entries.iter().position(|(name, _)| name == key).unwrap_or_else(|| {
            entries.push((key.to_string(), Value::Null));
            entries.len() - 1
        });
        &mut entries[place].1
    }

    /// Removes the value at `path`; returns `true` if there was one.
    pub fn remove(&mut self, path: &[&str]) -> bool {
        let (Value::Map(entries), Some((first, rest))) = (self, path.split_first()) else { return false };
        let Some(place) = entries.iter().position(|(name, _)| name == first) else { return false };
        if rest.is_empty() {
            entries.remove(place);
            return true;
        }
        entries[place].1.remove(rest)
    }

    /// Merges `other` into this tree: maps are merged, everything else is replaced.
    pub fn merge(&mut self, other: Value) {
        match (self, other) {
            (this @ Value::Map(_), Value::Map(entries)) => {
                for (key, value) in entries {
                    this.child(&key).merge(value);
                }
            }
            (this, other) => *this = other,
        }
    }

    /// Returns every leaf with its dotted path. Lists and empty maps are leaves.
    pub fn leaves(&self) -> Vec<(String, &Value)> {
        let mut found = Vec::new();
        self.collect_leaves(String::new(), &mut found);
        found
    }

    fn collect_leaves<'a>(&'a self, path: String, found: &mut Vec<(String, &'a Value)>) {
        if self.entries().is_empty() {
            found.push((path, self));
            return;
        }
        for (key, value) in self.entries() {
            let below = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            value.collect_leaves(below, found);
        }
    }

    /// Returns its approximate size in bytes.
    fn weight(&self) -> usize {
        const NODE: usize = size_of::<Value>();
        match self {
            Value::Text(text) => NODE + text.len(),
            Value::List(items) => NODE + items.iter().map(Value::weight).sum::<usize>(),
            Value::Map(entries) => NODE + entries.iter().map(|(key, value)| key.len() + value.weight()).sum::<usize>(),
            _ => NODE,
        }
    }

    pub fn kind_name(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool(_) => "a truth value",
            Value::Int(_) => "an integer",
            Value::Float(_) => "a number",
            Value::Text(_) => "a string",
            Value::List(_) => "a list",
            Value::Map(_) => "a map",
        }
    }

    /// Returns the value in the syntax of the command line.
    pub fn inline(&self) -> String {
        match self {
            Value::Null => "null".into(),
            Value::Bool(flag) => flag.to_string(),
            Value::Int(number) => number.to_string(),
            Value::Float(number) => float_text(*number),
            Value::Text(text) => quoted(text),
            Value::List(items) => format!("[{}]", items.iter().map(Value::inline).collect::<Vec<_>>().join(", ")),
            Value::Map(entries) => {
                let inside: Vec<_> =
                    entries.iter().map(|(key, value)| format!("{}: {}", quoted(key), value.inline())).collect();
                format!("{{{}}}", inside.join(", "))
            }
        }
    }

    pub fn to_json(&self) -> Json {
        match self {
            Value::Null => Json::Null,
            Value::Bool(flag) => Json::Bool(*flag),
            Value::Int(number) => Json::from(*number),
            Value::Float(number) => Number::from_f64(*number).map_or(Json::Null, Json::Number),
            Value::Text(text) => Json::String(text.clone()),
            Value::List(items) => Json::Array(items.iter().map(Value::to_json).collect()),
            Value::Map(entries) => Json::Object(
                entries.iter().map(|(key, value)| (key.clone(), value.to_json())).collect::<JsonMap<_, _>>(),
            ),
        }
    }

    /// Returns block style, as written by OmegaConf: two blanks per level, list items at the level of their key.
    pub fn to_yaml(&self) -> String {
        let mut text = String::new();
        match self {
            Value::Map(entries) if !entries.is_empty() => write_map(entries, 0, &mut text),
            Value::List(items) if !items.is_empty() => write_list(items, 0, &mut text),
            scalar => text = format!("{}\n", scalar.inline()),
        }
        text
    }
}

impl From<&Json> for Value {
    fn from(json: &Json) -> Value {
        match json {
            Json::Null => Value::Null,
            Json::Bool(flag) => Value::Bool(*flag),
            Json::Number(number) => {
                number.as_i64().map_or_else(|| Value::Float(number.as_f64().unwrap_or(f64::NAN)), Value::Int)
            }
            Json::String(text) => Value::Text(text.clone()),
            Json::Array(items) => Value::List(items.iter().map(Value::from).collect()),
            Json::Object(entries) => {
                Value::Map(entries.iter().map(|(key, value)| (key.clone(), Value::from(value))).collect())
            }
        }
    }
}

fn write_map(entries: &[(String, Value)], level: usize, text: &mut String) {
    for (key, value) in entries {
        let _ = write!(text, "{:1$}{2}:", "", level * 2, quoted(key));
        match value {
            Value::Map(below) if !below.is_empty() => {
                text.push('\n');
                write_map(below, level + 1, text);
            }
            Value::List(items) if !items.is_empty() => {
                text.push('\n');
                write_list(items, level, text);
            }
            scalar => {
                let _ = writeln!(text, " {}", scalar.inline());
            }
        }
    }
}

fn write_list(items: &[Value], level: usize, text: &mut String) {
    for item in items {
        let _ = writeln!(text, "{:1$}- {2}", "", level * 2, item.inline());
    }
}

fn float_text(number: f64) -> String {
    match number {
        _ if number.is_nan() => ".nan".into(),
        _ if number.is_infinite() => if number > 0.0 { ".inf" } else { "-.inf" }.into(),
        _ => format!("{number:?}"),
    }
}

/// Adds quotes only if a reader would parse the bare word differently.
fn quoted(text: &str) -> String {
    let bare = !text.is_empty()
        && yaml_scalar(text) == Value::Text(text.to_string())
        && !text.starts_with(|first: char| "-?:,[]{}#&*!|>'\"%@` ".contains(first))
        && !text.ends_with([' ', ':'])
        && !text.contains(": ")
        && !text.contains(" #")
        && !text.contains(['\n', ',', '[', ']', '{', '}']);
    if bare { text.to_string() } else { format!("'{}'", text.replace('\'', "''")) }
}

/// Parses a plain YAML 1.1 scalar.
pub fn yaml_scalar(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => Value::Bool(true),
        "false" | "False" | "FALSE" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => Value::Bool(false),
        ".inf" | ".Inf" | "+.inf" => Value::Float(f64::INFINITY),
        "-.inf" | "-.Inf" => Value::Float(f64::NEG_INFINITY),
        ".nan" | ".NaN" => Value::Float(f64::NAN),
        _ => number(text).unwrap_or_else(|| Value::Text(text.to_string())),
    }
}

/// Parses a whole or decimal number, with `_` between digits as both YAML 1.1 and Hydra allow.
pub fn number(text: &str) -> Option<Value> {
    let digits = text.trim_start_matches(['-', '+']);
    if text.len() - digits.len() > 1 || !digits.starts_with(|first: char| first.is_ascii_digit() || first == '.') {
        return None;
    }
    let plain = text.replace('_', "");
    if let Some(hex) = plain.strip_prefix("0x") {
        return i64::from_str_radix(hex, 16).ok().map(Value::Int);
    }
    if let Ok(whole) = plain.parse::<i64>() {
        return Some(Value::Int(whole));
    }
    let decimal = plain.chars().all(|c| c.is_ascii_digit() || "+-.eE".contains(c));
    plain.parse::<f64>().ok().filter(|_| decimal).map(Value::Float)
}

/// Reads one YAML document. `name` is used in errors.
pub fn parse_yaml(name: &str, text: &str) -> Outcome<Value> {
    parse_yaml_placed(name, text).map(|(tree, _)| tree)
}

/// The line of each key, by its dotted path.
pub type Lines = Vec<(String, usize)>;

/// Reads one YAML document, and the lines of its keys.
pub fn parse_yaml_placed(name: &str, text: &str) -> Outcome<(Value, Lines)> {
    let mut reader = YamlReader {
        events: Parser::new_from_str(text),
        name,
        anchors: Vec::new(),
        copied: 0,
        depth: 0,
        line: 0,
        path: Vec::new(),
        lines: Lines::new(),
    };
    loop {
        match reader.event()? {
            Event::StreamStart | Event::DocumentStart(_) | Event::Nothing => {}
            Event::StreamEnd | Event::DocumentEnd => return Ok((Value::empty(), reader.lines)),
            first => return reader.node(first).map(|tree| (tree, reader.lines)),
        }
    }
}

/// The maximum of copies by aliases, in bytes, approximately: a workload's hundred keys copy some kilobytes. Aliases of
/// aliases double with every line, and a page of them would fill any memory.
const COPIED_MAX: usize = 1 << 20;

/// The maximum depth of lists and maps: a workload has four levels.
pub const DEPTH_MAX: usize = 64;

/// The maximum length of a key.
const KEY_MAX: usize = 256;

struct YamlReader<'a> {
    events: Parser<'a, saphyr_parser::StrInput<'a>>,
    name: &'a str,
    anchors: Vec<(usize, Value)>,
    copied: usize,
    depth: usize,
    /// The line of the last event.
    line: usize,
    /// The path of keys to the map being read.
    path: Vec<String>,
    lines: Lines,
}

impl<'a> YamlReader<'a> {
    fn event(&mut self) -> Outcome<Event<'a>> {
        match self.events.next() {
            Some(Ok((event, place))) => {
                self.line = place.start.line();
                Ok(event)
            }
            Some(Err(error)) => {
                let (line, column) = (error.marker().line(), error.marker().col() + 1);
                let what = format!("{}, line {line}, column {column}: {}", self.name, error.info());
                Err(Failure::refused(what).remedy(match error.info().contains("tab") {
                    true => "invalid YAML: indent with blanks, not with tabs",
                    false => "invalid YAML",
                }))
            }
            None => Ok(Event::StreamEnd),
        }
    }

    fn refused(&self, what: impl std::fmt::Display) -> Failure {
        Failure::refused(format!("{}: {what}", self.name))
    }

    fn node(&mut self, event: Event<'a>) -> Outcome<Value> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.refused(format_args!("lists and maps are nested more than {DEPTH_MAX} deep")));
        }
        let (anchor, value) = match event {
            Event::Scalar(text, style, anchor, _) => (anchor, resolved(&text, style)),
            Event::SequenceStart(anchor, _) => (anchor, self.list()?),
            Event::MappingStart(anchor, _) => (anchor, self.map()?),
            Event::Alias(anchor) => (0, self.anchored(anchor)?),
            other => return Err(self.refused(format_args!("unexpected {other:?}"))),
        };
        self.depth -= 1;
        if anchor > 0 {
            self.copy(&value)?;
            self.anchors.push((anchor, value.clone()));
        }
        Ok(value)
    }

    fn anchored(&mut self, anchor: usize) -> Outcome<Value> {
        let known = self.anchors.iter().rev().find(|(name, _)| *name == anchor);
        let value = known.map(|(_, value)| value.clone()).ok_or_else(|| self.refused("alias of an unknown anchor"))?;
        self.copy(&value)?;
        Ok(value)
    }

    fn copy(&mut self, value: &Value) -> Outcome<()> {
        self.copied += value.weight();
        let what = "anchors and aliases expand to more than a megabyte; write the values out";
        if self.copied > COPIED_MAX { Err(self.refused(what)) } else { Ok(()) }
    }

    fn list(&mut self) -> Outcome<Value> {
        let mut items = Vec::new();
        loop {
            match self.event()? {
                Event::SequenceEnd => return Ok(Value::List(items)),
                event => items.push(self.node(event)?),
            }
        }
    }

    fn map(&mut self) -> Outcome<Value> {
        let mut entries = Value::empty();
        loop {
            let key = match self.event()? {
                Event::MappingEnd => return Ok(entries),
                Event::Scalar(text, ..) if text.len() > KEY_MAX => {
                    return Err(self.refused(format_args!("a key has {} characters", text.len())));
                }
                Event::Scalar(text, ..) => text.to_string(),
                other => return Err(self.refused(format_args!("a key must be a word, not {other:?}"))),
            };
            if entries.get(&key).is_some() {
                return Err(self.refused(format_args!("line {}: duplicate key `{key}`", self.line)));
            }
            self.path.push(key.clone());
            self.lines.push((self.path.join("."), self.line));
            let first = self.event()?;
            let value = self.node(first)?;
            self.path.pop();
            entries.put(&[&key], value);
        }
    }
}

fn resolved(text: &str, style: ScalarStyle) -> Value {
    if style == ScalarStyle::Plain { yaml_scalar(text) } else { Value::Text(text.to_string()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yaml_one_dot_one_words_are_truth_values() {
        let tree = parse_yaml("t", "a: True\nb: off\nc: 'off'\nd: 1e-3\ne: [1, two, 3.5]\nf:\n  g: null\n").unwrap();
        assert_eq!(tree.get("a"), Some(&Value::Bool(true)));
        assert_eq!(tree.get("b"), Some(&Value::Bool(false)));
        assert_eq!(tree.get("c"), Some(&Value::Text("off".into())));
        assert_eq!(tree.get("d"), Some(&Value::Float(1e-3)));
        assert_eq!(
            tree.get("e"),
            Some(&Value::List(vec![Value::Int(1), Value::Text("two".into()), Value::Float(3.5)]))
        );
        assert_eq!(tree.at(&["f", "g"]), Some(&Value::Null));
    }

    #[test]
    fn yaml_round_trips() {
        let tree =
            parse_yaml("t", "a: {b: [1, 'off', 2.5], c: '1'}\nd: 'x: y'\ne: []\nf: {}\ng: 's3://b/c'\n").unwrap();
        assert_eq!(parse_yaml("again", &tree.to_yaml()).unwrap(), tree);
    }

    #[test]
    fn keys_have_their_line_numbers() {
        let (_, lines) = parse_yaml_placed("t", "a:\n  b: 1\n\n  c: [1,\n    2]\nd: x\n").unwrap();
        assert_eq!(lines, [("a", 1), ("a.b", 2), ("a.c", 4), ("d", 6)].map(|(key, line)| (key.to_string(), line)));
        let refused = parse_yaml("job.yaml", "a: 1\nb: c: d\n").unwrap_err();
        assert!(refused.what.starts_with("job.yaml, line 2, column 5: "), "{refused}");
    }

    #[test]
    fn duplicate_key_is_rejected_with_its_line() {
        for text in ["a: 1\nb: 2\na: 3\n", "b:\n  a: 1\n  a: 1\n", "b: 1\nc: 2\nd: {a: 1, a: 2}\n"] {
            let refused = parse_yaml("job.yaml", text).unwrap_err();
            assert!(refused.what.starts_with("job.yaml: line 3: duplicate key `a`"), "{refused}");
        }
        assert!(parse_yaml("t", "a: {x: 1}\nb: {x: 1}\n").is_ok());
    }

    #[test]
    fn anchors_are_followed() {
        let tree = parse_yaml("t", "a: &x {n: 1}\nb: *x\n").unwrap();
        assert_eq!(tree.at(&["b", "n"]), Some(&Value::Int(1)));
    }

    /// Ten of ten of ten ...: a kilobyte that would expand to a billion words.
    #[test]
    fn rejects_exponential_aliases() {
        let ten = |of: usize| vec![format!("*a{of}"); 10].join(",");
        let mut text = "a0: &a0 lol\n".to_string();
        (1..10).for_each(|level| text += &format!("a{level}: &a{level} [{}]\n", ten(level - 1)));
        let refused = parse_yaml("laughs.yaml", &text).unwrap_err();
        assert!(refused.what.contains("laughs.yaml: anchors and aliases expand to more"), "{refused}");
        let long = format!("a: &a {}\nb: [{}]\n", "x".repeat(10_000), vec!["*a"; 1000].join(","));
        assert!(parse_yaml("long.yaml", &long).is_err());
    }

    #[test]
    fn rejects_unlimited_nesting() {
        for text in ["[".repeat(100_000), "{a: ".repeat(100_000), format!("{}: 1", "a.".repeat(300))] {
            assert!(parse_yaml("deep.yaml", &text).is_err());
        }
        assert!(parse_yaml("deep.yaml", &format!("{}1{}", "[".repeat(40), "]".repeat(40))).is_ok());
    }

    #[test]
    fn broken_yaml_is_refused_with_its_name() {
        assert!(parse_yaml("mine.yaml", "a: [1, 2\nb: }").unwrap_err().what.contains("mine.yaml"));
    }

    #[test]
    fn merge_keeps_keys_missing_in_the_upper_tree() {
        let mut base = parse_yaml("t", "a: {b: 1, c: 2}").unwrap();
        base.merge(parse_yaml("t", "a: {c: 3}").unwrap());
        assert_eq!(base.at(&["a", "b"]), Some(&Value::Int(1)));
        assert_eq!(base.at(&["a", "c"]), Some(&Value::Int(3)));
    }

    #[test]
    fn words_that_only_look_like_numbers_stay_words() {
        for word in ["1.2.3", "e5", "--1", "inf", "nan", "1abc"] {
            assert_eq!(number(word), None, "{word}");
        }
        assert_eq!(number("1_000"), Some(Value::Int(1000)));
    }
}
