#!/bin/sh
# Runs a stage of `make test` and stores its time: `stage.sh NAME COMMAND...`. `stage.sh --begin` removes earlier times,
# `stage.sh --times` prints all times and the slowest test programs.
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
        # cargo prints the name of a program and, when the program has ended, the time of its tests.
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
