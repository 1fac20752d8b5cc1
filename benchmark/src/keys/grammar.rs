//! Hydra's override grammar: the syntax of overrides, without their meaning.
//!
//! ```text
//! key=value     change a key that exists      +key=value   add one       ++key=value   either
//! ~key          remove a key                  key=         an empty text
//! value         word · 'quoted' · "quoted" · 12 · 1e-3 · true · null · [a, b] · {k: v} · ${other.key}
//! a,b,c         a sweep, as are choice(a,b), range(1,5), range(1,9,2)
//! ```
//!
//! A backslash makes the next `\ ( ) [ ] { } : = ,` or blank an ordinary character of a word.

use crate::failure::{Failure, Outcome};
use crate::keys::value::{DEPTH_MAX, Value, number};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Change,
    Add,
    Force,
    Remove,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Override {
    /// As given; used in overrides.yaml and in error messages.
    pub typed: String,
    pub action: Action,
    /// `workload.dataset.format`, without a package (`@...`).
    pub key: String,
    /// Several values only for a sweep; none only when a key is removed.
    pub values: Vec<Value>,
}

impl Override {
    pub fn path(&self) -> Vec<&str> {
        self.key.split('.').collect()
    }

    pub fn value(&self) -> &Value {
        self.values.first().unwrap_or(&Value::Null)
    }
}

/// The maximum number of runs in a sweep: each has a directory, and more would never finish.
pub const SWEEP_MAX: usize = 10_000;

pub fn parse(typed: &str) -> Outcome<Override> {
    let (action, rest) = action_of(typed);
    let (key, value) = match rest.split_once('=') {
        Some((key, value)) => (key, Some(value)),
        None if action == Action::Remove => (rest, None),
        None => return Err(wrong(typed, "expected key=value")),
    };
    let key = key.split('@').next().unwrap_or_default();
    check_key(typed, key)?;
    let values = value.map_or(Ok(Vec::new()), |text| ValueParser::new(typed, text).sweep())?;
    Ok(Override { typed: typed.to_string(), action, key: key.to_string(), values })
}

fn action_of(typed: &str) -> (Action, &str) {
    if let Some(rest) = typed.strip_prefix("++") {
        (Action::Force, rest)
    } else if let Some(rest) = typed.strip_prefix('+') {
        (Action::Add, rest)
    } else if let Some(rest) = typed.strip_prefix('~') {
        (Action::Remove, rest)
    } else {
        (Action::Change, typed)
    }
}

fn check_key(typed: &str, key: &str) -> Outcome<()> {
    let plain = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_alphanumeric() || "_-/$".contains(c));
    if key.split('.').all(plain) && key.split('.').count() <= DEPTH_MAX {
        return Ok(());
    }
    Err(wrong(typed, "not a valid key"))
}

fn wrong(typed: &str, why: &str) -> Failure {
    // An argument may be very long.
    let (shown, more) = match typed.char_indices().nth(200) {
        Some((end, _)) => (&typed[..end], "..."),
        None => (typed, ""),
    };
    Failure::refused(format!("cannot parse `{shown}{more}`: {why}")).remedy(
        "write overrides as ++workload.dataset.num_files_train=16; quote values with spaces or brackets for the shell",
    )
}

/// The text of a value, and the position in it.
struct ValueParser<'a> {
    whole: &'a str,
    text: Vec<char>,
    at: usize,
    depth: usize,
}

