//! Data sets and checkpoints in an object store: every format, every fault of a store, and no partial objects.

mod program;
mod store;

use program::{Folder, GENERATE, command, stderr, stdout};
use serde_json::Value;
use std::collections::BTreeSet;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use store::{BUCKET, Fault, KEY_ID, SECRET, Store, date};

const NO_TRAINING: &str = "++workload.workflow.train=false";

/// A training run on eight small objects in batches of two.
fn small(more: &[&str]) -> Vec<String> {
    let typed = [
        "bench",
        "workload=unet3d",
        "++workload.storage.storage_type=s3",
        "++workload.storage.storage_root=bucket",
        "++workload.dataset.data_folder=data",
        "++workload.dataset.num_files_train=8",
        "++workload.dataset.record_length_bytes=10000",
        "++workload.dataset.record_length_bytes_stdev=0",
        "++workload.reader.batch_size=2",
        "++workload.reader.read_threads=2",
        "++workload.train.epochs=2",
        "++workload.train.computation_time=0.0001",
        "++workload.workflow.checkpoint=false",
    ];
    typed.iter().chain(more).map(ToString::to_string).collect()
}

fn prepared(store: &Store, folder: &Folder, typed: &[&str]) -> Command {
    let mut command = command(folder, typed);
    command.envs(store.variables());
    command
}

fn run(store: &Store, folder: &Folder, more: &[&str]) -> Output {
    let typed = small(more);
    prepared(store, folder, &typed.iter().map(String::as_str).collect::<Vec<_>>()).output().unwrap()
}

fn ran(store: &Store, folder: &Folder, more: &[&str]) -> Output {
    let output = run(store, folder, more);
    assert!(output.status.success(), "{more:?}: {}{}", stdout(&output), stderr(&output));
    output
}

