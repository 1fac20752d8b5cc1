#!/bin/sh
# Tests the harness, then guards what a traced call and a decoded event cost, counted in instructions.
set -eu
cd "$(dirname "$0")"
python3 -B -m unittest --quiet
python3 -B guard.py
