"""Logs the result of a trace where experiments are tracked: Weights & Biases, MLflow, TensorBoard.

    run = wandb.init(project="training")
    ...
    dliotrace.report.log_to(run)

`log_to` logs the verdict, its numbers and the findings, and attaches the report as a page. It may run in the traced program, at its end,
or later with the trace of a finished program. `dliotrace.lightning` and `dliotrace.hugging_face` have callbacks that call it.

The trackers are never imported here: only objects that the program passes are used.
"""

import os
import sys

# The prefix of every name that is logged.
PREFIX = "dlio"
# The name of the attached page.
PAGE = "dlio-report.html"
# Values of tags in MLflow's stores have at most 5,000 characters.
LONGEST_TAG = 5000


class TargetError(TypeError):
    """The object is not a tracker, or its run is not active."""


def log_to(target, trace=None, *, step=None):
    """Logs the result of a trace to ``target``, and returns the numbers that were logged.

    ``target`` is a run of W&B (``wandb.init()``), a run of MLflow (``mlflow.start_run()``) or the module ``mlflow`` with an active run, a
    ``SummaryWriter`` of PyTorch or tensorboardX, or a logger of Lightning. ``trace`` is the result of ``dliotrace.open``, or a path
    [default: the trace that this process writes, or ./dlio-trace]. ``step`` is the step of numbers in TensorBoard and MLflow.

    Unknown values are not logged. Raises TargetError for another target, and TraceError if the trace cannot be analyzed.
    """
    write = _writer(target)
    opened = _opened(trace)
    numbers, texts = figures(opened.summary), sentences(opened)
    write(numbers, texts, str(opened.html()), step)
    return numbers


def traced_into():
    """Returns the directory into which this process is traced, or None."""
    return os.environ.get("DLIO_TRACE_DIR") if os.environ.get("DLIO_TRACE") != "0" else None


def figures(summary):
    """Returns the known numbers of a report by name. Times are seconds, and shares are between 0 and 1."""
    # Waits and their causes are null if the trace does not show them.
    trainings = [training for training in summary.training if training.trained_ns and training.waited_ns is not None]
    trained, waited = (sum(training[name] for training in trainings) for name in ("trained_ns", "waited_ns"))
    causes = {}
    for cause, ns in (part for training in trainings for part in (training.causes or {}).items()):
        causes[cause] = causes.get(cause, 0) + ns
    found = [finding for finding in summary.findings if finding.state == "fired"]
    values = {
        "wait_share": waited / trained if trained else None,
        "training_s": _seconds(trained) if trained else None,
        "wait_s": _seconds(waited) if trained else None,
        **{f"wait_cause/{cause}_s": _seconds(ns) for cause, ns in causes.items()},
        "run_s": _seconds(summary.time.total_ns),
        "io_s": _seconds(summary.time.io_ns),
        "compute_s": _seconds(summary.time.compute_ns),
        "bytes_read": summary.dataset.bytes_read,
        "bytes_written": summary.dataset.bytes_written,
        "events": summary.allocation.events,
        "events_lost": summary.allocation.lost,
        "findings": len(found),
        **{f"finding/{finding.id}_s": _seconds(finding.worth_ns) for finding in found},
    }
    return {f"{PREFIX}/{name}": value for name, value in values.items() if value is not None}


def sentences(trace):
    """Returns the words of a report by name."""
    verdict = trace.verdict
    values = {
        "verdict": verdict.text,
        "bottleneck": verdict.bottleneck,
        "certainty": verdict.certainty,
        "why": verdict.why,
        "next": verdict.next,
        "findings_text": "\n".join(f"{finding.id}: {finding.sentence}" for finding in trace.findings),
    }
    return {name: value for name, value in values.items() if value}


def _seconds(ns):
    return None if ns is None else ns / 1e9


def _opened(trace):
    import dliotrace

    if hasattr(trace, "summary"):
        return trace
    return dliotrace.open(trace or traced_into() or "dlio-trace")


