//! `dlio bench ranks`: shows the ranks that a run would use, their hosts and their transport, and measures the cost of
//! a barrier. It verifies the exchanged bytes, and that a barrier really synchronizes.

use crate::failure::{Failure, Kind, Outcome};
use crate::ranks::communicator::{Communicator, as_bytes, numbers};
use crate::results::metrics::percentile;
use crate::system::host::Host;
use crate::system::{clock, processes, terminal};
use serde_json::{Value, json};
use std::fmt::Write;
use std::time::{Duration, Instant};

/// Timed barriers and exchanges, after some for warm-up.
const ROUNDS: usize = 200;
const WARM: usize = 20;

/// Bytes per rank in the timed exchanges: the size of an epoch's metrics.
const SMALL: usize = 136;

/// Prints the report on rank 0, after all ranks have taken part. `name` is the transport.
pub fn report(ranks: &mut dyn Communicator, name: &str, as_json: bool) -> Outcome<()> {
    let hosts = ranks.exchange(Host::own().to_text().as_bytes())?;
    check_exchange(ranks)?;
    check_barrier(ranks)?;
    let barrier = timed(ranks, |ranks| ranks.barrier())?;
    let own = vec![7; SMALL];
    let exchange = timed(ranks, |ranks| ranks.exchange(&own).map(drop))?;
    if ranks.rank() > 0 {
        return Ok(());
    }
    let machines: Vec<Value> = Host::all(&hosts)
        .iter()
        .map(|host| {
            let here = hosts.iter().filter(|text| **text == host.to_text().into_bytes()).count();
            json!({
                "name": host.name, "ranks": here, "processors": host.processors, "memory_GB": host.memory_gibibytes,
            })
        })
        .collect();
    let said = json!({
        "ranks": ranks.size(), "communicator": name, "hosts": machines,
        "barrier_us": barrier.0, "barrier_p99_us": barrier.1,
        "exchange_us": exchange.0, "exchange_p99_us": exchange.1,
    });
    terminal::answer(&if as_json {
        serde_json::to_string_pretty(&said).unwrap_or_default() + "\n"
    } else {
        text(&said)
    })
}

fn text(said: &Value) -> String {
    let number = |key: &str| said[key].as_f64().unwrap_or(0.0);
    let mut text = format!(
        "{} ranks, communicating through {}\n",
        said["ranks"],
        said["communicator"].as_str().unwrap_or_default()
    );
    for host in said["hosts"].as_array().into_iter().flatten() {
        let _ = writeln!(
            text,
            "  {}: {} ranks, {} processors, {:.1} GiB",
            host["name"].as_str().unwrap_or_default(),
            host["ranks"],
            host["processors"],
            host["memory_GB"].as_f64().unwrap_or(0.0)
        );
    }
    let _ = writeln!(text, "a barrier   {:>9.1} us, p99 {:.1} us", number("barrier_us"), number("barrier_p99_us"));
    let _ = writeln!(text, "an exchange {:>9.1} us, p99 {:.1} us", number("exchange_us"), number("exchange_p99_us"));
    text
}

/// Returns bytes that identify their sender, of various lengths: empty, a few, more than any packet.
fn test_bytes(rank: u64, round: u64) -> Vec<u8> {
    let length = [0, 1, 100, 127, 128, 70_000][((rank + round) % 6) as usize] + rank as usize;
    (0..length).map(|place| (place as u64 * 31 + rank * 7 + round) as u8).collect()
}

fn check_exchange(ranks: &mut dyn Communicator) -> Outcome<()> {
    for round in 0..6 {
        let got = ranks.exchange(&test_bytes(ranks.rank(), round))?;
        let expected: Vec<Vec<u8>> = (0..ranks.size()).map(|rank| test_bytes(rank, round)).collect();
        if got != expected {
            return Err(Failure::new(Kind::System, "the ranks received other data than they sent"));
        }
    }
    Ok(())
}

/// Checks that no rank leaves a barrier before the last one has arrived, by the clock that the ranks of a host share.
fn check_barrier(ranks: &mut dyn Communicator) -> Outcome<()> {
    for late in 0..ranks.size().min(4) {
        if ranks.rank() == late {
            processes::sleep(Duration::from_millis(5));
        }
        let came = clock::monotonic_nanos() as f64;
        ranks.barrier()?;
        let left = clock::monotonic_nanos() as f64;
        let all = numbers(&ranks.exchange(&as_bytes(&[came, left]))?);
        let hosts = ranks.exchange(Host::own().name.as_bytes())?;
        let own = &hosts[ranks.rank() as usize];
        let here = all.iter().zip(&hosts).filter(|(_, host)| *host == own);
        if here.clone().any(|(rank, _)| rank[0] > left) {
            return Err(Failure::new(Kind::System, "a rank left a barrier before all ranks had reached it"));
        }
    }
    Ok(())
}

/// Returns the microseconds of the slowest rank: the average of all rounds, and the 99th percentile.
fn timed(
    ranks: &mut dyn Communicator,
    mut act: impl FnMut(&mut dyn Communicator) -> Outcome<()>,
) -> Outcome<(f64, f64)> {
    for _ in 0..WARM {
        act(ranks)?;
    }
    let begun = Instant::now();
    let mut rounds = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let round = Instant::now();
        act(ranks)?;
        rounds.push(round.elapsed().as_secs_f64() * 1e6);
    }
    let mean = begun.elapsed().as_secs_f64() * 1e6 / ROUNDS as f64;
    rounds.sort_by(f64::total_cmp);
    let all = numbers(&ranks.exchange(&as_bytes(&[mean, percentile(&rounds, 0.99)]))?);
    let most = |place: usize| all.iter().map(|rank| rank[place]).fold(0.0, f64::max);
    Ok((most(0), most(1)))
}
