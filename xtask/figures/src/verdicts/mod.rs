//! `cargo xtask verdicts`: how often the verdicts are right, on set-ups whose truth is known.
//!
//! Cases are drawn from seeds: even ones to tune rules and thresholds on, odd ones to report from. Simulated ones are a test of
//! `ebbtide-analysis`.

mod random;
mod real;

use crate::run::{Step, run_all};

#[derive(clap::Args)]
pub struct Options {
    /// The cases of even seeds, which rules are tuned on; nothing is written
    #[arg(long)]
    tuning: bool,
    /// On real devices of this machine: takes about a quarter of an hour, root, and 3 GiB in /var/tmp and /dev/shm each
    #[arg(long)]
    real: bool,
    /// What the real cases are, without running them
    #[arg(long, requires = "real")]
    list: bool,
    /// The program that real cases judge [default: target/release/ebb, which is built]
    #[arg(long, value_name = "PATH", requires = "real")]
    ebb: Option<String>,
    /// Classes of cases, of real ones also single cases as CLASS:SEED [default: all]
    #[arg(value_name = "CLASS")]
    only: Vec<String>,
}

/// Judges the cases that are asked for.
///
/// # Errors
/// When a case cannot be run or the page cannot be written.
pub fn run(options: &Options) -> Result<(), String> {
    if options.real {
        return real::run(options);
    }
    let set = if options.tuning { "tuning" } else { "reporting" };
    let test = "test --workspace --test labelled -- --ignored --nocapture the_table";
    let test = Step::cargo("simulated cases", test);
    run_all(&[test.with(("EBB_TEST_VERDICTS", &[set, &options.only.join(" ")].join(" ")))])
}