def _writer(target):
    """Returns the function that writes to a target."""
    kind = type(target)
    package = kind.__module__.partition(".")[0]
    if getattr(target, "__name__", None) in ("wandb", "mlflow"):
        return _writer(_active_run(target))
    if package == "wandb" and kind.__name__ == "Run":
        return lambda *values: _write_wandb(target, *values)
    if package == "mlflow" and hasattr(target, "info"):
        return lambda *values: _write_mlflow(sys.modules["mlflow"].MlflowClient(), target.info.run_id, *values)
    if kind.__name__ == "SummaryWriter":
        return lambda *values: _write_tensorboard(target, *values)
    if package in ("lightning", "pytorch_lightning", "lightning_fabric"):
        return _writer_of_logger(target)
    raise TargetError(
        f"cannot log to an object of {kind.__module__}.{kind.__qualname__}: it is not a known tracker; pass a run of W&B or MLflow, a "
        "SummaryWriter or a logger of Lightning, or log the result of dliotrace.report.figures(trace.summary)"
    )


def _active_run(module):
    run = module.run if module.__name__ == "wandb" else module.active_run()
    if run is None:
        start = {"wandb": "wandb.init()", "mlflow": "mlflow.start_run()"}[module.__name__]
        raise TargetError(f"cannot log to {module.__name__}: no run is active; call {start} first")
    return run


def _writer_of_logger(logger):
    bases = {base.__name__ for base in type(logger).__mro__}
    if "MLFlowLogger" in bases:
        return lambda *values: _write_mlflow(logger.experiment, logger.run_id, *values)
    if bases & {"WandbLogger", "TensorBoardLogger"}:
        return _writer(logger.experiment)
    if hasattr(logger, "log_metrics"):
        return lambda *values: _write_logger(logger, *values)
    raise TargetError(f"cannot log to {type(logger).__name__}: it is not a logger; pass one of trainer.loggers")


def _write_wandb(run, numbers, texts, page, _step):
    run.summary.update({**numbers, **{f"{PREFIX}/{name}": text for name, text in texts.items()}})
    run.log({f"{PREFIX}/report": sys.modules["wandb"].Html(page)})


def _write_mlflow(client, run, numbers, texts, page, step):
    for name, number in numbers.items():
        client.log_metric(run, name, number, step=step or 0)
    for name, text in texts.items():
        client.set_tag(run, f"{PREFIX}.{name}", text[:LONGEST_TAG])
    client.log_text(run, page, PAGE)


def _write_tensorboard(writer, numbers, texts, page, step):
    for name, number in numbers.items():
        writer.add_scalar(name, number, step)
    # TensorBoard shows Markdown and no pages: the page is next to its files.
    directory = getattr(writer, "log_dir", None) or writer.logdir
    path = os.path.join(directory, PAGE)
    with open(path, "w", encoding="utf-8") as file:
        file.write(page)
    rows = [f"**{name}**: {text}" for name, text in texts.items() if name != "findings_text"]
    rows += [f"* {line}" for line in texts.get("findings_text", "").splitlines()]
    writer.add_text(f"{PREFIX}/report", "\n\n".join([*rows, f"The whole report is in `{path}`."]), step)
    writer.flush()


def _write_logger(logger, numbers, _texts, page, step):
    logger.log_metrics(numbers, step)
    directory = getattr(logger, "log_dir", None) or getattr(logger, "save_dir", None)
    if directory:
        os.makedirs(directory, exist_ok=True)
        with open(os.path.join(directory, PAGE), "w", encoding="utf-8") as file:
            file.write(page)
    logger.save()


def log_at_end(targets, trace):
    """Logs at the end of a training, for the callbacks. A training never fails because of its report: errors become warnings."""
    import warnings

    if trace is None and traced_into() is None:
        warnings.warn("dliotrace: this training is not traced, so nothing is logged; start it with `dlio trace --`", stacklevel=2)
        return
    from dliotrace import TraceWarning

    with warnings.catch_warnings():
        # The trace of a program that still runs is never complete.
        warnings.simplefilter("ignore", TraceWarning)
        for target in targets:
            try:
                log_to(target, trace)
            except Exception as error:  # a tracker may raise anything
                warnings.warn(f"dliotrace: cannot log the report: {error}", stacklevel=2)
