#!/bin/sh
# Packages the finished build of `make build`: tarball, .deb, .rpm, recipes, checksums. Usage: build.sh [DIR]
#
# DIR is $DLIO_DIST/packages by default. PACKAGES_URL is the address in the recipes [file://DIR], MAINTAINER the person in the .deb.
# SOURCE_DATE_EPOCH is the date of all files [that of the last commit], so that one build always gives identical packages.
set -eu
here="$(cd "$(dirname "$0")" && pwd)"
root="$(dirname "$here")"
dist="${DLIO_DIST:-$root/target/dist}"
out="${1:-$dist/packages}"
[ -e "$dist/built" ] || { echo "cannot package $dist: nothing is built; run \`make build\` first" >&2; exit 1; }
for tool in dpkg-deb rpmbuild fakeroot strip objdump; do
    command -v $tool > /dev/null || { echo "cannot build packages: $tool is missing; run \`make setup-packages\`" >&2; exit 1; }
done
version="$(sed -n '/^\[workspace.package\]/,/^version/s/^version = "\(.*\)"/\1/p' "$root/Cargo.toml")"
SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git -C "$root" log -1 --format=%ct)}"
export SOURCE_DATE_EPOCH
maintainer="${MAINTAINER:-The dlio authors <maintainers@dlio.invalid>}"
if [ -e "$out" ] && [ ! -e "$out/SHA256SUMS" ] && [ -n "$(ls -A "$out")" ]; then
    echo "cannot write packages to $out: it contains other files; choose a new directory" >&2
    exit 1
fi
rm -rf "$out"
mkdir -p "$out"
out="$(cd "$out" && pwd)"
url="${PACKAGES_URL:-file://$out}"
scratch="$(mktemp -d "${TMPDIR:-/tmp}/dlio-packages.XXXXXX")"
trap 'rm -rf "$scratch"' EXIT
date="@$SOURCE_DATE_EPOCH"

# ---- the files of every package ---------------------------------------------------------------------------------------

files="$scratch/files"
make -s -C "$root" install DESTDIR="$files" PREFIX=/usr DLIO_DIST="$dist" DLIO_BIN_DIR="$dist/bin"
find "$files/usr/bin" "$files/usr/lib" -type f \( -perm -100 -o -name '*.so' \) -exec strip --strip-unneeded {} +
doc="$files/usr/share/doc/dlio"
mkdir -p "$doc"
python3 "$here/notices.py" "$doc"
cp "$root/README.md" "$root/LICENSE-MIT" "$root/LICENSE-APACHE" "$root/CHANGELOG.md" "$doc/"
find "$files" -type d -exec chmod 755 {} +
find "$files" -type f ! -perm -100 -exec chmod 644 {} +
find "$files/usr/lib" -name '*.so' -exec chmod 644 {} +
cp "$doc/sbom.cdx.json" "$out/dlio-$version.cdx.json"

# copied DIR: a copy for one package, with all dates set.
copied() {
    mkdir -p "$1"
    cp -a "$files/." "$1/"
}
dated() {
    find "$1" -exec touch -h -d "$date" {} +
}

# ---- tarball ----------------------------------------------------------------------------------------------------------

name="dlio-$version-x86_64-linux"
copied "$scratch/tar"
mv "$scratch/tar/usr" "$scratch/$name"
# The tarball can be unpacked anywhere, so its paths are relative.
# shellcheck disable=SC2016 # pkg-config expands it
sed -i 's|^prefix=.*|prefix=${pcfiledir}/../..|' "$scratch/$name/lib/pkgconfig/dliotrace.pc"
dated "$scratch/$name"
tar --sort=name --owner=0 --group=0 --numeric-owner -C "$scratch" -cf - "$name" | gzip -6n > "$out/$name.tar.gz"

# ---- .deb -------------------------------------------------------------------------------------------------------------

