//! The volumes' service alone takes longer, before anything waits in a queue.

use super::Shortfall;
use crate::candidates::Candidate;
use ebbtide_model::need::Need;
use ebbtide_model::units::format_latency;
use ebbtide_model::volume::Latency;

/// Quantile of the standard normal distribution at 0.99.
const Z_99: f64 = 2.326_347_874_040_841;

/// Share of operations of `latency` that take longer than `time`, in nanoseconds.
fn beyond(latency: &Latency, time: f64) -> f64 {
    match *latency {
        Latency::Lognormal { median, p99 } if p99 > median && median.0 > 0 => {
            let sigma = libm::log(p99.0 as f64 / median.0 as f64) / Z_99;
            libm::erfc(libm::log(time / median.0 as f64) / sigma / std::f64::consts::SQRT_2) / 2.0
        }
        Latency::Constant(value) | Latency::Lognormal { median: value, .. } => {
            f64::from(u8::from(value.0 as f64 > time))
        }
    }
}

pub(super) fn judge(candidate: &Candidate<'_>, need: &Need) -> Option<Shortfall> {
    let asked = need.lat_p99?.0 as f64;
    let reads = f64::from(need.read_percent) / 100.0;
    let shape = &candidate.shape;
    let share =
        |time| reads * beyond(&shape.read_latency, time) + (1.0 - reads) * beyond(&shape.write_latency, time);
    (share(asked) > 0.01).then(|| {
        // Where it is: halved until it is near, between what is asked and a thousand times as much.
        let (mut low, mut high) = (asked, asked * 1000.0);
        for _ in 0..60 {
            let middle = (low + high) / 2.0;
            if share(middle) > 0.01 { low = middle } else { high = middle }
        }
        let by = format!("p99 of {} at best, {} is asked for", format_latency(high), format_latency(asked));
        Shortfall {
            is_latency: true,
            ..Shortfall::new("too slow: the latency of the volumes themselves", by, asked / high)
        }
    })
}
