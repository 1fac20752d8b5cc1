#!/bin/sh
# ramfs does not support fallocate: the events of a killed program must still be recorded. Second case: neither /dev/shm nor /tmp is
# writable.
#= needs: unshare python3
#= exit: 42
#= run: {trace}
#= processes: *
#= endings: *
#= leftovers: yes
#= formats: native
#= among: pread=1000
#= case: ramfs
#= run: {trace} ramfs
#= case: nowhere else
#= run: {trace} nowhere
[ "$(id -u)" = 0 ] || exit 42
preload=$LD_PRELOAD
unset LD_PRELOAD
mkdir -p mounted "$1"
cat > loop.py <<EOF
import os, signal
fd = os.open("loop.py", os.O_RDONLY)
for i in range(1000): os.pread(fd, 5, 5)
os.kill(os.getpid(), signal.SIGKILL)
EOF
exec unshare --mount sh -c '
    folder=$1
    if [ $2 = ramfs ]; then mount -t ramfs ramfs mounted || exit 42; folder=mounted/trace; fi
    if [ $2 = nowhere ]; then
        mount -t tmpfs -o ro tmpfs /dev/shm && mount --bind /tmp /tmp && mount -o remount,ro,bind /tmp
    fi
    LD_PRELOAD=$3 DLIO_TRACE_DIR=$folder python3 loop.py 2>/dev/null
    if [ $2 = ramfs ] && [ -n "$3" ]; then cp mounted/trace/* $1/; fi
    exit 42' sh "$1" "$2" "$preload"
