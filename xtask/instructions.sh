#!/bin/sh
# Instructions per I/O of the engine's loop, which a noisy machine does not change: few and many writes to /dev/null under valgrind's
# callgrind, and the difference by operation. A system call counts as one: what is seen is the engine, not the kernel.
set -eu
cd "$(dirname "$0")/.."
cargo build --quiet --release --package ebbtide-engine --example load
load=${CARGO_TARGET_DIR:-target}/release/examples/load
count() { # OPERATIONS OPTION...
    operations=$1; shift
    said=$(valgrind --tool=callgrind --callgrind-out-file=/dev/null "$load" /dev/null rw=randwrite "$@" size=$((operations * 4096)) 2>&1)
    case $said in *"ops=$operations"*) ;; *) echo "instructions.sh: callgrind did not finish: $said" >&2; exit 1 ;; esac
    echo "$said" | sed -n 's/.*Collected : *//p'
}
for options in "iodepth=32 ioengine=io_uring" "iodepth=1 ioengine=io_uring" "iodepth=1 ioengine=psync"; do
    few=$(count 20000 $options) many=$(count 220000 $options)
    echo "$options: $(((many - few) / 200000)) instructions per I/O"
done
