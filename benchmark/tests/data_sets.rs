//! Data sets with other settings are never mistaken for the requested one: they are generated again, refused or
//! reported, in every format.

mod program;

use dlio_benchmark::system::processes::lives;
use program::{Folder, GENERATE, command, dlio, stderr, stdout, until};
use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, SystemTime};

const ONLY: [&str; 2] = [GENERATE, "++workload.workflow.train=false"];

/// Runs four files of two samples of 32 x 32 in `data`, one epoch, with these keys below `dataset`.
fn run(folder: &Folder, format: &str, keys: &[&str], more: &[&str]) -> Output {
    let streams = format == "tfrecord";
    let [framework, loader] = if streams { ["tensorflow"; 2] } else { ["pytorch"; 2] };
    let samples = if matches!(format, "png" | "jpeg") { 1 } else { 2 };
    let mut typed: Vec<String> = [
        "bench",
        "workload=unet3d",
        "++workload.dataset.data_folder=data",
        "++workload.dataset.num_files_train=4",
        "++workload.dataset.record_length_bytes_stdev=0",
        "++workload.reader.batch_size=2",
        "++workload.reader.read_threads=1",
        "++workload.train.epochs=1",
        "++workload.train.computation_time=0",
        "++workload.workflow.checkpoint=false",
    ]
    .map(String::from)
    .to_vec();
    typed.push(format!("++workload.framework={framework}"));
    typed.push(format!("++workload.reader.data_loader={loader}"));
    typed.push(format!("++workload.dataset.format={format}"));
    typed.push(format!("++workload.dataset.num_samples_per_file={samples}"));
    if !keys.iter().any(|key| key.starts_with("record_length_bytes=")) {
        typed.push("++workload.dataset.record_length_bytes=1024".into());
    }
    typed.extend(keys.iter().map(|key| format!("++workload.dataset.{key}")));
    typed.extend(more.iter().map(ToString::to_string));
    dlio(folder, &typed.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Returns every file of the data set with its content.
fn contents(folder: &Folder) -> BTreeMap<String, Vec<u8>> {
    let read = |file: String| (file.clone(), std::fs::read(folder.path().join(file)).unwrap());
    folder.files("data").into_iter().map(read).collect()
}

/// Formats with two configurations each that produce different bytes under the same names.
const OTHERWISE: &[(&str, &[&str], &[&str])] = &[
    ("npz", &[], &["record_length_bytes=1100"]),
    ("npz", &[], &["compression=zip"]),
    ("npz", &["compression=zip", "compression_level=1"], &["compression=zip", "compression_level=9"]),
    ("npz", &["record_dims=[16,64]"], &["record_dims=[64,16]"]),
    ("npy", &["record_dims=[64]"], &["record_dims=[8,8]"]),
    ("npy", &["record_dims=[8,8]", "record_element_type=int8"], &["record_dims=[8,8]"]),
    ("tfrecord", &[], &["record_length_bytes=1100"]),
    (
        "tfrecord",
        &["record_dims=[8,8]", "record_element_type=int32"],
        &["record_dims=[8,8]", "record_element_type=float32"],
    ),
    (
        "indexed_binary",
        &["num_samples_per_file=4", "record_dims=[32]"],
        &["num_samples_per_file=2", "record_dims=[64]"],
    ),
    ("mmap_indexed_binary", &["record_dims=[64]"], &["record_dims=[72]"]),
    ("csv", &[], &["record_length_bytes=1100"]),
    ("csv", &["record_dims=[64]", "record_element_type=uint8"], &["record_dims=[64]", "record_element_type=int16"]),
    ("csv", &["compression=gzip", "compression_level=1"], &["compression=gzip", "compression_level=9"]),
    ("jpeg", &[], &["record_length_bytes=1100"]),
    ("png", &["record_dims=[16,64]"], &["record_dims=[64,16]"]),
    ("hdf5", &[], &["record_length_bytes=1100"]),
    ("hdf5", &["hdf5.chunk_dims=[1,8,8]"], &["hdf5.chunk_dims=[1,16,16]"]),
    ("hdf5", &["enable_chunking=true", "chunk_size=64"], &["enable_chunking=true", "chunk_size=128"]),
    ("hdf5", &["compression=gzip", "compression_level=1"], &["compression=gzip", "compression_level=9"]),
    ("hdf5", &["compression=gzip"], &["compression=lzf"]),
    ("hdf5", &[], &["hdf5.num_dset_per_record=2"]),
    ("hdf5", &["hdf5.max_shape=[32,32]"], &["hdf5.max_shape=[64,64]"]),
    (
        "hdf5",
        &["record_dims=[8,8]", "record_element_type=float32"],
        &["record_dims=[8,8]", "record_element_type=int32"],
    ),
    ("parquet", &["parquet.row_group_size=1"], &["parquet.row_group_size=2"]),
    (
        "parquet",
        &["parquet.columns=[{name: a, dtype: float32, size: 4}]"],
        &["parquet.columns=[{name: a, dtype: float64, size: 4}]"],
    ),
];

#[test]
fn different_data_are_regenerated_with_a_note() {
    for (format, first, second) in OTHERWISE {
        let name = format!("{format} {first:?} {second:?}");
        let folder = Folder::new("otherwise");
        let generated = |keys: &[&str]| {
            let output = run(&folder, format, keys, &ONLY);
            assert!(output.status.success(), "{name}: {}", stderr(&output));
            (contents(&folder), stdout(&output))
        };
        let (made, printed) = generated(first);
        assert!(printed.contains("generated 4 files") && !printed.contains("note"), "{name}: {printed}");
        let (kept, printed) = generated(first);
        assert!(printed.contains("generated 0 files") && printed.contains("4 existed already"), "{name}: {printed}");
        assert!(made == kept, "{name}");
        let (anew, printed) = generated(second);
        assert!(printed.contains("generated 4 files") && printed.contains("rewriting them"), "{name}: {printed}");
        let fresh = Folder::new("otherwise-fresh");
        assert!(run(&fresh, format, second, &ONLY).status.success());
        assert!(anew == contents(&fresh), "{name}: as if nothing had been there");
        assert!(made != anew, "{name}: the two differ");
    }
}

#[test]
fn files_do_not_depend_on_time() {
    let second = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let formats: BTreeSet<&str> = OTHERWISE.iter().map(|(format, ..)| *format).collect();
    for format in formats {
        let [first, later] = ["timeless", "timeless-later"].map(Folder::new);
        assert!(run(&first, format, &[], &ONLY).status.success());
        let made = second();
        while second() == made {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(run(&later, format, &[], &ONLY).status.success());
        assert!(contents(&first) == contents(&later), "{format}");
    }
}

#[test]
fn training_rejects_conflicts_and_adopts_the_rest() {
    for (format, first, second) in OTHERWISE {
        let name = format!("{format} {first:?} {second:?}");
        let folder = Folder::new("said");
        assert!(run(&folder, format, second, &ONLY).status.success(), "{name}");
        let same = run(&folder, format, second, &[]);
        assert!(same.status.success() && !stdout(&same).contains("note: the data set"), "{name}: {}", stderr(&same));
        if first.is_empty() {
            continue;
        }
        let other = run(&folder, format, first, &[]);
        assert_eq!(other.status.code(), Some(3), "{name}: {}", stdout(&other));
        assert!(
            stderr(&other).contains("was generated with") && stderr(&other).contains("generate_data=true"),
            "{name}"
        );
    }
    let folder = Folder::new("unsaid");
    let keys = ["hdf5.num_dset_per_record=2", "hdf5.chunk_dims=[1,8,8]", "compression=gzip"];
    assert!(run(&folder, "hdf5", &keys, &ONLY).status.success());
    let output = run(&folder, "hdf5", &[], &[]);
    assert!(output.status.success(), "{}", stderr(&output));
    let printed = stdout(&output);
    for word in [
        "hdf5.num_dset_per_record=2 instead of 1",
        "compression=gzip instead of none",
        "reading the data set with the values",
    ] {
        assert!(printed.contains(word), "{word}: {printed}");
    }
    let bytes = folder.json("run/summary.json")["epoch"][0]["bytes_read"].as_u64().unwrap();
    assert!(bytes > 8 * 900, "both halves of every sample: {bytes}");
}

#[test]
fn lengths_with_the_same_root_make_the_same_files() {
    let folder = Folder::new("same-root");
    assert!(run(&folder, "npz", &["record_length_bytes=1024"], &ONLY).status.success());
    let output = run(&folder, "npz", &["record_length_bytes=1030"], &ONLY);
    assert!(stdout(&output).contains("generated 0 files"), "{}", stdout(&output));
}

#[test]
fn drawn_sizes_are_part_of_the_fingerprint() {
    let folder = Folder::new("drawn");
    let spread = |stdev: u64, train: u64| {
        let keys = [
            format!("record_length_bytes_stdev={stdev}"),
            format!("num_files_train={train}"),
            "num_files_eval=2".into(),
        ];
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        stdout(&run(&folder, "npz", &keys, &ONLY))
    };
    assert!(spread(600, 4).contains("generated 6 files"));
    assert!(spread(600, 4).contains("generated 0 files"));
    assert!(spread(900, 4).contains("generated 6 files"));
    // The sizes of evaluation files are drawn after those of the training files, which have changed.
    let printed = spread(900, 8);
    assert!(printed.contains("generated 10 files") && printed.contains("num_files_train=4 instead of 8"), "{printed}");
}

#[test]
fn data_sets_with_other_names_live_side_by_side() {
    let folder = Folder::new("beside");
    for format in ["npz", "hdf5", "csv"] {
        assert!(run(&folder, format, &[], &ONLY).status.success());
    }
    assert!(run(&folder, "npz", &["num_files_train=8", "record_length_bytes=2048"], &ONLY).status.success());
    assert!(run(&folder, "npz", &["num_subfolders_train=2", "record_length_bytes=4096"], &ONLY).status.success());
    for format in ["npz", "hdf5", "csv"] {
        let printed = stdout(&run(&folder, format, &[], &ONLY));
        assert!(printed.contains("generated 0 files"), "{format}: {printed}");
    }
}

/// Leaves only the files, like another program.
fn forget_how(folder: &Folder) {
    std::fs::remove_dir_all(folder.path().join("data/.dlio")).unwrap();
}

#[test]
fn matching_foreign_files_are_kept() {
    for (format, first, second) in OTHERWISE {
        let name = format!("{format} {first:?} {second:?}");
        let folder = Folder::new("foreign");
        assert!(run(&folder, format, second, &ONLY).status.success(), "{name}");
        forget_how(&folder);
        let before = contents(&folder);
        let printed = stdout(&run(&folder, format, second, &ONLY));
        assert!(
            printed.contains("generated 0 files") && printed.contains("no record of how the files"),
            "{name}: {printed}"
        );
        assert!(before == contents(&folder), "{name}");
        // Levels and packed text leave no trace, nor do plain bytes of equal length.
        let untold = second.iter().any(|key| ["level", "max_shape", "columns"].iter().any(|word| key.contains(word)))
            || matches!(*format, "tfrecord" | "indexed_binary" | "mmap_indexed_binary")
            || (*format == "csv" && second.len() > 1);
        let tellable = !untold;
        let other = run(&folder, format, first, &[]);
        // Samples that are missing from the files cannot be read.
        assert!(matches!(other.status.code(), Some(0 | 5)), "{name}: {}", stderr(&other));
        let noted = stdout(&other).contains("the data set differs from the configuration and is read unchanged");
        assert!(noted || !tellable, "{name}: {}", stdout(&other));
        if tellable {
            let printed = stdout(&run(&folder, format, first, &ONLY));
            assert!(printed.contains("generated 4 files"), "{name}: {printed}");
        }
        let printed = stdout(&run(&folder, format, first, &[&ONLY[..], &["--regenerate"]].concat()));
        assert!(printed.contains("generated 4 files"), "{name}: {printed}");
        assert!(stdout(&run(&folder, format, first, &ONLY)).contains("generated 0 files"), "{name}");
    }
}

#[test]
fn unreadable_fingerprint_is_reported() {
    let folder = Folder::new("damaged-print");
    assert!(run(&folder, "npz", &[], &ONLY).status.success());
    let print = folder.path().join("data/.dlio/train.img_of_4.npz.json");
    std::fs::write(&print, b"half a wo").unwrap();
    for more in [&ONLY[..], &[]] {
        let output = run(&folder, "npz", &[], more);
        assert_eq!(output.status.code(), Some(5), "{}", stdout(&output));
        assert!(stderr(&output).contains("train.img_of_4.npz.json"), "{}", stderr(&output));
    }
    assert!(run(&folder, "npz", &[], &[&ONLY[..], &["--regenerate"]].concat()).status.success());
    assert!(run(&folder, "npz", &[], &[]).status.success());
}

#[test]
fn killed_generation_is_resumed_and_cleaned_up() {
    let folder = Folder::new("killed-generation");
    let typed = [
        "bench",
        "workload=unet3d",
        GENERATE,
        "++workload.workflow.train=false",
        "++workload.workflow.checkpoint=false",
        "++workload.dataset.data_folder=data",
        "++workload.dataset.num_files_train=40",
        "++workload.dataset.record_length_bytes=4000000",
        "++workload.dataset.record_length_bytes_stdev=0",
    ];
    let mut child = command(&folder, &typed).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    // The writer is killed too, before it can finish its file.
    let writers = || {
        let id = child.id();
        let text = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
        text.split_whitespace().map(String::from).collect::<Vec<_>>()
    };
    let unfinished = || folder.files("data").into_iter().filter(|file| file.contains(".partial-")).collect::<Vec<_>>();
    // A writer that was started after the children were listed dies with its parent, a little later.
    let at_work = |file: &String| lives(file.rsplit('-').next().unwrap().parse().unwrap());
    until("a file is begun", || !unfinished().is_empty());
    let all = [writers(), vec![child.id().to_string()]].concat();
    Command::new("kill").arg("-KILL").args(&all).status().unwrap();
    child.wait().unwrap();
    until("its writers end", || !unfinished().iter().any(at_work));
    // Fewer and smaller files would have different names; these have the same.
    let short: Vec<&str> = typed.iter().copied().chain(["-q"]).collect();
    let output = dlio(&folder, &short);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(unfinished(), Vec::<String>::new());
    std::fs::remove_dir_all(folder.path().join("data")).unwrap();
}
