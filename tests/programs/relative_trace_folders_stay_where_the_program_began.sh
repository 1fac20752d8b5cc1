#!/bin/sh
# A relative folder is resolved once: children that start elsewhere write there too. Spaces and other letters do not matter.
#= exit: 42
#= env: DLIO_TRACE_DIR=../kept/a folder/über
#= processes: 0
mkdir -p elsewhere
( cd elsewhere && cat /etc/passwd > copy && cmp copy /etc/passwd ) || exit 1
[ -z "$LD_PRELOAD" ] || [ "$(ls "../kept/a folder/über" | wc -l)" -ge 2 ] || exit 2
[ ! -e elsewhere/kept ] && [ ! -e kept ] || exit 3
exit 42
