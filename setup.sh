# Sourced by ./first-run and ./run-tests: a Rust tool chain and a C compiler must be there before cargo can do the rest.
# Says what is missing, asks where somebody is there to answer, and installs it.

oldest=$(sed -n 's/^rust-version = "1\.\([0-9]*\)".*/\1/p' Cargo.toml) # the minor of Rust 1.x

# Runs a command that installs something, once the person at the terminal agreed; without a terminal it is only announced.
agreed() {
    echo "setup: $1 is missing. To install it: $2" >&2
    [ -t 0 ] && [ -t 2 ] || return 0
    printf 'setup: do that now? [Y/n] ' >&2
    read -r answer
    case $answer in [nN]*) return 1 ;; esac
}

with_apt() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; }

apt_install() { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@"; }

# Whether a cargo is there and new enough.
rust_is_there() {
    ! [ -f "$HOME/.cargo/env" ] || . "$HOME/.cargo/env"
    minor=$(rustc --version 2>/dev/null | sed -n 's/^rustc 1\.\([0-9]*\).*/\1/p')
    command -v cargo >/dev/null 2>&1 && [ "${minor:-0}" -ge "$oldest" ]
}

install_rust() {
    if command -v rustup >/dev/null 2>&1; then
        agreed "Rust 1.$oldest or later" "rustup default stable" && rustup default stable && return
    elif with_apt && apt-cache policy rustup 2>/dev/null | grep -q 'Candidate: [0-9]'; then
        agreed "Rust 1.$oldest or later" "apt-get install rustup, then rustup default stable" && apt_install rustup && rustup default stable && return
    elif command -v curl >/dev/null 2>&1; then
        installer=$(mktemp)
        agreed "Rust 1.$oldest or later" "rustup's installer, from https://sh.rustup.rs, into ~/.cargo and ~/.rustup" &&
            curl --proto '=https' --tlsv1.2 --connect-timeout 20 -fsS -o "$installer" https://sh.rustup.rs &&
            sh "$installer" -y --profile minimal && rm -f "$installer" && return
        rm -f "$installer"
    fi
    return 1
}

if ! rust_is_there && ! { install_rust && rust_is_there; }; then
    echo "setup: install Rust 1.$oldest or later (https://rustup.rs, or your distribution's package rustup), then run this again" >&2
    exit 1
fi
if ! command -v cc >/dev/null 2>&1; then
    if ! { with_apt && agreed "a C compiler" "apt-get install gcc libc6-dev" && apt_install gcc libc6-dev; }; then
        echo "setup: a C compiler links the program and builds SQLite; install one (Debian: apt-get install gcc libc6-dev), then run this again" >&2
        exit 1
    fi
fi
