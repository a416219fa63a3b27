# Sourced by ./first-run and ./run-tests: a Rust tool chain and a C linker must be there before cargo can do the rest.
if ! command -v cargo >/dev/null 2>&1 && [ -f "$HOME/.cargo/env" ]; then . "$HOME/.cargo/env"; fi
if ! command -v cargo >/dev/null 2>&1; then
    echo "Rust (1.90 or later) is needed: https://rustup.rs" >&2
    exit 1
fi
if ! command -v cc >/dev/null 2>&1; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends gcc libc6-dev
    else
        echo "A C compiler is needed to link and to build SQLite: sudo apt-get install gcc libc6-dev" >&2
        exit 1
    fi
fi
