"""Every kind of span, around reads of one file: ``python3 -m dliotrace run spans.py FILE``.

It also runs without the tracer and without a trace; nothing is recorded then.
"""

import asyncio
import os
import sys

from dliotrace import ai, counter, instant, set_rank, span, traced, traced_iter

SAMPLE = 64 << 10


@traced(cat="data")
def read_sample(fd, index):
    return os.pread(fd, SAMPLE, index * SAMPLE)


@traced("samples", cat="reader")
def samples(fd, count):
    for index in range(count):
        yield read_sample(fd, index)


@ai.compute.forward
def forward(sample):
    return sum(sample[::997])


@traced(cat="checkpoint")
async def save(values):
    await asyncio.sleep(0)
    return len(values)


@traced
def fail():
    raise ValueError("on purpose")


def epoch(fd, number):
    with ai.pipeline.epoch(epoch=number):
        for step, sample in enumerate(traced_iter(samples(fd, 4), ai.data.fetch, epoch=number)):
            with span("step", cat="compute", epoch=number, step=step) as current:
                loss = forward(sample)
                current.set(loss=loss, note="a step")
            counter("loss", loss)
        instant("epoch done", cat="pipeline", epoch=number)


def main():
    set_rank(0, 1)
    fd = os.open(sys.argv[1] if len(sys.argv) > 1 else sys.executable, os.O_RDONLY)
    for number in range(2):
        epoch(fd, number)
    asyncio.run(save([1, 2, 3]))
    try:
        fail()
    except ValueError as error:
        print(f"caught: {error}")
    os.close(fd)


if __name__ == "__main__":
    main()
