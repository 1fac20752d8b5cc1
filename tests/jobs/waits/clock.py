"""The clocks of the jobs: where the readers' time goes, how long the training waits, and what the wait consists of.

A reader notes the time of everything that it waits for (``Work.at``). The rest of an item is divided by the CPU time of the
thread, so that a busy machine does not turn waiting for a CPU into work. The trainer (``Trainer``) measures each wait for a batch
and divides it by the work of the thread that made the batch:

* until the maker took its first item, it is the *start* of readers, and so is the work on that item beyond the usual: imports, opening;
* from the moment the item was made, it is *hand-over*, if the maker was not busy all the time;
* the rest is divided like the work on the item; if the maker itself waited, like the work on the item that it was made of.
"""

import collections
import contextlib
import os
import time

# Causes of stalls that are not waits for data. A child may belong to the training or to a reader.
OTHER = ("own-work", "other-rank", "checkpoint", "child")
# A maker that is busy for this share of its time limits the training: the work after one item is hidden by the next
# one.
SATURATED = 0.8
now = time.perf_counter

Record = collections.namedtuple("Record", "maker first begin end parts source")
Batch = collections.namedtuple("Batch", "content record")


class Work:
    """The work of one reader, item by item. ``rest``: what it waits for if it is in no call and does not run."""

    def __init__(self, rest="no-cpu"):
        self.rest, self.items = rest, 0
        self.maker = f"{os.getpid()}.{time.monotonic_ns()}"

    def begin(self, source=None):
        self.source, self.parts = source, collections.Counter()
        self.named_cpu = 0.0
        self.start, self.start_cpu = now(), time.thread_time()

    @contextlib.contextmanager
    def at(self, cause):
        """Everything in this block is a wait for ``cause``."""
        start, cpu = now(), time.thread_time()
        yield
        self.parts[cause] += now() - start
        self.named_cpu += time.thread_time() - cpu

    def end(self):
        """Returns the record of the item, which goes with the batch."""
        cpu, end = time.thread_time() - self.start_cpu - self.named_cpu, now()
        rest = max(end - self.start - sum(self.parts.values()), 0.0)
        self.parts["cpu"] += min(cpu, rest)
        self.parts[self.rest] += rest - min(cpu, rest)
        self.items += 1
        return tuple(Record(self.maker, self.items == 1, self.start, end, dict(self.parts), self.source))


def compute_for(seconds):
    """Keeps a CPU busy for this much of the thread's own time, however many others want the CPU."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(500))


class Trainer:
    """The training's own clock. ``assumed``: the cause of waits that no clock of the job can divide."""

    def __init__(self, assumed=None):
        self.assumed = assumed
        self.waits, self.other = [], collections.Counter()
        self.waited = 0.0
        self.start = self.stop = now()

    def fetch(self, batches):
        """The contents of the batches, with the time until each is there, and until there is no more. It includes `iter()`, which may start readers."""
        start = now()
        batches = iter(batches)
        while True:
            batch = next(batches, None)
            self.note(start, now(), batch and batch.record)
            if batch is None:
                return
            yield batch.content
            start = now()

    def note(self, start, end, record=None):
        """Notes a wait for data."""
        self.waited += end - start
        self.stop = max(self.stop, end)
        self.waits.append((start, end, Record(*record) if record else None))

    def compute(self, seconds):
        """A step on an accelerator: the training's thread sleeps."""
        time.sleep(seconds)
        self.stop = now()

    @contextlib.contextmanager
    def waiting_for(self, cause):
        """Time in which the training waits, but not for data."""
        start = now()
        yield
        self.other[cause] += now() - start
        self.stop = now()

    def causes(self):
        """The seconds of the wait for data by cause."""
        causes = collections.Counter()
        records = [record for *_, record in self.waits if record]
        busy, once = busy_parts(records), work_once(records)
        for start, end, record in self.waits:
            if record:
                causes.update(explain(start, end, record, busy, once))
            elif self.assumed:
                causes[self.assumed] += end - start
        return causes

    def result(self):
        """The job's last line."""
        trained, causes = self.stop - self.start, self.causes()
        causes.update(self.other)
        return summary(trained, self.waited, causes)


