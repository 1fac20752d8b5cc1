"""Runs a benchmark's training and prints its read rate: training.py RUN MEGABYTES EPOCHS -- COMMAND...

RUN is the output directory of the command; MEGABYTES is the size of an epoch. Measures the time that training waited for batches in all
epochs except the first, which starts the workers.
"""

import json
import statistics
import subprocess
import sys
from pathlib import Path


def main():
    run, megabytes, epochs = Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
    said = subprocess.run(sys.argv[5:], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if said.returncode != 0:
        sys.exit("\n".join(said.stdout.splitlines()[-5:]) or f"status {said.returncode}")
    steps = json.loads((run / "0_output.json").read_text())
    waits = [sum(steps[str(epoch)]["load"]["block1"]) for epoch in range(2, epochs + 1)]
    print(f"{megabytes / statistics.median(waits):.1f} MB/s")


main()
