#!/bin/sh
# Tests the checks of the book, and the book.
set -eu
here="$(cd "$(dirname "$0")" && pwd)"
python3 -B "$here/test_docs.py" -q
exec python3 -B "$here/check.py"
