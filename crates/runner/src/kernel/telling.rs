//! Runs programs and says at once what is waited for: an array that is in use is not torn down for half a minute.

use ebbtide_host::command::{CommandError, Output, Real, Runner};
use std::fs::File;
use std::time::Duration;

/// Says it with this.
pub struct Telling(pub fn(&str));

impl Runner for Telling {
    fn run_with(&self, program: &str, arguments: &[&str], input: &[u8]) -> Result<Output, CommandError> {
        Real.run_with(program, arguments, input)
    }

    fn run_on(&self, program: &str, arguments: &[&str], file: &File) -> Result<Output, CommandError> {
        Real.run_on(program, arguments, file)
    }

    fn waits(&self, why: &str, left: Duration) {
        (self.0)(&format!("trying again for up to {} s: {why}", left.as_secs_f64().ceil()));
    }
}
