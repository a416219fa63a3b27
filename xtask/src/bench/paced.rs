//! `paced-*`: loads at a given rate, `ebb bench` itself beside fio. What matters there is not how many operations there are but
//! what the tool adds to each: its service time beside fio's, and how late it submits.

use super::tool::{job, number};
use super::{Options, Spread, target};
use crate::run::{built, output};
use serde_json::Value;

/// Name, the target whose file or device is used, operations per second.
const TARGETS: [(&str, &str, u32); 6] = [
    ("paced-loop-1000", "loop-128", 1000),
    ("paced-loop-5000", "loop-128", 5000),
    ("paced-loop-20000", "loop-128", 20_000),
    ("paced-direct-1000", "direct-32", 1000),
    ("paced-direct-5000", "direct-32", 5000),
    ("paced-direct-20000", "direct-32", 20_000),
];

/// What one run showed, times in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Figures {
    iops: f64,
    /// From submission to completion. Of fio `lat`: its `clat` begins when the system call that submits has returned, in which a
    /// loop device is given its work.
    service: [f64; 2],
    /// How late it was to submit; fio does not say.
    lateness: Option<[f64; 2]>,
    /// Part of a core.
    cpu: f64,
}

pub fn names() -> impl Iterator<Item = &'static str> {
    TARGETS.iter().map(|(name, _, _)| *name)
}

/// Runs those that are asked for.
pub fn run(options: &Options) -> Result<(), String> {
    let asked = |name: &str| options.only.as_ref().is_none_or(|only| only.iter().any(|one| one == name));
    let mut ebb = None;
    for (name, base, rate) in TARGETS.iter().filter(|(name, _, _)| asked(name)) {
        let program = match &ebb {
            Some(program) => program,
            None => ebb.insert(built("--package ebbtide", "ebb")?),
        };
        let targets = target::all(&options.dir);
        let Some(target) = targets.iter().find(|target| target.name == *base) else { continue };
        match target.set_up() {
            Ok(_guard) => compare(name, &target.path(), *rate, options, program)?,
            Err(why) => println!("\n{name}: left out: {why}"),
        }
    }
    Ok(())
}

fn compare(name: &str, path: &str, rate: u32, options: &Options, ebb: &str) -> Result<(), String> {
    let runtime = options.runtime;
    let commands = [
        format!(
            "{ebb} bench {path} --rw randread --bs 8k --iodepth 16 --rate_iops {rate} --runtime {runtime} --size 256m --json -q --no-save"
        ),
        format!(
            "{} --name=bench --filename={path} --size=256m --rw=randread --bs=8k --direct=1 --iodepth=16 --rate_iops={rate} \
             --ioengine=io_uring --thread --norandommap --randrepeat=0 --invalidate=0 --time_based --runtime={runtime} \
             --lat_percentiles=1 --clat_percentiles=0 --output-format=json",
            options.fio
        ),
    ];
    println!("\n{name}: 8 KiB random reads, iodepth 16, {rate} a second");
    commands.iter().for_each(|command| println!("  {command}"));
    let mut figures: [Vec<Figures>; 2] = Default::default();
    for round in 0..options.runs as usize {
        for turn in 0..2 {
            let index = (round + turn) % 2;
            figures[index].push(once(&commands[index], index == 0)?);
        }
    }
    let column = |of: &[Figures], value: &dyn Fn(&Figures) -> f64| Spread::of(of.iter().map(value)).median;
    for (name, of) in ["ebbtide", "fio"].iter().zip(&figures) {
        let us = |value: &dyn Fn(&Figures) -> f64| column(of, value) / 1e3;
        let late = of.first().and_then(|one| one.lateness).map_or(String::new(), |_| {
            let late = |at: usize| us(&move |f: &Figures| f.lateness.map_or(f64::NAN, |late| late[at]));
            format!(", lateness p50 {:.2} p99 {:.1} us", late(0), late(1))
        });
        println!(
            "  {name:<8} {:.0} IOPS, service p50 {:.1} p99 {:.1} us{late}, {:.0}% of a core",
            column(of, &|f| f.iops),
            us(&|f| f.service[0]),
            us(&|f| f.service[1]),
            column(of, &|f| f.cpu) * 100.0
        );
    }
    let ratio = |at: usize| {
        let ratios = figures[0].iter().zip(&figures[1]).map(|(a, b)| a.service[at] / b.service[at]);
        let Spread { median, low, high } = Spread::of(ratios);
        format!("{median:.2} ({low:.2} to {high:.2})")
    };
    println!("  ebbtide / fio: service p50 {}, p99 {}", ratio(0), ratio(1));
    Ok(())
}

fn once(command: &str, ours: bool) -> Result<Figures, String> {
    let words: Vec<&str> = command.split_whitespace().collect();
    let (program, arguments) = words.split_first().ok_or("no command")?;
    let text = output(program, arguments)?;
    figures(&text, ours).ok_or_else(|| format!("{command}: no figures in its output: {text}"))
}

/// From the JSON of either; the form is fio's.
fn figures(text: &str, ours: bool) -> Option<Figures> {
    let job = &job(text)?;
    let pair = |from: &Value| {
        let of = |name: &str| from.get("percentile")?.get(name)?.as_f64();
        Some([of("50.000000")?, of("99.000000")?])
    };
    let (service, lateness) = if ours {
        let own = job.get("ebbtide")?;
        (pair(own.get("service_ns")?.get("read")?)?, own.get("lateness_ns").and_then(pair))
    } else {
        (pair(job.get("read")?.get("lat_ns")?)?, None)
    };
    Some(Figures {
        iops: number(job.get("read")?, "iops")?,
        service,
        lateness,
        cpu: (number(job, "usr_cpu")? + number(job, "sys_cpu")?) / 100.0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_from_both() {
        let percentile = r#"{"percentile":{"50.000000":5,"99.000000":9}}"#;
        let of = |rest: &str| {
            format!(
                r#"{{"jobs":[{{"usr_cpu":10,"sys_cpu":15,"read":{{"iops":100,"lat_ns":{percentile}}}{rest}}}]}}"#
            )
        };
        let fio = figures(&of(""), false).expect("figures");
        assert_eq!(fio, Figures { iops: 100.0, service: [5.0, 9.0], lateness: None, cpu: 0.25 });
        let own =
            format!(r#","ebbtide":{{"service_ns":{{"read":{percentile}}},"lateness_ns":{percentile}}}"#);
        assert_eq!(figures(&of(&own), true).expect("figures").lateness, Some([5.0, 9.0]));
        assert!(figures(&of(""), true).is_none());
    }
}
