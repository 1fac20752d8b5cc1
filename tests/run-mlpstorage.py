#!/usr/bin/env python3
"""Runs the documented command lines of MLPerf Storage's own program, scaled down, with `dlio_benchmark` instead of DLIO.

    tests/run-mlpstorage.py COMMAND

COMMAND starts `mlpstorage` here: one word, or several in quotes. It is not installed, because no registry has a package of it.
The command lines are those of its version 2. `mlpstorage` needs `mpirun`.

Checks that the child processes of `mlpstorage` succeed, that every file its report reads exists, and that the report recognizes each
run and computes the same verdict as `dlio check mlperf`.
"""

import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

DIST = pathlib.Path(os.environ["DLIO_BIN_DIR"])


class Storage:
    """Runs mlpstorage with a separate directory for all output."""

    def __init__(self, command: list[str], folder: pathlib.Path):
        self.command, self.folder = command, folder
        self.environment = dict(os.environ, HOME=str(folder))
        self.results = folder / "results"

    def run(self, *words: str) -> str:
        typed = [*self.command, *words, "--results-dir", str(self.results)]
        done = subprocess.run(typed, env=self.environment, cwd=self.folder, capture_output=True, text=True, timeout=300)
        said = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)
        # mlpstorage reports success even if its child processes fail, so their files are checked.
        if done.returncode != 0:
            sys.exit(f"{shlex.join(typed)}: {done.returncode}\n{said}")
        print("ok  ", shlex.join(["mlpstorage", *words]), flush=True)
        return said

    def last(self, *path: str) -> pathlib.Path:
        return max((self.results.joinpath(*path)).iterdir())


def expect(holds: bool, what: str) -> None:
    if not holds:
        sys.exit(f"does not hold: {what}")


def summary(run: pathlib.Path, ranks: int) -> dict:
    """Checks the files that its report reads, and the files of every rank."""
    expect((run / "dlio_config" / "config.yaml").exists(), f"{run}: config.yaml")
    expect((run / "dlio_config" / "overrides.yaml").exists(), f"{run}: overrides.yaml")
    for rank in range(ranks):
        expect((run / f"{rank}_output.json").exists(), f"{run}: output of rank {rank}")
    said = json.loads((run / "summary.json").read_text())
    expect(said["num_accelerators"] == ranks and said["status"] == "success", f"{run}: {said['status']}")
    return said


def train(storage: Storage, model: str, accelerator: str, data: list[str], reading: list[str]) -> None:
    place = ["--hosts", "127.0.0.1", "--dlio-bin-path", str(DIST), "--allow-run-as-root", "--oversubscribe"]
    hosts = ["--num-client-hosts", "1", "--client-host-memory-in-gb", "1"]
    folder = ["--data-dir", f"{model}_data"]
    say = ["training", "datasize", "-m", model, "-g", accelerator, "--max-accelerators", "4", *hosts]
    expect("Number of training files" in storage.run(*say), "datasize says a number")
    storage.run("training", "datagen", "-m", model, "--num-processes", "2", *folder, *place, "--param", *data)
    files = list((storage.folder / f"{model}_data" / model / "train").rglob("*.*"))
    expect(len([file for file in files if ".dlio" not in file.parts]) > 0, f"{model} has data")
    run = ["training", "run", "-m", model, "-g", accelerator, "--num-accelerators", "2", *hosts, *folder, *place]
    checkpoints = ["--checkpoint-folder", f"{model}_checkpoints"] if model == "unet3d" else []
    storage.run(*run, *checkpoints, "--allow-invalid-params", "--param", *data, *reading)
    said = summary(storage.last("training", model, "run"), 2)
    expect(said["metric"]["train_au_mean_percentage"] > 0, f"{model} has a utilization")


def checkpoint(storage: Storage, model: str) -> None:
    say = ["checkpointing", "datasize", "-m", model, "--num-processes", "8", "--client-host-memory-in-gb", "1"]
    storage.run(*say, "--checkpoint-folder", "checkpoints")
    small = ["num_layers=2", "transformer.vocab_size=1000", "transformer.hidden_size=256", "transformer.ffn_hidden_size=512"]
    keys = [f"model.{key}" for key in small] + ["checkpoint.time_between_checkpoints=0"]
    place = ["--dlio-bin-path", str(DIST), "--allow-run-as-root", "--oversubscribe", "--hosts", "127.0.0.1"]
    numbers = ["--num-checkpoints-write", "2", "--num-checkpoints-read", "2"]
    run = ["checkpointing", "run", "-m", model, "--num-processes", "8", "--client-host-memory-in-gb", "1"]
    storage.run(*run, *numbers, "--checkpoint-folder", "checkpoints", *place, "--param", *keys)
    said = summary(storage.last("checkpointing", model), 8)["metric"]
    for key in ["save_checkpoint_io_mean_GB_per_second", "load_checkpoint_io_mean_GB_per_second"]:
        expect(said[key] > 0, f"{model}: {key}")


def verdicts(storage: Storage) -> None:
    said = storage.run("reports", "reportgen")
    runs = json.loads((storage.results / "results.json").read_text())
    expect((storage.results / "results.csv").stat().st_size > 0, "results.csv")
    expect(len(runs) == 7, f"{len(runs)} runs are reported")
    for run in runs:
        theirs = re.search(rf"Benchmark run (?:is|qualifies for) (\w+).*\({re.escape(run['run_id'])}\)", said)
        check = subprocess.run([DIST / "dlio", "check", "mlperf", run["run_id"], "--format", "json"], capture_output=True, text=True)
        ours = json.loads(check.stdout)
        print(f"      {run['model']}: {theirs and theirs[1]} there, accepted as open: {ours['accepted']['open']} here", flush=True)
        # Runs are invalid here because of checks beyond our tests (use of the accelerators, fsync).
        if theirs and theirs[1] == "INVALID":
            expect(ours["accepted"]["open"] == "no", f"{run['run_id']} is invalid")


def main() -> None:
    words = shlex.split(" ".join(sys.argv[1:]))
    if not words or not shutil.which(words[0]):
        sys.exit("name what starts mlpstorage: make test-mlpstorage MLPSTORAGE='COMMAND'")
    if not shutil.which("mpirun"):
        sys.exit("mlpstorage types mpirun, which is not here: apt-get install openmpi-bin")
    with tempfile.TemporaryDirectory() as folder:
        storage = Storage(words, pathlib.Path(folder))
        few = ["dataset.num_files_train=8", "dataset.record_length_bytes=100000", "dataset.record_length_bytes_stdev=0"]
        train(storage, "unet3d", "h100", few, ["reader.batch_size=2", "train.computation_time=0.01", "checkpoint.checkpoint_after_epoch=1"])
        samples = ["dataset.num_files_train=4", "dataset.num_samples_per_file=16", "dataset.record_length_bytes=10000"]
        train(storage, "resnet50", "a100", samples, ["reader.batch_size=4", "train.computation_time=0.01"])
        train(storage, "cosmoflow", "h100", few, ["reader.read_threads=2", "train.computation_time=0.01"])
        for model in ["llama3-8b", "llama3-70b", "llama3-405b", "llama3-1t"]:
            checkpoint(storage, model)
        verdicts(storage)
    print("mlpstorage runs on dlio")


if __name__ == "__main__":
    main()
