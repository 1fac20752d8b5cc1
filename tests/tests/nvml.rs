//! Tests the samples of GPUs in `dlio trace --gpu`, with a library in place of the driver's: `tests/gpu/nvml.c`.

use std::process::{Command, Output};

use dlio_tests::artefacts;
use dlio_tests::compile::compile;
use dlio_tests::home;
use dlio_tests::sandbox::Sandbox;

struct Host {
    sandbox: Sandbox,
}

impl Host {
    /// Creates a host whose driver has these properties.
    fn new(name: &str, flags: &[&str]) -> Host {
        let sandbox = Sandbox::new(name).unwrap();
        let library = sandbox.root().join("libnvidia-ml.so.1");
        compile(&home().join("gpu/nvml.c"), &library, &[&["-shared", "-fPIC"], flags].concat()).unwrap();
        Host { sandbox }
    }

    /// Traces a command of two seconds.
    fn trace(&self, options: &[&str], variables: &[(&str, &str)]) -> Output {
        let mut dlio = Command::new(artefacts::command("dlio").unwrap());
        dlio.args(["trace", "-o"]).arg(self.sandbox.trace()).args(options).args(["--", "sleep", "2.5"]);
        dlio.env("DLIO_LIB", artefacts::library().unwrap()).env("LD_LIBRARY_PATH", self.sandbox.root());
        dlio.envs(variables.iter().copied()).output().unwrap()
    }

    fn rows(&self, sql: &str) -> Vec<String> {
        let mut command = Command::new(artefacts::command("dlio-analyze").unwrap());
        let output = command.arg(self.sandbox.trace()).args(["--sql", sql, "--format", "csv"]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).lines().skip(1).map(str::to_string).collect()
    }

    fn counters(&self) -> Vec<String> {
        self.rows(
            "select scope, counter, unit, min(value), max(value) >= 3 or counter not in ('gpu_busy')
            from machine where counter like 'gpu%' group by 1, 2, 3 order by 1, 2",
        )
    }

    fn head(&self) -> String {
        let mut files = std::fs::read_dir(self.sandbox.trace()).unwrap().map(|entry| entry.unwrap().path());
        let file = files.find(|path| path.extension().is_some_and(|ending| ending == "machine")).unwrap();
        std::fs::read_to_string(file).unwrap()
    }
}

#[test]
fn gpus_are_sampled() {
    let host = Host::new("nvml.sampled", &[]);
    let output = host.trace(&["--gpu"], &[("FAKE_NVML_GPUS", "2")]);
    assert!(output.status.success() && !String::from_utf8_lossy(&output.stderr).contains("GPU"), "{output:?}");
    let expected = [
        "0,gpu_busy,percent,1,true",
        "0,gpu_memory_busy,percent,0,true",
        "0,gpu_memory_used,bytes,8589934592,true",
        // The other counter has 32 bits.
        "0,gpu_pcie_received,bytes,198000,true",
        "0,gpu_power,mW,70001,true",
        "1,gpu_busy,percent,11,true",
        "1,gpu_memory_busy,percent,1,true",
        "1,gpu_memory_used,bytes,17179869184,true",
        "1,gpu_pcie_received,bytes,198000,true",
        "1,gpu_pcie_sent,bytes,197000,true",
        "1,gpu_power,mW,70001,true",
    ];
    assert_eq!(host.counters(), expected);
    assert!(host.head().contains("fact\tgpus\t0 GPU-000 Fake GPU; 1 GPU-001 Fake GPU\n"), "{}", host.head());
}

#[test]
fn missing_numbers_are_absent() {
    let host = Host::new("nvml.old", &["-DOLD"]);
    host.trace(&["--gpu"], &[("FAKE_NVML_GPUS", "3"), ("FAKE_NVML_DIVIDED", "0"), ("FAKE_NVML_FORBIDDEN", "1")]);
    let expected = [
        "0,gpu_memory_used,bytes,8589934592,true",
        "2,gpu_busy,percent,21,true",
        "2,gpu_memory_busy,percent,2,true",
        "2,gpu_memory_used,bytes,25769803776,true",
    ];
    assert_eq!(host.counters(), expected);
    assert!(host.head().contains("fact\tgpus\t0 GPU-000; 2 GPU-002\n"), "{}", host.head());
}

#[test]
fn lost_device_has_no_later_values() {
    let host = Host::new("nvml.lost", &[]);
    host.trace(&["--gpu"], &[("FAKE_NVML_GPUS", "2"), ("FAKE_NVML_LOST_AFTER", "1")]);
    let last =
        "select scope, max(value) filter (where counter = 'gpu_busy'), max(value) filter (where counter = 'gpu_lost'),
        max(ts) = max(ts) filter (where counter = 'gpu_lost')
        from machine where counter like 'gpu%' group by 1 order by 1";
    let rows = host.rows(last);
    assert!(rows[0].ends_with(",,"), "{rows:?}");
    assert_eq!(rows[1], "1,11,1,true");
}

#[test]
fn reason_for_missing_samples_is_printed() {
    let host = Host::new("nvml.failed", &[]);
    let errors = |options: &[&str], variables: &[(&str, &str)]| {
        let output = host.trace(options, variables);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let message = "dlio: cannot sample GPUs (--gpu): ";
    for (variables, cause) in [
        (("FAKE_NVML_INIT", "9"), "nvmlInit failed: driver not loaded\n"),
        (("FAKE_NVML_GPUS", "0"), "the driver of NVIDIA lists no GPU\n"),
        (("FAKE_NVML_FORBIDDEN", "0"), "no GPU may be queried; check the permissions of /dev/nvidia*\n"),
        (("LD_LIBRARY_PATH", "/nowhere"), "no driver of NVIDIA: libnvidia-ml.so.1 cannot be loaded\n"),
    ] {
        let printed = errors(&["--gpu"], &[variables]);
        assert!(printed.contains(&format!("{message}{cause}")), "{printed}");
    }
    assert!(!errors(&[], &[("FAKE_NVML_INIT", "9")]).contains(message));
    assert_eq!(host.counters(), [""; 0]);
}
