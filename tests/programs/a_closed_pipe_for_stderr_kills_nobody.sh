#!/bin/sh
# The tracer prints a message while stderr is a pipe without a reader.
#= exit: 42
#= processes: *
#= endings: *
{ DLIO_TRACE_NONSENSE=1 sh -c 'sleep 0.2; cat /etc/passwd > copy; echo $? > status'; } 2>&1 >/dev/null | true
for i in 1 2 3 4 5 6 7 8 9 10; do [ -s status ] && break; sleep 0.2; done
[ "$(cat status)" = 0 ] && cmp copy /etc/passwd && exit 42
