#!/bin/sh
# The trace directory contains a ring of random bytes, a truncated trace, a directory and a dangling link, with names of traces.
#= exit: 42
#= run: {trace}
#= processes: *
#= endings: *
#= damage: yes
mkdir -p "$1"
head -c 100000 /dev/urandom > "$1/program-host-1-1.ring"
printf 'DLIOTRC1' > "$1/program-host-1-1.dlt"
mkdir -p "$1/program-host-2-2.dlt"
ln -sf /no/such "$1/program-host-3-3.ring"
cat /etc/passwd > copy
cmp /etc/passwd copy && exit 42
