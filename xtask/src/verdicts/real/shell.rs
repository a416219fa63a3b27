//! Programs that the cases are made with.

use std::process::{Command, Output};

/// Runs a program and returns what it printed.
///
/// # Errors
/// When it cannot be started, or ends with another status than 0: its command and what it said.
pub fn output(program: &str, arguments: &[&str]) -> Result<String, String> {
    let command = || format!("{program} {}", arguments.join(" "));
    let output = Command::new(program)
        .args(arguments)
        .output()
        .map_err(|error| format!("{}: cannot start: {error}", command()))?;
    if !output.status.success() {
        return Err(format!("{}: {}: {}", command(), output.status, said(&output)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The first lines of what a program that failed said.
pub fn said(output: &Output) -> String {
    let all = [output.stderr.as_slice(), output.stdout.as_slice()].concat();
    String::from_utf8_lossy(&all).lines().take(6).collect::<Vec<_>>().join("; ")
}
