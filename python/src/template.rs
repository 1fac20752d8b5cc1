//! The common part of the spans of one place in a program, with the numbers that the engine assigned to its strings;
//! and an open span.

use std::sync::Arc;

use dlio_schemas::native::names::NameKind;
use dlio_schemas::record::MetaKind;
use dlio_tracer::app::{Meta, OpenSpan};
use dlio_tracer::span::Value;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::engine::{self, Engine};
use crate::gil_cell::GilCell;
use crate::value;

/// Category of spans without one.
const APP: &str = "app";

/// A name and a category.
pub struct Site {
    name: String,
    category: String,
    /// Generation, name's number, category's number. Zero is never a generation.
    numbers: GilCell<(u32, u32, u32)>,
}

impl Site {
    pub fn of(name: &Bound<PyString>, category: Option<&Bound<PyString>>) -> Arc<Site> {
        let category = category.map_or_else(|| APP.to_string(), value::text);
        Arc::new(Site { name: value::text(name), category, numbers: GilCell::new((0, 0, 0)) })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn category(&self) -> &str {
        &self.category
    }

    #[inline(always)]
    pub fn numbers(&self, engine: Engine, py: Python) -> (u32, u32) {
        let generation = engine.generation();
        self.numbers.with(py, |numbers| {
            if numbers.0 != generation {
                self.renew(engine, numbers);
            }
            (numbers.1, numbers.2)
        })
    }

    #[cold]
    fn renew(&self, engine: Engine, numbers: &mut (u32, u32, u32)) {
        let name = engine.number(NameKind::Span, &self.name);
        let category = engine.number(NameKind::Category, &self.category);
        // The very first string may have started an image, and with it a generation.
        *numbers = (engine.generation(), name, category);
    }
}

/// A site, with the metadata of every span of it.
pub struct Template {
    site: Arc<Site>,
    steps: i64,
    pairs: Vec<(String, Value)>,
    /// The pairs, numbered, and the generation in which the numbers are valid.
    meta: GilCell<(u32, Vec<Meta>)>,
}

impl Template {
    pub fn new(site: Arc<Site>, steps: i64, meta: Option<&Bound<PyDict>>) -> Template {
        let (mut steps, mut pairs) = (steps, Vec::new());
        value::each(meta, &mut steps, |key, value| pairs.push((key, value)));
        Template { site, steps, pairs, meta: GilCell::new((0, Vec::new())) }
    }

    /// Returns the template with more metadata.
    pub fn with(&self, more: Option<&Bound<PyDict>>) -> Template {
        let mut derived = Template::new(self.site.clone(), self.steps, more);
        derived.pairs.splice(0..0, self.pairs.iter().cloned());
        derived
    }

    pub fn site(&self) -> &Site {
        &self.site
    }

    pub fn steps(&self) -> i64 {
        self.steps
    }

    #[inline(always)]
    pub fn begin(&self, engine: Engine, py: Python) -> Running {
        self.begin_at(engine, self.steps, py)
    }

    #[inline(always)]
    pub fn begin_at(&self, engine: Engine, steps: i64, py: Python) -> Running {
        let (name, category) = self.site.numbers(engine, py);
        Running { open: engine.begin(name, category, steps), first: None, others: Vec::new() }
    }

    /// Returns the template under the name of an attempt that found no further item: `fetch` becomes `fetch.end`.
    pub fn ended(&self) -> Template {
        self.named(format!("{}.end", self.site.name), self.site.category.clone())
    }

    /// Returns the template under another name.
    pub fn named(&self, name: String, category: String) -> Template {
        let site = Arc::new(Site { name, category, numbers: GilCell::new((0, 0, 0)) });
        Template { site, steps: self.steps, pairs: self.pairs.clone(), meta: GilCell::new((0, Vec::new())) }
    }

    pub fn mark(&self, engine: Engine, py: Python) {
        let (name, category) = self.site.numbers(engine, py);
        self.with_meta(engine, py, |meta| engine.instant(name, category, self.steps, meta));
    }