fn started(store: &Store, folder: &Folder, more: &[&str]) -> Child {
    let typed = small(more);
    let mut command = prepared(store, folder, &typed.iter().map(String::as_str).collect::<Vec<_>>());
    command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Returns a counter summed over all epochs.
fn figure(folder: &Folder, name: &str) -> u64 {
    let summary = folder.json("run/summary.json");
    let of = |epoch: &Value| epoch["object"][name].as_u64().unwrap_or_else(|| panic!("{name}: {epoch}"));
    summary["epoch"].as_array().unwrap().iter().map(of).sum()
}

/// Generates and reads in each way; the reported numbers must be those that the store saw.
fn whole_way(format: &str, more: &[&str]) {
    let (store, folder) = (Store::start(), Folder::new(&format!("objects-{format}")));
    let format = format!("++workload.dataset.format={format}");
    let of = |words: &[&'static str]| -> Vec<String> {
        [format.as_str()].iter().chain(more).chain(words).map(ToString::to_string).collect()
    };
    let typed = |words: &[&'static str]| of(words);
    let words = typed(&[GENERATE, NO_TRAINING, "--verify"]);
    ran(&store, &folder, &words.iter().map(String::as_str).collect::<Vec<_>>());
    let train = store.keys().into_iter().filter(|key| key.starts_with("data/train/img_")).count();
    assert!(train >= 8, "{:?}", store.keys());
    for way in ["++workload.reader.read_threads=0", "++workload.reader.read_threads=2", "--ranks=2"] {
        store.forget();
        let words = typed(&[way]);
        ran(&store, &folder, &words.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(store.seen().iter().all(|seen| seen.method == "GET" || seen.method == "HEAD"), "{:?}", store.seen());
        // Before the first epoch: the fingerprint of the objects, and whether they exist.
        let data = |seen: &&store::Seen| seen.method == "GET" && !seen.key.contains("/.dlio/");
        let gets = store.seen().iter().filter(data).count();
        let bytes: usize = store.seen().iter().filter(data).map(|seen| seen.sent).sum();
        assert_eq!(figure(&folder, "get_requests"), gets as u64, "{format} {way}");
        assert_eq!(figure(&folder, "bytes_read"), bytes as u64, "{format} {way}");
    }
}

#[test]
fn npz() {
    whole_way("npz", &[]);
}

#[test]
fn npy_of_many_samples() {
    whole_way("npy", &["++workload.dataset.num_samples_per_file=3"]);
}

#[test]
fn images() {
    whole_way("png", &[]);
    whole_way("jpeg", &[]);
}

#[test]
fn csv_compressed_and_not() {
    whole_way("csv", &["++workload.dataset.record_length_bytes=400"]);
    whole_way("csv", &["++workload.dataset.record_length_bytes=400", "++workload.dataset.compression=gzip"]);
}

#[test]
fn hdf5_plain_and_in_chunks() {
    whole_way("hdf5", &["++workload.dataset.num_samples_per_file=4", "++workload.dataset.record_length_bytes=90000"]);
    whole_way("hdf5", &["++workload.dataset.compression=gzip"]);
}

#[test]
fn indexed_binary_in_ranges() {
    whole_way("indexed_binary", &["++workload.dataset.num_samples_per_file=5"]);
    // The response that delivers an index contains its length; the HEADs are for the data, before the first epoch.
    let (store, folder) = (Store::start(), Folder::new("objects-heads"));
    for format in ["indexed_binary", "mds"] {
        let format = format!("++workload.dataset.format={format}");
        let typed = [format.as_str(), "++workload.dataset.num_samples_per_file=5"];
        ran(&store, &folder, &[&typed[..], &[GENERATE, NO_TRAINING, "--regenerate"]].concat());
        store.forget();
        ran(&store, &folder, &typed);
        assert_eq!(figure(&folder, "head_requests"), 0, "{format}");
    }
}

#[test]
fn parquet_in_ranges() {
    whole_way("parquet", &["++workload.dataset.num_samples_per_file=5"]);
}

#[test]
fn tfrecord_as_one_stream_an_object() {
    let tensorflow = ["++workload.framework=tensorflow", "++workload.reader.data_loader=tensorflow"];
    let more = ["++workload.dataset.num_samples_per_file=40", "++workload.dataset.record_length_bytes=20000"];
    whole_way("tfrecord", &[&tensorflow[..], &more].concat());
    let (store, folder) = (Store::start(), Folder::new("objects-stream"));
    let words = [&tensorflow[..], &more, &["++workload.dataset.format=tfrecord"]].concat();
    ran(&store, &folder, &[&words[..], &[GENERATE]].concat());
    store.forget();
    ran(&store, &folder, &words);
    // Each object is one request, regardless of its number of records.
    assert_eq!(figure(&folder, "get_requests"), 2 * 8);
}

#[test]
fn matching_objects_are_kept() {
    let (store, folder) = (Store::start(), Folder::new("objects-kept"));
    ran(&store, &folder, &[GENERATE, NO_TRAINING]);
    let whole = store.object("data/train/img_3_of_8.npz").unwrap();
    store.put("data/train/img_3_of_8.npz", whole[..500].to_vec());
    store.forget();
    let output = ran(&store, &folder, &[GENERATE, NO_TRAINING]);
    assert!(stdout(&output).contains("7 existed already"), "{}", stdout(&output));
    assert_eq!(store.count("PUT"), 1);
    assert_eq!(store.object("data/train/img_3_of_8.npz").unwrap(), whole);
    let other = "++workload.dataset.record_length_bytes=40000";
    let refused = run(&store, &folder, &[other]);
    assert_eq!(refused.status.code(), Some(3));
    assert!(
        stderr(&refused).contains("was generated with record_length_bytes=10000 instead of 40000"),
        "{}",
        stderr(&refused)
    );
    ran(&store, &folder, &[GENERATE, NO_TRAINING, other]);
    assert!(store.object("data/train/img_3_of_8.npz").unwrap().len() > 40_000);
    ran(&store, &folder, &[other, "++workload.dataset.keep_files=false"]);
    assert!(store.keys().iter().all(|key| !key.contains(TRAIN)), "{:?}", store.keys());
}

#[test]
fn ten_thousand_names_need_no_list() {
    let (store, folder) = (Store::start(), Folder::new("objects-names"));
    let many = [
        "++workload.dataset.format=npy",
        "++workload.dataset.record_length_bytes=64",
        "++workload.dataset.num_files_train=200",
        "++workload.dataset.num_files_generated=10000",
        "++workload.dataset.skip_listing=True",
        "++workload.dataset.listing_validation_interval=10",
        "++workload.reader.batch_size=10",
        "++workload.train.epochs=1",
    ];
    ran(&store, &folder, &[&many[..], &[GENERATE]].concat());
    assert!(store.object("data/train/img_00199_of_10000.npy").is_some());
    store.forget();
    ran(&store, &folder, &many);
    assert!(store.seen().iter().all(|seen| !seen.key.is_empty()), "a list was requested");
    assert_eq!((store.count("HEAD"), figure(&folder, "get_requests")), (20, 200));
}

/// Returns a counter of one epoch.
fn of_epoch(folder: &Folder, epoch: usize, name: &str) -> u64 {
    let summary = folder.json("run/summary.json");
    let figure = &summary["epoch"][epoch]["object"][name];
    figure.as_u64().unwrap_or_else(|| panic!("{name}: {}", summary["epoch"][epoch]))
}

const CACHE: &str = "++workload.storage.cache.folder=tier";

#[test]
fn a_tier_asks_the_store_once() {
    let (store, folder) = (Store::start(), Folder::new("objects-tier"));
    ran(&store, &folder, &[GENERATE, NO_TRAINING]);
    let size = store.object("data/train/img_0_of_8.npz").unwrap().len() as u64;
    for more in [
        &["++workload.reader.read_threads=0"][..],
        &["--ranks=2"],
        &["--ranks=2", "++workload.storage.cache.share=rank"],
    ] {
        let shared = !more.contains(&"++workload.storage.cache.share=rank");
        ran(
            &store,
            &folder,
            &[&[CACHE, "++workload.reader.file_shuffle=off", "++workload.reader.sample_shuffle=off"], more].concat(),
        );
        let first = ["get_requests", "tier_misses", "tier_hits"].map(|name| of_epoch(&folder, 0, name));
        assert_eq!(first, [8, 8, 0], "{more:?}");
        assert_eq!(of_epoch(&folder, 0, "tier_bytes_in"), 8 * size);
        let again =
            ["get_requests", "bytes_read", "tier_hits", "tier_bytes_out"].map(|name| of_epoch(&folder, 1, name));
        assert_eq!(again, [0, 0, 8, 8 * size], "{more:?} {shared}");
        let amplification = &folder.json("run/summary.json")["epoch"];
        assert_eq!(
            (
                amplification[0]["object"]["read_amplification"].as_f64(),
                amplification[1]["object"]["read_amplification"].as_f64()
            ),
            (Some(size as f64 / 10_000.0), Some(0.0))
        );
        assert!(folder.files("tier").is_empty(), "{:?}", folder.files("tier"));
    }
    // A persistent cache serves the next run.
    for run in 0..2 {
        ran(&store, &folder, &[CACHE, "++workload.storage.cache.keep=true"]);
        assert_eq!(of_epoch(&folder, 0, "tier_misses"), if run == 0 { 8 } else { 0 });
    }
    let other = ["++workload.dataset.num_samples_per_file=2", CACHE, "++workload.storage.cache.keep=true"];
    ran(&store, &folder, &[&other[..], &[GENERATE, "--regenerate"]].concat());
    assert_eq!(of_epoch(&folder, 0, "tier_misses"), 8, "other data are not those that were kept");
}

#[test]
fn amplification_is_by_the_bytes_of_the_samples() {
    let (store, folder) = (Store::start(), Folder::new("objects-amplified"));
    let typed = ["++workload.dataset.num_samples_per_file=5", "++workload.reader.read_type=on_demand"];
    ran(&store, &folder, &[&typed[..], &[GENERATE]].concat());
    let epoch = &folder.json("run/summary.json")["epoch"][0];
    let samples = epoch["samples"].as_f64().unwrap() * 10_000.0;
    let amplification = epoch["object"]["read_amplification"].as_f64().unwrap();
    assert_eq!(amplification, epoch["bytes_read"].as_f64().unwrap() / samples, "{epoch:#}");
    assert!((5.0..5.5).contains(&amplification), "{epoch:#}");
}

#[test]
fn full_cache_evicts_by_policy() {
    let (store, folder) = (Store::start(), Folder::new("objects-tier-full"));
    ran(&store, &folder, &[GENERATE, NO_TRAINING]);
    let size = store.object("data/train/img_0_of_8.npz").unwrap().len();
    let room = format!("++workload.storage.cache.size={}", 3 * size + 10);
    // In the order of names, one after another: each pass finds what the last one left.
    let plain = [
        CACHE,
        &room,
        "++workload.reader.read_threads=0",
        "++workload.reader.file_shuffle=off",
        "++workload.reader.sample_shuffle=off",
    ];
    for (evict, hits, evictions) in [("lru", 0, 13), ("fifo", 0, 13), ("none", 3, 0)] {
        let evict = format!("++workload.storage.cache.evict={evict}");
        ran(&store, &folder, &[&plain[..], &[&evict]].concat());
        let found = (figure(&folder, "tier_hits"), figure(&folder, "tier_evictions"));
        assert_eq!(found, (hits, evictions), "{evict}");
        assert_eq!(figure(&folder, "tier_misses"), 16 - hits, "{evict}");
    }
}

#[test]
fn block_cache_fetches_each_block_once() {
    let (store, folder) = (Store::start(), Folder::new("objects-tier-blocks"));
    let packed = [
        "++workload.dataset.format=indexed_binary",
        "++workload.dataset.num_samples_per_file=10",
        "++workload.dataset.num_files_train=2",
        "++workload.reader.read_threads=4",
    ];
    ran(&store, &folder, &[&packed[..], &[GENERATE, NO_TRAINING, "--verify"]].concat());
    store.forget();
    let blocks = [CACHE, "++workload.storage.cache.unit=block", "++workload.storage.cache.block_size=4096"];
    ran(&store, &folder, &[&packed[..], &blocks].concat());
    let data = |seen: &&store::Seen| seen.method == "GET" && seen.key.ends_with(".indexed_binary");
    let ranges: Vec<String> = store.seen().iter().filter(data).map(|seen| seen.range.clone()).collect();
    assert!(ranges.iter().all(|range| range.starts_with("bytes=") && range.len() > 8), "{ranges:?}");
    let mut once = ranges.clone();
    once.sort();
    once.dedup();
    // Two objects of 100 kB in blocks of 4 KiB, with any number of workers: each block of each object once.
    assert_eq!(ranges.len(), 2 * once.len(), "{ranges:?}");
    assert_eq!(of_epoch(&folder, 1, "get_requests"), 0);
    assert!(of_epoch(&folder, 1, "tier_hits") > 0);
    let files = [CACHE, "++workload.storage.storage_type=local_fs", "++workload.storage.storage_root=./"];
    assert!(refused(&store, &files, 2).contains("caches an object store"));
}

#[test]
fn cache_serves_range_reads() {
    let (store, folder) = (Store::start(), Folder::new("objects-tier-ranges"));
    for (format, more) in [
        ("hdf5", &["++workload.dataset.record_length_bytes=90000"][..]),
        ("hdf5", &["++workload.dataset.compression=gzip"]),
        ("parquet", &[]),
        ("mds", &[]),
    ] {
        let format = format!("++workload.dataset.format={format}");
        let typed = [&[format.as_str(), "++workload.dataset.num_samples_per_file=4", CACHE], more].concat();
        ran(&store, &folder, &[&typed[..], &[GENERATE, "--regenerate", "--verify"]].concat());
        assert_eq!(of_epoch(&folder, 0, "tier_misses"), 8, "{typed:?}");
        assert_eq!(of_epoch(&folder, 1, "get_requests"), 0, "{typed:?}");
        assert_eq!(of_epoch(&folder, 0, "bytes_read"), of_epoch(&folder, 0, "tier_bytes_in"), "{typed:?}");
    }
}

#[test]
fn cache_is_prefetched() {
    let (store, folder) = (Store::start(), Folder::new("objects-tier-ahead"));
    ran(&store, &folder, &[GENERATE, NO_TRAINING]);
    let size = store.object("data/train/img_0_of_8.npz").unwrap().len();
    let ahead = [CACHE, "++workload.storage.cache.fill=ahead", "++workload.reader.read_threads=0"];
    // A step takes longer than all objects together: after the first batch every requested object is already cached.
    let slowly = ["++workload.train.computation_time=0.5", "++workload.train.epochs=1"];
    for more in [
        &["--ranks=1"][..],
        &["--ranks=2"],
        &["++workload.storage.cache.unit=block", "++workload.storage.cache.block_size=4096"],
    ] {
        ran(&store, &folder, &[&ahead[..], &slowly, more].concat());
        let found = ["tier_misses", "tier_fetched_ahead", "tier_hits", "tier_waits"].map(|name| figure(&folder, name));
        assert!(found[1] > 0 && found[0] + found[3] <= found[2], "{more:?}: misses, ahead, hits, waits {found:?}");
        assert_eq!(figure(&folder, "tier_bytes_in"), 8 * size as u64, "each byte once");
    }
    // Prefetched objects evict nothing.
    let room = format!("++workload.storage.cache.size={}", 3 * size + 10);
    ran(&store, &folder, &[&ahead[..], &slowly, &[room.as_str(), "++workload.storage.cache.evict=none"]].concat());
    assert_eq!(figure(&folder, "tier_evictions"), 0);
}

#[test]
fn reader_requests_objects_within_the_window() {
    let (store, folder) = (Store::start(), Folder::new("objects-window"));
    ran(&store, &folder, &[GENERATE, NO_TRAINING]);
    let size = store.object("data/train/img_0_of_8.npz").unwrap().len() as u64;
    let window = ["++workload.storage.storage_options.prefetch_window=3", "++workload.reader.read_threads=0"];
    store.forget();
    store.hold(Some("GET /bucket/data/train/img_"));
    let child = started(&store, &folder, &window);
    let on_their_way = |seen: &store::Seen| seen.method == "GET" && seen.key.contains("/train/img");
    store.until_so_many(4, on_their_way);
    // One reader: the object it reads, and three more.
    assert_eq!(store.seen().into_iter().filter(on_their_way).count(), 4);
    store.hold(None);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let gets = store.seen().into_iter().filter(on_their_way).count();
    assert_eq!((gets, figure(&folder, "get_requests"), figure(&folder, "bytes_read")), (16, 16, 16 * size));
    // Faults behave as without prefetching: each is handled and counted, and no byte is received twice.
    for (fault, counted) in [
        (Fault::Answer(503, "SlowDown", Vec::new()), "retries_throttled"),
        (Fault::Reset, "retries_connection"),
        (Fault::CutAt(5_000), "resumed_bodies"),
        (Fault::SentOn, "redirects"),
    ] {
        store.plan("GET", TRAIN, 2, fault.clone());
        ran(&store, &folder, &[&window[..], &["--ranks=2"]].concat());
        let found = (store.unmet(), figure(&folder, counted), figure(&folder, "bytes_read"));
        assert_eq!(found, (0, 2, 16 * size), "{fault:?}");
    }
    // Streams are prefetched too, each file once; files that are read repeatedly are requested repeatedly.
    for format in ["webdataset", "npy"] {
        let format = format!("++workload.dataset.format={format}");
        let many =
            [&window[..], &[format.as_str(), "++workload.dataset.num_samples_per_file=3", "--regenerate"]].concat();
        ran(&store, &folder, &[&many[..], &[GENERATE, NO_TRAINING]].concat());
        store.forget();
        ran(&store, &folder, &many[..4]);
        let gets = store.seen().into_iter().filter(on_their_way).count() as u64;
        assert_eq!(figure(&folder, "get_requests"), gets, "{format}");
    }
}

#[test]
fn missing_cache_pieces_are_requested_ahead() {
    let (store, folder) = (Store::start(), Folder::new("objects-tier-window"));
    ran(&store, &folder, &[GENERATE, NO_TRAINING]);
    let size = store.object("data/train/img_0_of_8.npz").unwrap().len() as u64;
    let window = [CACHE, "++workload.storage.storage_options.prefetch_window=3", "++workload.reader.read_threads=0"];
    let of_data = |seen: &store::Seen| seen.method == "GET" && seen.key.contains("/train/img");
    // With fetches on use, and with prefetches: by object, and by blocks, three per object.
    for (more, gets) in [
        (&[][..], 8),
        (&["++workload.storage.cache.unit=block", "++workload.storage.cache.block_size=4096"], 8 * size.div_ceil(4096)),
        (&["++workload.storage.cache.fill=ahead"], 8),
    ] {
        store.forget();
        store.hold(Some("GET /bucket/data/train/img_"));
        let child = started(&store, &folder, &[&window[..], more].concat());
        // The object being read, and three more; none is requested twice.
        store.until_so_many(4, of_data);
        let keys: Vec<String> = store.seen().into_iter().filter(of_data).map(|seen| seen.key).collect();
        let once: BTreeSet<&String> = keys.iter().collect();
        // The prefetch process may have found the reader at the first one.
        let most = if more.contains(&"++workload.storage.cache.fill=ahead") { 5 } else { 4 };
        assert!(once.len() == keys.len() && keys.len() <= most, "{more:?}: {keys:?}");
        store.hold(None);
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{more:?}: {}", stderr(&output));
        let seen: Vec<store::Seen> = store.seen().into_iter().filter(of_data).collect();
        let sent: u64 = seen.iter().map(|seen| seen.sent as u64).sum();
        assert_eq!((seen.len() as u64, sent), (gets, 8 * size), "{more:?}");
        let found = ["get_requests", "bytes_read", "tier_bytes_in"].map(|name| figure(&folder, name));
        assert_eq!(found, [gets, 8 * size, 8 * size], "{more:?}");
        assert_eq!(of_epoch(&folder, 1, "get_requests"), 0, "{more:?}: the cache contains all of it");
    }
    // Evicted objects are requested again, also ahead of their use; and a fault behaves as without a cache.
    let room = format!("++workload.storage.cache.size={}", 3 * size + 10);
    store.plan("GET", TRAIN, 2, Fault::CutAt(5_000));
    ran(&store, &folder, &[&window[..], &[&room]].concat());
    let found = (store.unmet(), figure(&folder, "resumed_bodies"), figure(&folder, "bytes_read"));
    assert_eq!((found.0, found.1, found.2 >= 13 * size), (0, 2, true), "{found:?}");
    store.forget();
    ran(&store, &folder, &[&window[..], &["--ranks=2", "++workload.dataset.num_files_train=8"]].concat());
    assert_eq!(figure(&folder, "get_requests"), store.seen().into_iter().filter(of_data).count() as u64);
}

#[test]
fn keys_are_plain_or_whole_uris() {
    let (store, folder) = (Store::start(), Folder::new("objects-uris"));
    let uris =
        ["++workload.dataset.data_folder=s3://bucket", "++workload.storage.storage_options.use_full_object_uri=true"];
    ran(&store, &folder, &[&uris[..], &[GENERATE]].concat());
    assert!(store.object("s3://bucket/train/img_0_of_8.npz").is_some(), "{:?}", store.keys());
    let output = ran(&store, &folder, &["++workload.dataset.data_folder=s3://s3://bucket/x y", GENERATE]);
    assert!(stdout(&output).contains("is interpreted as s3://bucket/x y"), "{}", stdout(&output));
    assert!(store.object("x y/train/img_0_of_8.npz").is_some());
}

#[test]
fn multipart_checkpoints_round_trip() {
    let (store, folder) = (Store::start(), Folder::new("objects-checkpoints"));
    let model = [
        "bench",
        "workload=llama_7b",
        "++workload.storage.storage_type=s3",
        "++workload.storage.storage_root=bucket",
        "++workload.model.num_layers=1",
        "++workload.model.transformer.hidden_size=128",
        "++workload.model.transformer.ffn_hidden_size=512",
        "++workload.model.transformer.vocab_size=40000",
        "++workload.checkpoint.checkpoint_folder=ckpt",
        "++workload.checkpoint.num_checkpoints_write=2",
        "++workload.checkpoint.num_checkpoints_read=2",
        "++workload.checkpoint.time_between_checkpoints=0",
        "++workload.storage.storage_options.part_size=5242880",
        "++workload.storage.storage_options.multipart_threshold=5242880",
        "++workload.storage.storage_options.create_bucket=true",
        "++workload.storage.storage_options.verify_writes=true",
    ];
    for more in
        [&["++workload.checkpoint.format=framework"][..], &["++workload.checkpoint.format=safetensors", "--ranks=2"]]
    {
        let output = prepared(&store, &folder, &[&model[..], more].concat()).output().unwrap();
        assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
        assert!(stdout(&output).contains("saved") && stdout(&output).contains("loaded"), "{}", stdout(&output));
    }
    assert!(store.seen().iter().any(|seen| seen.method == "PUT" && seen.key.is_empty()), "the bucket is made");
    assert!(store.seen().iter().any(|seen| seen.query.contains("partNumber=2")), "in parts");
    assert_eq!(store.uploads(), 0);
    let key = store.keys().into_iter().find(|key| key.ends_with("optim_states.pt")).unwrap();
    let mut bytes = store.object(&key).unwrap().to_vec();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    store.put(&key, bytes);
    let read = ["++workload.checkpoint.num_checkpoints_write=0"];
    let output = prepared(&store, &folder, &[&model[..], &read].concat()).output().unwrap();
    assert_eq!(output.status.code(), Some(5), "{}", stderr(&output));
    assert!(stderr(&output).contains("differs from the written one"), "{}", stderr(&output));
}

#[test]
fn a_checkpoint_goes_from_a_fast_disk_to_the_store() {
    let (store, folder) = (Store::start(), Folder::new("objects-tiers"));
    let tiers = [
        GENERATE,
        "++workload.workflow.checkpoint=true",
        "++workload.model.model_size_bytes=300000",
        "++workload.checkpoint.checkpoint_folder=ckpt",
        "++workload.checkpoint.checkpoint_after_epoch=1",
        "++workload.checkpoint.fast_folder=fast",
    ];
    ran(&store, &folder, &tiers);
    let there = store.keys().into_iter().filter(|key| key.starts_with("ckpt/")).count();
    assert_eq!(there, 1, "{:?}", store.keys());
}

/// Runs a training run that encounters a fault a number of times and succeeds; `counted` is the counter that includes
/// it.
fn overcome(method: &'static str, words: &'static str, times: usize, fault: Fault, counted: &str) {
    let (store, folder) = (Store::start(), Folder::new("objects-overcome"));
    ran(&store, &folder, &[GENERATE, NO_TRAINING]);
    store.plan(method, words, times, fault.clone());
    store.forget();
    ran(&store, &folder, &[]);
    assert_eq!(store.unmet(), 0, "{fault:?}");
    assert_eq!(figure(&folder, counted), times as u64, "{fault:?}: {}", folder.json("run/summary.json")["epoch"]);
    assert_eq!(figure(&folder, "get_requests"), (16 + times) as u64, "{fault:?}");
    let summary = folder.json("run/summary.json");
    let used: u64 =
        summary["epoch"].as_array().unwrap().iter().map(|epoch| epoch["bytes_read"].as_u64().unwrap()).sum();
    let size = store.object("data/train/img_0_of_8.npz").unwrap().len() as u64;
    assert_eq!(used, 16 * size);
    assert_eq!(figure(&folder, "bytes_read"), 16 * size, "{fault:?}: no byte twice");
}

const TRAIN: &str = "/train/img_";

#[test]
fn busy_store_is_retried_after_its_delay() {
    let begun = Instant::now();
    overcome("GET", TRAIN, 3, Fault::Answer(503, "SlowDown", vec![("Retry-After", "1".into())]), "retries_throttled");
    // No request is sent earlier than the store asked: at least one waited for its second.
    assert!(begun.elapsed() >= Duration::from_secs(1));
    overcome("GET", TRAIN, 2, Fault::Answer(429, "TooManyRequests", Vec::new()), "retries_throttled");
    overcome("GET", TRAIN, 2, Fault::Answer(500, "InternalError", Vec::new()), "retries_server_errors");
}

#[test]
fn a_connection_that_breaks_is_made_again() {
    overcome("GET", TRAIN, 2, Fault::Reset, "retries_connection");
}

#[test]
fn broken_body_resumes_at_the_byte_reached() {
    for at in [0, 5_000, 9_999] {
        overcome("GET", TRAIN, 2, Fault::CutAt(at), "resumed_bodies");
    }
}

#[test]
fn silent_store_is_retried() {
    let (store, folder) = (Store::start(), Folder::new("objects-silent"));
    ran(&store, &folder, &[GENERATE, NO_TRAINING]);
    store.plan("GET", TRAIN, 1, Fault::Silent);
    store.forget();
    ran(&store, &folder, &["++workload.storage.storage_options.stall_timeout=1"]);
    assert_eq!(store.unmet(), 0);
    // On a busy host further requests may have waited as long.
    assert!(figure(&folder, "retries_stalled") >= 1);
}

#[test]
fn a_store_that_is_slow_has_all_the_time_it_takes() {
    let (store, folder) = (Store::start(), Folder::new("objects-slow"));
    ran(&store, &folder, &[GENERATE, NO_TRAINING]);
    // An object that takes longer than the stall limit, but is never silent for that long.
    store.plan("GET", TRAIN, 1, Fault::Slowly(Duration::from_millis(500)));
    ran(&store, &folder, &["++workload.storage.storage_options.stall_timeout=2"]);
    let found = (store.unmet(), figure(&folder, "retries_stalled"), figure(&folder, "get_requests"));
    assert_eq!(found, (0, 0, 16));
}

#[test]
fn requests_that_are_sent_on_are_followed() {
    overcome("GET", TRAIN, 4, Fault::SentOn, "redirects");
    let (store, folder) = (Store::start(), Folder::new("objects-sent-on"));
    store.plan("PUT", TRAIN, 5, Fault::SentOn);
    store.plan("POST", "uploads", 1, Fault::SentOn);
    store.plan("PUT", "partNumber", 2, Fault::SentOn);
    let parts = [
        "++workload.dataset.record_length_bytes=12000000",
        "++workload.dataset.num_files_train=2",
        "++workload.storage.storage_options.part_size=5242880",
        "++workload.storage.storage_options.multipart_threshold=5242880",
    ];
    ran(&store, &folder, &[GENERATE, NO_TRAINING]);
    ran(&store, &folder, &[&parts[..], &[GENERATE, NO_TRAINING, "--verify"]].concat());
    assert_eq!(store.unmet(), 0);
}

/// Runs a training run that fails with one sentence; returns it.
fn refused(store: &Store, more: &[&str], code: i32) -> String {
    let folder = Folder::new("objects-refused");
    let output = run(store, &folder, more);
    let words = stderr(&output);
    assert_eq!(output.status.code(), Some(code), "{more:?}: {words}");
    assert_eq!(words.matches("dlio: ").count(), 1, "{words}");
    words
}

#[test]
fn permanent_faults_name_the_object() {
    let fault = |fault: Fault| {
        let (store, folder) = (Store::start(), Folder::new("objects-stays"));
        ran(&store, &folder, &[GENERATE, NO_TRAINING]);
        store.plan("GET", "img_5_of_8", 1000, fault);
        let words = refused(&store, &["++workload.storage.storage_options.s3_max_attempts=2"], 5);
        assert!(words.contains("s3://bucket/data/train/img_5_of_8.npz"), "{words}");
        words
    };
    fault(Fault::Short(100));
    let changed = fault(Fault::ChangedAt(100));
    assert!(changed.contains("was modified while it was read"), "{changed}");
    let store = Store::start();
    let indexed = ["++workload.dataset.format=indexed_binary", "++workload.dataset.num_samples_per_file=4"];
    ran(&store, &Folder::new("objects-stays"), &[&indexed[..], &[GENERATE, NO_TRAINING]].concat());
    store.plan("GET", ".indexed_binary", 1000, Fault::Whole);
    let words = refused(&store, &indexed, 4);
    assert!(words.contains("sends the whole object instead of a range"), "{words}");
}

#[test]
fn a_store_that_encrypts_is_known_by_its_certificate() {
    let (store, folder) = (Store::start_with_tls(), Folder::new("objects-tls"));
    let authority = std::env::var("CARGO_MANIFEST_DIR").unwrap() + "/tests/store/tls/authority.pem";
    let option = format!("++workload.storage.storage_options.ca_bundle={authority}");
    ran(&store, &folder, &[GENERATE, &option, "--verify"]);
    let size = store.object("data/train/img_0_of_8.npz").unwrap().len() as u64;
    assert_eq!((figure(&folder, "get_requests"), figure(&folder, "bytes_read")), (16, 16 * size));
    let typed = small(&[]);
    let typed: Vec<&str> = typed.iter().map(String::as_str).collect();
    let by_variable = prepared(&store, &folder, &typed).env("AWS_CA_BUNDLE", authority).output().unwrap();
    assert!(by_variable.status.success(), "{}", stderr(&by_variable));
    // Broken, redirected and refused bodies behave as without TLS.
    store.plan("GET", TRAIN, 1, Fault::CutAt(5_000));
    store.plan("GET", TRAIN, 1, Fault::Answer(503, "SlowDown", Vec::new()));
    ran(&store, &folder, &[&option]);
    assert_eq!((store.unmet(), figure(&folder, "resumed_bodies"), figure(&folder, "bytes_read")), (0, 1, 16 * size));
    let unknown = refused(&store, &["++workload.storage.storage_options.s3_max_attempts=1"], 4);
    assert!(unknown.to_lowercase().contains("certificate"), "{unknown}");
    let missing = refused(&store, &["++workload.storage.storage_options.ca_bundle=/nowhere.pem"], 2);
    assert!(missing.contains("/nowhere.pem"), "{missing}");
    // A request is not redirected to a server that does not encrypt.
    let plain = Store::start();
    store.plan("GET", TRAIN, 1000, Fault::SentTo(plain.endpoint()));
    assert!(refused(&store, &[&option], 4).contains("is not encrypted"));
    assert!(plain.seen().is_empty());
}

/// Returns a self-signed certificate and its key, as openssl creates them by default.
fn self_signed(folder: &Folder, more: &[&str]) -> [Vec<u8>; 2] {
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "own.key", "-out", "own.pem"])
        .args(more)
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", stderr(&made));
    ["own.pem", "own.key"].map(|name| std::fs::read(folder.path().join(name)).unwrap())
}

#[test]
fn self_signed_certificate_in_file_is_accepted() {
    for more in [&["-subj", "/CN=127.0.0.1"][..], &["-subj", "/O=x", "-addext", "subjectAltName=IP:127.0.0.1"]] {
        let folder = Folder::new("objects-self-signed");
        let [certificate, key] = self_signed(&folder, more);
        let store = Store::start_with(&certificate, &key);
        let bundle = format!("++workload.storage.storage_options.ca_bundle={}/own.pem", folder.text());
        ran(&store, &folder, &[GENERATE, &bundle]);
        // Another certificate with the same name is not trusted.
        let other = Folder::new("objects-self-signed");
        let [certificate, key] = self_signed(&other, more);
        let words = refused(&Store::start_with(&certificate, &key), &[&bundle], 4);
        assert!(words.contains("certificate"), "{words}");
    }
    let folder = Folder::new("objects-other-name");
    let [certificate, key] = self_signed(&folder, &["-subj", "/CN=store.example"]);
    let bundle = format!("++workload.storage.storage_options.ca_bundle={}/own.pem", folder.text());
    let words = refused(&Store::start_with(&certificate, &key), &[&bundle], 4);
    assert!(words.contains("use a name of the certificate"), "{words}");
}

#[test]
fn permanent_errors_fail_at_once_with_a_remedy() {
    let folder = Folder::new("objects-permanent");
    let (plain, encrypted) = (Store::start(), Store::start_with_tls());
    let unknown = refused(&encrypted, &[], 4);
    assert!(unknown.contains("UnknownIssuer") && unknown.contains("ca_bundle"), "{unknown}");
    let endpoint = |scheme: &str, store: &Store| {
        let key = format!("++workload.storage.storage_options.endpoint_url={scheme}://127.0.0.1:{}", store.port);
        let output = run(store, &folder, &[&key]);
        assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
        stderr(&output)
    };
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    // As HTTP servers answer something that is not HTTP.
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            use std::io::{Read, Write};
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n");
        }
    });
    let key = format!("++workload.storage.storage_options.endpoint_url=https://127.0.0.1:{port}");
    let no_tls = stderr(&run(&plain, &folder, &[&key]));
    assert!(no_tls.contains("http://"), "{no_tls}");
    let no_http = endpoint("http", &encrypted);
    assert!(no_http.contains("https://"), "{no_http}");
    for words in [unknown, no_tls, no_http] {
        assert!(!words.contains("attempts"), "{words}");
    }
}

