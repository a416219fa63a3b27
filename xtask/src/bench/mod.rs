//! `cargo xtask bench`: the engine beside fio and, where a path to it is given, fio's t/io_uring.
//!
//! Every target is run by every tool in each round, the order of the tools turned by one each round, so that a machine
//! that gets slower or faster does so for all. Ratios are medians over the rounds' ratios.

mod paced;
mod target;
mod tool;

use clap::builder::PossibleValuesParser;
use std::path::{Path, PathBuf};
use target::Target;
use tool::{Figures, Tool};

#[derive(clap::Args)]
#[command(
    after_help = "CPU per I/O is user and system time: fio's own figure (usr_cpu, sys_cpu of the job), the \
                        process's for t/io_uring, and Ebbtide's own with io_uring's worker threads."
)]
pub struct Options {
    /// Rounds of every target
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Seconds of one run
    #[arg(long, value_name = "S", default_value_t = 3, value_parser = clap::value_parser!(u32).range(2..))]
    runtime: u32,
    /// These targets alone [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = names())]
    only: Option<Vec<String>>,
    /// Where test files are made; for direct-*, its file system is what is measured
    #[arg(long, default_value = "target/bench")]
    dir: PathBuf,
    /// fio's t/io_uring, built from fio's sources
    #[arg(long, value_name = "PATH")]
    t_io_uring: Option<String>,
    /// Program to run as fio
    #[arg(long, value_name = "PATH", default_value = "fio")]
    fio: String,
}

fn names() -> PossibleValuesParser {
    let own = target::all(Path::new("")).into_iter().map(|target| target.name);
    own.chain(paced::names()).collect::<Vec<_>>().into()
}

pub fn run(options: &Options) -> Result<(), String> {
    let targets = target::all(&options.dir);
    let asked =
        |target: &&Target| options.only.as_ref().is_none_or(|only| only.iter().any(|n| n == target.name));
    let load = if targets.iter().any(|target| asked(&target)) {
        crate::run::built("--package ebbtide-engine --example load", "examples/load")?
    } else {
        String::new()
    };
    for target in targets.iter().filter(asked) {
        match target.set_up() {
            Ok(_guard) => compare(target, options, &load)?,
            Err(why) => println!("\n{}: left out: {why}", target.name),
        }
    }
    paced::run(options)
}

/// All rounds of one target.
fn compare(target: &Target, options: &Options, load: &str) -> Result<(), String> {
    let mut tools = vec![Tool::Ebbtide(load.to_owned()), Tool::Fio(options.fio.clone())];
    if let Some(path) = options.t_io_uring.as_ref().filter(|_| !target.write) {
        tools.push(Tool::TIoUring(path.clone()));
        // Where operations stay with a device, waiting for a batch of them is a choice of its own.
        if target.direct() && target.iodepth > 1 {
            tools.push(Tool::PromptTIoUring(path.clone()));
        }
    }
    println!("\n{}: {}", target.name, target.title);
    for tool in &tools {
        let (program, arguments) = tool.command(target, options.runtime)?;
        println!("  {program} {}", arguments.join(" "));
    }
    let mut figures: Vec<Vec<Figures>> = vec![Vec::new(); tools.len()];
    for round in 0..options.runs as usize {
        for turn in 0..tools.len() {
            let index = (round + turn) % tools.len();
            target.warm()?;
            figures[index].push(tools[index].run(target, options.runtime)?);
        }
    }
    println!(
        "  {:<14} {:>28} {:>28} {:>22}",
        "", "kIOPS median (range)", "CPU ns/IO median (range)", "p50 us median"
    );
    for (tool, of) in tools.iter().zip(&figures) {
        let column = |value: fn(&Figures) -> Option<f64>, scale: f64| {
            let Spread { median, low, high } = Spread::of(of.iter().filter_map(value).map(|v| v / scale));
            if median.is_nan() { "-".to_owned() } else { format!("{median:.1} ({low:.1} to {high:.1})") }
        };
        println!(
            "  {:<14} {:>28} {:>28} {:>22}",
            tool.name(),
            column(|f| Some(f.iops), 1e3),
            column(|f| Some(f.cpu_ns), 1.0),
            column(|f| f.p50_ns, 1e3)
        );
    }
    for (tool, of) in tools.iter().zip(&figures).skip(1) {
        let ratio = |value: fn(&Figures) -> f64| {
            let ratios = figures[0].iter().zip(of).map(|(a, b)| value(a) / value(b));
            let Spread { median, low, high } = Spread::of(ratios);
            format!("{median:.3} ({low:.3} to {high:.3})")
        };
        println!(
            "  ebbtide / {}: IOPS {}, CPU per I/O {}",
            tool.name(),
            ratio(|f| f.iops),
            ratio(|f| f.cpu_ns)
        );
    }
    Ok(())
}

/// The middle, the least and the most of some values; NaN where there are none.
struct Spread {
    median: f64,
    low: f64,
    high: f64,
}

impl Spread {
    fn of(values: impl Iterator<Item = f64>) -> Spread {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        let at = |index: usize| values.get(index).copied().unwrap_or(f64::NAN);
        let count = values.len();
        Spread {
            median: f64::midpoint(at(count.saturating_sub(1) / 2), at(count / 2)),
            low: at(0),
            high: at(count.saturating_sub(1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spread_of_values_in_any_order() {
        let spread = Spread::of([9.0, 1.0, 4.0, 2.0].into_iter());
        assert_eq!((spread.median, spread.low, spread.high), (3.0, 1.0, 9.0));
        assert!(Spread::of(std::iter::empty()).median.is_nan());
    }
}
