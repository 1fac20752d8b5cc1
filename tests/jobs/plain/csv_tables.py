"""Tables of text, each read whole by pandas and then trained on row by row."""

import os

import numpy
import pandas
from steps import compute, main

FILES, ROWS, COLUMNS, BATCH, EPOCHS = 6, 400, 100, 100, 2


def make(folder):
    os.makedirs(folder, exist_ok=True)
    random = numpy.random.default_rng(3)
    for number in range(FILES):
        table = pandas.DataFrame(random.random((ROWS, COLUMNS)))
        table.to_csv(os.path.join(folder, f"table{number}.csv"), index=False)


def train(folder, span):
    for epoch in range(1, EPOCHS + 1):
        step = 0
        for name in sorted(os.listdir(folder)):
            with span("fetch", "data", epoch=epoch, step=step):
                table = pandas.read_csv(os.path.join(folder, name)).to_numpy()
            for first in range(0, ROWS, BATCH):
                if first > 0:
                    with span("fetch", "data", epoch=epoch, step=step):
                        table[first : first + BATCH].sum()
                compute(0.01, span, epoch=epoch, step=step)
                step += 1


if __name__ == "__main__":
    main(make, train)