#[test]
fn refused_access_explains_without_secrets() {
    let store = Store::start();
    let wrong_secret = "++workload.storage.storage_options.secret_access_key=another-secret";
    let key = "++workload.storage.storage_options.access_key_id=AKIDTESTSTORE";
    for ranks in ["--ranks=1", "--ranks=3"] {
        for generates in [GENERATE, "++workload.reader.read_threads=1"] {
            let words = refused(&store, &[key, wrong_secret, generates, ranks], 4);
            for word in ["SignatureDoesNotMatch", "…TORE", "us-east-1", &store.endpoint()] {
                assert!(words.contains(word), "{word}: {words}");
            }
            assert!(!words.contains("another-secret") && !words.contains(KEY_ID), "{words}");
        }
    }
    let unknown = "++workload.storage.storage_options.access_key_id=AKIDOTHER";
    assert!(refused(&store, &[unknown, wrong_secret, GENERATE], 4).contains("InvalidAccessKeyId"));
    let anonymous = "++workload.storage.storage_options.anonymous=true";
    assert!(refused(&store, &[anonymous, GENERATE], 4).contains("a request without credentials"));
    assert!(store.keys().is_empty());
}

#[test]
fn a_wrong_clock_bucket_or_token_is_one_sentence() {
    let skewed = |when, words: &str| {
        let store = Store::start();
        let headers = vec![("Date", date(when))];
        store.plan("GET", "", 1000, Fault::Answer(403, "RequestTimeTooSkewed", headers));
        let found = refused(&store, &[GENERATE], 4);
        assert!(found.contains(words), "{found}");
    };
    skewed("1200 seconds ago", "min ahead of the store's");
    skewed("1200 seconds", "min behind the store's");
    let store = Store::start();
    let bucket = ["++workload.storage.storage_root=no-such", GENERATE];
    let words = refused(&store, &bucket, 3);
    assert!(words.contains("bucket no-such does not exist at") && words.contains("create_bucket=true"), "{words}");
    store.plan("GET", "", 1000, Fault::Answer(400, "ExpiredToken", Vec::new()));
    assert!(refused(&store, &[GENERATE], 4).contains("has expired"));
}

