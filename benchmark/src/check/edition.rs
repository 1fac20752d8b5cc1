//! The versions of MLPerf Storage's rules: workloads, limits, and keys that a submission may change.
//!
//! Rule numbers are those in `Submission_guidelines.md` for version 2.0 and in `Rules.md` for version 3.0.

/// Steps per epoch that a data set must contain.
pub const STEPS_MIN: u64 = 500;

/// A data set must be this many times as large as the memory of all hosts.
pub const TIMES_MEMORY: f64 = 5.0;

pub const GIB: f64 = (1u64 << 30) as f64;

/// Runs of a training workload: one that warms up, and five that count.
pub const RUNS: usize = 6;

/// Checkpoints that a submission writes, and then reads.
pub const CHECKPOINTS: u64 = 10;

/// Seconds between the last write and the first read of checkpoints, in version 3.
pub const FAILOVER_SECONDS: f64 = 30.0;

/// Checkpoints of a host need no emptied cache if they are this many times as large as its memory.
pub const CHECKPOINT_TIMES_MEMORY: f64 = 3.0;

/// Processes of a subset: the part of a checkpoint that one host writes.
pub const SUBSET: u64 = 8;

/// The difference that a system description and a measured memory may have: firmware and kernel reserve some.
pub const MEMORY_TOLERANCE: f64 = 0.10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    V2,
    V3,
}

impl Version {
    pub fn name(self) -> &'static str {
        match self {
            Version::V2 => "v2.0",
            Version::V3 => "v3.0",
        }
    }

    /// Returns the document that the numbers of rules belong to.
    pub fn document(self) -> &'static str {
        match self {
            Version::V2 => "Submission_guidelines.md",
            Version::V3 => "Rules.md",
        }
    }

    /// Returns the models that are trained, and the minimum utilization of their accelerators in percent.
    pub fn trained(self) -> &'static [(&'static str, f64)] {
        match self {
            Version::V2 => &[("unet3d", 90.0), ("resnet50", 90.0), ("cosmoflow", 70.0)],
            Version::V3 => &[("unet3d", 90.0), ("retinanet", 85.0)],
        }
    }

    pub fn accelerators(self) -> &'static [&'static str] {
        match self {
            Version::V2 => &["a100", "h100"],
            Version::V3 => &["b200", "mi355"],
        }
    }

    /// Returns the keys that a training run in the closed division may change.
    pub fn closed_keys(self) -> Vec<&'static str> {
        let own: &[&str] = match self {
            // The script of version 1.0 sets them.
            Version::V2 => &["profiling.profiler", "profiling.iostat_devices"],
            // MLPerf's program sets most of them itself.
            Version::V3 => &[
                "storage.storage_options.prefetch_window",
                "dataset.skip_listing",
                "dataset.listing_validation_interval",
                "dataset.num_files_generated",
                "dataset.total_disk_bytes",
            ],
        };
        [TRAINING_KEYS, self.storage_keys(), own].concat()
    }

    pub fn checkpoint_keys(self) -> Vec<&'static str> {
        let own: &[&str] = match self {
            // The benchmark sets the mode and the data parallelism of a subset.
            Version::V2 => &["checkpoint.mode", "model.parallelism.data"],
            Version::V3 => &[],
        };
        [CHECKPOINT_KEYS, self.storage_keys(), own].concat()
    }

    /// Returns the keys that describe where data and checkpoints are.
    fn storage_keys(self) -> &'static [&'static str] {
        match self {
            Version::V2 => &["storage.storage_type", "storage.storage_root"],
            Version::V3 => &[
                "storage.storage_type",
                "storage.storage_root",
                "storage.storage_options.storage_library",
                "storage.storage_options.uri_scheme",
                "storage.s3_force_path_style",
            ],
        }
    }
}

/// Models and accelerators that only one version has.
pub fn version_of(word: &str) -> Option<Version> {
    match word {
        "resnet50" | "cosmoflow" | "a100" | "h100" => Some(Version::V2),
        "retinanet" | "flux" | "dlrm" | "b200" | "mi355" => Some(Version::V3),
        _ => None,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Division {
    Closed,
    Open,
}

impl Division {
    pub fn name(self) -> &'static str {
        match self {
            Division::Closed => "closed",
            Division::Open => "open",
        }
    }

    /// Returns the division with a name in any case, as results and directories contain it.
    pub fn parse(name: &str) -> Option<Division> {
        [Division::Closed, Division::Open].into_iter().find(|division| division.name().eq_ignore_ascii_case(name))
    }
}

/// Keys that a training run may change in every version.
const TRAINING_KEYS: &[&str] = &[
    "dataset.num_files_train",
    "dataset.num_subfolders_train",
    "dataset.data_folder",
    "reader.read_threads",
    "reader.computation_threads",
    "reader.transfer_size",
    "reader.odirect",
    "reader.prefetch_size",
    "checkpoint.checkpoint_folder",
];

/// Keys that a run with checkpoints may change in every version.
const CHECKPOINT_KEYS: &[&str] =
    &["checkpoint.checkpoint_folder", "checkpoint.num_checkpoints_write", "checkpoint.num_checkpoints_read"];

/// Keys that a training run in the open division may change too.
pub const OPEN_KEYS: &[&str] = &["framework", "dataset.format", "dataset.num_samples_per_file", "reader.data_loader"];

/// A language model whose checkpoints are written.
pub struct LanguageModel {
    /// As MLPerf's directories spell it.
    pub name: &'static str,
    pub processes: u64,
    /// Tensor times pipeline parallelism: processes of one copy of the model.
    pub copy: u64,
}

pub const LANGUAGE_MODELS: &[LanguageModel] = &[
    LanguageModel { name: "llama3-8b", processes: 8, copy: 1 },
    LanguageModel { name: "llama3-70b", processes: 64, copy: 8 },
    LanguageModel { name: "llama3-405b", processes: 512, copy: 256 },
    LanguageModel { name: "llama3-1t", processes: 1024, copy: 512 },
];

/// Returns the language model that a name means: `llama3_8b`, `llama_8b` and `llama3-8b` are one model.
pub fn language_model(name: &str) -> Option<&'static LanguageModel> {
    let size = name.to_ascii_lowercase();
    let size = size.strip_prefix("llama")?.trim_start_matches('3').trim_start_matches(['-', '_', '.']).to_string();
    LANGUAGE_MODELS.iter().find(|model| model.name.ends_with(&format!("-{size}")))
}

/// Memory in GB of an accelerator of version 3.
pub fn accelerator_memory(name: &str) -> Option<f64> {
    match name {
        "b200" => Some(180.0),
        "mi355" => Some(288.0),
        "h100" | "a100" => Some(80.0),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_a_language_model_are_one_model() {
        for name in ["llama3_8b", "llama_8b", "llama3-8b", "LLAMA3-8B"] {
            assert_eq!(language_model(name).map(|model| model.processes), Some(8), "{name}");
        }
        assert_eq!(language_model("llama3-1t").map(|model| model.copy), Some(512));
        for name in ["llama_7b", "llama3", "unet3d", "llama_8b_zero3", "llama3-18b"] {
            assert!(language_model(name).is_none(), "{name}");
        }
    }
}
