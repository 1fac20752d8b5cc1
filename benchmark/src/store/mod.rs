//! Objects of an S3 store instead of files: every path that starts with `s3://` is an object.
//!
//! ```text
//! counts         requests of all processes of a rank, counted
//! request        a request to the store
//! request_span   the span of each request in a trace
//! certificates   the certificates that a server is verified by
//! http, sign     a connection to a server; the signature of the client
//! settings       which store, which credentials; from keys and environment
//! xml            the XML elements that a store answers with
//! client         a request until it is answered: attempts, redirects, meanings of errors; the only place that sends
//! session        the store of this run, and a client for each thread
//! body           an object read, resumed at the byte reached after a break
//! upload         an object written, whole or in parts; visible when it is complete
//! cache          pieces of objects kept on this host, if a workload asks for that
//! upcoming       objects requested ahead of their use
//! objects        whole objects: get, put, delete
//! ```
//!
//! Requests use no extra thread and no runtime: each is made in the thread that needs it, so that ranks, workers and
//! writers can fork as they do with files. Names of objects are computed, never listed.

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
