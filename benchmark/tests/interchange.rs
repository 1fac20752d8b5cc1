//! Data sets are exchanged in both directions: NumPy, h5py, Pillow, pandas and a record parser read what dlio
//! generates, and dlio reads what they write in DLIO's layout. The other side is a Python program that exits with 42.

mod program;

use program::{Folder, dlio, stderr};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const MODULES: &str = "numpy h5py pandas pillow pyarrow";

fn python() -> PathBuf {
    let python = std::env::var_os("DLIO_TEST_PYTHON").map_or_else(|| PathBuf::from("python3"), PathBuf::from);
    let probe = Command::new(&python).args(["-c", "import numpy, h5py, pandas, PIL, pyarrow"]).output();
    let works = probe.is_ok_and(|output| output.status.success());
    assert!(
        works,
        "{} cannot import {MODULES}: make a virtual environment with them (python3 -m venv V; V/bin/pip install {MODULES}) \
         and set DLIO_TEST_PYTHON=V/bin/python",
        python.display()
    );
    python
}

fn script(name: &str, arguments: &[&str]) {
    let path = Path::new(&std::env::var("CARGO_MANIFEST_DIR").unwrap()).join("../tests/benchmark").join(name);
    let output = Command::new(python()).arg(path).args(arguments).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(42), "{name}: {printed}");
}

/// Returns the framework and loader that have a reader for the format.
fn framework(format: &str) -> [String; 2] {
    let (framework, loader) = if format == "tfrecord" { ("tensorflow", "tensorflow") } else { ("pytorch", "pytorch") };
    [format!("++workload.framework={framework}"), format!("++workload.reader.data_loader={loader}")]
}

fn generated(folder: &Folder, format: &str, compression: &str, files: u64, samples: u64, bytes: u64) {
    let name = if compression == "none" { format.to_string() } else { format!("{format}-{compression}") };
    let data = folder.path().join(name);
    let images = format == "jpeg" || format == "png";
    let output = dlio(
        folder,
        &[
            "bench",
            "-q",
            "workload=unet3d",
            "--verify",
            "++workload.workflow.generate_data=true",
            "++workload.workflow.train=false",
            "++workload.workflow.checkpoint=false",
            &format!("++workload.dataset.data_folder={}", data.display()),
            &format!("++workload.dataset.format={format}"),
            &format!("++workload.dataset.compression={compression}"),
            &format!("++workload.dataset.num_files_train={files}"),
            &format!("++workload.dataset.num_samples_per_file={}", if images { 1 } else { samples }),
            &format!("++workload.dataset.record_length_bytes={bytes}"),
            "++workload.dataset.record_length_bytes_stdev=0",
            &framework(format)[0],
            &framework(format)[1],
        ],
    );
    assert!(output.status.success(), "{format}: {}", stderr(&output));
}

#[test]
fn python_reads_generated_files() {
    let folder = Folder::new("ours");
    for format in ["npz", "npy", "hdf5", "csv", "tfrecord", "indexed_binary", "mmap_indexed_binary"] {
        generated(&folder, format, "none", 11, 3, 2500);
    }
    if cfg!(feature = "parquet") {
        generated(&folder, "parquet", "none", 11, 3, 2500);
    }
    for (format, compression) in [
        ("npz", "zip"),
        ("hdf5", "gzip"),
        ("hdf5", "lzf"),
        ("csv", "gzip"),
        ("csv", "bz2"),
        ("csv", "zip"),
        ("csv", "xz"),
    ] {
        generated(&folder, format, compression, 11, 3, 2500);
    }
    std::fs::remove_dir_all(folder.path().join("run")).ok();
    script("read_datasets.py", &[folder.text(), "11", "3", "50"]);
}

#[test]
fn parquet_columns_have_requested_types() {
    if !cfg!(feature = "parquet") {
        return;
    }
    let folder = Folder::new("columns");
    let typed = [
        "bench",
        "workload=dlrm_b200",
        "++workload.workflow.generate_data=true",
        "++workload.dataset.data_folder=data",
        "++workload.dataset.num_files_train=2",
        "++workload.dataset.num_samples_per_file=6144",
        "++workload.reader.batch_size=1024",
        "++workload.reader.read_threads=1",
    ];
    let output = dlio(&folder, &typed);
    assert!(output.status.success(), "{}", stderr(&output));
    let summary = folder.json("run/summary.json");
    let read = summary["epoch"][0]["bytes_read"].as_u64().unwrap();
    let all: u64 =
        folder.files("data/train").iter().map(|file| std::fs::metadata(folder.path().join(file)).unwrap().len()).sum();
    // 160 bytes of 761 in 40 columns of 200; integers of one byte are stored in four.
    assert!(read > 2 * 6144 * 160 && read * 3 < all, "{read} of {all}");
    let script = "
import glob, sys, pyarrow.parquet
for name in glob.glob('data/train/*.parquet'):
    table = pyarrow.parquet.read_table(name)
    assert table.num_rows == 6144 and table.num_columns == 200
    kinds = [str(table.schema.field(column).type) for column in range(200)]
    sizes = {'halffloat': 2, 'float': 4, 'double': 8, 'int8': 1}
    assert sum(sizes[kind] for kind in kinds) == 761, kinds
    assert 0.5 <= table.column('feature_000').to_pandas().min() and table.column('feature_000').to_pandas().max() < 1
    assert len(set(table.column('feature_007').to_pylist())) > 200
sys.exit(42)
";
    let output = Command::new(python()).args(["-c", script]).current_dir(folder.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(42), "{}", stderr(&output));
}