deb="$scratch/deb"
copied "$deb"
docs="$deb/usr/share/doc/dlio"
rm "$docs/LICENSE-MIT" "$docs/LICENSE-APACHE"
mv "$docs/CHANGELOG.md" "$docs/changelog"
{
    printf 'dlio (%s-1) unstable; urgency=low\n\n  * See changelog.gz for the changes of this version.\n\n' "$version"
    printf ' -- %s  %s\n' "$maintainer" "$(LC_ALL=C date -u -R -d "$date")"
} > "$docs/changelog.Debian"
gzip -9n "$docs/changelog" "$docs/changelog.Debian" "$deb"/usr/share/man/man1/*.1
mkdir -p "$deb/usr/share/pkgconfig" "$deb/usr/share/lintian/overrides"
mv "$deb/usr/lib/pkgconfig/dliotrace.pc" "$deb/usr/share/pkgconfig/"
rmdir "$deb/usr/lib/pkgconfig"
cp "$here/deb/copyright" "$docs/copyright"
cp "$here/deb/lintian-overrides" "$deb/usr/share/lintian/overrides/dlio"
mkdir "$deb/DEBIAN"
# dpkg-shlibdeps would require the C library of this host's Debian for functions that have moved between its libraries since 2.17.
elf="$(find "$deb/usr/bin" "$deb/usr/lib" -type f -exec objdump -p {} +)"
for library in $(printf '%s\n' "$elf" | sed -n 's/^ *NEEDED *//p' | sort -u); do
    case $library in
        libc.so.6 | libm.so.6 | libdl.so.2 | libpthread.so.0 | librt.so.1 | libutil.so.1 | ld-linux-x86-64.so.2 | libgcc_s.so.1) ;;
        *) echo "cannot build the .deb: the package of $library is unknown; add it to $0" >&2; exit 1 ;;
    esac
done
glibc="$(printf '%s\n' "$elf" | grep -o 'GLIBC_2\.[0-9]*' | sort -u -t . -k 2n | tail -n 1)"
depends="libc6 (>= ${glibc#GLIBC_}), libgcc-s1 (>= 4.2) | libgcc1 (>= 1:4.2)"
sed -e "s|@VERSION@|$version|" -e "s#@DEPENDS@#$depends#" -e "s|@MAINTAINER@|$maintainer|" \
    -e "s|@SIZE@|$(du -k -s --apparent-size "$deb/usr" | cut -f 1)|" "$here/deb/control.in" > "$deb/DEBIAN/control"
(cd "$deb" && find usr -type f -print0 | sort -z | xargs -0 md5sum) > "$deb/DEBIAN/md5sums"
find "$deb/DEBIAN" -type f -exec chmod 644 {} +
dated "$deb"
dpkg-deb --root-owner-group -Zxz -z4 --build "$deb" "$out/dlio_${version}-1_amd64.deb" > /dev/null

# ---- .rpm -------------------------------------------------------------------------------------------------------------

rpm="$scratch/rpm"
copied "$rpm/files"
gzip -9n "$rpm"/files/usr/share/man/man1/*.1
chmod 755 "$rpm"/files/usr/lib/*.so
dated "$rpm/files"
sed -e "s|@VERSION@|$version|" -e "s|@MAINTAINER@|$maintainer|" -e "s|@DATE@|$(LC_ALL=C date -u -d "$date" '+%a %b %d %Y')|" \
    "$here/dlio.spec.in" > "$rpm/dlio.spec"
# It also owns directories that exist only if a shell or pkg-config is installed.
(cd "$rpm/files" && find usr ! -type d ! -path 'usr/share/doc/*' | sed 's|^|/|' &&
    find usr/lib/pkgconfig usr/share/fish usr/share/zsh usr/share/bash-completion -type d | sed 's|^|%dir /|') | sort > "$rpm/list"
fakeroot rpmbuild -bb --quiet --target x86_64 --define "_topdir $rpm/top" --define "staged $rpm/files" --define "staged_list $rpm/list" \
    --define "_rpmdir $rpm/out" --define "_buildhost localhost" --define "use_source_date_epoch_as_buildtime 1" \
    --define "clamp_mtime_to_source_date_epoch 1" "$rpm/dlio.spec"
cp "$rpm"/out/x86_64/*.rpm "$out/"

# ---- recipes, installer, checksums ------------------------------------------------------------------------------------

cp "$here/install.sh" "$out/install.sh"
sum="$(sha256sum "$out/$name.tar.gz" | cut -d ' ' -f 1)"
mkdir -p "$out/recipes/spack/dlio" "$out/recipes/conda/dlio"
for recipe in spack/package.py conda/recipe.yaml modulefile Containerfile; do
    case $recipe in
        spack/*) to=spack/dlio/package.py ;;
        conda/*) to=conda/dlio/recipe.yaml ;;
        *) to=$recipe ;;
    esac
    sed -e "s|@VERSION@|$version|g" -e "s|@SHA256@|$sum|g" -e "s|@URL@|$url/$name.tar.gz|g" -e "s|@TARBALL@|$name.tar.gz|g" \
        "$here/$recipe.in" > "$out/recipes/$to"
done
cp "$dist"/wheel/dliotrace-"$version"-*.whl "$out/"
"$root/python/build-wheel.sh" --sdist "$out" > /dev/null
(cd "$out" && find . -maxdepth 1 -type f ! -name SHA256SUMS -printf '%P\n' | LC_ALL=C sort | xargs sha256sum) > "$scratch/sums"
mv "$scratch/sums" "$out/SHA256SUMS"
ls -l "$out"
