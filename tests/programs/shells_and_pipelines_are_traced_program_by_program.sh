#!/bin/sh
# Every program of a pipeline has its own trace, and so does the shell that starts them.
#= exit: 42
#= processes: >=5
#= endings: *
#= among: dup2=>=4
set -e
seq 1 1000 > numbers
sort -r numbers | head -3 | cat
(cat numbers; exit 0) | wc -l
dd if=numbers of=copy bs=512 2>/dev/null
cmp numbers copy
exit 42
