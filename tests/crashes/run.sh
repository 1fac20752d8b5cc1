#!/bin/sh
# One run of the crash fuzzer: mounts a disk for the trace, runs the program, and writes the report.
# run.sh FOLDER DISK_SIZE LIBRARY ANALYZER WORKER ARGUMENTS...
folder=$1 size=$2 library=$3 analyzer=$4
shift 4
disk=$folder/disk
mkdir -p "$disk"
[ "$size" = 0 ] || mount -t tmpfs -o "size=$size" tmpfs "$disk" || exit 95
ulimit -c 0
export FUZZ_DISK="$disk" DLIO_TRACE_DIR="$disk/trace"
# Other programs change its files while it runs; it waits for them.
damage() {
    while ! ls "$disk"/trace/*.ring >/dev/null 2>&1; do
        [ ! -e "$folder/status" ] || return
        sleep 0.005
    done
    sleep "$FUZZ_DAMAGE_AFTER"
    case $FUZZ_DAMAGE in
    blocks) rm -f "$disk"/trace/*.dlt ;;
    files) rm -f "$disk"/trace/* ;;
    folder) rm -rf "$disk/trace" ;;
    made_again) rm -rf "$disk/trace" && mkdir "$disk/trace" ;;
    renamed) mv "$disk/trace" "$disk/elsewhere" ;;
    cut) for file in "$disk"/trace/*.dlt; do [ ! -e "$file" ] || truncate -s "$FUZZ_DAMAGE_SIZE" "$file"; done ;;
    cut_rings) truncate -s "$FUZZ_DAMAGE_SIZE" "$disk"/trace/*.ring ;;
    esac
    : >"$folder/damaged"
}
export FUZZ_DAMAGED="$folder/damaged"
read=$disk/trace
if [ -n "$FUZZ_DAMAGE" ]; then
    read=$disk
    damage &
fi
# All child processes inherit descriptor 9: `cat` ends when the last of them has exited.
{ LD_PRELOAD=$library "$@" >/dev/null 2>"$folder/said"; echo $? >"$folder/status"; } 9>&1 | cat >/dev/null
wait
# All runs: a process whose parent left only a name looks like a separate run.
"$analyzer" "$read" --summary --run all --no-cache --strict --format json >"$folder/report" 2>"$folder/complaint"
echo $? >"$folder/strict"
[ -z "$FUZZ_KEEP" ] || cp -r "$disk/trace" "$folder/kept" 2>/dev/null
[ "$size" = 0 ] && rm -rf "$disk"
exit 0
