//! The project's own commands: `cargo xtask COMMAND`.
//!
//! Each command is a list of programs that are run one after the other; the first that fails ends it.

mod bench;
mod debian;
mod door;
mod fuzz;
mod instructions;
mod md;
mod option_tables;
mod packages;
mod pages;
mod purity;
mod run;
mod verdicts;

use clap::{Parser, Subcommand};
use run::{Step, run_all, run_both};
use std::process::ExitCode;

/// The project's own commands.
#[derive(Parser)]
#[command(bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Install the packages that the tests need (Debian, as root; otherwise say which are missing)
    Setup,
    /// Formatting, clippy, purity of the pure crates, one door for writing, licences and sources of dependencies
    Check,
    /// Tests without root, network or other programs
    Unit,
    /// Tests that need root and a loop device; says so where they cannot run
    Root,
    /// The HTML report in a real browser (Debian's chromium)
    Browser,
    /// Real kernels in QEMU guests: layouts against md and LVM, `--on kernel`, `ebb lab`
    Lab,
    /// The I/O engine beside fio and, where a path to it is given, fio's t/io_uring
    Bench(bench::Options),
    /// Instructions per I/O of the engine's loop (valgrind)
    Instructions,
    /// The parsers of outside text with random input (installs cargo-fuzz)
    Fuzz(fuzz::Options),
    /// The options of a workload: writes their tables in docs/bench.md and docs/experiment-file.md
    Options,
    /// The Debian package: made by cargo-deb, installed and removed in a directory of its own (installs cargo-deb)
    Package(debian::Options),
    /// The simulator beside real md and LVM in a guest: writes the table of docs/simulator.md
    Md(md::Options),
    /// How often verdicts are right on cases whose truth is known: writes docs/verdict-accuracy.md
    Verdicts(verdicts::Options),
    /// setup, check, unit, root, browser, lab and fuzz
    Test {
        /// With what takes long: every state with every way to write, every kill, guests under emulation, a minute of fuzzing a target
        #[arg(long)]
        all: bool,
    },
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Setup => packages::install(),
        Command::Check => check(),
        Command::Unit => unit(),
        Command::Root => root(),
        Command::Browser => browser(),
        Command::Lab => lab(false),
        Command::Test { all } => packages::install()
            .and_then(|()| check())
            .and_then(|()| unit_and_fuzz_targets())
            .and_then(|()| small_root())
            .and_then(|()| browser())
            .and_then(|()| lab_and_door(all))
            .and_then(|()| fuzz::run(fuzz::Options::whole(all))),
        Command::Bench(options) => bench::run(&options),
        Command::Instructions => instructions::run(),
        Command::Fuzz(options) => fuzz::run(options),
        Command::Package(options) => debian::run(&options),
        Command::Md(options) => md::run(&options),
        Command::Options => option_tables::run(),
        Command::Verdicts(options) => verdicts::run(&options),
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
        Step::cargo("formatting", "fmt --all --check"),
        Step::cargo("clippy", "clippy --workspace --all-targets --all-features -- -D warnings"),
        // A workspace of their own; the macro that makes a target creates files by itself.
        Step::cargo(
            "clippy on the fuzz targets",
            "clippy --manifest-path=fuzz/Cargo.toml --target-dir=target -- -D warnings -A clippy::disallowed-methods",
        ),
    ])?;
    purity::check()?;
    door::check()?;
    // It takes minutes to build: whoever makes a release has it.
    if packages::on_path("cargo-deny") {
        return run_all(&[Step::cargo("licences and sources", "deny check bans licenses sources")]);
    }
    println!("== licences and sources: NOT CHECKED, `cargo install --locked cargo-deny` first");
    Ok(())
}

/// What tests of guests and of the browser are built with: both at once, so that the program is built once more and not twice.
const FEATURES: &str = "--features ebbtide/lab-tests,ebbtide/browser-tests";

/// `cargo test` of the workspace with these arguments: of one package alone, its dependencies would have other features, and be built
/// once more.
fn cargo_test(name: &'static str, arguments: &str) -> Step {
    Step::cargo(name, &format!("test --workspace {arguments}"))
}

fn test(name: &'static str, arguments: &str) -> Result<(), String> {
    run_all(&[cargo_test(name, arguments)])
}

fn unit() -> Result<(), String> {
    test("tests", "")
}

/// Tests, and the fuzz targets built by what processor time these leave: half of it, as many of them wait.
fn unit_and_fuzz_targets() -> Result<(), String> {
    let idle: Vec<Step> = fuzz::preparations().into_iter().map(Step::idle).collect();
    run_both(unit, &idle)
}

/// Tests that `unit` leaves out because they need root and a free loop device.
fn root() -> Result<(), String> {
    small_root()?;
    if has_loop_devices() { run_all(&[door_tests("", true)]) } else { Ok(()) }
}

fn has_loop_devices() -> bool {
    packages::is_root() && std::path::Path::new("/dev/loop-control").exists()
}

/// All of them but those of the door.
fn small_root() -> Result<(), String> {
    if !has_loop_devices() {
        println!("== root tests: SKIPPED, they need root and loop devices");
        return Ok(());
    }
    test("root tests", "--test root --test failures --test trees --test watch --test rbd -- --ignored")
}

/// The tests of the door, of the program with these `features`. Each uses many loop devices.
fn door_tests(features: &str, all: bool) -> Step {
    let step = cargo_test("one door", &format!("{features} --test door -- --ignored --test-threads 1"));
    if all { step.with(ALL) } else { step }
}

/// Tells tests to try each of what they else try every so many of.
const ALL: (&str, &str) = ("EBB_TEST_EVERY", "1");
/// What is a study and takes an hour of its own.
const STUDIES: &str = "--skip replicated::many --skip tunnels:: --skip hosts::the_study";

/// Guests, and beside them the tests of the door, which wait for most of their time.
fn lab_and_door(all: bool) -> Result<(), String> {
    if !has_loop_devices() {
        return lab(all);
    }
    // Built once for both: building for the one would replace the program that the other runs.
    test("guests and door: build", &format!("{FEATURES} --test lab --test door --no-run"))?;
    run_both(|| lab(all), &[door_tests(FEATURES, all)])
}

/// One more at a time than there are processors: each waits for its guests much of the time.
fn lab_tests(all: bool) -> Step {
    let at_once = std::thread::available_parallelism().map_or(1, usize::from) + 1;
    let which = if all { format!(" --include-ignored {STUDIES}") } else { String::new() };
    let step = cargo_test(
        "guests with real kernels",
        &format!("{FEATURES} --test lab -- --test-threads {at_once}{which}"),
    );
    if all { step.with(ALL) } else { step }
}

fn browser() -> Result<(), String> {
    test("report in a browser", &format!("{FEATURES} --test browser"))
}

fn lab(all: bool) -> Result<(), String> {
    run_all(&[lab_tests(all)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_wrong_ones_refused() {
        let of = |text: &str| Arguments::try_parse_from(["xtask"].into_iter().chain(text.split_whitespace()));
        for good in [
            "bench --runs 3 --only null-32,loop-128",
            "fuzz --seconds 5 tables sysfs",
            "test --all",
            "verdicts --tuning cpu",
            "verdicts --real --list cpu:7",
        ] {
            assert!(of(good).is_ok(), "{good}");
        }
        for bad in [
            "bench --runs 0",
            "bench --runs x",
            "bench --only null-3",
            "fuzz --seconds 0",
            "fuzz nonsense",
            "verdicts --list",
            "",
        ] {
            assert!(of(bad).is_err(), "{bad}");
        }
    }
}
