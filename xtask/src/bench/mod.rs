//! `cargo xtask bench`: the engine beside fio and, where a path to it is given, fio's t/io_uring.
//!
//! Every target is run by every tool in each round, the order of the tools turned by one each round, so that a machine
//! that gets slower or faster does so for all. Ratios are medians over the rounds' ratios.

mod paced;
mod target;
mod tool;

use std::path::PathBuf;
use target::Target;
use tool::{Figures, Tool};
pub use tool::{build as build_program, build_load};

const HELP: &str = "cargo xtask bench [OPTION...]

  --runs N            rounds of every target (7)
  --runtime S         seconds of one run, at least 2 (3)
  --only NAME,...     these targets of: null-32 null-128 cached-32 cached-128 loop-128 direct-1 direct-32 direct-128
                      paced-loop-1000 -5000 -20000, paced-direct-1000 -5000 -20000
  --dir DIR           where test files are made (target/bench; for direct-*, its file system is what is measured)
  --t-io-uring PATH   fio's t/io_uring, built from fio's sources
  --fio PATH          fio (fio)

CPU per I/O is user and system time: fio's own figure (usr_cpu, sys_cpu of the job), the process's for t/io_uring, and
Ebbtide's own with io_uring's worker threads.";

/// What was asked for.
struct Options {
    runs: usize,
    runtime: u32,
    only: Option<Vec<String>>,
    dir: PathBuf,
    t_io_uring: Option<String>,
    fio: String,
}

fn parse(arguments: &[String]) -> Result<Option<Options>, String> {
    let mut options = Options {
        runs: 7,
        runtime: 3,
        only: None,
        dir: PathBuf::from("target/bench"),
        t_io_uring: None,
        fio: "fio".to_owned(),
    };
    let mut arguments = arguments.iter();
    while let Some(name) = arguments.next() {
        if matches!(name.as_str(), "--help" | "-h") {
            return Ok(None);
        }
        let value = arguments.next().ok_or_else(|| format!("{name} needs a value\n\n{HELP}"))?;
        let number = || value.parse::<u32>().ok().filter(|n| *n > 0);
        let bad = || format!("{name} {value}: write a whole number from 1");
        match name.as_str() {
            "--runs" => options.runs = number().ok_or_else(bad)? as usize,
            "--runtime" => options.runtime = number().ok_or_else(bad)?.max(2),
            "--only" => options.only = Some(value.split(',').map(str::to_owned).collect()),
            "--dir" => options.dir = PathBuf::from(value),
            "--t-io-uring" => options.t_io_uring = Some(value.clone()),
            "--fio" => options.fio = value.clone(),
            _ => return Err(format!("unknown option {name}\n\n{HELP}")),
        }
    }
    Ok(Some(options))
}

/// Runs the comparison.
pub fn run(arguments: &[String]) -> Result<(), String> {
    let Some(options) = parse(arguments)? else {
        println!("{HELP}");
        return Ok(());
    };
    let targets = target::all(&options.dir);
    if let Some(unknown) = options.only.iter().flatten().find(|name| {
        targets.iter().map(|target| target.name).chain(paced::names()).all(|known| known != **name)
    }) {
        return Err(format!("unknown target {unknown}\n\n{HELP}"));
    }
    let asked =
        |target: &&Target| options.only.as_ref().is_none_or(|only| only.iter().any(|n| n == target.name));
    let load = if targets.iter().any(|target| asked(&target)) { tool::build_load()? } else { String::new() };
    for target in targets.iter().filter(asked) {
        match target.set_up() {
            Ok(_guard) => compare(target, &options, &load)?,
            Err(why) => println!("\n{}: left out: {why}", target.name),
        }
    }
    paced::run(&options)
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
    for round in 0..options.runs {
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
            let mut values: Vec<f64> = of.iter().filter_map(value).map(|v| v / scale).collect();
            values.sort_by(f64::total_cmp);
            match (values.first(), values.last()) {
                (Some(low), Some(high)) => format!("{:.1} ({low:.1} to {high:.1})", median(&values)),
                _ => "-".to_owned(),
            }
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
            let mut ratios: Vec<f64> = figures[0].iter().zip(of).map(|(a, b)| value(a) / value(b)).collect();
            ratios.sort_by(f64::total_cmp);
            format!(
                "{:.3} ({:.3} to {:.3})",
                median(&ratios),
                ratios.first().copied().unwrap_or(f64::NAN),
                ratios.last().copied().unwrap_or(f64::NAN)
            )
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

/// Median of sorted values; NaN when there are none.
fn median(sorted: &[f64]) -> f64 {
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[n / 2],
        n => (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_wrong_ones_refused() {
        let of = |text: &str| parse(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        let options = of("--runs 3 --only null-32,loop-128").expect("valid").expect("not help");
        assert_eq!((options.runs, options.only.map(|o| o.len())), (3, Some(2)));
        assert!(of("--help").expect("valid").is_none());
        for bad in ["--runs", "--runs 0", "--runs x", "--nonsense 1"] {
            assert!(of(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn medians() {
        assert_eq!(median(&[1.0, 2.0, 9.0]), 2.0);
        assert_eq!(median(&[1.0, 2.0, 4.0, 9.0]), 3.0);
        assert!(median(&[]).is_nan());
    }
}
