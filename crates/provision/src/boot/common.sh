set -u
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
LC_ALL=C
export PATH LC_ALL
umask 022

say() { printf 'ebb-%s: %s\n' "$name" "$*"; }
refuse() { say "refused: $*. No disk was written" || :; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }
seconds() { cut -d . -f 1 /proc/uptime; }

missing() {
    for program in $programs; do
        have "$program" || printf '%s ' "$program"
    done
}

# Where there is a network and something that installs. Names of packages are words, and one argument each.
# shellcheck disable=SC2086
install_programs() {
    say "installing $packages, for what is missing: $(missing)"
    if have apt-get; then
        export DEBIAN_FRONTEND=noninteractive
        apt-get -q -o DPkg::Lock::Timeout=300 update
        apt-get -q -y -o DPkg::Lock::Timeout=300 --no-install-recommends install $packages
    elif have dnf; then
        dnf -q -y install $packages
    elif have yum; then
        yum -q -y install $packages
    elif have zypper; then
        zypper --quiet --non-interactive install $packages
    fi
    [ -z "$(missing)" ] || refuse "missing, and could not be installed: $(missing)"
}

