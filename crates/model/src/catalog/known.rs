//! What the catalogue knows of a volume whose provider and size are known and whose type is not: a device tells its
//! guest neither its type nor what was ordered with it.

use super::{Catalog, VolumeOrder, VolumeType};
use crate::units::Bytes;
use crate::volume::{Limit, Shape};
use serde::Serialize;

/// Media of types that are no block devices.
const NO_DEVICE: &str = "nfs";

/// A type that a volume may have, with the limits that such a volume of its size has.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Candidate {
    /// Name with its provider, for example `aws:gp3`.
    pub volume_type: String,
    /// Operations per second.
    pub iops: Granted,
    /// Bytes per second.
    pub throughput: Granted,
    /// Where the figures come from, in full.
    pub sources: Vec<String>,
}

/// A limit, from the least to the most that can be ordered; both are the same where nothing is ordered.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Granted {
    /// Of the slowest such volume.
    pub least: Limit,
    /// Of the fastest such volume.
    pub most: Limit,
}

impl Catalog {
    /// Types of `provider` that have block devices of `size` today, with their limits, in the order of the files.
    pub fn candidates(&self, provider: &str, size: Bytes) -> Vec<Candidate> {
        let today = |t: &&VolumeType| t.valid_until.is_none() && t.media != NO_DEVICE;
        self.types
            .iter()
            .filter(|t| t.provider == provider)
            .filter(today)
            .filter_map(|t| {
                let (slowest, fastest) = (slowest(t, size)?, fastest(t, size)?);
                let granted = |of: fn(&Shape) -> Option<Limit>| {
                    Some(Granted { least: of(&slowest)?, most: of(&fastest)? })
                };
                // What is assumed are latencies, which are not told here.
                let sources = t.sources.iter().filter(|short| *short != "assumed");
                Some(Candidate {
                    volume_type: t.full_name(),
                    iops: granted(|shape| shape.iops)?,
                    throughput: granted(|shape| shape.throughput)?,
                    sources: sources.filter_map(|short| Some(self.source(short)?.name.clone())).collect(),
                })
            })
            .collect()
    }
}

fn slowest(t: &VolumeType, size: Bytes) -> Option<Shape> {
    let iops = t.iops_range(size).map(|(least, _)| least);
    t.shape(&VolumeOrder { size, iops, throughput: None }).ok()
}

fn fastest(t: &VolumeType, size: Bytes) -> Option<Shape> {
    let iops = t.iops_range(size).map(|(_, most)| most);
    let rate = t.shape(&VolumeOrder { size, iops, throughput: None }).ok()?.iops?.rate;
    t.shape(&VolumeOrder { size, iops, throughput: t.throughput_range(rate).map(|(_, most)| most) }).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;
    const MIB: f64 = 1_048_576.0;

    fn of(provider: &str, gib: u64) -> Vec<Candidate> {
        Catalog::builtin().candidates(provider, Bytes(gib * GIB))
    }

    fn names(candidates: &[Candidate]) -> Vec<&str> {
        candidates.iter().map(|c| c.volume_type.as_str()).collect()
    }

    #[test]
    fn the_size_decides_which_types_a_volume_may_have() {
        assert_eq!(names(&of("aws", 2)), ["aws:standard", "aws:gp2", "aws:gp3"]);
        assert_eq!(names(&of("aws", 20_000)), ["aws:gp3", "aws:io2"]);
        assert!(of("aws", 0).is_empty() && of("aws", 100_000).is_empty() && of("nobody", 100).is_empty());
    }

    #[test]
    fn limits_run_from_what_is_included_to_what_can_be_ordered() {
        let found = of("aws", 100);
        let of = |name: &str| found.iter().find(|c| c.volume_type == name).expect("a candidate");
        let gp3 = of("aws:gp3");
        // 500 IOPS per GiB; a quarter of a MiB/s for each.
        assert_eq!((gp3.iops.least.rate, gp3.iops.most.rate), (3000.0, 50_000.0));
        assert_eq!((gp3.throughput.least.rate, gp3.throughput.most.rate), (125.0 * MIB, 2000.0 * MIB));
        let gp2 = of("aws:gp2");
        assert_eq!((gp2.iops.least.rate, gp2.iops.least.burst_rate), (300.0, Some(3000.0)));
        assert_eq!(gp2.iops.least, gp2.iops.most);
        let io2 = of("aws:io2");
        assert_eq!((io2.iops.least.rate, io2.iops.most.rate), (100.0, 100_000.0));
        assert!(
            gp2.sources.iter().any(|s| s.starts_with("awsdocs/"))
                && !gp2.sources.iter().any(|s| s.contains("assumption"))
        );
    }

    /// Every type of which the size is sold has limits, whatever its rules.
    #[test]
    fn every_type_is_answered_at_its_ends() {
        for t in Catalog::builtin().types().iter().filter(|t| t.valid_until.is_none() && t.media != NO_DEVICE)
        {
            for gib in [t.size_gib.min, t.size_gib.max] {
                let name = t.full_name();
                let found = Catalog::builtin().candidates(&t.provider, Bytes(gib * GIB));
                let candidate = found.iter().find(|c| c.volume_type == name).expect(&name);
                assert!(candidate.iops.least.rate <= candidate.iops.most.rate, "{candidate:?}");
                assert!(candidate.throughput.least.rate <= candidate.throughput.most.rate, "{candidate:?}");
            }
        }
    }
}
