//! Templates of JSON events: the meaning of an event's values is determined once for all events with the same shape.
//!
//! ```text
//! {"id":41,"name":"pread","pid":7,"ts":1795,"dur":12,"args":{"hhash":"68","fhash":"4aa1","ret":4096,"offset":0}}
//!       |                     |        |         |                   |            |           |             |
//!    nowhere                 pid      ts        dur                host        column      column        column
//! ```
//!
//! [`super::shapes`] recognizes equal shapes, [`super::events`] knows the meaning of keys.

use super::calls::CallExtras;
use super::columns::{Column, meta};
use super::json_scanner::{Json, Scale};
use super::shapes::Shape;
use crate::batch::{Row, Value};
use crate::catalog::Catalog;
use dlio_schemas::ops::OpInfo;

/// The number of templates kept; a trace has few kinds of events, and most of its events are of even fewer.
const TEMPLATES_MAX: usize = 16;

/// The number of events after which searching for a template must have paid off.
const TRIES: u64 = 1000;

/// How to read all events of one shape.
pub struct Template<'a> {
    pub shape: Shape<'a>,
    /// The destination of each value of the shape.
    pub slots: Vec<Slot>,
    pub call: Option<&'static OpInfo>,
    /// The row before the values are written into it.
    pub row: Row,
    /// `true` if a value of the shape is its time.
    pub timed: bool,
    /// The last event read, or the one this template was created from: fields without a value are equal in all of them.
    pub values: Values<'a>,
}

/// The destination of a value.
#[derive(Clone, Copy)]
pub enum Slot {
    Ts,
    Dur,
    Pid,
    Tid,
    /// The hash of the host.
    Host,
    Column(Column),
    /// An argument without a column, by its index.
    Arg(usize),
    /// The value is ignored.
    Nowhere,
}

/// The values of one event.
pub struct Values<'a> {
    /// Its file is still to be looked up.
    pub row: Row,
    pub beside: CallExtras,
    pub scale: Scale,
    /// `true` if it has a time, and its duration, if any, is valid: otherwise it is not an event.
    pub timed: bool,
    pub pid: i64,
    pub tid: i64,
    pub host: &'a [u8],
    pub file: Option<(Column, Json<'a>)>,
    /// Arguments without a column.
    pub args: Vec<(u32, Value)>,
}

impl<'a> Template<'a> {
    /// Reads the object at the start of `text` and returns its length; `None` if its shape differs.
    #[inline]
    fn read(&mut self, text: &'a [u8], catalog: &Catalog) -> Option<usize> {
        let (values, slots) = (&mut self.values, &self.slots);
        (values.row, values.beside, values.timed) = (self.row, CallExtras::NOTHING, self.timed);
        self.shape.fill(text, |i, value, number| values.set(slots[i], value, number, catalog))
    }
}

impl<'a> Values<'a> {
    /// Writes a value; `number` is the value if it is a plain number.
    #[inline(always)]
    fn set(&mut self, slot: Slot, value: Json<'a>, number: Option<i64>, catalog: &Catalog) {
        let integer = || number.or_else(|| value.integer());
        match slot {
            Slot::Ts => {
                let ts = self.scale.moment(value, number);
                (self.timed, self.row.ts) = (self.timed && ts.is_some(), ts.unwrap_or(0));
            }
            Slot::Dur => {
                let dur = self.scale.length(value, number);
                (self.timed, self.row.dur) = (self.timed && dur.is_some(), dur.unwrap_or(0));
            }
            Slot::Pid => self.pid = integer().unwrap_or(0),
            Slot::Tid => self.tid = integer().unwrap_or(0),
            Slot::Host => self.host = value.raw(),
            Slot::Column(column) if column.is_file() => self.file = Some((column, value)),
            Slot::Column(column) => {
                column.set(&mut self.row, &mut self.beside, value, number);
            }
            Slot::Arg(at) => self.args[at].1 = meta(value, catalog),
            Slot::Nowhere => {}
        }
    }
}

/// Templates for the events of a text.
#[derive(Default)]
pub struct Templates<'a> {
    templates: Vec<Template<'a>>,
    /// The one that matched last; the next one to replace.
    last: usize,
    oldest: usize,
    found: u64,
    missed: u64,
}

impl<'a> Templates<'a> {
    /// Reads the object at the start of `text` by a template; returns its values, its operation and its length.
    #[inline]
    pub fn read(&mut self, text: &'a [u8], catalog: &Catalog) -> Option<(&Values<'a>, Option<&'static OpInfo>, usize)> {
        if !self.pays() {
            return None;
        }
        let (templates, last, others) = (&mut self.templates, self.last, 0..TEMPLATES_MAX);
        let mut read = |at: usize| templates.get_mut(at)?.read(text, catalog).map(|length| (at, length));
        let found = read(last).or_else(|| others.filter(|at| *at != last).find_map(read));
        let Some((at, length)) = found else {
            self.missed += 1;
            return None;
        };
        self.found += 1;
        self.last = at;
        let template = &self.templates[at];
        Some((&template.values, template.call, length))
    }

    /// Returns `true` if templates have paid off so far.
    pub fn pays(&self) -> bool {
        self.missed < TRIES.max(self.found)
    }

    pub fn remember(&mut self, template: Template<'a>) {
        match self.templates.len() < TEMPLATES_MAX {
            true => self.templates.push(template),
            false => {
                self.templates[self.oldest] = template;
                self.oldest = (self.oldest + 1) % TEMPLATES_MAX;
            }
        }
    }
}
