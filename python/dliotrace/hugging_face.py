"""A callback for Hugging Face's Trainer that logs the report at the end of a training:

    Trainer(model, arguments, train_dataset=data, callbacks=[dliotrace.hugging_face.LogReport()])
"""

import sys

from dliotrace import report
from transformers import TrainerCallback


class LogReport(TrainerCallback):
    """Logs the report of this run when `train` ends. Only the first rank does it."""

    def __init__(self, *targets, trace=None):
        """``targets`` are those of `dliotrace.report.log_to` [default: the active runs of W&B and MLflow]; ``trace`` is the path of the
        trace [default: that of this process]."""
        self.targets, self.trace = targets, trace
        self._active = []

    def on_train_begin(self, args, state, control, **kwargs):
        # The integration of MLflow ends its run before on_train_end of this callback.
        self._active = [] if self.targets else list(_active_runs())

    def on_train_end(self, args, state, control, **kwargs):
        if state.is_world_process_zero:
            report.log_at_end(self.targets or self._active, self.trace)


def _active_runs():
    """Yields the active runs of the trackers that this program has imported."""
    wandb, mlflow = (sys.modules.get(name) for name in ("wandb", "mlflow"))
    if getattr(wandb, "run", None) is not None:
        yield wandb.run
    if mlflow is not None and (run := mlflow.active_run()) is not None:
        yield run
