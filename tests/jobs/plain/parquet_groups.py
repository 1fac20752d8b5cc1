"""Row groups of Parquet files in random order, by pyarrow."""

import os

import numpy
import pyarrow
import pyarrow.parquet
from steps import compute, main

FILES, GROUPS, ROWS, EPOCHS = 4, 12, 500, 2


def make(folder):
    os.makedirs(folder, exist_ok=True)
    random = numpy.random.default_rng(6)
    for number in range(FILES):
        columns = {f"c{at}": random.random(GROUPS * ROWS) for at in range(8)}
        path = os.path.join(folder, f"part{number}.parquet")
        pyarrow.parquet.write_table(pyarrow.table(columns), path, row_group_size=ROWS, compression="none")


def train(folder, span):
    files = [pyarrow.parquet.ParquetFile(os.path.join(folder, f"part{number}.parquet")) for number in range(FILES)]
    for epoch in range(1, EPOCHS + 1):
        order = numpy.random.default_rng(epoch).permutation(FILES * GROUPS)
        for step, place in enumerate(order):
            with span("fetch", "data", epoch=epoch, step=step):
                files[place // GROUPS].read_row_group(int(place % GROUPS), use_threads=False)
            compute(0.01, span, epoch=epoch, step=step)


if __name__ == "__main__":
    main(make, train)
