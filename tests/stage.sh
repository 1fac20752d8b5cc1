#!/bin/sh
# Runs a stage of `make test` and notes how long it took: `stage.sh NAME COMMAND...`. `stage.sh --begin` forgets earlier notes,
# `stage.sh --times` prints them with the slowest test programs.
set -eu
notes=${DLIO_DIST:?set by the Makefile}/stages

case $1 in
    --begin)
        rm -rf "$notes"
        mkdir -p "$notes"
        ;;
    --times)
        echo "make test: seconds by stage"
        sed 's/^/  /' "$notes/times"
        echo "Slowest test programs, in seconds:"
        # cargo names a program and, when it has ended, how long its tests took.
        awk '/^ *(Running|Doc-tests) / { name = $1 == "Running" && $2 == "unittests" ? $3 " " $4 : $2 }
             /finished in/ { sub(/s$/, "", $NF); printf "  %8.1f  %s\n", $NF, name }' "$notes/output" | sort -rn | head -10
        ;;
    *)
        name=$1
        shift
        begin=$(date +%s)
        { "$@" 2>&1 && status=0 || status=$?; echo "$status" > "$notes/status"; } | tee -a "$notes/output"
        printf '%8d  %s\n' $(($(date +%s) - begin)) "$name" >> "$notes/times"
        exit "$(cat "$notes/status")"
        ;;
esac
