//! Objects of an S3 store in the place of files: a path that begins with `s3://` is one, wherever paths are taken.
//!
//! ```text
//! counts         requests of all processes of a rank, counted
//! request        what is asked
//! request_span   each request as a trace has it
//! certificates   the certificates that a server is known by
//! http, sign     a connection to a server; who asks, proved
//! settings       which store, who asks; from keys and environment
//! xml            the few words of XML that a store answers with
//! client         a request until it is answered: attempts, redirects, what a refusal means; the only place that sends
//! session        the store of this run, and a client for each thread
//! body           an object read, from the byte reached where it broke
//! upload         an object written, whole or in parts; visible when it is complete
//! cache          pieces of objects kept on this host, if a workload asks for that
//! upcoming       objects requested before their turn
//! objects        whole objects: get, put, delete
//! ```
//!
//! No thread and no runtime is behind it: a request is made in the thread that wants it, so that ranks, workers and writers
//! fork as they do for files. Names of objects are computed, never listed.

pub mod body;
pub mod cache;
mod certificates;
mod client;
pub mod counts;
mod http;
mod objects;
mod request;
mod request_span;
mod session;
pub mod settings;
mod sign;
mod upcoming;
mod upload;
pub mod xml;

pub use body::{Body, Ranges};
pub use objects::{check_writable, delete, get, preflight, put, sweep};
pub use session::{enter, is_object, length, take_rank};
pub use settings::Settings;
pub use upcoming::Upcoming;
pub use upload::Upload;
