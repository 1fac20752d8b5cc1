//! Records spans and events of the crate `tracing` in the trace of the program's I/O. This takes one line where the
//! program sets up its subscriber, and no other change.
//!
//! ```
//! use tracing_subscriber::layer::SubscriberExt;
//!
//! let subscriber = tracing_subscriber::registry().with(dlio_tracer::tracing_layer::Recorder);
//! tracing::subscriber::with_default(subscriber, || tracing::info_span!("fetch", epoch = 1, step = 3).in_scope(|| ()));
//! ```
//!
//! Each interval between entering and leaving a span is a span of the thread that enters it: a suspended task takes
//! no time of its thread, and spans nest with I/O by construction. The category is the field `cat`, otherwise the
//! target. An event is a point in time.

use std::cell::RefCell;
use std::fmt::Debug;

use tracing_core::field::{Field, Visit};
use tracing_core::span::{Attributes, Id, Record};
use tracing_core::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

use crate::spans::span::{self, Span, Value};

/// The layer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Recorder;

thread_local! {
    /// The spans this thread has entered and not left. They must not move to another thread, so they cannot be in the
    /// registry.
    static ENTERED: RefCell<Vec<(Id, Span)>> = const { RefCell::new(Vec::new()) };
}

/// The fields of a span, kept in the registry for each time it is entered.
#[derive(Default)]
struct Fields {
    category: Option<String>,
    pairs: Vec<(&'static str, Value)>,
}

impl Fields {
    fn put(&mut self, field: &Field, value: Value) {
        match value {
            Value::Text(category) if field.name() == "cat" => self.category = Some(category),
            value => self.pairs.push((field.name(), value)),
        }
    }
}

impl Visit for Fields {
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, Value::Int(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, i64::try_from(value).map_or_else(|_| Value::Text(value.to_string()), Value::Int));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, Value::Float(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, Value::Int(value as i64));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, Value::Text(value.to_string()));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.put(field, Value::Text(format!("{value:?}")));
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Recorder {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if let Some(span) = context.span(id).filter(|_| span::is_recorded()) {
            let mut fields = Fields::default();
            attributes.record(&mut fields);
            span.extensions_mut().insert(fields);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let mut late = Fields::default();
        values.record(&mut late);
        ENTERED.with_borrow_mut(|entered| {
            if let Some((_, span)) = entered.iter_mut().rev().find(|(of, _)| of == id) {
                late.pairs.iter().for_each(|(key, value)| span.set(key, value.clone()));
            }
        });
        if let Some(span) = context.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<Fields>()
        {
            fields.pairs.append(&mut late.pairs);
        }
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        if let Some(of) = context.span(id).filter(|_| span::is_recorded()) {
            let extensions = of.extensions();
            let fields = extensions.get::<Fields>();
            let category = fields.and_then(|fields| fields.category.as_deref()).unwrap_or(of.metadata().target());
            let mut span = Span::begin(of.metadata().name(), category);
            fields.iter().flat_map(|fields| &fields.pairs).for_each(|(key, value)| span.set(key, value.clone()));
            ENTERED.with_borrow_mut(|entered| entered.push((id.clone(), span)));
        }
    }

    fn on_exit(&self, id: &Id, _: Context<'_, S>) {
        ENTERED.with_borrow_mut(|entered| {
            if let Some(at) = entered.iter().rposition(|(of, _)| of == id) {
                drop(entered.remove(at));
            }
        });
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if span::is_recorded() {
            let mut fields = Fields::default();
            event.record(&mut fields);
            let category = fields.category.as_deref().unwrap_or(event.metadata().target());
            // An event's own name is its place in the source; its content is the message.
            let message = fields.pairs.iter().find(|(key, _)| *key == "message");
            let name = match message {
                Some((_, Value::Text(message))) => message.as_str(),
                _ => event.metadata().name(),
            };
            let others: Vec<_> = fields.pairs.iter().filter(|(key, _)| *key != "message").cloned().collect();
            span::mark(name, category, &others);
        }
    }
}
