//! Damaged input does not make a parser of this crate panic: runs the entry points of `tests/fuzz` for a bounded number
//! of rounds.

#[path = "../../tests/fuzz/src/benchmark.rs"]
mod parsers;
mod program;
#[path = "../../tests/fuzz/src/rounds.rs"]
mod rounds;

use dlio_benchmark::config::Config;
use dlio_benchmark::data_set::formats;
use dlio_benchmark::data_set::layout::Layout;
use dlio_benchmark::files::atomic_file::AtomicFile;
use dlio_benchmark::keys::value::parse_yaml;
use program::Folder;

/// Returns a file of a data set, as its format writes it.
fn written(format: &str) -> Vec<u8> {
    let folder = Folder::new("fuzz");
    let text = format!("{{dataset: {{format: {format}, num_samples_per_file: 3, record_length_bytes: 400}}}}");
    let mut config = Config::read(&parse_yaml("fuzz", &text).unwrap()).unwrap();
    config.dataset.folder = folder.path().to_path_buf();
    let layout = Layout::new(&config.dataset);
    layout.folders().into_iter().for_each(|folder| std::fs::create_dir_all(folder).unwrap());
    let spec = layout.spec(0, layout.shapes().at(0));
    let mut draft = AtomicFile::new(&spec.path).unwrap();
    formats::find(format).unwrap().write(&spec, &layout.dataset, &mut draft, &mut Vec::new()).unwrap();
    draft.commit().unwrap();
    std::fs::read(&spec.path).unwrap()
}

fn samples(entry: &str) -> Vec<Vec<u8>> {
    let texts = |all: &[&str]| all.iter().map(|text| text.as_bytes().to_vec()).collect();
    match entry {
        "overrides" => texts(&[
            "++workload.dataset.record_dims=[2, 3]",
            "workload=unet3d",
            "++workload.reader.batch_size=1,2,3",
            "+workload.train.computation_time={mean: 0.1, stdev: 1e-3, type: normal}",
            "~workload.reader.transfer_size",
            "hydra.run.dir='a b/${workload.model.name}'",
        ]),
        "yaml" | "workload" => ["unet3d_h100", "llama_7b", "dlrm", "default"]
            .map(|name| {
                let path = format!("{}/workloads/{name}.yaml", std::env::var("CARGO_MANIFEST_DIR").unwrap());
                std::fs::read(path).unwrap()
            })
            .into_iter()
            .chain(texts_of_values())
            .collect(),
        "zip_directory" => vec![written("npz")],
        "safetensors" => {
            let head = br#"{"a":{"dtype":"F16","shape":[2,3],"data_offsets":[0,12]},"__metadata__":{"x":"y"}}"#;
            vec![[&(head.len() as u64).to_le_bytes()[..], head, &[7; 12]].concat()]
        }
        "store_answer" => texts(&[
            "<Error><Code>SlowDown</Code><Message>a &lt;b&gt;</Message></Error>",
            "<ListBucketResult><Contents><Key>a&amp;b</Key></Contents><IsTruncated>true</IsTruncated></ListBucketResult>",
        ]),
        format => vec![written(format)],
    }
}

/// Returns values that parse differently from how they look.
fn texts_of_values() -> Vec<Vec<u8>> {
    let texts = [
        "a: &x [1, 2]\nb: *x\nc: ${a}\n",
        "a: off\nb: 0x1f\nc: 1_000\nd: .nan\ne: ~\n",
        "a: ${now:%Y}\nb: ${c}\nc: ${b}\n",
    ];
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

#[test]
fn damaged_input_does_not_panic() {
    rounds::run(parsers::ENTRIES, samples, 1500);
}
