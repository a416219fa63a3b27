//! `cargo xtask fuzz`: every fuzz target for a while.

use crate::run::{Step, run_all};
use std::process::{Command, Stdio};

/// Each has a file in fuzz/fuzz_targets and a corpus in fuzz/corpus.
const TARGETS: [&str; 9] = [
    "experiment",
    "iostat",
    "fio_import",
    "bonnie_import",
    "job_file",
    "tables",
    "sysfs",
    "log_page",
    "catalog",
];
/// Seconds for each target among all tests.
const BRIEFLY: u32 = 10;

/// Runs the targets that `arguments` names, or all.
pub fn run(arguments: &[String]) -> Result<(), String> {
    let mut seconds: u32 = 60;
    let mut targets: Vec<&'static str> = Vec::new();
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        if word == "--seconds" {
            seconds = words
                .next()
                .and_then(|n| n.parse().ok())
                .filter(|n| *n > 0)
                .ok_or("--seconds needs a number above 0")?;
        } else if let Some(target) = TARGETS.iter().find(|target| *target == word) {
            targets.push(target);
        } else {
            return Err(format!("no fuzz target `{word}`; there are {}", TARGETS.join(", ")));
        }
    }
    if targets.is_empty() {
        targets.extend(TARGETS);
    }
    if let Some(missing) = missing() {
        return Err(missing);
    }
    run_targets(&targets, seconds)
}

/// Runs every target for a short time where the tools are there, and says so where they are not: they take minutes to
/// build and need a toolchain that the project does not need otherwise.
pub fn briefly() -> Result<(), String> {
    match missing() {
        None => run_targets(&TARGETS, BRIEFLY),
        Some(missing) => {
            println!("== fuzz targets: SKIPPED, {missing}");
            Ok(())
        }
    }
}

/// What fuzzing needs and is not there, with the command that installs it.
fn missing() -> Option<String> {
    let works = |arguments: &[&str]| {
        let mut command = Command::new("cargo");
        // The cargo that runs this is of one toolchain; rustup's chooses by `+nightly`.
        command.args(arguments).env_remove("RUSTUP_TOOLCHAIN").stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    if !works(&["+nightly", "--version"]) {
        return Some("fuzzing needs nightly Rust: rustup toolchain install nightly".to_owned());
    }
    if !works(&["+nightly", "fuzz", "--version"]) {
        return Some("fuzzing needs cargo-fuzz: cargo install cargo-fuzz".to_owned());
    }
    None
}

fn run_targets(targets: &[&'static str], seconds: u32) -> Result<(), String> {
    // New inputs go to a directory of their own: the corpus that is committed stays small.
    for &target in targets {
        let scratch = format!("fuzz/target/corpus/{target}");
        std::fs::create_dir_all(&scratch).map_err(|error| format!("{scratch}: {error}"))?;
        let corpus = format!("fuzz/corpus/{target}");
        let time = format!("-max_total_time={seconds}");
        run_all(&[Step::new(
            target,
            "rustup",
            &[
                "run",
                "nightly",
                "cargo",
                "fuzz",
                "run",
                target,
                &scratch,
                &corpus,
                "--",
                &time,
                "-timeout=10",
            ],
        )])?;
    }
    Ok(())
}
