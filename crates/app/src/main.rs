//! The `ebb` command: its arguments go to `cli`, and what that returns becomes the exit status.

use std::process::ExitCode;
use std::thread;

/// Bytes of stack for the whole program, whatever `ulimit -s` leaves to its first thread: what Linux gives by default.
/// Only what is used of it takes memory.
const STACK: usize = 8 << 20;
/// The status that Rust ends a program with that panicked.
const PANICKED: u8 = 101;

fn main() -> ExitCode {
    match thread::Builder::new().name("main".to_owned()).stack_size(STACK).spawn(ebbtide_app::cli::main) {
        Ok(program) => program.join().unwrap_or(ExitCode::from(PANICKED)),
        // No address space (`ulimit -v`) or no more threads: what there is may do.
        Err(_) => ebbtide_app::cli::main(),
    }
}
