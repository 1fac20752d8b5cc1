#!/bin/sh
# Installs what dlio is measured beside: `peers.sh` all of it, `peers.sh dftracer|dfanalyzer|dlio` one. Each has an environment
# of its own in ${XDG_CACHE_HOME:-~/.cache}, for they do not go together; README.md beside this file says why these versions.
# Where one cannot be installed, that is said and the others go on: what is missing is left out of the measurements.
set -eu
cache="${XDG_CACHE_HOME:-$HOME/.cache}"
failed=0

# environment NAME PROGRAM [PIP WORDS]...: makes it unless it has the program; each further argument is one call of pip.
environment() {
    venv="$cache/dlio-venv-$1" program="$2"
    shift 2
    [ -x "$venv/bin/$program" ] && { echo "$program: is there"; return; }
    echo "$program: installing into $venv"
    python3 -m venv "$venv"
    for words in "$@"; do
        # shellcheck disable=SC2086 # a list of words
        "$venv/bin/python" -m pip install --quiet --disable-pip-version-check $words && continue
        echo "$program: cannot be installed here" >&2
        failed=1
        return
    done
}

dftracer() {
    environment dftracer dftracer_stats "dftracer"
}

# With the newest dftracer-utils it does not start: a function it imports is gone.
dfanalyzer() {
    environment dfanalyzer dfanalyzer "dftracer-analyzer dftracer-utils==0.0.12"
}

# As little as makes it run: its own list wants two frameworks, DALI and their GPU libraries, eight gigabytes in all.
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
command -v bpftrace >/dev/null 2>&1 || echo "bpftrace: the package bpftrace of the distribution; it needs root"
[ -n "${DARSHAN_LIB:-}" ] || echo "Darshan: build it without MPI and set DARSHAN_LIB to its libdarshan.so"
exit "$failed"
