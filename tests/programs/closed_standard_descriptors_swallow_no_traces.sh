#!/bin/sh
# Programs started without stdin, stdout or stderr: nothing of the tracer goes where those numbers lead later.
#= exit: 42
#= processes: >=3
#= endings: *
cat /etc/passwd <&- > one
cat /etc/passwd 2>&- > two
DLIO_TRACE_NONSENSE=1 dd if=/etc/passwd of=three 2>&-
cmp one two && cmp two three && exit 42
