#!/bin/sh
# A relative trace directory is resolved once: children with another working directory write to it, too. Its name may contain
# spaces and letters outside of ASCII.
#= exit: 42
#= env: DLIO_TRACE_DIR=../kept/a folder/über
#= processes: 0
mkdir -p elsewhere
( cd elsewhere && cat /etc/passwd > copy && cmp copy /etc/passwd ) || exit 1
[ -z "$LD_PRELOAD" ] || [ "$(ls "../kept/a folder/über" | wc -l)" -ge 2 ] || exit 2
[ ! -e elsewhere/kept ] && [ ! -e kept ] || exit 3
exit 42
