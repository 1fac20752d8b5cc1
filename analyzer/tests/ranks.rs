//! Tests the report of a job with many ranks: `DLIO_TESTS_RANKS` sets their number. A thousand must be read within a minute.

mod generator;
mod support;

use std::time::{Duration, Instant};

use generator::ranks::{hosts, rank, slow_rank};
use serde_json::Value;
use support::program::printed;
use support::temp_dir;

const WITHIN: Duration = Duration::from_secs(60);

#[test]
fn many_ranks_are_read_and_the_slow_one_is_named() {
    let ranks = std::env::var("DLIO_TESTS_RANKS").ok().and_then(|ranks| ranks.parse().ok()).unwrap_or(100);
    let folder = temp_dir("ranks");
    (0..ranks).flat_map(|number| rank(number, ranks)).for_each(|process| process.write_to(folder.path()));
    let trace = folder.path().to_str().unwrap();
    let began = Instant::now();
    let report: Value = serde_json::from_str(&printed(&[trace, "--format", "json", "--no-cache"])).unwrap();
    let took = began.elapsed();
    let listed: Vec<u64> =
        report["ranks"].as_array().unwrap().iter().map(|row| row["rank"].as_u64().unwrap()).collect();
    assert_eq!(listed, (0..ranks as u64).collect::<Vec<_>>());
    assert_eq!(report["hosts"].as_array().unwrap().len(), hosts(ranks));
    assert_eq!(report["runs"].as_array().unwrap().len(), 1, "{}", report["runs"]);
    let text = printed(&[trace, "--no-cache"]);
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let verdict = words.split("Hosts").next().unwrap();
    assert!(verdict.contains(&format!("rank {}", slow_rank(ranks))), "{text}");
    assert!(took < WITHIN, "{ranks} ranks took {took:?}");
}
