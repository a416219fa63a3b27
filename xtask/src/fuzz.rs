//! `cargo xtask fuzz`: every fuzz target for a while.

use crate::run::{Step, output, processors, run_all, side_by_side};
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};

/// Each has a file in fuzz/src and a corpus in fuzz/corpus.
const TARGETS: [&str; 11] = [
    "experiment",
    "need",
    "iostat",
    "import",
    "job_file",
    "tables",
    "sysfs",
    "log_page",
    "catalog",
    "aws",
    "shown",
];
const SECONDS: u32 = 10;
/// What runs leave: new inputs, logs and temporary files. The corpus that is committed stays small.
const SCRATCH: &str = "target/fuzz/scratch";
/// Where all is built with [`INSTRUMENTED`].
const BUILT: &str = "target/fuzz";
/// What libFuzzer needs to see which branches an input takes and what it is compared with (LLVM's SanitizerCoverage). No address
/// sanitizer: the code below the targets is safe Rust.
const INSTRUMENTED: (&str, &str) = (
    "RUSTFLAGS",
    "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
     -Cllvm-args=-sanitizer-coverage-trace-compares",
);

#[derive(clap::Args)]
pub struct Options {
    /// Seconds for each target
    #[arg(long, value_name = "N", default_value_t = SECONDS, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
    /// What is fuzzed [default: all]
    #[arg(value_name = "TARGET", value_parser = TARGETS)]
    targets: Vec<String>,
}

impl Options {
    /// Every target, for a minute.
    pub fn whole() -> Self {
        Options { seconds: 60, targets: Vec::new() }
    }
}

/// The tool chain's own target, by its name: what is compiled for a target that is named has the flags, what runs while it compiles
/// has not.
fn host() -> Result<String, String> {
    let said = output("rustc", &["-vV"])?;
    let host = said.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| format!("rustc -vV names no host: {said}"))
}

/// Builds the program of all targets.
pub fn build() -> Result<Step, String> {
    let arguments = format!(
        "build --profile fuzz --package ebbtide-fuzz --features libfuzzer --target-dir {BUILT} --target {}",
        host()?
    );
    Ok(Step::cargo("fuzz targets", &arguments).with(INSTRUMENTED))
}

/// Runs the targets that are asked for, or all, as many at once as there are cores.
pub fn run(Options { seconds, mut targets }: Options) -> Result<(), String> {
    if targets.is_empty() {
        targets.extend(TARGETS.map(str::to_owned));
    }
    run_all(&[build()?])?;
    let program = format!("{BUILT}/{}/fuzz/ebbtide-fuzz", host()?);
    side_by_side(targets, processors(), |target| one(&program, &target, seconds).err().into_iter().collect())
}

/// Runs `target`, which is built; its output goes to a file, of which the end is the error.
fn one(program: &str, target: &str, seconds: u32) -> Result<(), String> {
    let scratch = Path::new(SCRATCH).join(target);
    let (found, temporary) = (scratch.join("corpus"), scratch.join("tmp"));
    let log = scratch.join("log");
    let wrong = |error: std::io::Error| format!("fuzz target {target}: {}: {error}", scratch.display());
    // What a run that was killed has left.
    let _ = fs::remove_dir_all(&temporary);
    fs::create_dir_all(&found).and_then(|()| fs::create_dir_all(&temporary)).map_err(wrong)?;
    let output = File::create(&log).map_err(wrong)?;
    let status = Command::new(program)
        .arg(&found)
        .arg(format!("fuzz/corpus/{target}"))
        .args([&format!("-max_total_time={seconds}"), "-timeout=10"])
        .arg(format!("-artifact_prefix={}/", scratch.display()))
        .env("EBB_FUZZ_TARGET", target)
        .env("TMPDIR", fs::canonicalize(&temporary).map_err(wrong)?)
        .stdin(Stdio::null())
        .stdout(output.try_clone().map_err(wrong)?)
        .stderr(output)
        .status()
        .map_err(wrong)?;
    let said = String::from_utf8_lossy(&fs::read(&log).map_err(wrong)?).into_owned();
    fs::remove_dir_all(&temporary).map_err(wrong)?;
    // libFuzzer's last line: `Done 123 runs in 61 second(s)`.
    let done = said.lines().rev().find_map(|line| line.strip_prefix("Done "));
    match done {
        Some(done) if status.success() => {
            println!("== fuzz target {target}: {done}");
            Ok(())
        }
        _ => {
            let lines: Vec<&str> = said.lines().collect();
            let end = lines[lines.len().saturating_sub(40)..].join("\n");
            Err(format!("fuzz target {target} ended with {status}, {}:\n{end}", log.display()))
        }
    }
}
