//! The store of the tests as a program, for tests in other languages. It prints its port, then executes commands from
//! its standard input, one per line, until that ends.
//!
//! ```text
//! put KEY BYTES                     an object of this size
//! fault METHOD WORDS TIMES WHAT     503, 500, reset, or cut N: for requests whose target contains these words
//! latency MS                        the delay of each answer
//! seen                              prints one line of JSON: a list of the requests since the last time
//! ```

#[path = "../tests/store/mod.rs"]
mod store;

use std::io::BufRead;
use std::time::Duration;

use store::{Fault, Seen, Store};

fn main() {
    let store = Store::start();
    println!("{}", store.port);
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("a line");
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["put", key, bytes] => store.put(key, content(bytes.parse().expect("a number of bytes"))),
            ["fault", method, target, times, ref what @ ..] => {
                let (method, target) = (leak(method), leak(target));
                store.plan(method, target, times.parse().expect("a number of times"), fault(what));
            }
            ["latency", ms] => store.answer_after(Duration::from_millis(ms.parse().expect("milliseconds"))),
            ["seen"] => {
                println!("[{}]", store.seen().iter().map(seen_line).collect::<Vec<_>>().join(","));
                store.forget();
            }
            _ => panic!("what is {line:?}?"),
        }
        if words[0] != "seen" {
            println!("done");
        }
    }
}

fn content(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 31 % 251) as u8).collect()
}

/// Leaks a word, so that it lives as long as the program.
fn leak(word: &str) -> &'static str {
    Box::leak(word.to_string().into_boxed_str())
}

fn fault(what: &[&str]) -> Fault {
    match what {
        ["503"] => Fault::Answer(503, "SlowDown", Vec::new()),
        ["500"] => Fault::Answer(500, "InternalError", Vec::new()),
        ["reset"] => Fault::Reset,
        ["cut", at] => Fault::CutAt(at.parse().expect("a place")),
        _ => panic!("what fault is {what:?}?"),
    }
}

fn seen_line(seen: &Seen) -> String {
    format!(
        "{{\"method\":\"{}\",\"key\":\"{}\",\"status\":{},\"received\":{},\"sent\":{}}}",
        seen.method, seen.key, seen.status, seen.received, seen.sent
    )
}
