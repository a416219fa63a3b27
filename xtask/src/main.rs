//! The project's own commands: `cargo xtask COMMAND`.
//!
//! Each command is a list of programs that are run one after the other; the first that fails ends it.

mod bench;
mod door;
mod fuzz;
mod instructions;
mod options;
mod packages;
mod pages;
mod purity;
mod run;
mod statistics;
mod studies;
mod verdicts;

use run::{Step, run_all};
use std::process::ExitCode;

const HELP: &str = "cargo xtask COMMAND

  setup     install the packages that the tests need (Debian, as root; otherwise say which are missing)
  check     formatting, clippy, purity of the pure crates, one door for writing, licences and sources of dependencies
  unit      tests without root, network or other programs
  root      tests that need root and a loop device; says so where they cannot run
  browser   the HTML report in a real browser (Debian's chromium)
  lab       real kernels in QEMU guests: layouts against md and LVM, `--on kernel`, `ebb lab`
  bench     the I/O engine beside fio; `cargo xtask bench --help`
  instructions   instructions per I/O of the engine's loop (valgrind)
  fuzz      the parsers of outside text with random input (installs cargo-fuzz)
            [--seconds 60] [TARGET]...
  options   the options of a workload: writes their tables in docs/bench.md and docs/experiment-file.md
  studies   the published studies beside the simulator: writes the tables of docs/studies
            [--check] [NAME]...
  statistics   coverage of intervals and false winners: writes the tables of docs/statistics.md
  verdicts  how often verdicts are right on cases whose truth is known: writes docs/verdict-accuracy.md
            [--tuning] [--each N] [CLASS]
            --real: on real devices of this machine (root, a quarter of an hour); `--real --help` lists its options
  test      setup, check, unit, root, browser, lab and fuzz
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result = match arguments.first().map(String::as_str) {
        Some("setup") => packages::install(),
        Some("check") => check(),
        Some("unit") => run_all(&unit()),
        Some("root") => root(),
        Some("browser") => run_all(&browser()),
        Some("lab") => run_all(&lab()),
        Some("test") => packages::install()
            .and_then(|()| check())
            .and_then(|()| run_all(&unit()))
            .and_then(|()| root())
            .and_then(|()| run_all(&browser()))
            .and_then(|()| run_all(&lab()))
            .and_then(|()| fuzz::run(&[])),
        Some("bench") => bench::run(&arguments[1..]),
        Some("instructions") => instructions::run(),
        Some("fuzz") => fuzz::run(&arguments[1..]),
        Some("studies") => studies::run(&arguments[1..]),
        Some("options") => options::run(),
        Some("statistics") => statistics::run(&arguments[1..]),
        Some("verdicts") => verdicts::run(&arguments[1..]),
        Some("help" | "--help" | "-h") => {
            print!("{HELP}");
            Ok(())
        }
        other => Err(format!("unknown command {other:?}\n\n{HELP}")),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}

fn check() -> Result<(), String> {
    run_all(&[
        Step::cargo("formatting", &["fmt", "--all", "--check"]),
        Step::cargo(
            "clippy",
            &["clippy", "--workspace", "--all-targets", "--all-features", "--", "-D", "warnings"],
        ),
    ])?;
    purity::check()?;
    door::check()?;
    if packages::on_path("cargo-deny") {
        run_all(&[Step::cargo("licences and sources", &["deny", "check", "bans", "licenses", "sources"])])
    } else {
        // cargo-deny takes minutes to build, so that it is a tool of the developer's machine;
        // the same questions about licences and sources are asked of `cargo metadata` here.
        println!("== cargo-deny is not installed: checking licences and sources with cargo metadata");
        purity::licences_and_sources()
    }
}

fn unit() -> Vec<Step> {
    vec![Step::cargo("tests", &["test", "--workspace"])]
}

/// Tests that `unit` leaves out because they need root and a free loop device.
fn root() -> Result<(), String> {
    if !packages::is_root() || !std::path::Path::new("/dev/loop-control").exists() {
        println!("== root tests: SKIPPED, they need root and loop devices");
        return Ok(());
    }
    run_all(&[
        Step::cargo(
            "root tests",
            &["test", "--package", "ebbtide-host", "--test", "root", "--", "--ignored"],
        ),
        Step::cargo(
            "root tests of the program",
            &[
                "test",
                "--package",
                "ebbtide",
                "--test",
                "failures",
                "--test",
                "trees",
                "--test",
                "watch",
                "--",
                "--ignored",
            ],
        ),
        Step::cargo(
            "one door",
            // Its tests use many loop devices each.
            &["test", "--package", "ebbtide", "--test", "door", "--", "--ignored", "--test-threads", "1"],
        ),
    ])
}

fn browser() -> Vec<Step> {
    vec![Step::cargo(
        "report in a browser",
        &["test", "--package", "ebbtide", "--features", "browser-tests", "--test", "browser"],
    )]
}

fn lab() -> Vec<Step> {
    vec![Step::cargo(
        "guests with real kernels",
        &["test", "--package", "ebbtide", "--features", "lab-tests", "--test", "lab"],
    )]
}
