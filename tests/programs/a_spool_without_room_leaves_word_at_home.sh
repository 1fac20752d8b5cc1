#!/bin/sh
# The directory of the rings is full. After a kill, the trace directory contains an empty ring in place of the trace, and nothing
# remains in the directory of the rings. `unshare` makes the mount invisible to other tests.
#= needs: unshare
#= env: DLIO_TRACE_SPOOL={work}/spool
#= run: {trace} {work}/spool
#= exit: 42
#= processes: *
#= endings: *
#= lost: *
#= damage: yes
#= leftovers: yes
#= formats: native
[ -n "$LD_PRELOAD" ] || exit 42
preload=$LD_PRELOAD
unset LD_PRELOAD
exec unshare --mount --map-root-user sh -c '
    mkdir -p spool && mount -t tmpfs -o size=4k tmpfs spool && echo full > spool/filler || exit 1
    LD_PRELOAD=$3 sh -c "echo \$\$ > pid; exec 7< /etc/passwd; kill -9 \$\$" 2>/dev/null
    read killed < pid
    [ "$(ls spool)" = filler ] || { echo "left in the spool: $(ls spool)"; exit 2; }
    for ring in "$1"/*-"$killed"-*.ring; do
        [ -e "$ring" ] && [ ! -s "$ring" ] || { echo "no empty ring for $killed: $(ls -l "$1")"; exit 3; }
    done
    # A process that exits normally removes its empty file.
    LD_PRELOAD=$3 cat /etc/passwd > copy
    [ "$(ls "$1" | grep -c "^cat-.*ring$")" = 0 ] || { echo "the ring of cat remains"; exit 4; }
    exit 42' sh "$1" "$2" "$preload"
