//! The live line of `ebb limit`, on a terminal that the limited program writes to as well.
//!
//! Where the program writes between two updates nobody can say, so the line is put as pv puts its own: from the left edge on, with
//! what is left of a longer one erased, and taken away before anything else of this program's. Filled up with blanks, or
//! remembered by its place, it would spoil what the program has written.

use crate::views::{is_in_foreground, say_status, stderr_is_terminal};

/// One line on standard error.
pub struct LimitLine {
    is_shown: bool,
    /// Whether one is there.
    stands: std::cell::Cell<bool>,
}

impl LimitLine {
    /// For standard error as it is: nothing where it is no terminal, or when quiet.
    pub fn new(quiet: bool) -> Self {
        LimitLine { is_shown: !quiet && stderr_is_terminal(), stands: false.into() }
    }

    /// Replaces it. Whoever writes to a terminal from the background may be stopped for it (`stty tostop`), and the program with it.
    pub fn show(&self, text: &str) {
        if self.is_shown && is_in_foreground() {
            say_status(&format!("{text} | "));
            self.stands.set(true);
        }
    }

    /// Takes the line off the terminal.
    pub fn clear(&self) {
        if self.stands.take() && is_in_foreground() {
            say_status("");
        }
    }
}
