"""Uses the public names as a type checker sees them; `mypy --strict` accepts it."""

import dliotrace
from dliotrace import ai, counter, io_done, now, set_rank, span, traced, traced_iter


@traced(cat="data", epoch=1)
def load(index: int) -> bytes:
    return bytes(index)


@ai.compute.forward
def forward(batch: bytes) -> float:
    return len(batch) / 2


for batch in traced_iter([load(1)], ai.data.fetch, epoch=1):
    with span("step", cat="compute", epoch=1) as step:
        step.set(loss=forward(batch))
set_rank(0, 1)
counter("loss", 1.5)
io_done("get", "s3://bucket/key", now(), moved=3)


def analyze(trace: dliotrace.Trace) -> int | None:
    part = trace.filter(rank=0, epoch=(1, 2), from_=1.5)
    for row in part.events(["ts", "name"], where="dur > 1000"):
        print(row["name"])
    print(part.verdict.bottleneck, trace.summary.time.io_ns, trace.compare(part).answer, trace.html())
    return trace.findings[0].worth


try:
    analyze(dliotrace.open("dlio-trace", run=1))
except dliotrace.TraceError as error:
    print(error.remedy)
