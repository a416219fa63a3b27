//! The project's own commands: `cargo xtask COMMAND`.
//!
//! Each command is a list of programs that are run one after the other; the first that fails ends it.

mod bench;
mod door;
mod fuzz;
mod prose;
mod purity;
mod test_programs;

use clap::{Parser, Subcommand};
use run::{Step, processors, run_all, run_beside};
use std::process::ExitCode;
use test_programs::Tests;
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
    /// The parsers of outside text with random input
    Fuzz(fuzz::Options),
    /// The options of a workload: writes their tables in docs/reference/bench.md and docs/reference/experiment-file.md
    Options(Passed),
    /// The Debian package: made by cargo-deb, installed and removed in a directory of its own (installs cargo-deb); `--target`, `--profile`
    Package(Passed),
    /// The simulator beside real md and LVM in a guest: writes the table of docs/explanation/simulator.md
    Md(Passed),
    /// How often verdicts are right on cases whose truth is known: writes docs/explanation/verdict-accuracy.md
    Verdicts(Passed),
    /// setup, check, unit, root, browser and lab
    Test {
        /// With what takes long: every state with every way to write, every kill, guests under emulation, a minute of fuzzing a target
        #[arg(long)]
        all: bool,
    },
}

/// What another program is given, `--help` too.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
struct Passed {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    arguments: Vec<String>,
}

impl Passed {
    fn to_package(&self) -> Result<(), String> {
        let passed: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        run_all(&[Step::new("package", &pages::root().join("xtask/package.sh").to_string_lossy(), &passed)])
    }

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
        Command::Unit => Tests::build(&["--tests"]).and_then(|tests| {
            run_beside(vec![tests.in_real_time()], 1)?;
            let (compute, wait) = tests.plain();
            run_beside(alone(wait.into_iter().chain(compute).collect()), processors())
        }),
        Command::Root => run_tests("--tests", |tests| vec![root(tests, false)]),
        Command::Browser => run_tests("--test browser", |tests| vec![browser(tests)]),
        Command::Lab => run_tests("--test lab", |tests| vec![guests(tests, false)]),
        Command::Test { all } => packages::install().and_then(|()| every_test(all)),
        Command::Bench(options) => bench::run(&options),
        Command::Fuzz(options) => fuzz::run(options),
        Command::Package(passed) => passed.to_package(),
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
    quick_check()?;
    let tables = "test --quiet --package ebbtide-analysis --lib pages_have_the_checks";
    run_all(&[Step::cargo("checks of verdicts and their pages", tables)])?;
    run_all(&clippy())
}

/// What takes seconds.
fn quick_check() -> Result<(), String> {
    run_all(&[Step::cargo("formatting", "fmt --all --check")])?;
    purity::check()?;
    door::check()?;
    prose::check()?;
    if packages::on_path("cargo-deny") {
        return licences();
    }
    println!(
        "== licences and sources: checked by `./run-tests --all`, which installs cargo-deny (minutes to build)"
    );
    Ok(())
}

/// Licences and sources of what is linked in, by cargo-deny.
fn licences() -> Result<(), String> {
    run_all(&packages::cargo_tool("cargo-deny"))?;
    run_all(&[Step::cargo("licences and sources", "deny check bans licenses sources")])
}

/// Warnings of all there is, and of what is tested by name.
fn clippy() -> Vec<Step> {
    ["--all-targets", BY_NAME]
        .map(|what| Step::cargo("clippy", &format!("clippy --workspace {what} -- -D warnings")))
        .into()
}

/// Tests that plain `cargo test` leaves out, in cargo's words.
const BY_NAME: &str = "--test browser --test lab";

/// All tests. What only computes, clippy, and the fuzz targets' build with `all`, have what processor is left: beside what judges real
/// time, which nothing else is beside, and then beside all others, of which the longest begins first.
fn every_test(all: bool) -> Result<(), String> {
    quick_check()?;
    let tests = Tests::build(&["--tests", BY_NAME])?;
    let (compute, wait) = tests.plain();
    let mut idle = each(compute, all);
    idle.extend(clippy());
    idle.extend(all.then(fuzz::build).transpose()?);
    let idle = idle.into_iter().map(Step::behind).collect();
    let mut chains = vec![guests(&tests, all), root(&tests, all)];
    chains.extend(alone(each(wait, all)));
    chains.push(browser(&tests));
    let judged = each(tests.in_real_time(), all);
    let (idle, judged, others) = std::thread::scope(|scope| {
        let idle = scope.spawn(|| run_beside(vec![idle], 1));
        let judged = run_beside(vec![judged], 1);
        let others = run_beside(chains, processors() + 1);
        (idle.join().unwrap_or_else(|_| Err("a thread that ran steps broke".to_owned())), judged, others)
    });
    let failed: Vec<String> = [judged, others, idle].into_iter().filter_map(Result::err).collect();
    if !failed.is_empty() {
        return Err(failed.join("\n"));
    }
    if all {
        licences()?;
        run_all(&each(tests.named("lab", &format!("--ignored --test-threads 1 {}", JUDGED.join(" "))), all))?;
        fuzz::run(fuzz::Options::whole())?;
    }
    Ok(())
}

/// Builds what `targets` says in cargo's words and runs `chains` of it.
fn run_tests(targets: &str, chains: impl FnOnce(&Tests) -> Vec<Vec<Step>>) -> Result<(), String> {
    run_beside(chains(&Tests::build(&[targets])?), processors())
}

/// With `all`, tests try each of what they else try every so many of.
fn each(steps: Vec<Step>, all: bool) -> Vec<Step> {
    steps.into_iter().map(|step| if all { step.with(("EBB_TEST_EVERY", "1")) } else { step }).collect()
}

/// Each step as a chain of its own.
fn alone(steps: Vec<Step>) -> Vec<Vec<Step>> {
    steps.into_iter().map(|step| vec![step]).collect()
}

/// Tests that need root and free loop devices; those of the door one after the other, as each uses many.
fn root(tests: &Tests, all: bool) -> Vec<Step> {
    if !(packages::is_root() && std::path::Path::new("/dev/loop-control").exists()) {
        println!("== root tests: SKIPPED, they need root and loop devices");
        return Vec::new();
    }
    let of = |name, arguments| tests.named(name, arguments);
    let steps =
        [of("root", "--ignored"), of("program", "--ignored"), of("door", "--ignored --test-threads 1")];
    each(steps.into_iter().flatten().collect(), all)
}

/// What is a study and takes an hour of its own.
const STUDIES: &str = "--skip replicated::many --skip tunnels:: --skip hosts::the_study";

/// Tests that judge figures of an emulated guest: alone.
const JUDGED: [&str; 3] = ["sweep::", "trees::", "verdicts::"];

/// One more guest at a time than there are processors: each waits for others much of the time.
fn guests(tests: &Tests, all: bool) -> Vec<Step> {
    let others = JUDGED.map(|name| format!(" --skip {name}")).concat();
    let which = if all { format!(" --include-ignored {STUDIES}{others}") } else { String::new() };
    each(tests.named("lab", &format!("--test-threads {}{which}", processors() + 1)), all)
}

fn browser(tests: &Tests) -> Vec<Step> {
    tests.named("browser", "")
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