#[test]
fn pillow_reads_our_images() {
    let folder = Folder::new("images");
    for format in ["jpeg", "png"] {
        generated(&folder, format, "none", 3, 1, 90_000);
    }
    std::fs::remove_dir_all(folder.path().join("run")).ok();
    script("read_datasets.py", &[folder.text(), "3", "1", "300"]);
}

#[test]
fn reads_files_that_python_writes() {
    let folder = Folder::new("theirs");
    script("write_datasets.py", &[folder.text(), "6", "4", "40"]);
    let mut formats =
        vec!["npz", "npy", "hdf5", "csv", "jpeg", "png", "indexed_binary", "mmap_indexed_binary", "tfrecord"];
    formats.extend(["hdf5-gzip", "hdf5-lzf", "hdf5-chunks", "hdf5-one"]);
    if cfg!(feature = "parquet") {
        formats.extend(["parquet", "parquet-pandas"]);
    }
    for folder_name in formats {
        let format = folder_name.split('-').next().unwrap();
        let samples = if format == "jpeg" || format == "png" { 1 } else { 4 };
        let output = dlio(
            &folder,
            &[
                "bench",
                "-q",
                "workload=unet3d",
                "++workload.workflow.checkpoint=false",
                &format!("++workload.dataset.data_folder={}/{folder_name}", folder.text()),
                &framework(format)[0],
                &framework(format)[1],
                &format!("++workload.dataset.format={format}"),
                "++workload.dataset.num_files_train=6",
                &format!("++workload.dataset.num_samples_per_file={samples}"),
                "++workload.dataset.record_length_bytes=1600",
                "++workload.dataset.record_length_bytes_stdev=0",
                "++workload.reader.batch_size=2",
                "++workload.reader.read_threads=1",
                "++workload.train.epochs=1",
                "++workload.train.computation_time=0",
            ],
        );
        assert!(output.status.success(), "{folder_name}: {}", stderr(&output));
        let summary = folder.json("run/summary.json");
        assert!(summary["epoch"][0]["bytes_read"].as_u64().unwrap() >= 6 * samples * 800, "{folder_name}");
    }
}

#[test]
fn a_checkpoint_is_a_file_that_torch_loads() {
    let folder = Folder::new("torch");
    let output = dlio(
        &folder,
        &[
            "bench",
            "-q",
            "workload=unet3d",
            "++workload.workflow.generate_data=true",
            "++workload.dataset.num_files_train=2",
            "++workload.dataset.record_length_bytes=2500",
            "++workload.reader.batch_size=1",
            "++workload.train.epochs=1",
            "++workload.train.computation_time=0",
            "++workload.checkpoint.checkpoint_after_epoch=1",
            "++workload.checkpoint.fsync=true",
            "++workload.model.model_size_bytes=3000001",
        ],
    );
    assert!(output.status.success(), "{}", stderr(&output));
    let file = folder.path().join("checkpoints/unet3d/global_epoch1_step3/model_states-0.pt");
    script("read_checkpoint.py", &[file.to_str().unwrap(), "3000001"]);
}

#[test]
fn chunks_that_h5py_packs_are_read_to_the_last_byte() {
    for layout in ["earliest", "v114", "latest"] {
        let folder = Folder::new("repacked");
        generated(&folder, "hdf5", "none", 9, 5, 2500);
        script("repack_hdf5.py", &[&format!("{}/hdf5/train", folder.text()), layout]);
        let output = read_repacked(&folder, 9, 5);
        assert!(output.status.success(), "{layout}: {}", stderr(&output));
    }
}

/// Trains on files that another program converted from those in the directory, and compares every byte.
fn read_repacked(folder: &Folder, files: u64, samples: u64) -> Output {
    std::fs::remove_dir_all(folder.path().join("hdf5/.dlio")).unwrap();
    let numbers = [
        format!("++workload.dataset.data_folder={}/hdf5", folder.text()),
        format!("++workload.dataset.num_files_train={files}"),
        format!("++workload.dataset.num_samples_per_file={samples}"),
    ];
    let rest = [
        "bench",
        "-q",
        "workload=unet3d",
        "--verify",
        "++workload.workflow.checkpoint=false",
        "++workload.dataset.format=hdf5",
        "++workload.dataset.record_length_bytes=2500",
        "++workload.dataset.record_length_bytes_stdev=0",
        "++workload.reader.batch_size=2",
        "++workload.train.epochs=1",
        "++workload.train.computation_time=0",
    ];
    dlio(folder, &rest.iter().copied().chain(numbers.iter().map(String::as_str)).collect::<Vec<_>>())
}

#[test]
fn missing_hdf5_filter_is_named() {
    for layout in ["v114", "latest"] {
        let folder = Folder::new("szip");
        generated(&folder, "hdf5", "none", 1, 2, 2500);
        script("repack_hdf5.py", &[&format!("{}/hdf5/train", folder.text()), layout, "szip"]);
        let output = read_repacked(&folder, 1, 2);
        assert_eq!(output.status.code(), Some(5), "{}", stderr(&output));
        assert!(stderr(&output).contains("the filter szip"), "{layout}: {}", stderr(&output));
    }
}
