#!/bin/sh
# Installs what is missing on a Debian-like machine that has Rust. `setup.sh demo` installs what building takes,
# `setup.sh test` also what the tests use. Says nothing and does nothing where everything is there.
set -eu

wanted="cc:gcc make:make pkg-config:pkg-config cmake:cmake"
[ "${1:-demo}" = test ] && wanted="$wanted python3:python3 git:git strace:strace sqlite3:sqlite3 valgrind:valgrind"

missing=""
for pair in $wanted; do
    command -v "${pair%%:*}" >/dev/null 2>&1 || missing="$missing ${pair#*:}"
done
command -v cargo >/dev/null 2>&1 || { echo "cargo is missing: install Rust 1.95 or newer with rustup" >&2; exit 1; }

if [ -n "$missing" ]; then
    command -v apt-get >/dev/null 2>&1 || { echo "install these first:$missing" >&2; exit 1; }
    echo "installing$missing"
    root=""
    [ "$(id -u)" = 0 ] || root=sudo
    # shellcheck disable=SC2086 # a list of words
    $root apt-get install -y -qq --no-install-recommends $missing >/dev/null 2>&1 || {
        $root apt-get update -qq
        # shellcheck disable=SC2086
        $root apt-get install -y -qq --no-install-recommends $missing >/dev/null
    }
fi

# What reads our files in the tests: the libraries people use themselves.
if [ "${1:-demo}" = test ]; then
    venv="${XDG_CACHE_HOME:-$HOME/.cache}/dlio-venv"
    packages="numpy h5py pandas pyarrow pillow polars duckdb"
    stamp="$venv/.readers"
    if [ "$(cat "$stamp" 2>/dev/null)" != "$packages" ]; then
        [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
        # shellcheck disable=SC2086 # a list of words
        "$venv/bin/python" -m pip install --quiet --disable-pip-version-check $packages
        echo "$packages" > "$stamp"
    fi
fi