def busy_parts(records):
    """Returns the part of its time for which each maker was busy."""
    spans = {}
    for record in records:
        while record:
            first, last, busy = spans.get(record.maker, (record.begin, record.end, 0.0))
            spans[record.maker] = (first, max(last, record.end), busy + record.end - record.begin)
            record = Record(*record.source) if record.source else None
    return {maker: busy / max(last - first, 1e-9) for maker, (first, last, busy) in spans.items()}


def work_once(records):
    """Returns the time that each maker worked on its first item beyond the usual, if that is much; without what it waited for."""
    work = collections.defaultdict(list)
    for record in records:
        work[record.maker].append((not record.first, record.parts.get("cpu", 0) + record.parts.get("no-cpu", 0)))
    once = {}
    for maker, items in work.items():
        (is_later, first), *others = sorted(items)
        usual = sorted(seconds for _, seconds in others)
        more = first - usual[len(usual) // 2] if others and not is_later else 0
        once[maker] = more if others and more > max(0.02, usual[len(usual) // 2]) else 0
    return once


def explain(start, end, record, busy, once):
    """Divides the wait from ``start`` to ``end`` for this item."""
    causes = collections.Counter()
    if record.first:
        begun = min(max(record.begin, start), end)
        causes["start"] += begun - start
        start = begun
    starved = busy[record.maker] < SATURATED
    if starved:
        made = min(max(record.end, start), end)
        causes["handover"] += end - made
        end = made
    while starved and record.source:
        record = Record(*record.source)
        starved = busy[record.maker] < SATURATED
    parts = collections.Counter(record.parts)
    if record.first:
        worked = max(parts["cpu"] + parts["no-cpu"], 1e-9)
        part = min(once.get(record.maker, 0) / worked, 1)
        for cause in ("cpu", "no-cpu"):
            parts["start"] += part * parts[cause]
            parts[cause] *= 1 - part
    total = sum(parts.values())
    for cause, seconds in parts.items():
        causes[cause] += seconds / max(total, 1e-9) * (end - start)
    return causes


def summary(trained, waited, causes):
    """The last line of a job: what is true, and which claims are false."""
    causes = {cause: round(seconds, 3) for cause, seconds in causes.items() if seconds >= 0.001}
    relevant = {cause: seconds for cause, seconds in causes.items() if cause in OTHER or waited >= 0.05 * trained}
    cause = max(relevant, key=relevant.get, default="none")
    if relevant.get(cause, 0) < 0.05 * trained:
        cause = "none"
    return {
        "trained_s": round(trained, 3), "waited_s": round(waited, 3), "causes": causes, "cause": cause,
        "not": false_claims(trained, waited, causes),
    }


def false_claims(trained, waited, causes):
    """The claims that would be false, by the names that ``verdicts.py`` has for them."""
    claims = []
    if waited < 0.03 * trained:
        claims += ["waited", "storage", "decoding", "both"]
    else:
        of = lambda *names: sum(causes.get(name, 0) for name in names) / waited
        storage, cpu = of("storage", "page-faults"), of("cpu", "no-cpu", "gil")
        if waited > 0.07 * trained:
            claims.append("no wait")
        if storage >= 0.3 or of("unknown") >= 0.5:
            claims.append("not storage")
        if storage < 0.3:
            claims.append("storage")
        if not 0.15 <= storage <= 0.85:
            claims.append("both")
        if cpu < 0.2:
            claims.append("decoding")
        if of("no-cpu", "gil") >= 0.3 or of("handover", "start") >= 0.7:
            claims.append("more readers")
    return claims

