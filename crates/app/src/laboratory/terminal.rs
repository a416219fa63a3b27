//! This terminal as the terminal of a guest's shell.

use crate::error::CliError;
use crate::terminal::Changed;
use crate::views;
use ebbtide_lab::guest::{Guest, Stream};
use ebbtide_model::backend::Control;
use rustix::termios::{OptionalActions, Termios, isatty};
use std::io::{ErrorKind, Read, Write, stdin};
use std::sync::atomic::Ordering;

/// Rows and columns, where standard input and output are a terminal.
pub fn size() -> Option<(u16, u16)> {
    if !isatty(stdin()) {
        return None;
    }
    let (rows, columns) = views::stdout_size()?;
    // A serial line does not know its size: the usual one, then.
    Some(if rows == 0 || columns == 0 { (24, 80) } else { (rows, columns) })
}

/// Joins the terminal and the guest's until the guest ends or somebody says stop.
///
/// # Errors
/// When either fails.
pub fn connect(guest: &Guest, control: &Control) -> Result<(), CliError> {
    let failed = |error: std::io::Error| CliError::Failed(format!("the terminal failed: {error}"));
    let mut from = guest.terminal()?;
    let mut to = from.try_clone().map_err(failed)?;
    let _raw = Changed::new(stdin(), OptionalActions::Now, Termios::make_raw)
        .map_err(|error| failed(error.into()))?;
    // Blocked in a read when the guest ends; it ends with the program.
    std::thread::spawn(move || {
        let mut typed = [0; 1024];
        while let Ok(length @ 1..) = stdin().read(&mut typed) {
            if to.write_all(&typed[..length]).is_err() {
                return;
            }
        }
    });
    let mut said = [0; 8192];
    while !control.stop.load(Ordering::Relaxed) {
        match from.read(&mut said) {
            Ok(0) => return Ok(()),
            Ok(length) => {
                views::pass_on(Stream::Output, &said[..length]).map_err(failed)?;
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            // QEMU has ended with something unread.
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(()),
            Err(error) => return Err(failed(error)),
        }
    }
    Err(CliError::Interrupted("the guest was ended".to_owned()))
}
