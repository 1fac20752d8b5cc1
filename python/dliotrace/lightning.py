"""A callback for Lightning that logs the report at the end of a training:

    trainer = lightning.Trainer(callbacks=[dliotrace.lightning.LogReport()], logger=WandbLogger())
"""

import sys

from dliotrace import report

# A trainer needs callbacks of its own package; Lightning has two, and the program has imported one of them.
if "lightning.pytorch" in sys.modules or "pytorch_lightning" not in sys.modules:
    from lightning.pytorch.callbacks import Callback
else:
    from pytorch_lightning.callbacks import Callback


class LogReport(Callback):
    """Logs the report of this run to all loggers of the trainer when `fit` ends. Only the first rank does it."""

    def __init__(self, trace=None):
        """``trace`` is the path of the trace [default: that of this process]."""
        self.trace = trace

    def on_fit_end(self, trainer, pl_module):
        if trainer.is_global_zero:
            report.log_at_end(trainer.loggers, self.trace)
