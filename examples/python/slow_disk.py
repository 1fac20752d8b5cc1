"""From the symptom to the verified fix: a training run that waits for a slow disk. ``slow_disk.py FOLDER [--torch]``.

Runs the job tests/jobs/train.py with two workers, prints the report, applies the suggested change (more workers), and compares
both runs. The times measured by the trainer itself follow, to check the reports. With ``--torch`` the loader is PyTorch's.
"""

import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
JOB = os.path.join(HERE, "..", "..", "tests", "jobs", "train.py")
BIN = os.environ.get("DLIO_BIN_DIR")
ANALYZE = os.path.join(BIN, "dlio-analyze") if BIN else "dlio-analyze"


def shown(command):
    """Prints a command as typed, and runs it."""
    print("\n$ " + " ".join([os.path.basename(command[0]), *command[1:]]), flush=True)
    subprocess.run(command, check=True)


def train(trace, workers, options):
    """Runs the training traced; returns the times of its own clock."""
    command = [sys.executable, "-m", "dliotrace", "run", "-o", trace, JOB, "storage", "data", "--spans"]
    ran = subprocess.run([*command, "--workers", str(workers), *options], check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(ran.stdout.splitlines()[-1])


def main():
    if len(sys.argv) < 2:
        sys.exit("usage: slow_disk.py DIR [--torch]")
    folder, *options = sys.argv[1:]
    os.makedirs(folder, exist_ok=True)
    os.chdir(folder)
    before = train("before", 2, options)
    shown([ANALYZE, "before"])
    after = train("after", 6, options)
    shown([ANALYZE, "before", "--compare", "after", "--fail-if", "step.mean_s > +0%"])
    print("\nMeasured by the trainer:")
    for name, seen in (("before", before), ("after", after)):
        print(f"  {name:<6}  trained {seen['trained_s']:.3f} s, waited {seen['waited_s']:.3f} s")


if __name__ == "__main__":
    main()
