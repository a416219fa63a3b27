//! How much slower than it is written an experiment runs in a guest, so that the disks are measured and not the guest.

use crate::machine::Accelerator;
use ebbtide_model::experiment::Experiment;
use ebbtide_model::units::{Bytes, Nanos, format_iops, format_throughput};
use ebbtide_model::workload::{Arrival, Stop};
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// What all disks of a guest together do at once.
#[derive(Debug, Clone, Copy)]
struct Rates {
    /// Operations per second.
    iops: f64,
    /// Bytes per second.
    throughput: f64,
}

impl Rates {
    /// What they may be asked for, so that the disks are measured and not the guest. Emulation: well below the 3000 operations and 500 MB per
    /// second from which on it is the limit itself (docs/reference/lab.md), because hosts are seldom idle. KVM: chosen for the host's disk, which has to
    /// take what is written.
    const fn carried(accelerator: Accelerator) -> Self {
        match accelerator {
            Accelerator::Tcg => Rates { iops: 2000.0, throughput: 100e6 },
            Accelerator::Kvm => Rates { iops: 10_000.0, throughput: 400e6 },
        }
    }

    /// What the busiest design could ask them for if all worked at once.
    fn asked(experiment: &Experiment) -> Self {
        let mut most = Rates { iops: 0.0, throughput: 0.0 };
        for workload in experiment.loads() {
            let bs = workload.mean_bs().max(1.0);
            for design in &experiment.designs {
                let volumes: BTreeSet<usize> = design.layout.volumes().into_iter().collect();
                let shapes = volumes.iter().filter_map(|volume| experiment.volumes[*volume].shape.as_ref());
                let bytes: f64 = shapes.filter_map(|shape| shape.most_throughput(bs)).sum();
                most.throughput = most.throughput.max(bytes);
                most.iops = most.iops.max(bytes / bs);
            }
        }
        most
    }
}

/// A factor on all limits, above 0 and at most 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scale(f64);

impl Scale {
    /// Limits as they are written.
    pub const ONE: Scale = Scale(1.0);

    /// The factor at which a guest on `accelerator` carries the busiest design of `experiment`, and why, in words.
    pub fn carried(experiment: &Experiment, accelerator: Accelerator) -> (Scale, String) {
        let (carries, demand) = (Rates::carried(accelerator), Rates::asked(experiment));
        let excess = (demand.throughput / carries.throughput).max(demand.iops / carries.iops);
        let scale = Scale::least(excess);
        let why = format!(
            "limits and offered rates are scaled by {scale}: the busiest design could move {} in {} operations/s, and a \
             guest under {} is trusted with {} in {} operations/s; ratios can be compared, absolute figures cannot",
            format_throughput(demand.throughput),
            format_iops(demand.iops),
            accelerator.name(),
            format_throughput(carries.throughput),
            format_iops(carries.iops)
        );
        (scale, why)
    }

    /// That the user asked for it, in words.
    pub fn as_asked_for(self) -> String {
        format!("limits and offered rates are scaled by {self}, as requested")
    }

    /// What rates are multiplied by, at most 1.
    pub fn factor(self) -> f64 {
        self.0
    }

    /// The largest of 1, 1/2, 1/5, 1/10, 1/20... that divides by at least `excess`.
    fn least(excess: f64) -> Self {
        let mut decade = 1.0;
        while decade < 1e9 {
            for step in [1.0, 2.0, 5.0] {
                if step * decade >= excess {
                    return Scale(1.0 / (step * decade));
                }
            }
            decade *= 10.0;
        }
        Scale(1e-9)
    }
}

/// A text that is no scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("write a fraction above 0 and at most 1, for example 1/20")]
pub struct ScaleError;

impl FromStr for Scale {
    type Err = ScaleError;

    fn from_str(text: &str) -> Result<Self, ScaleError> {
        let number = |text: &str| text.trim().parse::<f64>().ok();
        let value = match text.split_once('/') {
            Some((a, b)) => number(a).zip(number(b)).map(|(a, b)| a / b),
            None => number(text),
        };
        match value {
            Some(value) if value > 0.0 && value <= 1.0 => Ok(Scale(value)),
            _ => Err(ScaleError),
        }
    }
}

