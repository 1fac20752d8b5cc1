#!/bin/sh
# One run of the crash fuzz: a disk of its own for the trace, the program, the report.
# run.sh FOLDER DISK_SIZE LIBRARY ANALYZER WORKER ARGUMENTS...
folder=$1 size=$2 library=$3 analyzer=$4
shift 4
disk=$folder/disk
mkdir -p "$disk"
[ "$size" = 0 ] || mount -t tmpfs -o "size=$size" tmpfs "$disk" || exit 95
ulimit -c 0
export FUZZ_DISK="$disk" DLIO_TRACE_DIR="$disk/trace"
# All that the program starts holds descriptor 9: `cat` sees its end when the last of them is gone.
{ LD_PRELOAD=$library "$@" >/dev/null 2>"$folder/said"; echo $? >"$folder/status"; } 9>&1 | cat >/dev/null
"$analyzer" "$disk/trace" --summary --no-cache --strict --format json >"$folder/report" 2>"$folder/complaint"
echo $? >"$folder/strict"
[ -z "$FUZZ_KEEP" ] || cp -r "$disk/trace" "$folder/kept" 2>/dev/null
[ "$size" = 0 ] && rm -rf "$disk"
exit 0
