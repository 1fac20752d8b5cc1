#!/bin/sh
# Counts an exported trace with DFTracer's own tools: dftracer.sh TRACE.pfw.gz FIGURES.json
# The tools take 200 MB and do not support every system: if they cannot be installed, this prints a message and succeeds.
set -eu

venv="${XDG_CACHE_HOME:-$HOME/.cache}/dlio-venv-dftracer"
if [ ! -x "$venv/bin/dftracer_event_count" ]; then
    python3 -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check dftracer >/dev/null 2>&1 || {
        echo "cannot install dftracer here: its format was not checked" >&2
        exit 0
    }
fi
# Each tool keeps an index, and cannot read the index of another tool: so each gets its own directory.
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
for tool in count stats; do
    mkdir -p "$folder/$tool/trace" "$folder/$tool/index"
    cp "$1" "$folder/$tool/trace"
done
ask() {
    tool="$1" program="$2"
    TMPDIR="$folder/$tool/index" "$venv/bin/$program" --index-dir "$folder/$tool/index" -d "$folder/$tool/trace" 2>/dev/null
}
counted="$(ask count dftracer_event_count | tail -n 1)"
scanned="$(ask stats dftracer_stats | sed -n 's/.*Events Scanned: *//p')"
expected="$(python3 -c 'import json, sys; print(sum(row["count"] for row in json.load(open(sys.argv[1]))["slices"]))' "$2")"
echo "$1: $expected events, dftracer_event_count finds $counted, dftracer_stats $scanned"
[ "$counted" = "$expected" ] && [ "$scanned" = "$expected" ]
