//! Speed of the simulator: `cargo bench -p ebbtide-sim --bench sim [FILTER]`.
//!
//! Prints simulated I/Os per second of one core. The figure that does not depend on the machine's mood is the number of
//! instructions per simulated I/O, of one case at a time:
//!
//! ```sh
//! cargo bench -p ebbtide-sim --bench sim --no-run
//! valgrind --tool=callgrind --callgrind-out-file=/dev/null target/release/deps/sim-* --once stripe-8
//! ```
//!
//! divides "Collected" by the I/Os that the case prints.

#![allow(clippy::disallowed_methods, clippy::disallowed_macros, clippy::print_stdout, clippy::print_stderr)] // a bench has a clock and prints

use ebbtide_model::backend::Control;
use ebbtide_model::experiment::{Design, Experiment};
use ebbtide_model::layout::LayoutNode;
use ebbtide_model::schedule::{Role, Trial};
use ebbtide_model::units::{Bytes, Nanos};
use ebbtide_model::workload::{Stop, Workload};
use ebbtide_sim::simulate;
use std::time::Instant;

/// Eight shaped volumes with moods, striped; 4 KiB random reads at iodepth 32 on 8 jobs.
const STRIPE: &str = include_str!("sim.json");

fn trial(seed: u64) -> Trial {
    Trial { index: 0, round: 0, design: 0, workload: 0, role: Role::Candidate, seed }
}

/// A month of hourly measurements on 100 volumes, each of 256 reads of 4 KiB one after the other.
fn canaries(experiment: &Experiment) {
    const VOLUMES: usize = 100;
    const HOURS: u32 = 30 * 24;
    let mut month = experiment.clone();
    let volume = month.volumes[0].clone();
    month.volumes = vec![volume; VOLUMES];
    month.answer.rest = Nanos::from_secs(3600);
    let canary = Workload {
        iodepth: 1,
        numjobs: 1,
        warm_up: Nanos(0),
        stop: Stop::Size(Bytes(256 * 4096)),
        ..month.workloads[0].clone()
    };
    month.workloads = vec![canary.clone()];
    let start = Instant::now();
    let mut ops = 0;
    for volume in 0..VOLUMES {
        let design = Design {
            name: format!("volume {volume}"),
            layout: LayoutNode::Volume(volume),
            stack: Default::default(),
        };
        for hour in 0..HOURS {
            let trial = Trial { index: hour, ..trial(u64::from(hour)) };
            match simulate(&month, 1, &design, &canary, &trial, &Control::default()) {
                Ok(samples) => ops += samples.array.read.count.ops,
                Err(error) => eprintln!("{error}"),
            }
        }
    }
    println!(
        "canaries: a month on {VOLUMES} volumes, {ops} I/Os, in {:.1} s on one core",
        start.elapsed().as_secs_f64()
    );
}

/// A day of one trial: the fast path.
fn day(experiment: &Experiment) {
    let mut long = experiment.clone();
    for mood in
        long.volumes.iter_mut().flat_map(|volume| &mut volume.shape).flat_map(|s| &mut s.character.moods)
    {
        mood.dwell = Nanos(mood.dwell.0 * 600);
    }
    let workload = Workload { stop: Stop::Runtime(Nanos::from_secs(86_400)), ..long.workloads[0].clone() };
    let start = Instant::now();
    match simulate(&long, 1, &long.designs[0], &workload, &trial(1), &Control::default()) {
        Ok(samples) => println!(
            "day: {:.1} thousand million I/Os in {:.1} s on one core",
            samples.array.read.count.ops as f64 / 1e9,
            start.elapsed().as_secs_f64()
        ),
        Err(error) => eprintln!("{error}"),
    }
}

/// Simulated member I/Os of one trial of workload number `workload`.
fn simulated(experiment: &Experiment, workload: usize, seed: u64) -> u64 {
    let (design, workload) = (&experiment.designs[0], &experiment.workloads[workload]);
    match simulate(experiment, 1, design, workload, &trial(seed), &Control::default()) {
        Ok(samples) => {
            samples.members.iter().map(|member| member.ops.read.count.ops + member.ops.write.count.ops).sum()
        }
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(1);
        }
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let once = arguments.iter().any(|argument| argument == "--once");
    let filter = arguments.iter().find(|argument| !argument.starts_with("--"));
    let experiment: Experiment = match serde_json::from_str(STRIPE) {
        Ok(experiment) => experiment,
        Err(error) => {
            eprintln!("benches/sim.json: {error}");
            std::process::exit(1);
        }
    };
    for (index, workload) in experiment.workloads.iter().enumerate() {
        let name = format!("{}/{}", experiment.designs[0].name, workload.name);
        if filter.is_some_and(|filter| !name.contains(filter.as_str())) {
            continue;
        }
        if once {
            println!("{name}: {} I/Os", simulated(&experiment, index, 1));
            continue;
        }
        let mut rates: Vec<f64> = (0..7)
            .map(|seed| {
                let start = Instant::now();
                simulated(&experiment, index, seed) as f64 / start.elapsed().as_secs_f64()
            })
            .collect();
        rates.sort_by(f64::total_cmp);
        println!(
            "{name}: {:.2} million I/Os per second (median of 7; {:.2} to {:.2})",
            rates[3] / 1e6,
            rates[0] / 1e6,
            rates[6] / 1e6
        );
    }
    for (name, case) in [("canaries", canaries as fn(&Experiment)), ("day", day)] {
        if !once && filter.is_none_or(|filter| name.contains(filter.as_str())) {
            case(&experiment);
        }
    }
}
