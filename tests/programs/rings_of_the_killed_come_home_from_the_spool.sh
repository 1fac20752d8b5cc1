#!/bin/sh
# A process with its ring in another directory is killed; the next process of the run moves the ring to the trace directory.
#= env: DLIO_TRACE_SPOOL={work}/spool
#= exit: 42
#= processes: *
#= endings: *
#= on /etc/passwd: open=1 dup2=1 close=1
#= leftovers: yes
#= formats: native
sh -c 'echo $$ > pid; exec 7< /etc/passwd; kill -9 $$' 2>/dev/null
read killed < pid
cat pid > /dev/null
for left in spool/*-"$killed"-*.ring; do
    [ ! -e "$left" ] || { echo "$left is still there"; exit 1; }
done
exit 42
