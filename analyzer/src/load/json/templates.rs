//! Templates of JSON events: where the values of an event belong is found out once for all events written like it.
//!
//! ```text
//! {"id":41,"name":"pread","pid":7,"ts":1795,"dur":12,"args":{"hhash":"68","fhash":"4aa1","ret":4096,"offset":0}}
//!       |                     |        |         |                   |            |           |             |
//!    nowhere                 pid      ts        dur                host        column      column        column
//! ```
//!
//! [`super::shapes`] says which objects are written alike, [`super::events`] what their keys mean.

use super::calls::Beside;
use super::columns::{Column, meta};
use super::json_scanner::{Json, Scale};
use super::shapes::Shape;
use crate::batch::{Row, Value};
use crate::catalog::Catalog;
use dlio_schemas::ops::OpInfo;

/// Templates that are kept; a trace has few kinds of events, and most of its events are of fewer.
const TEMPLATES_MAX: usize = 16;

/// Events after which looking for a template has to have paid.
const TRIES: u64 = 1000;

/// The way to read all events that are written like one of them.
pub struct Template<'a> {
    pub shape: Shape<'a>,
    /// The place of each value of the shape.
    pub slots: Vec<Slot>,
    pub call: Option<&'static OpInfo>,
    /// The row before the values are written into it.
    pub row: Row,
    /// True if a value of the shape is its time.
    pub timed: bool,
    /// The event read last, or the one this was made of: what no value says is the same in all.
    pub values: Values<'a>,
}

/// The place of a value in an event.
#[derive(Clone, Copy)]
pub enum Slot {
    Ts,
    Dur,
    Pid,
    Tid,
    /// The hash of the host.
    Host,
    Column(Column),
    /// An argument without a column, by its place among those.
    Arg(usize),
    /// Nobody looks at it.
    Nowhere,
}

/// The values of one event.
pub struct Values<'a> {
    /// Its file is still to be looked up.
    pub row: Row,
    pub beside: Beside,
    pub scale: Scale,
    /// True if it has a time, and a duration that is one if any: it is no event without.
    pub timed: bool,
    pub pid: i64,
    pub tid: i64,
    pub host: &'a [u8],
    pub file: Option<(Column, Json<'a>)>,
    /// Arguments without a column.
    pub args: Vec<(u32, Value)>,
}

impl<'a> Template<'a> {
    /// Reads the object at the start of `text` and says how long it is; `None` where it is not like this.
    #[inline]
    fn read(&mut self, text: &'a [u8], catalog: &Catalog) -> Option<usize> {
        let (values, slots) = (&mut self.values, &self.slots);
        (values.row, values.beside, values.timed) = (self.row, Beside::NOTHING, self.timed);
        self.shape.fill(text, |i, value, number| values.set(slots[i], value, number, catalog))
    }
}

impl<'a> Values<'a> {
    /// `number` is what the value says where it is a plain number.
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
    /// The one that fitted last; the next to be replaced.
    last: usize,
    oldest: usize,
    found: u64,
    missed: u64,
}

impl<'a> Templates<'a> {
    /// Reads the object at the start of `text` by a template; what it says, which call it is and how long it is.
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

    /// True if it has paid so far.
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
