//! Data sets in shards: tar files as webdataset's, and Mosaic's. Python reads what dlio writes, and dlio reads what
//! Python writes.

mod program;
mod store;

use program::{Folder, GENERATE, command, dlio, stderr, stdout};
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;
use store::Store;

/// Four shards of six samples.
fn typed<'a>(format: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let all = [
        "bench",
        "workload=unet3d",
        format,
        "++workload.dataset.data_folder=data",
        "++workload.dataset.num_files_train=4",
        "++workload.dataset.num_samples_per_file=6",
        "++workload.dataset.record_length_bytes=10000",
        "++workload.dataset.record_length_bytes_stdev=0",
        "++workload.reader.batch_size=3",
        "++workload.reader.read_threads=2",
        "++workload.train.epochs=2",
        "++workload.train.computation_time=0.0001",
        "++workload.workflow.checkpoint=false",
    ];
    all.iter().chain(more).copied().collect()
}

const WEBDATASET: &str = "++workload.dataset.format=webdataset";
const MDS: &str = "++workload.dataset.format=mds";

fn ran(folder: &Folder, typed: &[&str]) -> Output {
    let output = dlio(folder, typed);
    assert!(output.status.success(), "{typed:?}: {}{}", stdout(&output), stderr(&output));
    output
}

fn python(folder: &Folder, code: &str) {
    let path = std::env::var_os("DLIO_TEST_PYTHON").unwrap_or_else(|| "python3".into());
    let output = Command::new(path).args(["-c", code]).current_dir(folder.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(42), "{}{}", stdout(&output), stderr(&output));
}

fn bytes_read(folder: &Folder) -> Vec<u64> {
    let summary = folder.json("run/summary.json");
    summary["epoch"].as_array().unwrap().iter().map(|epoch| epoch["bytes_read"].as_u64().unwrap()).collect()
}

fn length(folder: &Folder, name: &str) -> u64 {
    std::fs::metadata(folder.path().join(name)).unwrap().len()
}

#[test]
fn shards_of_tar_are_read_by_pythons_tarfile() {
    for pax in ["++workload.dataset.webdataset.pax=false", "++workload.dataset.webdataset.pax=true"] {
        let folder = Folder::new("tar-out");
        let extension = "++workload.dataset.webdataset.extension=jpg";
        ran(&folder, &typed(WEBDATASET, &[GENERATE, pax, extension, "--verify", "++workload.workflow.train=false"]));
        assert_eq!(folder.files("data/train").len(), 4);
        python(
            &folder,
            "
import glob, sys, tarfile
keys = set()
shards = sorted(glob.glob('data/train/img-??????.tar'))
for name in shards:
    with tarfile.open(name) as shard:
        members = shard.getmembers()
        assert len(members) == 12, members
        for image, label in zip(members[::2], members[1::2]):
            key = image.name.split('.')[0]
            assert image.name == key + '.jpg' and label.name == key + '.cls', (image.name, label.name)
            assert image.size == 10000 and shard.extractfile(label).read() == b'0'
            keys.add((key, shard.extractfile(image).read()))
assert len(shards) == 4 and len({key for key, _ in keys}) == len({data for _, data in keys}) == 24
try:
    import webdataset
except ImportError:
    sys.exit(42)
samples = list(webdataset.WebDataset(shards, shardshuffle=False))
assert [sample['__key__'] for sample in samples] == sorted(key for key, _ in keys)
assert {(sample['__key__'], sample['jpg']) for sample in samples} == keys
sys.exit(42)
",
        );
    }
}