impl<'a> ValueParser<'a> {
    fn new(whole: &'a str, text: &str) -> ValueParser<'a> {
        ValueParser { whole, text: text.chars().collect(), at: 0, depth: 0 }
    }

    fn sweep(mut self) -> Outcome<Vec<Value>> {
        if self.remaining().is_empty() {
            return Ok(vec![Value::Text(String::new())]);
        }
        match self.function()? {
            Some(values) => Ok(values),
            None => self.values(),
        }
    }

    fn values(mut self) -> Outcome<Vec<Value>> {
        let mut values = vec![self.value("")?];
        while self.take(',') {
            values.push(self.value("")?);
        }
        if self.at < self.text.len() {
            return Err(self.wrong("unexpected text after the value"));
        }
        Ok(values)
    }

    /// Parses a whole `choice(...)` or `range(...)`; `None` if the value is something else.
    fn function(&mut self) -> Outcome<Option<Vec<Value>>> {
        let text = self.remaining();
        let Some(inside) = text.strip_suffix(')') else { return Ok(None) };
        if let Some(choices) = inside.strip_prefix("choice(") {
            return ValueParser::new(self.whole, choices).values().map(Some);
        }
        match inside.strip_prefix("range(") {
            Some(bounds) => self.range(bounds).map(Some),
            None => Ok(None),
        }
    }

    fn range(&self, bounds: &str) -> Outcome<Vec<Value>> {
        let numbers: Option<Vec<i64>> = bounds.split(',').map(|part| part.trim().parse().ok()).collect();
        let (start, stop, step) = match numbers.as_deref() {
            Some(&[stop]) => (0, stop, 1),
            Some(&[start, stop]) => (start, stop, 1),
            Some(&[start, stop, step]) if step > 0 => (start, stop, step),
            _ => return Err(self.wrong("range needs one to three integers: range(start, stop, step)")),
        };
        let values = (i128::from(stop) - i128::from(start) - 1).div_euclid(i128::from(step)) + 1;
        if values > SWEEP_MAX as i128 {
            return Err(self.wrong(&format!("the sweep has {values} values; at most {SWEEP_MAX} are supported")));
        }
        Ok((start..stop).step_by(step as usize).map(Value::Int).collect())
    }

    fn remaining(&self) -> String {
        self.text[self.at..].iter().collect()
    }

    fn wrong(&self, why: &str) -> Failure {
        wrong(self.whole, why)
    }

    fn peek(&self) -> Option<char> {
        self.text.get(self.at).copied()
    }

    fn take(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        self.at += usize::from(found);
        found
    }

    fn skip_blanks(&mut self) {
        while self.peek().is_some_and(char::is_whitespace) {
            self.at += 1;
        }
    }

    /// Parses one value; `closing` are the characters, in addition to the comma, that end a word.
    fn value(&mut self, closing: &str) -> Outcome<Value> {
        self.skip_blanks();
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.wrong("lists and maps are nested too deeply"));
        }
        let value = match self.peek() {
            Some('[') => self.list()?,
            Some('{') => self.map()?,
            Some(quote @ ('\'' | '"')) => Value::Text(self.quoted(quote)?),
            _ => self.word(closing)?,
        };
        self.depth -= 1;
        self.skip_blanks();
        Ok(value)
    }

    fn list(&mut self) -> Outcome<Value> {
        self.at += 1;
        let mut items = Vec::new();
        self.skip_blanks();
        while !self.take(']') {
            items.push(self.value("]")?);
            if !self.take(',') && self.peek() != Some(']') {
                return Err(self.wrong("the list has no closing ]"));
            }
            self.skip_blanks();
        }
        Ok(Value::List(items))
    }

    fn map(&mut self) -> Outcome<Value> {
        self.at += 1;
        let mut entries = Value::empty();
        self.skip_blanks();
        while !self.take('}') {
            let key = self.map_key()?;
            if entries.get(&key).is_some() {
                return Err(self.wrong(&format!("duplicate key `{key}`")));
            }
            let value = self.value("}")?;
            entries.put(&[&key], value);
            if !self.take(',') && self.peek() != Some('}') {
                return Err(self.wrong("the map has no closing }"));
            }
            self.skip_blanks();
        }
        Ok(entries)
    }

    fn map_key(&mut self) -> Outcome<String> {
        let start = self.at;
        while self.peek().is_some_and(|c| !":,}".contains(c)) {
            self.at += 1;
        }
        let key: String = self.text[start..self.at].iter().collect();
        let key = key.trim().trim_matches(['\'', '"']);
        if !self.take(':') || key.is_empty() {
            let before = if key.is_empty() { String::new() } else { format!(", and `{key}` has no value") };
            return Err(self.wrong(&format!("expected key: value between the commas of a map{before}")));
        }
        Ok(key.to_string())
    }

    fn quoted(&mut self, quote: char) -> Outcome<String> {
        self.at += 1;
        let mut text = String::new();
        loop {
            match self.peek() {
                None => return Err(self.wrong("the quote is not closed")),
                Some('\\') if self.text.get(self.at + 1) == Some(&quote) => {
                    text.push(quote);
                    self.at += 2;
                }
                Some(c) if c == quote => {
                    self.at += 1;
                    return Ok(text);
                }
                Some(c) => {
                    text.push(c);
                    self.at += 1;
                }
            }
        }
    }

    fn word(&mut self, closing: &str) -> Outcome<Value> {
        let mut text = String::new();
        let mut escaped = false;
        let mut depth = 0usize;
        while let Some(c) = self.peek() {
            let inside = depth > 0;
            match c {
                '\\' if self.text.get(self.at + 1).is_some_and(|next| "\\()[]{}:=, \t".contains(*next)) => {
                    self.at += 1;
                    text.push(self.text[self.at]);
                    escaped = true;
                }
                // An interpolation is one unit: ${now:%Y-%m-%d} contains colons and braces.
                '{' if text.ends_with('$') || inside => {
                    depth += 1;
                    text.push(c);
                }
                '}' if inside => {
                    depth -= 1;
                    text.push(c);
                }
                _ if !inside && (c == ',' || closing.contains(c)) => break,
                '[' | ']' | '{' | '}' if !inside => {
                    return Err(self.wrong(&format!("unexpected `{c}`; quote the value")));
                }
                _ => text.push(c),
            }
            self.at += 1;
        }
        let text = text.trim().to_string();
        if text.is_empty() {
            return Err(self.wrong("a value is missing"));
        }
        Ok(if escaped { Value::Text(text) } else { scalar(&text) })
    }
}

