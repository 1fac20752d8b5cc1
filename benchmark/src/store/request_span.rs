//! The span of a request in a trace: it starts when the request is sent and is recorded when the answer is complete.
//! Attempts, redirects and requests that resume a broken body are separate requests, as the store counts them.

use super::counts::Figure;
use super::request::Request;
use dlio_tracer::io::{self, Io};
use dlio_tracer::ops::Op;
use dlio_tracer::span::Value;
use std::time::Duration;

/// A request's span, recorded on drop at the latest; does nothing if nothing is traced.
pub struct RequestSpan {
    open: Option<Box<Open>>,
    /// Bytes of the body sent or received.
    pub moved: u64,
}

struct Open {
    op: Op,
    name: String,
    start: u64,
    pos: Option<u64>,
    requested: u64,
    facts: Vec<(&'static str, Value)>,
}

impl RequestSpan {
    pub fn begin(request: &Request, name: impl FnOnce() -> String, server: &str, attempt: u64) -> RequestSpan {
        RequestSpan::begin_as(operation(request), request, name, server, attempt)
    }

    /// Opens a connection for a request.
    pub fn connect(request: &Request, name: impl FnOnce() -> String, server: &str, attempt: u64) -> RequestSpan {
        RequestSpan::begin_as(Op::OBJECT_CONNECT, request, name, server, attempt)
    }

    fn begin_as(op: Op, request: &Request, name: impl FnOnce() -> String, server: &str, attempt: u64) -> RequestSpan {
        let start = io::now();
        if start == 0 {
            return RequestSpan { open: None, moved: 0 };
        }
        let moves = matches!(op, Op::OBJECT_GET | Op::OBJECT_PUT | Op::OBJECT_PART);
        let mut facts = vec![("server", server.into()), ("attempt", attempt.into())];
        if let Some((_, part)) = request.query.iter().find(|(name, _)| *name == "partNumber") {
            facts.push(("part", part.parse::<u64>().unwrap_or_default().into()));
        }
        if request.headers.iter().any(|(name, _)| *name == "if-match") {
            facts.push(("resumed_from", request.at.into()));
        }
        let open = Open {
            op,
            name: name(),
            start,
            pos: moves.then_some(request.at),
            requested: request.body.filter(|_| moves).map_or(0, |body| body.len() as u64),
            facts,
        };
        RequestSpan { open: Some(Box::new(open)), moved: 0 }
    }

    /// Notes the start of the answer; `length` is the size of the body, if the request is for one.
    pub fn answered(&mut self, status: u16, after: Duration, length: Option<u64>) {
        if let Some(open) = &mut self.open {
            open.facts.push(("status", u64::from(status).into()));
            open.facts.push(("first_byte_ns", (after.as_nanos() as u64).into()));
            if open.op == Op::OBJECT_GET {
                open.requested = length.unwrap_or(0);
            }
        }
    }

    /// Ends the span. For a body that broke, records the bytes received and the error.
    pub fn end(&mut self, errno: i32) {
        let Some(mut open) = self.open.take() else { return };
        let has_moved = self.moved > 0 && errno != 0;
        if has_moved {
            open.facts.push(("broken", errno.into()));
        }
        let io = Io {
            pos: open.pos,
            requested: open.requested,
            moved: self.moved,
            errno: if has_moved { 0 } else { errno },
            ..Io::new(open.op, &open.name, open.start)
        };
        io.done(&open.facts);
    }
}

impl Drop for RequestSpan {
    fn drop(&mut self) {
        self.end(0);
    }
}

fn operation(request: &Request) -> Op {
    let asks = |word: &str| request.query.iter().any(|(name, _)| *name == word);
    match request.figure {
        Figure::Gets => Op::OBJECT_GET,
        Figure::Heads => Op::OBJECT_HEAD,
        Figure::Puts => Op::OBJECT_PUT,
        Figure::Parts => Op::OBJECT_PART,
        Figure::Deletes => Op::OBJECT_DELETE,
        _ => match request.method {
            "POST" if asks("uploadId") => Op::OBJECT_COMPLETE,
            "POST" => Op::OBJECT_BEGIN,
            "DELETE" => Op::OBJECT_ABORT,
            "GET" => Op::OBJECT_LIST,
            _ => Op::OBJECT_OTHER,
        },
    }
}

/// Returns the error number for a status; zero for a success.
pub fn errno_of_status(status: u16) -> i32 {
    match status {
        ..400 => 0,
        401 | 403 => libc::EACCES,
        404 => libc::ENOENT,
        408 => libc::ETIMEDOUT,
        429 | 503 => libc::EBUSY,
        400..500 => libc::EINVAL,
        _ => libc::EIO,
    }
}

pub fn errno_of(error: &std::io::Error) -> i32 {
    use std::io::ErrorKind::*;
    match error.kind() {
        TimedOut => libc::ETIMEDOUT,
        ConnectionReset | UnexpectedEof => libc::ECONNRESET,
        _ => error.raw_os_error().unwrap_or(libc::EIO),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http_status_maps_to_errno() {
        assert_eq!(
            [200, 206, 307, 404, 503, 429, 403, 500, 416].map(errno_of_status),
            [0, 0, 0, libc::ENOENT, libc::EBUSY, libc::EBUSY, libc::EACCES, libc::EIO, libc::EINVAL]
        );
        assert_eq!(errno_of(&std::io::ErrorKind::UnexpectedEof.into()), libc::ECONNRESET);
        assert_eq!(errno_of(&std::io::Error::from_raw_os_error(libc::ECONNREFUSED)), libc::ECONNREFUSED);
    }
}