#[test]
fn shards_that_python_wrote_are_read() {
    for format in ["tarfile.PAX_FORMAT", "tarfile.GNU_FORMAT", "tarfile.USTAR_FORMAT"] {
        let folder = Folder::new("tar-in");
        // With long names, directories and members that are not samples.
        python(
            &folder,
            &format!(
                "
import io, os, sys, tarfile
os.makedirs('data/train')
for number in range(4):
    about = dict(pax_headers={{'comment': 'of the whole shard'}}) if 'PAX' in '{format}' else dict()
    with tarfile.open(f'data/train/img-{{number:06d}}.tar', 'w', format={format}, **about) as shard:
        def put(name, data, kind=tarfile.REGTYPE, to=''):
            member = tarfile.TarInfo(name)
            member.size, member.type, member.mtime, member.linkname = len(data), kind, 1700000000.25, to
            shard.addfile(member, io.BytesIO(data))
        put('folder.d', b'', tarfile.DIRTYPE)
        put('__meta__', b'nothing')
        for sample in range(6):
            key = 'folder.d/' + ('' if 'USTAR' in '{format}' else 'k' * 120) + f'{{number}}-{{sample}}'
            put(key + '.CLS', b'7')
            put(key + '.link', b'', tarfile.SYMTYPE, 'elsewhere' if 'USTAR' in '{format}' else 'l' * 150)
            put(key + '.bin', bytes([sample]) * 10000)
            put(key + '.meta.json', b'{{}}')
sys.exit(42)
"
            ),
        );
        ran(&folder, &typed(WEBDATASET, &[]));
        let all: u64 = folder.files("data/train").iter().map(|name| length(&folder, name)).sum();
        // All of each shard except the part after its last member.
        for read in bytes_read(&folder) {
            assert!(read <= all && read > all - 4 * 10_240, "{read} of {all}");
        }
    }
}

#[test]
fn shards_are_streams_for_ranks_and_workers() {
    for (format, more) in [
        (WEBDATASET, &["++workload.reader.file_shuffle=seed", "++workload.reader.sample_shuffle=seed"][..]),
        (MDS, &["++workload.reader.file_shuffle=seed", "++workload.reader.sample_shuffle=random"]),
    ] {
        let folder = Folder::new("shards");
        ran(&folder, &typed(format, &[GENERATE, "--verify"]));
        let names = folder.files("data/train");
        let all: u64 =
            names.iter().filter(|name| !name.ends_with("index.json")).map(|name| length(&folder, name)).sum();
        for way in ["++workload.reader.read_threads=0", "++workload.reader.read_threads=2", "--ranks=2"] {
            ran(&folder, &typed(format, &[more, &[way]].concat()));
            for read in bytes_read(&folder) {
                assert!(read <= all && read >= 24 * 10_000, "{format} {way}: {read} of {all}");
            }
            let output = folder.json("run/0_output.json");
            let steps = output["1"]["load"]["block1"].as_array().unwrap().len();
            assert_eq!(steps, if way == "--ranks=2" { 4 } else { 8 });
        }
    }
}

#[test]
fn a_shard_that_is_cut_or_short_is_named() {
    let folder = Folder::new("cut");
    ran(&folder, &typed(WEBDATASET, &[GENERATE]));
    let path = folder.path().join("data/train/img-000002.tar");
    let whole = std::fs::read(&path).unwrap();
    for cut in [whole.len() / 2, 512, 0] {
        std::fs::write(&path, &whole[..cut]).unwrap();
        let output = dlio(&folder, &typed(WEBDATASET, &[]));
        assert_eq!(output.status.code(), Some(5), "{cut}: {}", stderr(&output));
        assert!(stderr(&output).contains("img-000002.tar"), "{cut}: {}", stderr(&output));
    }
}

#[test]
fn a_sample_with_two_members_of_one_kind_is_named() {
    let folder = Folder::new("twice");
    ran(&folder, &typed(WEBDATASET, &[GENERATE, "++workload.workflow.train=false"]));
    python(
        &folder,
        "
import io, sys, tarfile
with tarfile.open('data/train/img-000001.tar', 'w') as shard:
    for name in ['a/one.bin', 'a/one.cls', 'a/two.bin', 'a/two.BIN', 'a/two.cls']:
        member = tarfile.TarInfo(name)
        member.size = 10000
        shard.addfile(member, io.BytesIO(bytes(10000)))
sys.exit(42)
",
    );
    let output = dlio(&folder, &typed(WEBDATASET, &[]));
    assert_eq!(output.status.code(), Some(5), "{}", stderr(&output));
    for word in ["img-000001.tar", "`a/two` has two members with the extension bin"] {
        assert!(stderr(&output).contains(word), "{}", stderr(&output));
    }
}

