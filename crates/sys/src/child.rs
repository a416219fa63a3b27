//! A program that is in its control groups before it does anything.

use rustix::fd::{AsRawFd, OwnedFd};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Lets the program that `command` starts write itself into each of `groups`, open to write, before it begins; one that
/// cannot is not started.
pub fn enter(command: &mut Command, groups: Vec<OwnedFd>) {
    let enter = move || {
        for group in &groups {
            // The kernel reads 0 as the process that writes it.
            // SAFETY: the descriptor is open, and what is written is one static byte.
            if unsafe { libc::write(group.as_raw_fd(), c"0".as_ptr().cast(), 1) } < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    };
    // SAFETY: between fork and exec the closure calls write alone, which is safe there (signal-safety(7)), and allocates
    // nothing: an error of the system's is a number.
    unsafe { command.pre_exec(enter) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_writes_before_it_begins_or_does_not_begin() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let mut command = Command::new("cat");
        command.arg(file.path());
        enter(&mut command, vec![file.reopen().expect("opens").into()]);
        assert_eq!(command.output().expect("starts").stdout, b"0");
        let mut command = Command::new("true");
        enter(&mut command, vec![std::fs::File::open(file.path()).expect("opens").into()]);
        assert!(command.status().is_err(), "open to read alone");
    }
}
