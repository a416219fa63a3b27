//! What it takes to hold programs to a rate: who belongs to a program and how it stands still ([`program`]), what it has moved ([`moved`],
//! [`sockets`]). When it has to is `ebbtide_model::limit`'s to say.

pub mod moved;
pub mod program;
pub mod sockets;

pub use ebbtide_sys::signals::{Caught, Signals, unblock};

use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};

/// `words`, a program and its arguments, on this program's standard streams; its standard output goes to standard error where that is
/// `aside`.
///
/// # Errors
/// When there are no words, or no descriptor is left.
pub fn command(words: &[OsString], aside: bool) -> io::Result<Command> {
    let (program, arguments) = words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(program);
    command.args(arguments);
    if aside {
        // What the other end is, its own descriptor.
        let errors = rustix::io::fcntl_dupfd_cloexec(ebbtide_sys::streams::errors().as_fd(), 3)?;
        command.stdout(Stdio::from(errors));
    }
    Ok(command)
}
