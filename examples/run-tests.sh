#!/bin/sh
# Runs the C, C++ and Rust examples untraced and with the library, and checks their traces. The installation is in DLIO_DIST (bin/
# and lib/), or the programs are in DLIO_BIN_DIR.
set -eu
here="$(cd "$(dirname "$0")" && pwd)"
dist="${DLIO_DIST:-$here/../target/dist}"
analyze="${DLIO_BIN_DIR:-$dist/bin}/dlio-analyze"
library="$dist/lib/libdliotrace.so"
folder="$(mktemp -d "${TMPDIR:-/tmp}/dlio-examples.XXXXXX")"
trap 'rm -rf "$folder"' EXIT
failed=0

dd if=/dev/urandom of="$folder/input" bs=64k count=4 2>/dev/null
cc -std=c99 -Wall -Wextra -Werror -pedantic -O2 -I "$here/../tracer/include" -o "$folder/c" "$here/c/spans.c" -ldl
c++ -std=c++17 -Wall -Wextra -Werror -O2 -I "$here/../tracer/include" -o "$folder/cpp" "$here/c/spans.cpp" -ldl
rust="$(cargo build --quiet --release --package dlio-example --manifest-path "$here/../Cargo.toml" \
    --message-format json | sed -n 's/.*"executable":"\([^"]*example-spans\)".*/\1/p')"
ln -s "$rust" "$folder/rust"

# expect NAME NUMBER CONDITION: checks that this number of events in the trace meet the condition.
expect() {
    found="$("$analyze" "$folder/trace-$1" --sql "select count(*) as n from events where $3" --format csv | tail -n 1)"
    [ "$found" = "$2" ] || { echo "$1: $found events instead of $2 where $3" >&2; failed=1; }
}

for name in c cpp rust; do
    "$folder/$name" "$folder/input"
    DLIO_TRACE_DIR="$folder/trace-$name" DLIO_TRACE_FORMAT=native LD_PRELOAD="$library" "$folder/$name" "$folder/input"
done

for name in c rust; do
    expect "$name" 2 "name = 'epoch' and cat = 'pipeline' and depth = 0"
    expect "$name" 8 "name = 'fetch' and cat = 'data' and depth = 1 and epoch >= 0 and step >= 0"
    expect "$name" 8 "name in ('read', 'pread', 'pread64') and depth = 2 and bytes = 65536 and file like '%/input'"
    expect "$name" 8 "name = 'fetch' and args['bytes'] = '65536'"
    expect "$name" 2 "name = 'epoch done'"
done
expect rust 8 "name = 'forward' and cat = 'compute' and depth = 1"
expect rust 8 "name = 'loss'"
expect cpp 1 "name = 'epoch' and epoch = 0 and step is null"
expect cpp 4 "name = 'fetch' and depth = 1 and args['bytes'] = '65536'"
expect cpp 4 "name = 'fread' and depth = 2 and bytes = 65536 and file like '%/input'"
expect cpp 4 "name = 'forward' and depth = 1 and step >= 0"

# Without a preloaded library, the engine that the program links records its spans.
DLIO_TRACE_DIR="$folder/trace-linked" DLIO_TRACE_FORMAT=native "$folder/rust" "$folder/input"
expect linked 8 "name = 'fetch'"
expect linked 0 "cat = 'posix'"

# An export of all processes to one file contains the events of the traces, in each format.
count() {
    "$analyze" "$@" --sql "select count(*) as n from events" --format csv | tail -n 1
}
all="$(count "$folder/trace-c" "$folder/trace-cpp" "$folder/trace-rust")"
for name in all.pftrace all.json.gz; do
    "$analyze" "$folder/trace-c" "$folder/trace-cpp" "$folder/trace-rust" --export "$folder/$name" 2>/dev/null
    found="$(count "$folder/$name")"
    [ "$found" = "$all" ] || { echo "$name: $found events instead of $all" >&2; failed=1; }
done
"$analyze" "$folder/trace-c" --export "$folder/all.pftrace" 2>/dev/null && { echo "an export replaced a file" >&2; failed=1; }
[ "$failed" = 0 ] && echo "examples: traced as expected"
exit "$failed"
