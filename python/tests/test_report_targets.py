"""Tests `dliotrace.report` with the real trackers, offline: W&B, MLflow, TensorBoard, and the callbacks of Lightning and Hugging Face."""

import copy
import importlib.util
import os
import struct
import sys
import unittest
import warnings
from pathlib import Path
from unittest import mock

import dliotrace
from dliotrace import report
from test_analysis import OfOneTraining
from traces import HERE, TracedTest


def needs(*packages):
    """Skips a test without these packages."""
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    return unittest.skipIf(missing, f"{', '.join(missing)} is not installed; `make test-trackers` installs the trackers")


def lines_of(path):
    return Path(path).read_text(encoding="utf-8").splitlines()


def tensorboard_values(directory):
    """Returns the numbers and texts in the event files of a directory, by tag."""
    from tensorboardX.proto.event_pb2 import Event

    found = {}
    for file in Path(directory).rglob("events.out.*"):
        stored, at = file.read_bytes(), 0
        while at < len(stored):
            (length,) = struct.unpack_from("<Q", stored, at)
            event = Event.FromString(stored[at + 12 : at + 12 + length])
            at += 16 + length
            for value in event.summary.value:
                found[value.tag] = value.tensor.string_val[0].decode() if value.tensor.string_val else value.simple_value
    return found


class Figures(OfOneTraining):
    """The numbers that every tracker receives."""

    def test_the_numbers_are_those_of_the_report(self):
        figures, summary = report.figures(self.trace.summary), self.trace.summary
        (training,) = summary.training
        self.assertAlmostEqual(figures["dlio/wait_share"], training.waited_ns / training.trained_ns)
        self.assertEqual(figures["dlio/wait_s"], training.waited_ns / 1e9)
        self.assertEqual(figures["dlio/wait_cause/storage_s"], training.causes["storage"] / 1e9)
        self.assertEqual(figures["dlio/bytes_read"], summary.dataset.bytes_read)
        self.assertEqual(figures["dlio/events_lost"], 0)
        self.assertEqual(figures["dlio/findings"], len(self.trace.findings))

    def test_unknown_values_are_left_out_and_not_zero(self):
        nothing = self.trace.filter(file="*/train.py")
        figures = report.figures(nothing.summary)
        self.assertNotIn("dlio/wait_share", figures)
        self.assertNotIn(None, figures.values())

    def test_trainings_without_known_waits_or_causes_count_as_unknown(self):
        summary = copy.deepcopy(self.trace.summary)
        summary.training[0]["causes"] = None
        figures = report.figures(summary)
        self.assertIn("dlio/wait_s", figures)
        self.assertNotIn("dlio/wait_cause/storage_s", figures)
        summary.training[0]["waited_ns"] = None
        self.assertEqual({"dlio/wait_s", "dlio/training_s"} & {*report.figures(summary)}, set())

    def test_another_object_is_rejected_before_the_trace_is_read(self):
        with self.assertRaisesRegex(report.TargetError, "cannot log to an object of builtins.dict: it is not a known tracker; pass a run"):
            report.log_to({}, "/nowhere")

    def test_no_tracker_is_imported(self):
        code = "import sys, dliotrace; dliotrace.report; print(sorted({'wandb', 'mlflow', 'torch', 'lightning', 'transformers'} & {*sys.modules}))"
        done = self.start(sys.executable, "-c", code)
        self.assertEqual((done.stdout, done.stderr), ("[]\n", ""))


