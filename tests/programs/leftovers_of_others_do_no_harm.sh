#!/bin/sh
# The folder holds a ring of random bytes, a cut trace, a directory and a link to nowhere with the names of ours.
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
