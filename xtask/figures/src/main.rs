//! `cargo xtask md`, `options` and `verdicts`, which need the model and the simulator: apart from the other commands, for which nothing
//! of the program has to be built.

mod md;
mod option_tables;
mod verdicts;

use clap::Parser;
use std::process::ExitCode;
use xtask::{packages, pages, run};

/// What is written.
#[derive(Parser)]
#[command(bin_name = "cargo xtask")]
enum Command {
    /// The simulator beside real md and LVM in a guest: writes the table of docs/explanation/simulator.md
    Md(md::Options),
    /// The options of a workload: writes their tables in docs/reference/bench.md and docs/reference/experiment-file.md
    Options,
    /// How often verdicts are right on cases whose truth is known: writes docs/explanation/verdict-accuracy.md
    Verdicts(verdicts::Options),
}

fn main() -> ExitCode {
    let result = match Command::parse() {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_wrong_ones_refused() {
        let of = |text: &str| Command::try_parse_from(["xtask"].into_iter().chain(text.split_whitespace()));
        assert!(of("verdicts --real --list cpu:7").is_ok() && of("md --only raid5").is_ok());
        assert!(of("verdicts --list").is_err() && of("options x").is_err());
    }
}
