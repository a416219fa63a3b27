//! The programs that the lab runs.

use super::LabError;
use ebbtide_host::command::{Output, Real, Runner, Shown, installed, said};

/// What building an image and booting it need: a program, and the Debian package that brings it.
const NEEDED: [(&str, &str); 7] = [
    ("apt-get", "apt"),
    ("dpkg-deb", "dpkg"),
    ("tar", "tar"),
    ("mksquashfs", "squashfs-tools"),
    ("mke2fs", "e2fsprogs"),
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("setpriv", "util-linux"),
];

/// Whether everything that building an image and booting it needs is installed.
///
/// # Errors
/// What is missing, with the command that installs it.
pub fn check() -> Result<(), LabError> {
    if std::env::consts::ARCH != "x86_64" {
        return Err(LabError::Architecture(std::env::consts::ARCH));
    }
    let (programs, packages): (Vec<_>, Vec<_>) =
        NEEDED.into_iter().filter(|(program, _)| !installed(program)).unzip();
    match programs.is_empty() {
        true => Ok(()),
        false => Err(LabError::Missing { programs: programs.join(", "), packages: packages.join(" ") }),
    }
}

/// Runs a program to its end, which must be a good one.
///
/// # Errors
/// With the command and what it said.
pub fn run(program: &str, arguments: &[&str]) -> Result<Output, LabError> {
    run_to(program, arguments, &[0])
}

/// [`run`] to one of these exit statuses.
///
/// # Errors
/// As there.
pub fn run_to(program: &str, arguments: &[&str], good: &[i32]) -> Result<Output, LabError> {
    let output = Real.run(program, arguments)?;
    match output.status {
        Some(status) if good.contains(&status) => Ok(output),
        status => Err(LabError::Program {
            command: Shown(program, arguments).to_string(),
            status: status.map_or("a signal".to_owned(), |status| format!("status {status}")),
            said: said(&output.stderr, ""),
        }),
    }
}

/// The last `count` lines of `text` that are not empty.
pub fn last_lines(text: &str, count: usize) -> String {
    let mut lines: Vec<&str> =
        text.lines().rev().filter(|line| !line.trim().is_empty()).take(count).collect();
    lines.reverse();
    lines.join("\n")
}
