#!/bin/sh
# Another program fills a file system of one megabyte during the run: the traced program continues, and the loss is counted and
# reported. `unshare` makes the mount invisible to other tests.
#= needs: unshare python3
#= exit: 42
#= processes: *
#= endings: *
#= damage: yes
#= lost: *
#= may-say: events are lost
#= may-say: cannot write
#= formats: native
#= case: no room from the start
#= run: full
#= case: no room after a while
#= run: filling
[ "$(id -u)" = 0 ] || exit 42
preload=$LD_PRELOAD
unset LD_PRELOAD
mkdir -p small
exec unshare --mount sh -c '
    mount -t tmpfs -o size=1m tmpfs small || exit 42
    [ $1 = full ] && head -c 2m /dev/zero > small/filler 2>/dev/null
    cat > loop.py <<EOF
import os, random
fd = os.open("/etc/passwd", os.O_RDONLY)
for i in range(300000):
    assert len(os.pread(fd, random.randrange(60), random.randrange(60))) < 60
    if i == 100000: open("small/more", "wb").write(bytes(1000))
os.write(1, b"done\n")
EOF
    [ $1 = full ] && sed -i "s/if i == 100000.*/pass/" loop.py
    LD_PRELOAD=$2 DLIO_TRACE_DIR=small/trace python3 loop.py 2>said && status=42 || status=1
    [ -z "$2" ] || grep -q "dliotrace: .*lost" said || { echo "no message about lost events:"; cat said; status=2; }
    exit $status' sh "$1" "$preload"