impl fmt::Display for Scale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let divisor = 1.0 / self.0;
        if self.0 == 1.0 {
            write!(f, "1")
        } else if (divisor - divisor.round()).abs() < 1e-6 {
            write!(f, "1/{divisor:.0}")
        } else {
            write!(f, "{}", self.0)
        }
    }
}

/// Slower disks do fewer operations in a trial, and a figure of few is coarse: trials last longer in proportion, up to
/// this.
pub const RUNTIME_ENOUGH: Nanos = Nanos::from_secs(5);
/// The same for the warm-up, in which the queue must pass once.
const WARM_UP_ENOUGH: Nanos = Nanos::from_secs(1);

/// `time` divided by `factor`, as far as that is needed for `enough`.
fn lengthened(time: Nanos, factor: f64, enough: Nanos) -> Nanos {
    time.max(enough.min(Nanos((time.0 as f64 / factor) as u64)))
}

/// The same experiment with `scale` times the limits and the rates that are offered, and trials that last long enough
/// for them.
pub fn scaled(experiment: &Experiment, scale: Scale) -> Experiment {
    let factor = scale.0;
    let mut experiment = experiment.clone();
    for volume in &mut experiment.volumes {
        volume.shape = volume.shape.as_ref().map(|shape| shape.scaled(factor));
    }
    for link in &mut experiment.links {
        *link = link.scaled(factor);
    }
    for workload in experiment.loads_mut() {
        match &mut workload.arrival {
            Arrival::Closed => {}
            Arrival::Fixed { iops } | Arrival::Poisson { iops } => *iops *= factor,
        }
        let asked = workload.stop;
        if let Stop::Runtime(time) = &mut workload.stop {
            *time = lengthened(*time, factor, RUNTIME_ENOUGH);
        }
        if let Some(latency) = &mut workload.conditions.latency {
            // What waits in a queue waits as much longer as the volumes are slower.
            let longer = |time: Nanos| Nanos((time.0 as f64 / factor) as u64);
            (latency.target, latency.window) = (longer(latency.target), longer(latency.window));
            if let Stop::Runtime(time) = asked {
                workload.stop = Stop::Runtime(longer(time));
            }
        }
        if let Some(floor) = &mut workload.conditions.floor {
            floor.iops = floor.iops.map(|iops| iops * factor);
            floor.throughput = floor.throughput.map(|rate| slower(rate, factor));
        }
        workload.warm_up = lengthened(workload.warm_up, factor, WARM_UP_ENOUGH);
        workload.rate = workload.rate.map(|rate| slower(rate, factor));
    }
    experiment
}

/// A rate of bytes times `factor`, at least one.
fn slower(rate: Bytes, factor: f64) -> Bytes {
    Bytes(((rate.0 as f64 * factor).round() as u64).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trials_last_longer_as_far_as_they_need_to() {
        let (second, minute) = (Nanos::from_secs(1), Nanos::from_secs(60));
        assert_eq!(lengthened(second, 0.5, RUNTIME_ENOUGH), Nanos::from_secs(2));
        assert_eq!(lengthened(second, 0.02, RUNTIME_ENOUGH), RUNTIME_ENOUGH);
        assert_eq!(lengthened(minute, 0.02, RUNTIME_ENOUGH), minute);
        assert_eq!(lengthened(second, 1.0, RUNTIME_ENOUGH), second);
    }

    #[test]
    fn scales_are_fractions() {
        for (text, shown) in [("1", "1"), ("1/50", "1/50"), ("0.05", "1/20"), ("2/3", "0.6666666666666666")] {
            assert_eq!(text.parse::<Scale>().expect("a scale").to_string(), shown);
        }
        for text in ["0", "2", "-1", "1/0", "x", "", "nan"] {
            assert!(text.parse::<Scale>().is_err(), "{text}");
        }
    }
}
