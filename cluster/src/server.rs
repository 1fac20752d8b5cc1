//! The worker's end of the connection.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::Stream;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval};
use tonic::codegen::{Body, BoxFuture, Service, StdError, http};
use tonic::server::{Grpc, NamedService, ServerStreamingService};
use tonic::service::InterceptorLayer;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

use crate::certificate;
use crate::guard::Guard;
use crate::wire::{FRAME_MAX, Frame, METHOD, PATIENCE, PIECE_MAX, PROGRESS, RawCodec, SERVICE, SIGN_OF_LIFE};
use crate::work::{Piece, Work};

/// The reason why a worker cannot listen, as one sentence.
pub type Refusal = String;

/// A worker that listens and does not accept requests yet.
pub struct Listening {
    incoming: TcpIncoming,
    pub address: SocketAddr,
}

impl Listening {
    /// Listens at an address; port 0 selects any free port. Must be called within a runtime.
    pub fn at(address: SocketAddr) -> Result<Listening, Refusal> {
        let incoming = TcpIncoming::bind(address).map_err(|error| format!("cannot listen on {address}: {error}"))?;
        let address = incoming.local_addr().map_err(|error| format!("cannot listen on {address}: {error}"))?;
        Ok(Listening { incoming: incoming.with_nodelay(Some(true)), address })
    }

    /// Serves requests until the process ends.
    pub async fn serve(self, guard: Guard, work: Arc<dyn Work>) -> Result<(), Refusal> {
        let mut server = Server::builder()
            .http2_keepalive_interval(Some(SIGN_OF_LIFE))
            .http2_keepalive_timeout(Some(PATIENCE - SIGN_OF_LIFE));
        if let Some(token) = guard.token.as_ref().filter(|_| guard.encrypted) {
            let tls = certificate::of_worker(token)?;
            server = server.tls_config(tls).map_err(|error| format!("no encryption ({error})"))?;
        }
        let check = move |request: Request<()>| guard.check(request);
        let mut server = server.layer(InterceptorLayer::new(check));
        let served = server.add_service(WorkService(work)).serve_with_incoming(self.incoming).await;
        served.map_err(|error| format!("cannot listen on {} any longer: {error}", self.address))
    }
}

/// The only service.
#[derive(Clone)]
struct WorkService(Arc<dyn Work>);

impl NamedService for WorkService {
    const NAME: &'static str = SERVICE;
}

impl<B> Service<http::Request<B>> for WorkService
where
    B: Body + Send + 'static,
    B::Error: Into<StdError> + Send + 'static,
{
    type Response = http::Response<tonic::body::Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Self::Error>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let work = self.clone();
        Box::pin(async move {
            if request.uri().path() != METHOD {
                return Ok(Status::unimplemented("there is no such method").into_http());
            }
            let mut grpc = Grpc::new(RawCodec).apply_max_message_size_config(Some(PIECE_MAX), None);
            Ok(grpc.server_streaming(work, request).await)
        })
    }
}

impl ServerStreamingService<Bytes> for WorkService {
    type Response = Bytes;
    type ResponseStream = Answer;
    type Future = BoxFuture<Response<Answer>, Status>;

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        let work = self.0.clone();
        Box::pin(async move {
            let begun = spawn_blocking(move || work.begin(request.into_inner())).await;
            let piece = begun.map_err(panicked)?.map_err(Status::aborted)?;
            let (frames, answer) = mpsc::channel(2);
            tokio::spawn(perform(piece.clone(), frames));
            Ok(Response::new(Answer { frames: answer, piece }))
        })
    }
}

/// Frames being sent. Dropping this means that the client no longer waits for them, and stops the piece.
struct Answer {
    frames: mpsc::Receiver<Result<Bytes, Status>>,
    piece: Arc<dyn Piece>,
}

impl Stream for Answer {
    type Item = Result<Bytes, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.frames.poll_recv(context)
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.piece.stop();
    }
}

/// Runs a piece on a separate thread, and reports its progress until it is done.
async fn perform(piece: Arc<dyn Piece>, frames: mpsc::Sender<Result<Bytes, Status>>) {
    let (running, parts) = (piece.clone(), frames.clone());
    let mut result = spawn_blocking(move || running.run(&mut |bytes| send_part(&parts, &bytes)));
    let mut tick = interval(PROGRESS);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let ended = loop {
        tokio::select! {
            ended = &mut result => break ended,
            _ = tick.tick() => {
                if frames.send(Ok(Frame::Progress(piece.done()).encode())).await.is_err() {
                    return;
                }
            }
        }
    };
    let last = match ended.map_err(panicked).and_then(|ended| ended.map_err(Status::aborted)) {
        Ok(()) => vec![Ok(Frame::Progress(piece.done()).encode()), Ok(Frame::End.encode())],
        Err(status) => vec![Err(status)],
    };
    for frame in last {
        if frames.send(frame).await.is_err() {
            return;
        }
    }
}

/// Sends a part of a result, as fast as the other side accepts it.
fn send_part(frames: &mpsc::Sender<Result<Bytes, Status>>, bytes: &Bytes) -> Result<(), String> {
    let parts = (0..bytes.len()).step_by(FRAME_MAX).map(|at| bytes.slice(at..bytes.len().min(at + FRAME_MAX)));
    for part in parts {
        frames.blocking_send(Ok(Frame::Part(part).encode())).map_err(|_| "its client disconnected")?;
    }
    Ok(())
}

fn panicked(_: tokio::task::JoinError) -> Status {
    Status::internal("one of its threads panicked")
}
