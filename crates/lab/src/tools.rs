//! The programs that the lab runs.

use super::LabError;
use ebbtide_host::command::{Output, Real, Runner, Shown, installed, said};

/// A program, and the Debian package that brings it.
struct Tool {
    program: &'static str,
    package: &'static str,
}

/// What building an image and booting it need.
const NEEDED: &[Tool] = &[
    Tool { program: "apt-get", package: "apt" },
    Tool { program: "dpkg-deb", package: "dpkg" },
    Tool { program: "tar", package: "tar" },
    Tool { program: "mksquashfs", package: "squashfs-tools" },
    Tool { program: "mke2fs", package: "e2fsprogs" },
    Tool { program: "qemu-system-x86_64", package: "qemu-system-x86" },
    Tool { program: "setpriv", package: "util-linux" },
];

/// Whether everything that building an image and booting it needs is installed.
///
/// # Errors
/// What is missing, with the command that installs it.
pub fn check() -> Result<(), LabError> {
    if std::env::consts::ARCH != "x86_64" {
        return Err(LabError::Architecture(std::env::consts::ARCH));
    }
    let missing: Vec<&Tool> = NEEDED.iter().filter(|tool| !installed(tool.program)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let join = |word: fn(&&Tool) -> &'static str, between: &str| {
        missing.iter().map(word).collect::<Vec<_>>().join(between)
    };
    Err(LabError::Missing { programs: join(|t| t.program, ", "), packages: join(|t| t.package, " ") })
}

/// Runs a program to its end, which must be a good one.
///
/// # Errors
/// With the command and what it said.
pub fn run(program: &str, arguments: &[&str]) -> Result<Output, LabError> {
    let output = run_any(program, arguments)?;
    if output.status == Some(0) {
        return Ok(output);
    }
    Err(failed(program, arguments, output.status, &output.stderr))
}

/// Runs a program to its end, whichever that is.
///
/// # Errors
/// When it cannot be run.
pub fn run_any(program: &str, arguments: &[&str]) -> Result<Output, LabError> {
    Ok(Real.run(program, arguments)?)
}

/// The error of a program that ended badly.
pub fn failed(program: &str, arguments: &[&str], status: Option<i32>, stderr: &str) -> LabError {
    LabError::Program {
        command: Shown(program, arguments).to_string(),
        status: status.map_or("a signal".to_owned(), |status| format!("status {status}")),
        said: said(stderr, ""),
    }
}

/// The last `count` lines of `text` that are not empty.
pub fn last_lines(text: &str, count: usize) -> String {
    let mut lines: Vec<&str> =
        text.lines().rev().filter(|line| !line.trim().is_empty()).take(count).collect();
    lines.reverse();
    lines.join("\n")
}