/// A bare word of Hydra's grammar. Unlike YAML 1.1, `on` and `off` are words.
fn scalar(text: &str) -> Value {
    match text.to_ascii_lowercase().as_str() {
        "null" => Value::Null,
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        "inf" | "+inf" => Value::Float(f64::INFINITY),
        "-inf" => Value::Float(f64::NEG_INFINITY),
        "nan" => Value::Float(f64::NAN),
        _ => number(text).unwrap_or_else(|| Value::Text(text.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(typed: &str) -> Value {
        let parsed = parse(&format!("k={typed}")).unwrap();
        assert_eq!(parsed.values.len(), 1, "{typed}");
        parsed.values[0].clone()
    }

    fn text(words: &str) -> Value {
        Value::Text(words.to_string())
    }

    #[test]
    fn prefixes_select_the_action() {
        for (typed, action) in
            [("a.b=1", Action::Change), ("+a.b=1", Action::Add), ("++a.b=1", Action::Force), ("~a.b", Action::Remove)]
        {
            let parsed = parse(typed).unwrap();
            assert_eq!((parsed.action, parsed.key.as_str()), (action, "a.b"));
        }
    }

    #[test]
    fn words_are_resolved_as_hydra_does() {
        assert_eq!(value("12"), Value::Int(12));
        assert_eq!(value("1e-3"), Value::Float(1e-3));
        assert_eq!(value("True"), Value::Bool(true));
        assert_eq!(value("NULL"), Value::Null);
        assert_eq!(value("off"), text("off"));
        assert_eq!(value("./data/x y"), text("./data/x y"));
        assert_eq!(value(""), text(""));
    }

    #[test]
    fn quotes_preserve_their_content() {
        assert_eq!(value("'a, [b]'"), text("a, [b]"));
        assert_eq!(value("\"1\""), text("1"));
        assert_eq!(value(r"'it\'s'"), text("it's"));
        assert_eq!(value(r"a\,b"), text("a,b"));
    }

    #[test]
    fn lists_and_maps_nest() {
        assert_eq!(
            value("[1, two,[3]]"),
            Value::List(vec![Value::Int(1), text("two"), Value::List(vec![Value::Int(3)])])
        );
        let map = value("{mean: 0.5, type: normal, inner: {a: [1]}}");
        assert_eq!(map.get("mean"), Some(&Value::Float(0.5)));
        assert_eq!(map.at(&["inner", "a"]), Some(&Value::List(vec![Value::Int(1)])));
        assert_eq!(value("[]"), Value::List(vec![]));
        assert_eq!(value("{}"), Value::empty());
    }

    #[test]
    fn interpolations_are_words() {
        assert_eq!(
            value("./out/${now:%Y-%m-%d}/${workload.model.name}"),
            text("./out/${now:%Y-%m-%d}/${workload.model.name}")
        );
    }

    #[test]
    fn commas_and_functions_make_a_sweep() {
        assert_eq!(parse("k=1,2,3").unwrap().values.len(), 3);
        assert_eq!(parse("k=choice(a,b)").unwrap().values, [text("a"), text("b")]);
        assert_eq!(parse("k=range(1,6,2)").unwrap().values, [Value::Int(1), Value::Int(3), Value::Int(5)]);
    }

    #[test]
    fn a_value_may_hold_equal_signs_and_urls() {
        assert_eq!(value("s3://bucket/a=b"), text("s3://bucket/a=b"));
    }

    #[test]
    fn rejects_unterminated_values() {
        for typed in [
            format!("k={}", "[".repeat(100_000)),
            format!("k={}", "{a:".repeat(40_000)),
            format!("k={}1", "choice(".repeat(10_000)),
            format!("k={}1{}", "choice(".repeat(10_000), ")".repeat(10_000)),
            format!("k{}=1", ".k".repeat(60_000)),
            "k=range(0,9223372036854775807)".into(),
            "k=range(-9223372036854775808,9223372036854775807)".into(),
        ] {
            // A word with parentheses in it is a word.
            assert!(parse(&typed).is_err() || typed.contains("choice"), "{:.40}", typed);
            assert!(parse(&typed).map_or_else(|refused| refused.what.len(), |_| 0) < 400);
        }
    }

    #[test]
    fn rejects_invalid_syntax() {
        for typed in
            ["noequals", "=1", "k=[1,2", "k={a 1}", "k='open", "k=a]b", "k=1,,2", "a..b=1", "k=range(x)", "k=[1] 2"]
        {
            let failure = parse(typed).unwrap_err();
            assert!(failure.what.contains(typed), "{typed}: {failure}");
        }
    }
}
