//! The most that a trial can move.

use super::Experiment;
use crate::units::Bytes;
use crate::volume::Limit;
use crate::workload::{Arrival, Stop};
use std::collections::BTreeMap;

/// The rate that `limit` reaches at best.
fn top(limit: Limit) -> f64 {
    limit.burst_rate.unwrap_or(limit.rate)
}

impl Experiment {
    /// The most bytes that a trial of `workload` on `design` can move, both by index, warm-up included: by what it is asked for and
    /// by the limits of volumes and links. Nothing where neither says it.
    pub fn most_bytes(&self, design: usize, workload: usize) -> Option<Bytes> {
        let load = self.load(design, workload)?;
        let runtime = match load.stop {
            Stop::Size(size) => return Some(size),
            Stop::Runtime(_) => load.busy_time()?.as_secs_f64(),
        };
        let bs = load.bs.0 as f64;
        let arrivals = match load.arrival {
            Arrival::Closed => None,
            Arrival::Fixed { iops } | Arrival::Poisson { iops } => Some(iops * bs),
        };
        let offered = arrivals.or(load.rate.map(|rate| rate.0 as f64));
        let design = self.designs.get(design)?;
        let planted = self.environment.planted.get(&design.name).map_or(1.0, |planted| planted.rate);
        let carried = self.carried(&design.layout.volumes(), bs).map(|rate| rate * planted);
        let rate = match (carried, offered) {
            (Some(carried), Some(offered)) => carried.min(offered),
            (one, other) => one.or(other)?,
        };
        Some(Bytes((rate * runtime) as u64))
    }

    /// Bytes per second that operations of `bs` bytes can get out of `volumes` and their links.
    fn carried(&self, volumes: &[usize], bs: f64) -> Option<f64> {
        let mut links: BTreeMap<Option<usize>, Option<f64>> = BTreeMap::new();
        for volume in volumes {
            let shape = self.volumes.get(*volume)?.shape.as_ref()?;
            let sum = links.entry(shape.link).or_insert(Some(0.0));
            *sum = sum.zip(shape.most_throughput(bs)).map(|(sum, more)| sum + more);
        }
        links.into_iter().try_fold(0.0, |all, (link, sum)| {
            let link = link.and_then(|link| self.links.get(link)?.throughput).map(top);
            let rate = match (sum, link) {
                (Some(sum), Some(link)) => sum.min(link),
                (one, other) => one.or(other)?,
            };
            Some(all + rate)
        })
    }
}
