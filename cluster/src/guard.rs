//! Authorization of requests to a worker: the version and the token that both sides must share.

use tonic::{Request, Status};

use crate::token::Token;
use crate::wire::{TOKEN, VERSION};

/// The required version and token.
#[derive(Clone, Debug)]
pub struct Guard {
    /// The only version of the program that is accepted.
    pub version: String,
    pub token: Option<Token>,
    /// `true` if everything is encrypted and the worker proves that it has the token.
    pub encrypted: bool,
}

impl Guard {
    /// Accepts a request, or returns the reason for its rejection.
    pub(crate) fn check(&self, request: Request<()>) -> Result<Request<()>, Status> {
        let header = |name: &str| request.metadata().get(name).and_then(|value| value.to_str().ok());
        let shown = header(TOKEN).and_then(|value| value.strip_prefix("Bearer "));
        if self.token.as_ref().is_some_and(|token| !shown.is_some_and(|shown| token.is(shown))) {
            return Err(Status::unauthenticated("it uses another token"));
        }
        match header(VERSION) {
            Some(theirs) if theirs == self.version => Ok(request),
            theirs => Err(Status::failed_precondition(format!(
                "it has version {}, this program {}; install the same version everywhere",
                self.version,
                theirs.unwrap_or("unknown")
            ))),
        }
    }
}
