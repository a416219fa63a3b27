//! A terminal in another mode for a while.

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use std::os::fd::AsFd;

/// A terminal that is as it was when this is dropped.
pub struct Changed<T: AsFd> {
    terminal: T,
    before: Termios,
    when: OptionalActions,
}

impl<T: AsFd> Changed<T> {
    pub fn new(
        terminal: T,
        when: OptionalActions,
        change: impl FnOnce(&mut Termios),
    ) -> rustix::io::Result<Self> {
        let before = tcgetattr(&terminal)?;
        let mut modes = before.clone();
        change(&mut modes);
        tcsetattr(&terminal, when, &modes)?;
        Ok(Changed { terminal, before, when })
    }
}

impl<T: AsFd> Drop for Changed<T> {
    fn drop(&mut self) {
        let _ = tcsetattr(&self.terminal, self.when, &self.before);
    }
}
