#!/bin/sh
# Installs the tools that dlio is compared with: `peers.sh` installs all, `peers.sh dftracer|dfanalyzer|dlio` one. Each has a separate
# environment in ${XDG_CACHE_HOME:-~/.cache}, because they are incompatible. README.md in this directory explains the versions.
# If a tool cannot be installed, this prints a message and continues: `bench.py` then skips the tool.
set -eu
cache="${XDG_CACHE_HOME:-$HOME/.cache}"
failed=0

# environment NAME PROGRAM [PIP ARGUMENTS]...: creates it unless it has the program; each further argument is one call of pip.
environment() {
    venv="$cache/dlio-venv-$1" program="$2"
    shift 2
    [ -x "$venv/bin/$program" ] && { echo "$program: already installed"; return; }
    echo "$program: installing into $venv"
    python3 -m venv "$venv"
    for words in "$@"; do
        # shellcheck disable=SC2086 # a list of words
        "$venv/bin/python" -m pip install --quiet --disable-pip-version-check $words && continue
        echo "$program: cannot be installed on this host" >&2
        failed=1
        return
    done
}

dftracer() {
    environment dftracer dftracer_stats "dftracer"
}

# It does not start with the newest dftracer-utils, which lacks a function that it imports.
dfanalyzer() {
    environment dfanalyzer dfanalyzer "dftracer-analyzer dftracer-utils==0.0.12"
}

# Only the required packages: its own list contains two frameworks, DALI and their GPU libraries, 8 GB in total.
dlio() {
    environment dlio dlio_benchmark \
        "numpy h5py pandas pillow pyyaml psutil omegaconf hydra-core mpi4py mpich pydftracer==1.0.2 tensorflow-cpu" \
        "--no-deps dlio-benchmark"
}

for peer in "${@:-all}"; do
    case "$peer" in
    all) dftracer && dfanalyzer && dlio ;;
    dftracer | dfanalyzer | dlio) "$peer" ;;
    *) echo "usage: peers.sh [dftracer|dfanalyzer|dlio]" >&2; exit 2 ;;
    esac
done
command -v bpftrace >/dev/null 2>&1 || echo "bpftrace is missing: install the package bpftrace of the distribution; it needs root"
[ -n "${DARSHAN_LIB:-}" ] || echo "Darshan is missing: build it without MPI and set DARSHAN_LIB to its libdarshan.so"
exit "$failed"
