"""Uses the public names as a type checker sees them; `mypy --strict` accepts it."""

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
