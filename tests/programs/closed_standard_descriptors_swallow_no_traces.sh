#!/bin/sh
# Programs that start without stdin, stdout or stderr: the tracer never writes to files that later get these descriptors.
#= exit: 42
#= processes: >=3
#= endings: *
cat /etc/passwd <&- > one
cat /etc/passwd 2>&- > two
DLIO_TRACE_NONSENSE=1 dd if=/etc/passwd of=three 2>&-
cmp one two && cmp two three && exit 42