class Trackers(OfOneTraining):
    """The trackers, with a trace of a finished program."""

    def assert_page(self, page):
        self.assertIn("<html", page[:200])
        self.assertIn(self.trace.verdict.text.partition(":")[0], page)

    @needs("wandb")
    def test_wandb(self):
        import wandb

        with self.assertRaisesRegex(report.TargetError, r"cannot log to wandb: no run is active; call wandb.init\(\) first"):
            report.log_to(wandb, self.place)
        with mock.patch.dict(os.environ, {"WANDB_SILENT": "true"}):
            self.addCleanup(wandb.teardown)
            run = wandb.init(project="dlio", mode="offline", dir=self.folder)
            logged = report.log_to(run, self.place)
            summary = dict(run.summary)
            run.finish()
        for name, number in logged.items():
            self.assertEqual(summary[name], number)
        self.assertEqual(summary["dlio/verdict"], self.trace.verdict.text)
        (page,) = Path(self.folder).rglob("*.html")
        self.assert_page(page.read_text(encoding="utf-8"))

    @needs("mlflow")
    def test_mlflow(self):
        import mlflow

        with mock.patch.dict(os.environ, {"MLFLOW_ALLOW_FILE_STORE": "true"}), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            mlflow.set_tracking_uri(Path(self.folder, "runs").as_uri())
            with self.assertRaisesRegex(report.TargetError, "no run is active; call mlflow.start_run"):
                report.log_to(mlflow, self.place)
            with mlflow.start_run() as run:
                logged = report.log_to(mlflow, self.trace, step=7)
                # A run that ended later accepts the report too.
            report.log_to(run, self.trace)
            stored = mlflow.get_run(run.info.run_id)
            self.assertEqual(stored.data.metrics, logged)
            self.assertEqual(stored.data.tags["dlio.verdict"], self.trace.verdict.text)
            steps = [metric.step for metric in mlflow.MlflowClient().get_metric_history(run.info.run_id, "dlio/wait_s")]
            self.assertEqual(sorted(steps), [0, 7])
            self.assert_page(mlflow.artifacts.load_text(f"{stored.info.artifact_uri}/{report.PAGE}"))

    @needs("tensorboardX")
    def test_tensorboard(self):
        import tensorboardX

        with tensorboardX.SummaryWriter(self.path("logs")) as writer:
            logged = report.log_to(writer, self.trace, step=40)
        found = tensorboard_values(self.path("logs"))
        for name, number in logged.items():
            self.assertAlmostEqual(found[name], number, delta=abs(number) * 1e-6)
        self.assertIn(self.trace.verdict.text, found["dlio/report/text_summary"])
        self.assert_page(Path(self.path("logs"), report.PAGE).read_text(encoding="utf-8"))


class Callbacks(TracedTest):
    """The callbacks, in a training that is being traced."""

    def run_training(self, name, *arguments, **variables):
        program = os.path.join(HERE, "programs", name)
        command = [sys.executable, "-m", "dliotrace", "run", "-q", "--torch", "-o", "trace", program]
        done = self.start(*command, *arguments, WANDB_SILENT="true", MLFLOW_ALLOW_FILE_STORE="true", **variables)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertNotIn("cannot log", done.stderr)
        return done

    @needs("torch", "lightning", "wandb", "tensorboardX")
    def test_lightning(self):
        self.run_training("report_lightning.py")
        found = tensorboard_values(self.path("tensorboard"))
        self.assertGreater(found["dlio/training_s"], 0)
        self.assertIn("verdict", found["dlio/report/text_summary"])
        self.assertEqual(len([*Path(self.path("wandb")).rglob("*.html")]), 1)
        self.assertIn("dlio/training_s", lines_of(next(Path(self.path("csv")).rglob("metrics.csv")))[0])
        # The report covers the training, and the trace of the program is complete.
        self.assertEqual(dliotrace.open(self.path("trace")).summary.allocation.lost, 0)

    @needs("torch", "transformers", "mlflow")
    def test_hugging_face(self):
        self.run_training("report_trainer.py", "mlflow")
        (page,) = Path(self.path("runs")).rglob(report.PAGE)
        self.assertIn("<html", page.read_text(encoding="utf-8")[:200])
        (wait,) = Path(self.path("runs")).rglob("training_s")
        self.assertGreater(float(wait.read_text(encoding="utf-8").split()[1]), 0)

    @needs("torch", "transformers")
    def test_a_training_that_is_not_traced_is_told_once_and_succeeds(self):
        done = self.start(sys.executable, os.path.join(HERE, "programs", "report_trainer.py"), "none")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("this training is not traced, so nothing is logged; start it with `dlio trace --`", done.stderr)


if __name__ == "__main__":
    unittest.main()
