#!/bin/sh
# Puts `ebb` in place and takes it away again. Downloads nothing, and overwrites nothing that it did not place.
#   ./install.sh FILE SHA256 [--prefix DIR]   a .deb by dpkg; a program into DIR, /usr/local by default
#   ./install.sh --remove [--prefix DIR]      the package, if DIR is not given; otherwise what was placed in DIR
set -eu; umask 022
list=share/ebbtide/installed dir='' file=''
fail() { echo "install.sh: $1" >&2; exit "${2:-1}"; }
usage() { fail "write ./install.sh FILE SHA256 [--prefix DIR], or ./install.sh --remove [--prefix DIR]" 2; }
is_there() { [ -e "$1" ] || [ -L "$1" ]; }
is_placed() { [ -f $list ] && [ -f "$1" ] && [ ! -L "$1" ] && grep -Fqx -e "$(sha256sum "$1")" $list; }
drop() { while read -r path; do # removes what is still as it was placed
    ! is_placed "$path" || rm "$path"
    ! is_there "$path" || echo "install.sh: $dir/$path is not as it was placed, and stays" >&2
done; }
is_unused() { # fails where a service calls the program $1: an array may need it at the next boot
    units=$(grep -Fls -e "$1" "${DPKG_ROOT:-}"/etc/systemd/system/*.service) || return 0
    fail "$1 is called by $(echo $units): take away what they are for first (ebb undo)"
}
case ${1:-} in
--remove) shift ;;
-* | '') usage ;;
*) file=$1 sum=${2:-}; [ ${#sum} = 64 ] || usage; shift 2 ;;
esac
[ $# = 0 ] || { [ $# = 2 ] && [ "$1" = --prefix ] && [ -n "$2" ] && dir=$2; } || usage
if [ -z "$dir$file" ] && dpkg -L ebbtide >/dev/null 2>&1; then is_unused /usr/bin/ebb; exec dpkg --remove ebbtide; fi
case $file in *.deb) [ -z "$dir" ] || usage ;; *) dir=$(cd -- "${dir:-/usr/local}" && pwd) ;; esac
if [ -z "$file" ]; then
    cd "$dir"; [ -f $list ] || fail "$dir/$list is not there: nothing is placed in $dir; give another --prefix"
    is_unused "$dir/bin/ebb"; made=$(sed -n 's/^dir  //p' $list | sort -ru)
    sed '/^dir /d; s/^[^ ]*  //' $list | sort -u | drop; rm $list
    for made in $made; do rmdir "$made" 2>/dev/null || :; done
    exit
fi
work=$(mktemp -d ${dir:+"$dir/.ebb-install.XXXXXX"})
trap 'rm -rf "$work"' EXIT; trap 'exit 130' HUP INT TERM
cp -- "$file" "$work/ebb"; has=$(sha256sum <"$work/ebb")
[ "${has%% *}" = "$sum" ] || fail "$file has the SHA-256 ${has%% *}, not $sum: nothing was placed; fetch it again"
if [ -z "$dir" ]; then
    [ "$(dpkg-deb -f "$work/ebb" Package)" = ebbtide ] || fail "$file is not the package ebbtide"
    dpkg-query -L ebbtide >"$work/own" 2>/dev/null || :
    dpkg-deb --fsys-tarfile "$work/ebb" | tar -t | sed -n 's|^\.\(/.*[^/]\)$|\1|p' >"$work/paths"
    while read -r path; do
        ! is_there "${DPKG_ROOT:-}$path" || grep -Fqx -e "$path" "$work/own" || fail "$path is another's: move it away"
    done <"$work/paths"
    dpkg --install "$work/ebb" || fail "dpkg refused, as it says; where libraries are missing: apt-get -f install"; exit
fi
bash=share/bash-completion/completions zsh=share/zsh/site-functions fish=share/fish/vendor_completions.d
mkdir "$work/new"; cd "$work/new"; mkdir -p bin share/ebbtide share/man/man1 $bash $zsh $fish
mv ../ebb bin; chmod 755 bin/ebb
version=$(bin/ebb --version) || fail "$file does not run here: take the program for $(uname -m)"
bin/ebb completions bash >$bash/ebb; bin/ebb completions zsh >$zsh/_ebb; bin/ebb completions fish >$fish/ebb.fish
bin/ebb --quiet man share/man/man1; find * -type f -exec sha256sum {} + >../sums; find * -type d >../dirs; cd "$dir"
while read -r sum path; do
    ! is_there "$path" || is_placed "$path" || fail "$dir/$path is another's: move it away, or give another --prefix"
done <"$work/sums"
while read -r new; do [ -d "$new" ] || echo "dir  $new"; done <"$work/dirs" >"$work/made"; xargs mkdir -p <"$work/dirs"
cat "$work/made" "$work/sums" >>$list # before the files are there, for whoever is killed here; old lines stay true
while read -r sum path; do mv -f "$work/new/$path" "$path"; done <"$work/sums"
awk 'NR == FNR { new[$2]; next } $1 != "dir" && !($2 in new) { print $2 }' "$work/sums" $list | sort -u | drop
echo "install.sh: $version is in $dir/bin; ./install.sh --remove --prefix $dir takes it away"
