//! Ranges and marks of NVTX, the annotation interface of PyTorch, NCCL, DALI and others, recorded as spans and instants.
//!
//! ```text
//! message   the name of a range, as programs pass it
//! kept      strings and domains that programs register once
//! stack     the ranges that a thread has pushed
//! started   ranges that may end on another thread
//! ```
//!
//! The category is `nvtx`, or `comm.nccl` for the domain NCCL. A named domain is metadata. Colors and payloads are not
//! recorded. Each library that contains NVTX passes the addresses of its functions to the preloaded library.

use dlio_schemas::native::names::NameKind;
use dlio_schemas::ops::{Layer, Op};
use dlio_schemas::record::MetaKind;

use crate::calls::call::Done;
use crate::kernel::clock;
use crate::spans::app::{self, Meta, NO_STEPS};
use crate::spans::library_calls::{self, Number};

mod kept;
pub mod message;
mod stack;
mod started;

use kept::{Handle, Kept, Table};
use message::Message;

/// NVTX's result for "no stack of ranges".
pub const NO_STACK: i32 = -2;
/// The result of a pop without a push.
const NO_RANGE: i32 = -1;

crate::large! {
    /// More domains than programs use. Ranges of additional domains are recorded without a domain.
    static DOMAINS: Table<64> = Table::new();
}

static CATEGORY: Number = Number::new();
static NCCL_CATEGORY: Number = Number::new();
static DOMAIN: Number = Number::new();

/// The group of ranges that a library has for itself; `None` is the default one.
#[derive(Clone, Copy)]
pub struct Domain(Option<&'static Kept>);

impl Domain {
    pub const DEFAULT: Domain = Domain(None);

    /// Creates a domain, or finds the one of this name.
    pub fn create(name: Message) -> Handle {
        name.with_text(|name| DOMAINS.keep(name)).flatten().map_or(std::ptr::null(), Kept::handle)
    }

    /// Returns the domain of a handle; the default one if the handle is unknown.
    pub fn of(handle: Handle) -> Domain {
        Domain(DOMAINS.find(handle))
    }

    /// Returns a number that distinguishes it from all others.
    fn number(self) -> u32 {
        self.0.map_or(0, |kept| DOMAINS.place(kept) + 1)
    }

    fn numbered(number: u32) -> Domain {
        Domain(number.checked_sub(1).and_then(|place| DOMAINS.at(place)))
    }

    fn category(self) -> u32 {
        match self.0 {
            Some(kept) if kept.text() == b"NCCL" => NCCL_CATEGORY.get(NameKind::Category, "comm.nccl"),
            _ => CATEGORY.get(NameKind::Category, "nvtx"),
        }
    }

    fn meta(self) -> Option<Meta> {
        let kept = self.0?;
        let key = DOMAIN.get(NameKind::Text, "domain");
        Some(Meta::new(key, MetaKind::Text, kept.number(NameKind::Text) as i64))
    }
}

/// Starts a range of this thread, inside those that it has pushed. Returns the number of ranges of the domain around it.
pub fn push(domain: Domain, name: Message) -> i32 {
    if !library_calls::records(Layer::App) {
        return NO_STACK;
    }
    let Some(stack) = stack::own_or_new() else { return NO_STACK };
    let span = app::begin(name.number(), domain.category(), NO_STEPS);
    stack.push(domain.number(), span)
}

/// Ends the range of this thread that was pushed last in a domain. Returns the number of ranges around it.
pub fn pop(domain: Domain) -> i32 {
    let Some((level, mut span)) = stack::own().and_then(|stack| stack.pop(domain.number())) else { return NO_RANGE };
    if library_calls::records(Layer::App) {
        app::end(&mut span, domain.meta().as_slice());
    }
    level
}

/// Starts a range that ends on any thread. Returns its id; zero if it is not recorded.
pub fn start(domain: Domain, name: Message) -> u64 {
    if !library_calls::records(Layer::App) {
        return 0;
    }
    started::start(name.number(), domain.category(), domain.number())
}

/// Ends a range by its id. A range that is unknown, has ended or was started before a fork is ignored.
pub fn end(id: u64) {
    if !library_calls::records(Layer::App) {
        return;
    }
    let Some(range) = started::end(id) else { return };
    let done = Done { start: range.start, duration: clock::ticks().saturating_sub(range.start) };
    app::put_meta(Domain::numbered(range.domain).meta().as_slice(), range.start);
    done.record(Op::SPAN, range.name, range.category as i32, (NO_STEPS, false), 0, 0);
}

/// Records a point in time.
pub fn mark(domain: Domain, name: Message) {
    if library_calls::records(Layer::App) {
        app::instant(name.number(), domain.category(), NO_STEPS, domain.meta().as_slice());
    }
}

/// Keeps a string for messages that refer to it.
pub fn register(text: Message) -> Handle {
    message::register(text)
}
