#!/bin/sh
# Tests the harness, then compares the instructions of a traced call and of a decoded event with their limits.
set -eu
cd "$(dirname "$0")"
python3 -B -m unittest --quiet
python3 -B guard.py
