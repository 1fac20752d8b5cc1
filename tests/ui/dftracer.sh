#!/bin/sh
# Lets DFTracer's own tools count a trace we wrote in their form: dftracer.sh TRACE.pfw.gz FIGURES.json
# The tools take 200 MB and are not for every machine: where they cannot be installed this says so and passes.
set -eu

venv="${XDG_CACHE_HOME:-$HOME/.cache}/dlio-venv-dftracer"
if [ ! -x "$venv/bin/dftracer_event_count" ]; then
    python3 -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check dftracer >/dev/null 2>&1 || {
        echo "dftracer cannot be installed here: its form was not checked" >&2
        exit 0
    }
fi
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
cp "$1" "$folder"
counted="$("$venv/bin/dftracer_event_count" --log-level off --index-dir "$folder" -d "$folder" 2>/dev/null | tail -n 1)"
scanned="$("$venv/bin/dftracer_stats" --log-level off --index-dir "$folder" -d "$folder" 2>/dev/null |
    sed -n 's/.*Events Scanned: *//p')"
expected="$(python3 -c 'import json, sys; print(sum(row["count"] for row in json.load(open(sys.argv[1]))["slices"]))' "$2")"
echo "$1: $expected events, dftracer_event_count finds $counted, dftracer_stats $scanned"
[ "$counted" = "$expected" ] && [ "$scanned" = "$expected" ]
