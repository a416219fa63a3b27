#!/bin/sh
# `cargo xtask package [--target TRIPLE] [--profile NAME]`: the Debian package, made by cargo-deb; what goes into it stands in
# crates/app/Cargo.toml. It is made twice, to see that the same tree gives the same bytes, and installed and removed in a directory of its
# own, to see that nothing is missing and nothing is left. With the target x86_64-unknown-linux-musl (musl-tools) it needs no library.
set -eu
cd "$(dirname "$0")/.."
target='' profile=dist place=target/package
fail() { echo "package.sh: $1" >&2; exit 1; }
while [ $# -gt 0 ]; do
    case $1 in
    --target) target=${2:?--target needs a triple}; shift 2 ;;
    --profile) profile=${2:?--profile needs a name}; shift 2 ;;
    *) echo "package.sh: $1: write cargo xtask package [--target TRIPLE] [--profile NAME]" >&2; exit 2 ;;
    esac
done
command -v cargo-deb >/dev/null || cargo install --quiet --locked cargo-deb
build="--locked --package ebbtide --profile $profile${target:+ --target $target}"
cargo build $build
[ "$profile" = dev ] && built=debug || built=$profile
program=${CARGO_TARGET_DIR:-target}/${target:+$target/}$built/ebb
size=$(stat -c %s "$program")
# As Debian writes it: the newest glibc that the program has symbols of; nothing of a static one.
needs=$(grep -aoE 'GLIBC_[0-9]+[.][0-9]+' "$program" | sort -Vu | tail -n 1 | sed 's/GLIBC_\(.*\)/libc6 (>= \1)/')
[ -n "$needs" ] || [ "$size" -le 15000000 ] || fail "$program: larger than 15000000 bytes, which nobody likes to copy around"
run=
processor=${target%%-*}
if [ -n "$processor" ] && [ "$processor" != "$(uname -m)" ]; then
    # Its libraries are where Debian's cross compilers have them.
    export QEMU_LD_PREFIX="/usr/$processor-linux-gnu"
    run=qemu-$processor-static
fi
rm -rf $place
mkdir -p $place/man1 $place/again
$run "$program" --quiet man $place/man1
for shell in bash zsh fish; do $run "$program" completions $shell >$place/$shell; done

# The licence of the program, then of the crates that are linked into it, every text once.
version=$(cargo metadata --format-version 1 --no-deps | jq -r '.packages[] | select(.name == "ebbtide") | .version')
cargo tree --package ebbtide --edges normal,no-proc-macro --prefix none --format '{p}' | sed 's/ (.*//' | sort -u >$place/linked
cargo metadata --format-version 1 | jq -r '.packages[] | select(.source) | "\(.name) v\(.version)\t\(.license)\t\(.manifest_path)"' |
    sort | while IFS="$(printf '\t')" read -r name licence manifest; do
    grep -Fqx -e "$name" $place/linked || continue
    echo "$name: $licence" >>$place/names
    find "${manifest%/*}" -maxdepth 1 -type f | sort | grep -iE '/(licen[sc]e|copying|notice|unlicense)[^/]*$' | while read -r text; do
        echo "$name" >>$place/text-"$(sha256sum <"$text" | cut -c 1-64)"
        cp "$text" $place/of-"$(sha256sum <"$text" | cut -c 1-64)"
    done
done
{
    cat LICENSE
    printf '\nLinked in, each under its own licence:\n\n'
    cat $place/names
    for text in $place/text-*; do
        printf '\n==== %s\n\n' "$(paste -s -d, "$text")"
        cat "$place/of-${text#"$place/text-"}"
    done
} >$place/copyright
grep -q '^libsqlite3-sys v' $place/copyright && grep -q 'THE SOFTWARE IS PROVIDED "AS IS"' $place/copyright ||
    fail "$place/copyright lacks what is linked in"
! grep -q '^ebbtide' $place/copyright || fail "$place/copyright has crates of this tree among those of others"
printf 'ebbtide (%s-1) unstable; urgency=medium\n\n  * See changelog.gz.\n\n -- %s  %s\n' "$version" \
    "$(cargo metadata --format-version 1 --no-deps | jq -r '.packages[] | select(.name == "ebbtide") | .authors[0]')" \
    "$(git log -1 --format=%aD)" >$place/changelog.Debian

SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
[ -n "$needs" ] && variant='' || variant='--variant static'
make() { cargo deb --no-build --no-strip $variant $build --output "$1"; } # says where the package is
package=$(make $place)
cmp "$package" "$(make $place/again)"
depends=$(dpkg-deb --field "$package" Depends)
[ "$depends" = "$needs" ] || fail "crates/app/Cargo.toml: the package depends on \"$depends\": write \"$needs\""

own=$PWD/$place/root
mkdir -p "$own/var/lib/dpkg/info" "$own/var/lib/dpkg/updates"
: >"$own/var/lib/dpkg/status"
# Libraries, the processor and the account of who did it are the system's, which this directory is none of.
dpkg() { command dpkg "--root=$own" --force-depends,architecture,not-root,script-chrootless --log=/dev/null "$@" >/dev/null; }
dpkg --install "$package"
for wanted in bin/ebb share/man/man1/ebb-limit.1.gz share/bash-completion/completions/ebb share/doc/ebbtide/copyright; do
    [ -f "$own/usr/$wanted" ] || fail "$package has no usr/$wanted"
done
dpkg --purge ebbtide
left=$(find "$own" -type f -not -path '*/var/lib/dpkg/*')
[ -z "$left" ] || fail "removing the package leaves $left"
echo "== $package: $(stat -c %s "$package") bytes, the program $size bytes; needs $needs"
