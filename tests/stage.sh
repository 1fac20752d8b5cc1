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
        # The output is followed in a file until this script closes the pipe. A pipe from the command itself would stay
        # open, and the stage would hang, as long as any process that the command left behind runs.
        mkfifo "$notes/running"
        cat "$notes/running" &
        reader=$!
        exec 3> "$notes/running"
        rm "$notes/running"
        touch "$notes/output"
        next=$(($(stat -c %s "$notes/output") + 1))
        tail --bytes=+$next --follow --sleep-interval=0.2 --pid=$reader "$notes/output" 3>&- &
        printer=$!
        "$@" >> "$notes/output" 2>&1 3>&- && status=0 || status=$?
        exec 3>&-
        wait "$printer"
        printf '%8d  %s\n' $(($(date +%s) - begin)) "$name" >> "$notes/times"
        exit "$status"
        ;;
esac