#[test]
fn wrong_offset_index_names_its_file() {
    let (store, folder) = (Store::start(), Folder::new("offsets-lie"));
    let indexed = |more: &[&'static str]| typed("++workload.dataset.format=indexed_binary", more);
    let in_store = ["++workload.storage.storage_type=s3", "++workload.storage.storage_root=bucket"];
    ran(&folder, &indexed(&[GENERATE, "++workload.workflow.train=false"]));
    let asked = |more: &[&'static str]| {
        command(&folder, &indexed(&[&in_store[..], more].concat())).envs(store.variables()).output().unwrap()
    };
    assert!(asked(&[GENERATE, "++workload.workflow.train=false"]).status.success());
    // The offset of the third sample and its length: beyond the end, more than exists, more than any memory.
    for (ending, lie) in [("off", 60_001), ("off", u64::MAX), ("sz", 60_001), ("sz", 1 << 50)] {
        let name = format!("data/train/img_2_of_4.indexed_binary.{ending}.idx");
        let path = folder.path().join(&name);
        let whole = std::fs::read(&path).unwrap();
        let mut bytes = whole.clone();
        bytes[16..24].copy_from_slice(&lie.to_le_bytes());
        std::fs::write(&path, &bytes).unwrap();
        store.put(&name, bytes);
        for output in [dlio(&folder, &indexed(&[])), asked(&[])] {
            assert_eq!(output.status.code(), Some(5), "{ending} {lie}: {}", stderr(&output));
            assert!(stderr(&output).contains("img_2_of_4.indexed_binary"), "{ending} {lie}: {}", stderr(&output));
        }
        std::fs::write(&path, &whole).unwrap();
        store.put(&name, whole);
    }
}

#[test]
fn the_index_of_mosaics_shards_is_that_of_the_files() {
    let folder = Folder::new("mds-index");
    let uneven = ["++workload.dataset.record_length_bytes_stdev=4000", "++workload.dataset.num_files_eval=2"];
    ran(&folder, &typed(MDS, &[&uneven[..], &[GENERATE, "--verify"]].concat()));
    for (split, files) in [("train", 4), ("valid", 2)] {
        let index = folder.json(&format!("data/{split}/index.json"));
        let shards = index["shards"].as_array().unwrap();
        assert_eq!((shards.len(), index["version"].as_u64()), (files, Some(2)));
        for (number, shard) in shards.iter().enumerate() {
            let name = shard["raw_data"]["basename"].as_str().unwrap();
            assert_eq!(name, format!("shard.{number:05}.mds"));
            let bytes = std::fs::read(folder.path().join("data").join(split).join(name)).unwrap();
            assert_eq!(shard["raw_data"]["bytes"].as_u64(), Some(bytes.len() as u64));
            let number =
                |place: usize| u32::from_le_bytes(bytes[4 * place..4 * place + 4].try_into().unwrap()) as usize;
            assert_eq!((number(0), number(7)), (6, bytes.len()), "samples, and the end of the last");
            assert_eq!(bytes[number(1)..][..4], ((number(2) - number(1) - 12) as u32).to_le_bytes());
        }
    }
}

#[test]
fn wrong_index_names_its_shard() {
    let folder = Folder::new("lies");
    ran(&folder, &typed(MDS, &[GENERATE]));
    let path = folder.path().join("data/train/shard.00002.mds");
    let whole = std::fs::read(&path).unwrap();
    let length = whole.len() as u32;
    // The number of samples, and the offset of the third: too few, too many, beyond the end, before the second, in the
    // middle.
    for (place, lie) in [(0, 3), (0, 1 << 30), (3, length + 1), (3, u32::MAX), (3, 0), (3, 60)] {
        let mut bytes = whole.clone();
        bytes[4 * place..4 * place + 4].copy_from_slice(&lie.to_le_bytes());
        std::fs::write(&path, bytes).unwrap();
        let output = dlio(&folder, &typed(MDS, &[]));
        assert_eq!(output.status.code(), Some(5), "{place} {lie}: {}", stderr(&output));
        assert!(stderr(&output).contains("shard.00002.mds"), "{place} {lie}: {}", stderr(&output));
    }
}

#[test]
fn shards_in_a_store_equal_those_on_disk() {
    for (format, requests) in [(WEBDATASET, 4), (MDS, 24)] {
        let (store, folder) = (Store::start(), Folder::new("shards-in-store"));
        let more = ["++workload.storage.storage_type=s3", "++workload.storage.storage_root=bucket"];
        let run = |words: &[&str]| {
            let output =
                command(&folder, &typed(format, &[&more[..], words].concat())).envs(store.variables()).output();
            let output = output.unwrap();
            assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
        };
        run(&[GENERATE, "--verify", "++workload.workflow.train=false"]);
        let shard = if format == MDS { "data/train/shard.00003.mds" } else { "data/train/img-000003.tar" };
        assert!(store.object(shard).is_some(), "{:?}", store.keys());
        store.forget();
        run(&["++workload.train.epochs=1", "++workload.reader.read_threads=1"]);
        let gets = store.seen().iter().filter(|seen| seen.method == "GET" && !seen.key.contains(".dlio/")).count();
        // A shard is one stream; in Mosaic's a sample is a range, in addition to two for the offsets of each shard.
        assert_eq!(gets, if format == MDS { requests + 4 * 2 } else { requests }, "{:?}", store.seen());
    }
}

#[test]
fn layout_comparison_matches_the_model() {
    let (store, folder) = (Store::start(), Folder::new("layouts"));
    store.answer_after(Duration::from_millis(10));
    let typed = [
        "bench",
        "workload=unet3d",
        "--compare-layouts=10",
        "++workload.storage.storage_type=s3",
        "++workload.storage.storage_root=bucket",
        "++workload.dataset.data_folder=data",
        "++workload.dataset.num_files_train=300",
        "++workload.dataset.record_length_bytes=10000",
        "++workload.dataset.record_length_bytes_stdev=0",
        "++workload.reader.batch_size=10",
        "++workload.reader.read_threads=2",
    ];
    let output = command(&folder, &typed).env_remove("AWS_ENDPOINT_URL").envs(store.variables()).output().unwrap();
    let text = stdout(&output);
    assert!(output.status.success(), "{text}{}", stderr(&output));
    for row in ["files loose", "files shards", "store loose", "store shards", "latency and rate explain"] {
        assert!(text.contains(row), "{row}: {text}");
    }
    let results = folder.files("hydra_log").into_iter().find(|name| name.ends_with("layouts.json")).unwrap();
    let results = folder.json(&results);
    let runs = results["runs"].as_array().unwrap();
    assert_eq!((runs[2]["get_requests"].as_f64(), runs[3]["get_requests"].as_f64()), (Some(300.0), Some(10.0)));
    // 150 requests of each reader against 5: nothing else takes as long.
    let (measured, modelled) =
        (results["factor_measured"].as_f64().unwrap(), results["factor_modelled"].as_f64().unwrap());
    assert!(measured > 3.0 && modelled > 3.0, "{results}");
    let uneven = typed.map(|word| if word == "--compare-layouts=10" { "--compare-layouts=7" } else { word });
    let refused = command(&folder, &uneven).envs(store.variables()).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("--compare-layouts=6"), "{}", stderr(&refused));
}

#[test]
fn notes_report_uneven_shards() {
    let folder = Folder::new("uneven");
    let output = ran(&folder, &typed(WEBDATASET, &[GENERATE, "++workload.reader.read_threads=3"]));
    assert!(stdout(&output).contains("4 shards"), "{}", stdout(&output));
    assert!(Path::new(&folder.path().join("data/train/img-000000.tar")).exists());
}