#[test]
fn a_store_that_is_not_there_is_one_sentence() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let store = Store::start();
    let nowhere = format!("++workload.storage.storage_options.endpoint_url=http://127.0.0.1:{port}");
    let words = refused(&store, &[&nowhere, GENERATE, "++workload.storage.storage_options.s3_max_attempts=2"], 4);
    assert!(words.contains(&format!("cannot connect to http://127.0.0.1:{port}")), "{words}");
    let missing = refused(&store, &[], 3);
    assert!(missing.contains("s3://bucket/data/train/img_0_of_8.npz does not exist"), "{missing}");
}

#[test]
fn without_endpoint_or_credentials_nothing_is_begun() {
    let folder = Folder::new("objects-unsaid");
    let typed = small(&[GENERATE]);
    let mut command = command(&folder, &typed.iter().map(String::as_str).collect::<Vec<_>>());
    for name in ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "S3_ENDPOINT"]
    {
        command.env_remove(name);
    }
    let output = command.output().unwrap();
    let words = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{words}");
    for word in ["no endpoint", "no credentials", "endpoint_url=http://HOST:PORT"] {
        assert!(words.contains(word), "{words}");
    }
    let store = Store::start();
    for (typed, word) in [
        ("++workload.storage.storage_options.endpoint=x", "did you mean endpoint_url?"),
        ("++workload.dataset.data_folder=/mnt/data", "a local directory"),
        ("++workload.dataset.data_folder=s3://other/x", "its bucket differs"),
        ("++workload.dataset.format=mmap_indexed_binary", "use indexed_binary"),
        ("++workload.reader.odirect=true", "applies to files"),
    ] {
        assert!(refused(&store, &[typed], 2).contains(word), "{typed}");
    }
    assert!(store.seen().is_empty(), "{:?}", store.seen());
}

