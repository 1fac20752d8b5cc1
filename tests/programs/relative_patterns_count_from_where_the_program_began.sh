#!/bin/sh
# Relative patterns are resolved once: a child with another working directory records the same files as its parent, and no files in
# directories of the same name elsewhere.
#= exit: 42
#= env: DLIO_TRACE_INCLUDE=data/**:lists/*
#= env: DLIO_TRACE_EXCLUDE=data/left/*
#= among: open=3
#= processes: *
#= endings: *
mkdir -p data/left lists
echo 1 | tee data/one data/two data/left/three lists/four > /dev/null
cat data/one > /dev/null
cd data
cat two > /dev/null
cat left/three > /dev/null
cd ../lists
cat four > /dev/null
exit 42