    fn with_meta(&self, engine: Engine, py: Python, work: impl FnOnce(&[Meta])) {
        self.meta.with(py, |(generation, meta)| {
            if *generation != engine.generation() {
                meta.clear();
                meta.extend(self.pairs.iter().map(|(key, value)| numbered(engine, key, value)));
                *generation = engine.generation();
            }
            work(meta);
        });
    }
}

fn numbered(engine: Engine, key: &str, value: &Value) -> Meta {
    let key = engine.number(NameKind::Text, key);
    match value {
        Value::Int(value) => Meta::new(key, MetaKind::Int, *value),
        Value::Float(value) => Meta::new(key, MetaKind::Float, value.to_bits() as i64),
        Value::Text(text) => Meta::new(key, MetaKind::Text, engine.number(NameKind::Text, text) as i64),
    }
}

/// The key of a pair of metadata, numbered once per generation.
pub struct Key {
    text: &'static str,
    /// Generation and number.
    number: GilCell<(u32, u32)>,
}

impl Key {
    pub const fn of(text: &'static str) -> Key {
        Key { text, number: GilCell::new((0, 0)) }
    }

    #[inline(always)]
    fn number(&self, engine: Engine, py: Python) -> u32 {
        self.number.with(py, |(generation, number)| {
            if *generation != engine.generation() {
                *number = engine.number(NameKind::Text, self.text);
                // The very first string may have started an image, and with it a generation.
                *generation = engine.generation();
            }
            *number
        })
    }
}

/// An open span.
pub struct Running {
    open: OpenSpan,
    /// Pairs that became known while it is open: the first one, which is usually the only one, and the rest.
    first: Option<Meta>,
    others: Vec<Meta>,
}

impl Running {
    /// Adds pairs that became known while it is open.
    pub fn set(&mut self, pairs: &[(String, Value)], steps: i64) {
        let engine = engine::get();
        pairs.iter().for_each(|(key, value)| self.add(numbered(engine, key, value)));
        if steps != self.open.steps {
            self.open.steps = steps;
            engine.update(&self.open);
        }
    }

    pub fn steps(&self) -> i64 {
        self.open.steps
    }

    /// Takes the name and the category of another site, for a span whose nature is known only at its end.
    pub fn rename(&mut self, site: &Site, py: Python) {
        let (name, category) = site.numbers(engine::get(), py);
        self.open.rename(name, category);
    }

    /// Adds a pair that only this span has.
    pub fn note(&mut self, key: &str, value: Value) {
        self.add(numbered(engine::get(), key, &value));
    }

    /// Adds a number like [`note`](Self::note), for keys that are used often.
    #[inline(always)]
    pub fn note_number(&mut self, key: &Key, value: i64, py: Python) {
        let key = key.number(engine::get(), py);
        self.add(Meta::new(key, MetaKind::Int, value));
    }

    #[inline(always)]
    fn add(&mut self, pair: Meta) {
        match self.first {
            None => self.first = Some(pair),
            Some(_) => self.others.push(pair),
        }
    }

    #[inline(always)]
    pub fn end(mut self, template: &Template, py: Python) {
        let engine = engine::get();
        let (open, others) = (&mut self.open, &self.others);
        match (self.first, template.pairs.is_empty()) {
            (None, true) => engine.end(open, &[]),
            (None, false) => template.with_meta(engine, py, |fixed| engine.end(open, fixed)),
            (Some(first), true) => joined(&[], first, others, |all| engine.end(open, all)),
            (Some(first), false) => {
                template.with_meta(engine, py, |fixed| joined(fixed, first, others, |all| engine.end(open, all)));
            }
        }
    }
}

/// Passes the pairs on as one list, without an allocation if there are few.
#[inline(always)]
fn joined(fixed: &[Meta], first: Meta, others: &[Meta], work: impl FnOnce(&[Meta])) {
    const FEW: usize = 4;
    let count = fixed.len() + 1 + others.len();
    if count > FEW {
        return work(&[fixed, &[first], others].concat());
    }
    let mut all = [first; FEW];
    all[..fixed.len()].copy_from_slice(fixed);
    all[fixed.len() + 1..count].copy_from_slice(others);
    work(&all[..count]);
}