#[test]
fn no_secret_is_in_anything_a_run_leaves() {
    let (store, folder) = (Store::start(), Folder::new("objects-secret"));
    let secret = format!("++workload.storage.storage_options.secret_access_key={SECRET}");
    let key = format!("++workload.storage.storage_options.access_key_id={KEY_ID}");
    let missing = run(&store, &folder, &[&secret, &key]);
    let output = ran(&store, &folder, &[&secret, &key, GENERATE]);
    for words in [stderr(&missing), stdout(&missing), stderr(&output), stdout(&output)] {
        assert!(!words.contains(SECRET) && !words.contains(KEY_ID), "{words}");
    }
    let files = folder.files("run");
    assert!(files.iter().any(|name| name.ends_with(".hydra/config.yaml")), "{files:?}");
    for name in files {
        let bytes = std::fs::read(folder.path().join(&name)).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        assert!(!text.contains(SECRET) && !text.contains(KEY_ID), "{name}");
    }
    let config = std::fs::read_to_string(folder.path().join("run/.hydra/config.yaml")).unwrap();
    assert!(config.contains("secret_access_key: '***'") || config.contains("secret_access_key: \"***\""), "{config}");
}

#[test]
fn lost_write_is_a_failure() {
    let parts = [
        GENERATE,
        NO_TRAINING,
        "++workload.dataset.record_length_bytes=12000000",
        "++workload.dataset.num_files_train=1",
        "++workload.reader.batch_size=1",
        "++workload.storage.storage_options.part_size=5242880",
        "++workload.storage.storage_options.multipart_threshold=5242880",
        "++workload.storage.storage_options.verify_writes=true",
    ];
    let store = Store::start();
    store.plan("POST", "uploadId", 1, Fault::LostPart);
    let words = refused(&store, &parts, 4);
    assert!(words.contains("12000000 bytes") || words.contains("bytes were written, but"), "{words}");
    let store = Store::start();
    store.plan("POST", "uploadId", 1, Fault::ErrorInside);
    assert!(refused(&store, &parts, 4).contains("InternalError"));
    assert_eq!((store.uploads(), store.keys().iter().filter(|key| key.contains(TRAIN)).count()), (0, 0));
    let store = Store::start();
    store.plan("PUT", "partNumber=2", 1000, Fault::Answer(403, "AccessDenied", Vec::new()));
    assert!(refused(&store, &parts, 4).contains("AccessDenied"));
    assert_eq!(store.uploads(), 0, "the upload is given up");
}

