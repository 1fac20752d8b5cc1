//! The coordinator's end of the connection.

use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::http::{HeaderMap, HeaderValue};
use tonic::metadata::MetadataMap;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Extensions, Request, Status};

use crate::certificate;
use crate::guard::Guard;
use crate::wire::{FRAME_MAX, Frame, METHOD, PATIENCE, PIECE_MAX, RawCodec, SIGN_OF_LIFE, TOKEN, VERSION};
use crate::work::Done;

/// Time after which a worker that does not accept a connection is unreachable.
const CONNECTING: Duration = Duration::from_secs(5);

/// Maximum number of bytes of one result in flight.
const STREAM_WINDOW: u32 = 2 << 20;

/// Maximum number of bytes of all results of a worker in flight, the largest possible. A query may wait for one
/// result while it leaves another unread, and must not block because of that.
const CONNECTION_WINDOW: u32 = (1 << 31) - 1;

/// A worker's failure. The text follows its address in a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The worker cannot be reached.
    Unreachable(String),
    /// The worker presents a certificate of another token.
    NotBelieved(String),
    /// The worker answered and refused, as other workers would.
    Refused(String),
    /// The connection was lost, or the worker sent no sign of life.
    Lost(String),
    /// The worker's result cannot be used here.
    Unusable(String),
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (Fault::Unreachable(what)
        | Fault::NotBelieved(what)
        | Fault::Refused(what)
        | Fault::Lost(what)
        | Fault::Unusable(what)) = self;
        f.write_str(what)
    }
}

/// A connection to one worker.
#[derive(Clone)]
pub struct Connection {
    /// The address given on the command line, `host:port`.
    pub address: String,
    channel: Channel,
    headers: CallHeaders,
}

/// The data sent with every call: the version, and the token if there is one.
#[derive(Clone, Debug)]
pub struct CallHeaders {
    version: HeaderValue,
    token: Option<HeaderValue>,
}

impl CallHeaders {
    pub fn of(guard: &Guard) -> Result<CallHeaders, Fault> {
        let value =
            |text: &str| text.parse().map_err(|_| Fault::Unreachable("a header cannot contain this value".into()));
        let token = guard.token.as_ref().map(|token| value(&format!("Bearer {}", token.text()))).transpose()?;
        let token = token.map(|mut token: HeaderValue| {
            token.set_sensitive(true);
            token
        });
        Ok(CallHeaders { version: value(&guard.version)?, token })
    }

    pub fn show(&self, headers: &mut HeaderMap) {
        headers.insert(VERSION, self.version.clone());
        if let Some(token) = &self.token {
            headers.insert(TOKEN, token.clone());
        }
    }
}

/// Returns a connection to a worker on which no request has been made yet.
pub async fn connected(address: &str, guard: &Guard) -> Result<Channel, Fault> {
    let scheme = if guard.encrypted { "https" } else { "http" };
    let unreachable = |error: &dyn Error| Fault::Unreachable(innermost(error));
    let endpoint = Endpoint::from_shared(format!("{scheme}://{address}")).map_err(|error| unreachable(&error))?;
    let mut endpoint = endpoint
        .connect_timeout(CONNECTING)
        .http2_keep_alive_interval(SIGN_OF_LIFE)
        .keep_alive_timeout(PATIENCE - SIGN_OF_LIFE)
        .keep_alive_while_idle(true)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .tcp_nodelay(true);
    if let Some(token) = guard.token.as_ref().filter(|_| guard.encrypted) {
        let tls = certificate::for_coordinator(token).map_err(Fault::Unreachable)?;
        endpoint = endpoint.tls_config(tls).map_err(|error| unreachable(&error))?;
    }
    endpoint.connect().await.map_err(|error| not_connected(&error))
}

impl Connection {
    /// Connects to a worker, which refuses a coordinator only at the first request.
    pub async fn open(address: &str, guard: &Guard) -> Result<Connection, Fault> {
        let channel = connected(address, guard).await?;
        Ok(Connection { address: address.into(), channel, headers: CallHeaders::of(guard)? })
    }

    /// Runs a piece and passes its result to `part`, part by part; returns the number of bytes received. Dropping the
    /// future stops the piece.
    pub async fn perform(
        &self,
        piece: Bytes,
        mut progress: impl FnMut(Done),
        mut part: impl FnMut(Bytes) -> Result<(), String>,
    ) -> Result<u64, Fault> {
        let mut grpc = Grpc::new(self.channel.clone())
            .max_decoding_message_size(FRAME_MAX + 64)
            .max_encoding_message_size(PIECE_MAX);
        grpc.ready().await.map_err(|error| Fault::Lost(innermost(&error)))?;
        let mut headers = HeaderMap::new();
        self.headers.show(&mut headers);
        let request = Request::from_parts(MetadataMap::from_headers(headers), Extensions::new(), piece);
        let answer = grpc.server_streaming(request, PathAndQuery::from_static(METHOD), RawCodec).await;
        let mut frames = answer.map_err(fault)?.into_inner();
        let mut received = 0;
        while let Some(frame) = frames.message().await.map_err(fault)? {
            received += frame.len() as u64;
            match Frame::decode(frame) {
                Some(Frame::Progress(done)) => progress(done),
                Some(Frame::Part(bytes)) => part(bytes).map_err(Fault::Unusable)?,
                Some(Frame::End) => return Ok(received),
                None => return Err(Fault::Lost("its response cannot be read".into())),
            }
        }
        Err(Fault::Lost("its response ended early".into()))
    }
}

/// Returns the root cause of an error, which describes the failure.
fn innermost(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}

fn not_connected(error: &dyn Error) -> Fault {
    let text = innermost(error);
    match text.contains("certificate") {
        true => Fault::NotBelieved("it uses another token than this program".into()),
        false if text.contains("deadline") => Fault::Unreachable("no answer".into()),
        false => Fault::Unreachable(text),
    }
}

/// Converts a status to a fault. Workers themselves use only a few codes; all others come from the connection.
fn fault(status: Status) -> Fault {
    match status.code() {
        Code::Unauthenticated | Code::FailedPrecondition | Code::Aborted | Code::Unimplemented => {
            Fault::Refused(status.message().into())
        }
        _ => Fault::Lost(match status.source() {
            Some(source) => innermost(source),
            None => status.message().into(),
        }),
    }
}
