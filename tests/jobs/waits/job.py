"""Runs one job, ``job.py NAME``, in the current directory, where its data are made if they are missing. The last line that it
prints is one of JSON: what its own clock says. ``../verdicts.py --list`` lists the jobs. ``job.py --prepare NAME`` makes the data
only, and prints the path of the slow disk's library."""

import json
import os
import sys

# Importing these modules registers their jobs.
import alone, formats, frameworks, machine, network, partners, processes, programs, pytorch, ranks, threads  # noqa: E401,F401
from registry import JOBS, prepare


def main():
    if sys.argv[1] == "--prepare":
        print(prepare(JOBS[sys.argv[2]]))
        return
    job = JOBS[sys.argv[1]]
    library, loaded = prepare(job), os.environ.get("LD_PRELOAD", "")
    if library not in loaded:
        os.environ["LD_PRELOAD"] = ":".join(filter(None, [loaded, library]))
        os.execv(sys.executable, [sys.executable, *sys.argv])
    print(json.dumps(job.run().result()))


if __name__ == "__main__":
    main()
