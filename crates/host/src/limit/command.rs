//! Starting the program that is limited.

use ebbtide_door::kernel;
use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Stdio};

/// Starts `words`, a program and its arguments, in the control group `group`, on this program's standard streams; its
/// standard output goes to standard error where that is `aside`. Its process number.
///
/// # Errors
/// When there is no such program, it may not be run, or it cannot enter the group.
pub fn start(words: &[OsString], group: Option<&Path>, aside: bool) -> io::Result<u32> {
    let (program, arguments) = words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(program);
    command.args(arguments);
    if aside {
        // What the other end is, its own descriptor.
        let errors = rustix::io::fcntl_dupfd_cloexec(ebbtide_sys::streams::errors().as_fd(), 3)?;
        command.stdout(Stdio::from(errors));
    }
    let group = group.map(kernel::group_to_enter).transpose()?;
    ebbtide_sys::child::enter(&mut command, group.into_iter().collect());
    Ok(command.spawn()?.id())
}