fn children(process: u32) -> Vec<u32> {
    let text = std::fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap_or_default();
    text.split_whitespace().map(|id| id.parse().unwrap()).collect()
}

fn signal(name: &str, process: u32) {
    assert!(Command::new("kill").args(["-s", name, &process.to_string()]).status().unwrap().success());
}

#[test]
fn killed_generation_leaves_no_partial_objects() {
    let parts = [
        GENERATE,
        NO_TRAINING,
        "++workload.dataset.record_length_bytes=12000000",
        "++workload.dataset.num_files_train=2",
        "++workload.reader.batch_size=1",
        "++workload.reader.write_threads=1",
        "++workload.storage.storage_options.part_size=5242880",
        "++workload.storage.storage_options.multipart_threshold=5242880",
    ];
    for (name, whole) in [("KILL", false), ("INT", true), ("KILL", true)] {
        let (store, folder) = (Store::start(), Folder::new("objects-killed"));
        store.hold(Some("partNumber"));
        let child = started(&store, &folder, &parts);
        store.until(|seen| seen.query.contains("partNumber"));
        // The writer alone, which its parent outlives, or all of them.
        let writers = children(child.id());
        assert_eq!(writers.len(), 1);
        if whole {
            signal(name, child.id());
        }
        writers.iter().for_each(|writer| signal(name, *writer));
        store.hold(None);
        let output = child.wait_with_output().unwrap();
        assert!(!output.status.success());
        let objects: Vec<String> = store.keys().into_iter().filter(|key| key.contains(TRAIN)).collect();
        assert!(objects.iter().all(|key| store.object(key).unwrap().len() > 11_900_000), "{objects:?}");
        if (name, whole) != ("KILL", true) {
            assert_eq!(store.uploads(), 0, "{name} {whole}: {}", stderr(&output));
        }
        // The next run aborts the uploads that were left.
        ran(&store, &folder, &[&parts[..], &["--verify"]].concat());
        assert_eq!(store.uploads(), 0);
    }
}

#[test]
fn aistore_requests_use_its_path_unsigned() {
    let folder = Folder::new("objects-aistore");
    let store = Store::start();
    // Its S3 interface is below /s3, so the first part of the path is that and not the bucket.
    let mut typed = small(&["++workload.storage.storage_type=aistore", GENERATE]);
    typed.retain(|word| !word.contains("storage_type=s3"));
    let endpoint = format!("++workload.storage.storage_options.endpoint_url={}", store.endpoint());
    typed.push(endpoint);
    let mut command = command(&folder, &typed.iter().map(String::as_str).collect::<Vec<_>>());
    command.env_remove("AWS_ACCESS_KEY_ID").env_remove("AWS_SECRET_ACCESS_KEY");
    let output = command.output().unwrap();
    assert!(!output.status.success());
    assert_eq!(store.seen()[0].key, format!("{BUCKET}/data/train/img_0_of_8.npz"));
}
