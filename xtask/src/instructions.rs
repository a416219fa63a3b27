//! `cargo xtask instructions`: what the engine's loop costs in instructions, which a noisy machine does not change.
//!
//! The bare load generator writes to `/dev/null` under valgrind's callgrind, once few and once many operations; the
//! difference divided by the difference in operations is the cost of one, without start-up. The ring's system calls
//! count as one instruction each: what is seen is the engine, not the kernel.

use crate::bench::build_load;
use std::process::Command;

/// Operations of the two runs.
const FEW: u64 = 20_000;
const MANY: u64 = 220_000;

/// Counts the instructions of each case and prints them.
pub fn run() -> Result<(), String> {
    let load = build_load()?;
    for (title, options) in [
        ("ring, iodepth 32", ["iodepth=32", "ioengine=io_uring"]),
        ("ring, iodepth 1", ["iodepth=1", "ioengine=io_uring"]),
        ("pread and pwrite", ["iodepth=1", "ioengine=psync"]),
    ] {
        let few = count(&load, &options, FEW)?;
        let many = count(&load, &options, MANY)?;
        let each = many.saturating_sub(few) as f64 / (MANY - FEW) as f64;
        println!("{title}: {each:.0} instructions per I/O");
    }
    Ok(())
}

/// Instructions of one run of `operations`.
fn count(load: &str, options: &[&str], operations: u64) -> Result<u64, String> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", load, "/dev/null", "rw=randwrite"])
        .args(options)
        .arg(format!("size={}", operations * 4096))
        .output()
        .map_err(|error| format!("valgrind cannot be started (package valgrind): {error}"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    let done = String::from_utf8_lossy(&output.stdout).contains(&format!("ops={operations}\n"));
    let collected = text.lines().find_map(|line| line.rsplit_once("Collected : ")?.1.trim().parse().ok());
    match collected {
        Some(count) if done && output.status.success() => Ok(count),
        _ => Err(format!("callgrind did not finish: {text}{}", String::from_utf8_lossy(&output.stdout))),
    }
}
