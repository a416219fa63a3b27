//! The project's own commands: `cargo xtask COMMAND`.
//!
//! Each command is a list of programs that are run one after the other; the first that fails ends it.

mod bench;
mod debian;
mod door;
mod fuzz;
mod instructions;
mod purity;

use clap::{Parser, Subcommand};
use run::{Step, run_all, run_both};
use std::process::ExitCode;
use xtask::{packages, pages, run};

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
    /// The parsers of outside text with random input
    Fuzz(fuzz::Options),
    /// The options of a workload: writes their tables in docs/bench.md and docs/experiment-file.md
    Options(Passed),
    /// The Debian package: made by cargo-deb, installed and removed in a directory of its own (installs cargo-deb)
    Package(debian::Options),
    /// The simulator beside real md and LVM in a guest: writes the table of docs/simulator.md
    Md(Passed),
    /// How often verdicts are right on cases whose truth is known: writes docs/verdict-accuracy.md
    Verdicts(Passed),
    /// setup, check, unit, root, browser, lab and fuzz
    Test {
        /// With what takes long: every state with every way to write, every kill, guests under emulation, a minute of fuzzing a target
        #[arg(long)]
        all: bool,
    },
}

/// What a command of `xtask/figures` is given, `--help` too.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
struct Passed {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    arguments: Vec<String>,
}

impl Passed {
    fn to_figures(&self, command: &str) -> Result<(), String> {
        let run = ["run", "--quiet", "--package", "ebbtide-figures", "--", command];
        let passed = self.arguments.iter().map(String::as_str);
        run_all(&[Step::new("figures", &run::cargo(), &run.into_iter().chain(passed).collect::<Vec<_>>())])
    }
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Setup => packages::install(),
        Command::Check => check(),
        Command::Unit => unit(false),
        Command::Root => root(false),
        Command::Browser => browser(),
        Command::Lab => lab(false),
        Command::Test { all } => packages::install().and_then(|()| check()).and_then(|()| every_test(all)),
        Command::Bench(options) => bench::run(&options),
        Command::Instructions => instructions::run(),
        Command::Fuzz(options) => fuzz::run(options),
        Command::Package(options) => debian::run(&options),
        Command::Md(passed) => passed.to_figures("md"),
        Command::Options(passed) => passed.to_figures("options"),
        Command::Verdicts(passed) => passed.to_figures("verdicts"),
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
        Step::cargo("clippy", "clippy --workspace --all-targets -- -D warnings"),
        Step::cargo(
            "clippy on what is tested by name",
            &format!("clippy --workspace {BY_NAME} -- -D warnings"),
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

/// Tests that plain `cargo test` leaves out.
const BY_NAME: &str = "--test browser --test lab";

/// `cargo test` of the workspace with these arguments: of one package alone, its dependencies would have other features, and be built
/// once more. With `all`, tests try each of what they else try every so many of.
fn cargo_test(name: &'static str, all: bool, arguments: &str) -> Step {
    let step = Step::cargo(name, &format!("test --workspace {arguments}"));
    if all { step.with(("EBB_TEST_EVERY", "1")) } else { step }
}

/// All tests, in the order of how soon they tell that something is wrong. Beside those that wait much, others.
fn every_test(all: bool) -> Result<(), String> {
    // At once, so that nothing is built where tests run.
    run_all(&[
        cargo_test("tests: build", all, "--tests --no-run"),
        cargo_test("tests by name: build", all, &format!("{BY_NAME} --no-run")),
    ])?;
    run_both(|| unit(all), &[fuzz::build()?.idle()])?;
    small_root(all)?;
    browser()?;
    if has_loop_devices() {
        run_both(|| lab(all), &[door(all)])?;
    } else {
        lab(all)?;
    }
    fuzz::run(fuzz::Options::whole(all))
}

/// Twice as many at a time as there are processors: most wait for the programs that they start.
fn unit(all: bool) -> Result<(), String> {
    let at_once = 2 * processors();
    run_all(&[cargo_test("tests", all, &format!("--tests --no-fail-fast -- --test-threads {at_once}"))])
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Tests that `unit` leaves out because they need root and a free loop device.
fn root(all: bool) -> Result<(), String> {
    small_root(all)?;
    if has_loop_devices() { run_all(&[door(all)]) } else { Ok(()) }
}

fn has_loop_devices() -> bool {
    packages::is_root() && std::path::Path::new("/dev/loop-control").exists()
}

/// All of them but those of the door.
fn small_root(all: bool) -> Result<(), String> {
    if !has_loop_devices() {
        println!("== root tests: SKIPPED, they need root and loop devices");
        return Ok(());
    }
    run_all(&[cargo_test("root tests", all, "--test root --test program -- --ignored")])
}

/// The tests of the door, one after the other: each uses many loop devices.
fn door(all: bool) -> Step {
    cargo_test("one door", all, "--test door -- --ignored --test-threads 1")
}

/// What is a study and takes an hour of its own.
const STUDIES: &str = "--skip replicated::many --skip tunnels:: --skip hosts::the_study";

/// One more at a time than there are processors: each waits for its guests much of the time.
fn lab(all: bool) -> Result<(), String> {
    let at_once = processors() + 1;
    let which = if all { format!(" --include-ignored {STUDIES}") } else { String::new() };
    run_all(&[cargo_test(
        "guests with real kernels",
        all,
        &format!("--test lab -- --test-threads {at_once}{which}"),
    )])
}

fn browser() -> Result<(), String> {
    run_all(&[cargo_test("report in a browser", false, "--test browser")])
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
            "",
        ] {
            assert!(of(bad).is_err(), "{bad}");
        }
    }
}
