//! Tests which requests are accepted: the right token, the right version, over an encrypted connection.

use std::future::{Future, ready};
use std::sync::Arc;

use bytes::Bytes;
use dlio_cluster::client::{Connection, Fault};
use dlio_cluster::dispatch::{DispatchError, dispatch};
use dlio_cluster::guard::Guard;
use dlio_cluster::server::Listening;
use dlio_cluster::token::Token;
use dlio_cluster::work::{Done, Out, Piece, Work};

/// Returns bytes in reverse order, and refuses those that begin with a zero.
struct Turning;

struct Turned(Bytes);

impl Work for Turning {
    fn begin(&self, piece: Bytes) -> Result<Arc<dyn Piece>, String> {
        Ok(Arc::new(Turned(piece)))
    }
}

impl Piece for Turned {
    fn run(&self, out: Out) -> Result<(), String> {
        match self.0.first() {
            Some(0) => Err("it begins with a zero".into()),
            _ => out(self.0.iter().rev().copied().collect()),
        }
    }

    fn stop(&self) {}

    fn done(&self) -> Done {
        Done { events: 1, bytes: self.0.len() as u64 }
    }
}

fn guard(token: Option<&str>, version: &str) -> Guard {
    let token = token.map(|token| Token::new(token).unwrap());
    Guard { version: version.into(), encrypted: token.is_some(), token }
}

const TOKEN: &str = "0123456789abcdef0123456789abcdef";
const OTHER: &str = "0123456789abcdef0123456789abcdee";

async fn worker(guard: Guard) -> String {
    let listening = Listening::at("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listening.address.to_string();
    tokio::spawn(listening.serve(guard, Arc::new(Turning)));
    address
}

async fn run_piece(address: &str, guard: Guard) -> Result<Vec<u8>, Fault> {
    let connection = Connection::open(address, &guard).await?;
    let large = Bytes::from(vec![7; 3 << 20]);
    assert_eq!(turned(&connection, large.clone()).await?, large);
    turned(&connection, Bytes::from_static(b"abc")).await
}

async fn turned(connection: &Connection, piece: Bytes) -> Result<Vec<u8>, Fault> {
    let mut result = Vec::new();
    let part = |bytes: Bytes| {
        result.extend_from_slice(&bytes);
        Ok(())
    };
    connection.perform(piece, |_| (), part).await.map(|_| result)
}

fn run(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap().block_on(test);
}

#[test]
fn token_and_version_are_accepted() {
    run(async {
        let address = worker(guard(Some(TOKEN), "1")).await;
        assert_eq!(run_piece(&address, guard(Some(TOKEN), "1")).await, Ok(b"cba".to_vec()));
        let refused = run_piece(&address, guard(Some(TOKEN), "2")).await.unwrap_err();
        assert!(
            matches!(&refused, Fault::Refused(why) if why.contains("version 1") && why.contains("this program 2")),
            "{refused:?}"
        );
        let refused = run_piece(&address, guard(Some(OTHER), "1")).await.unwrap_err();
        assert!(matches!(refused, Fault::NotBelieved(_)), "{refused:?}");
        // Not encrypted, and therefore rejected.
        assert!(run_piece(&address, guard(None, "1")).await.is_err());
    });
}

#[test]
fn unencrypted_connection_requires_the_token() {
    run(async {
        let plain = |token| Guard { encrypted: false, ..guard(token, "1") };
        let address = worker(plain(Some(TOKEN))).await;
        assert_eq!(run_piece(&address, plain(Some(TOKEN))).await, Ok(b"cba".to_vec()));
        for wrong in [Some(OTHER), None] {
            let refused = run_piece(&address, plain(wrong)).await;
            assert_eq!(refused, Err(Fault::Refused("it uses another token".into())));
        }
        let open = worker(plain(None)).await;
        assert_eq!(run_piece(&open, plain(None)).await, Ok(b"cba".to_vec()));
    });
}

#[test]
fn each_piece_runs_once_and_refusal_ends_all() {
    run(async {
        let mut connections = Vec::new();
        for _ in 0..3 {
            let address = worker(guard(None, "1")).await;
            connections.push(Connection::open(&address, &guard(None, "1")).await.unwrap());
        }
        let pieces: Vec<Bytes> = (1..=50u8).map(|piece| vec![piece, 100].into()).collect();
        let mut results = Vec::new();
        let take = |piece, bytes: Vec<u8>| {
            results.push((piece, bytes[1]));
            ready(Ok(()))
        };
        let dispatched = dispatch(&connections, pieces.clone(), |_, _| (), Vec::new, take).await.unwrap();
        results.sort();
        assert_eq!(results, (0..50).map(|piece| (piece, piece as u8 + 1)).collect::<Vec<_>>());
        assert_eq!((dispatched.lost.len(), dispatched.sent), (0, 100));
        let with_a_bad_one = [pieces, vec![vec![0].into()]].concat();
        let forget = |_, _: Vec<u8>| ready(Ok(()));
        let undone = dispatch(&connections, with_a_bad_one, |_, _| (), Vec::new, forget).await.unwrap_err();
        assert!(matches!(undone, DispatchError::Refused { why, .. } if why == "it begins with a zero"));
    });
}
