//! `ebb bench` as its users run it.

mod fio;
mod loads;
mod targets;
mod usage;

use assert_cmd::Command;
use serde_json::Value;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// `ebb bench` with its state in `state`, and no progress.
fn ebb(state: &TempDir) -> Command {
    run(state, "bench")
}

/// The same for another subcommand.
fn run(state: &TempDir, subcommand: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ebb"));
    command
        .env("XDG_DATA_HOME", state.path().join("data"))
        .env("XDG_STATE_HOME", state.path().join("state"))
        .args(["--quiet", subcommand]);
    command
}

fn directory() -> TempDir {
    tempfile::tempdir_in("/var/tmp").expect("a directory")
}

fn json(command: &mut Command) -> Value {
    let output = command.arg("--json").output().expect("runs");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{errors}");
    serde_json::from_slice(&output.stdout).expect("stdout is JSON alone")
}

/// A file of `size` bytes of something.
fn file(path: &Path, size: usize) {
    let bytes: Vec<u8> = (0..size).map(|n| (n * 31 % 251) as u8).collect();
    fs::write(path, bytes).expect("writes");
}
