//! The programs that the lab runs.

use super::LabError;
use crate::command::{Output, Real, Runner};

/// A program, and the Debian package that brings it.
struct Tool {
    program: &'static str,
    package: &'static str,
}

const TO_BUILD: &[Tool] = &[
    Tool { program: "apt-get", package: "apt" },
    Tool { program: "dpkg-deb", package: "dpkg" },
    Tool { program: "tar", package: "tar" },
    Tool { program: "mksquashfs", package: "squashfs-tools" },
];

const TO_BOOT: &[Tool] = &[
    Tool { program: "qemu-system-x86_64", package: "qemu-system-x86" },
    Tool { program: "setpriv", package: "util-linux" },
    Tool { program: "mksquashfs", package: "squashfs-tools" },
];

/// Whether everything that building an image and booting it needs is installed.
///
/// # Errors
/// What is missing, with the command that installs it.
pub fn check() -> Result<(), LabError> {
    if std::env::consts::ARCH != "x86_64" {
        return Err(LabError::Architecture(std::env::consts::ARCH));
    }
    let mut missing: Vec<&Tool> = Vec::new();
    for tool in TO_BUILD.iter().chain(TO_BOOT) {
        if !on_path(tool.program) && !missing.iter().any(|other| other.program == tool.program) {
            missing.push(tool);
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let join = |word: fn(&&Tool) -> &'static str, between: &str| {
        missing.iter().map(word).collect::<Vec<_>>().join(between)
    };
    Err(LabError::Missing { programs: join(|t| t.program, ", "), packages: join(|t| t.package, " ") })
}

/// Whether `program` is in a directory of `PATH`, or in one of root's.
fn on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin", "/usr/bin", "/bin"].map(Into::into))
        .any(|directory| directory.join(program).is_file())
}

/// Runs a program to its end, which must be a good one.
///
/// # Errors
/// With the command and what it said.
pub fn run(program: &str, arguments: &[&str]) -> Result<Output, LabError> {
    let output = Real.run(program, arguments)?;
    if output.status == Some(0) {
        return Ok(output);
    }
    Err(failed(program, arguments, output.status, &output.stderr))
}

/// The error of a program that ended badly.
pub fn failed(program: &str, arguments: &[&str], status: Option<i32>, stderr: &str) -> LabError {
    LabError::Program {
        command: std::iter::once(program).chain(arguments.iter().copied()).collect::<Vec<_>>().join(" "),
        status: status.map_or("a signal".to_owned(), |status| format!("status {status}")),
        said: last_lines(stderr, 5),
    }
}

/// The last `count` lines of `text` that are not empty.
pub fn last_lines(text: &str, count: usize) -> String {
    let mut lines: Vec<&str> =
        text.lines().rev().filter(|line| !line.trim().is_empty()).take(count).collect();
    lines.reverse();
    lines.join("\n")
}
