//! Limits and latencies in words.

use super::{Latency, Limit, Shape};
use crate::units::{Nanos, format_iops, format_throughput};
use std::fmt;

/// `128 MB/s`, `100 IOPS, bursts of 3.00 k IOPS`.
fn limit(limit: &Limit, format: impl Fn(f64) -> String) -> String {
    match limit.burst_rate {
        Some(burst) => format!("{}, bursts of {}", format(limit.rate), format(burst)),
        None => format(limit.rate),
    }
}

impl fmt::Display for Latency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Latency::Constant(time) => write!(f, "{time}"),
            Latency::Lognormal { median, p99 } => write!(f, "{median} (p99 {p99})"),
        }
    }
}

/// Limits and latencies: `3.00 k IOPS, 131 MB/s, reads in 600us (p99 2ms), writes in 900us`.
impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |iops: &Option<Limit>, throughput: &Option<Limit>| {
            let iops = iops.as_ref().map(|iops| limit(iops, |v| format!("{} IOPS", format_iops(v))));
            let throughput = throughput.as_ref().map(|throughput| limit(throughput, format_throughput));
            iops.into_iter().chain(throughput)
        };
        let mut parts: Vec<String> = of(&self.iops, &self.throughput).collect();
        let ways = &self.character.one_way;
        for (way, latency, what) in
            [(&ways.read, self.read_latency, "reads"), (&ways.write, self.write_latency, "writes")]
        {
            parts.extend(of(&way.iops, &way.throughput).map(|limit| format!("{what} {limit}")));
            if latency != Latency::Constant(Nanos(0)) {
                parts.push(format!("{what} in {latency}"));
            }
        }
        parts.extend(self.character.flush_latency.map(|latency| format!("flushes in {latency}")));
        f.write_str(if parts.is_empty() { "no limits" } else { "" })?;
        f.write_str(&parts.join(", "))
    }
}
