#!/bin/sh
# Installs dlio from a directory or a web address with its packages, after verifying checksums. Needs no root for PREFIX=$HOME/.local.
#
#   sh install.sh --from PLACE [--prefix DIR]      install into DIR [/usr/local for root, else ~/.local]
#   sh install.sh --uninstall [--prefix DIR]       remove the installed files
#   curl -fsSL PLACE/install.sh | sh -s -- --from PLACE
#
# PLACE contains SHA256SUMS and the tarball. Nothing is written before the tarball's checksum is verified.
set -eu

fail() {
    echo "install.sh: $1" >&2
    exit 1
}

usage() {
    fail "usage: install.sh --from PLACE [--prefix DIR], or install.sh --uninstall [--prefix DIR]"
}

main() {
    from='' prefix='' remove=''
    [ "$(id -u)" = 0 ] && prefix=/usr/local || prefix="$HOME/.local"
    while [ $# -gt 0 ]; do
        case $1 in
            --from) from="${2-}"; shift ;;
            --prefix) prefix="${2-}"; shift ;;
            --uninstall) remove=1 ;;
            *) usage ;;
        esac
        [ $# -gt 0 ] && shift
    done
    [ -n "$prefix" ] || usage
    case $prefix in /*) ;; *) prefix="$PWD/$prefix" ;; esac
    list="$prefix/share/dlio/installed-files"
    if [ -n "$remove" ]; then
        uninstall
    else
        [ -n "$from" ] || usage
        install
    fi
}

# fetch NAME: copies a file of PLACE into the temporary directory.
fetch() {
    case $from in
        http://* | https://* | file://*)
            if command -v curl > /dev/null; then
                curl -fsSL -o "$scratch/$1" "$from/$1"
            elif command -v wget > /dev/null; then
                wget -q -O "$scratch/$1" "$from/$1"
            else
                fail "cannot download $from/$1: neither curl nor wget is installed; install one, or pass a directory"
            fi ;;
        *) cp "$from/$1" "$scratch/$1" ;;
    esac || fail "cannot fetch $from/$1; check --from"
}

install() {
    [ "$(uname -s)-$(uname -m)" = Linux-x86_64 ] || fail "cannot install on $(uname -s) $(uname -m): dlio is built for Linux on x86-64"
    scratch="$(mktemp -d)"
    trap 'rm -rf "$scratch"' EXIT
    fetch SHA256SUMS
    line="$(grep ' dlio-[0-9][^ ]*-x86_64-linux\.tar\.gz$' "$scratch/SHA256SUMS")" || fail "cannot install from $from: SHA256SUMS has no tarball for x86-64"
    [ "$(printf '%s\n' "$line" | wc -l)" = 1 ] || fail "cannot install from $from: SHA256SUMS has several tarballs"
    tarball="${line##* }"
    fetch "$tarball"
    (cd "$scratch" && printf '%s\n' "$line" | sha256sum -c - > /dev/null 2>&1) ||
        fail "cannot install $tarball: its checksum differs from SHA256SUMS; the download is damaged"
    mkdir "$scratch/files"
    tar -xzf "$scratch/$tarball" -C "$scratch/files" --strip-components 1
    "$scratch/files/bin/dlio" --version > /dev/null || fail "cannot run dlio here: this system's C library is older than glibc 2.17, or is not glibc"
    # The list contains the files, and the directories that do not exist yet, parents first.
    (cd "$scratch/files" && find . ! -type d | sed 's|^\./||' | LC_ALL=C sort) > "$scratch/list"
    (cd "$scratch/files" && find . -mindepth 1 -type d | sed 's|^\./||' | LC_ALL=C sort) | while read -r folder; do
        [ -d "$prefix/$folder" ] || echo "$folder/"
    done >> "$scratch/list"
    mkdir -p "$prefix/share/dlio" || fail "cannot write to $prefix; use --prefix DIR, or run it as root"
    [ ! -e "$list" ] || cp "$list" "$scratch/before"
    # Files are copied one by one: a directory of PREFIX may be a link, and a running program keeps its file.
    grep -v '/$' "$scratch/list" | while read -r file; do
        mkdir -p "$(dirname "$prefix/$file")"
        rm -f "$prefix/$file"
        cp -P -p "$scratch/files/$file" "$prefix/$file" || exit 1
    done || fail "cannot write to $prefix; free space or use --prefix DIR, and run this again"
    # Remove files of an earlier version. Directories that it created remain in the list.
    [ ! -e "$scratch/before" ] || grep -v '/$' "$scratch/before" | grep -v -x -F -f "$scratch/list" | while read -r file; do
        rm -f "$prefix/$file"
    done
    [ ! -e "$scratch/before" ] || grep '/$' "$scratch/before" | grep -v -x -F -f "$scratch/list" >> "$scratch/list" || true
    cp "$scratch/list" "$list"
    echo "installed $tarball into $prefix; remove it with: install.sh --uninstall --prefix $prefix"
    case ":$PATH:" in *":$prefix/bin:"*) ;; *) echo "add $prefix/bin to PATH to use it" ;; esac
}

uninstall() {
    [ -e "$list" ] || fail "cannot uninstall from $prefix: $list does not exist"
    grep -v '/$' "$list" | while read -r file; do
        rm -f "$prefix/$file"
    done
    # Remove directories that the installation created, if they are empty now.
    folders="$(grep '/$' "$list" | LC_ALL=C sort -r)"
    rm -f "$list"
    rmdir "$prefix/share/dlio" 2> /dev/null || true
    printf '%s\n' "$folders" | while read -r folder; do
        [ -z "$folder" ] || rmdir "$prefix/$folder" 2> /dev/null || true
    done
    echo "removed dlio from $prefix"
}

# This call is the last line, so a truncated download runs nothing.
main "$@"
