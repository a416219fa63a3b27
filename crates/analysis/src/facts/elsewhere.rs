//! What the designs of a session show of the volumes that they have in common: what a rule may ask of designs other than the
//! one that is judged, so that no design's samples are needed while another is.

use crate::steady;
use crate::{MemberShare, members};
use ebbtide_model::experiment::Experiment;
use ebbtide_model::samples::{Histogram, TrialSamples};
use ebbtide_model::workload::{Access, Mix, Workload};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The most a volume's rate may vary between the trials that are compared.
const VARIATION: f64 = 1.5;

/// A volume as a design's trials under a workload show it.
#[derive(Debug, Clone)]
pub struct OfVolume {
    /// Its part in the result.
    pub share: MemberShare,
    /// Whether it did about the same in all of the trials.
    pub holds_its_rate: bool,
    /// Latency of its reads over all trials.
    pub reads: Histogram,
}

/// By (design, workload): what the trials show of each member.
#[derive(Debug, Clone, Default)]
pub struct Elsewhere(BTreeMap<(usize, usize), Arc<Vec<OfVolume>>>);

/// Whether rules ask of such a workload what other designs show: random reads that go past the page cache.
pub fn is_asked(workload: &Workload) -> bool {
    workload.direct && workload.mix == Mix::Read && workload.access == Access::Random
}

/// The designs of an experiment in an order in which those come first that others may ask: those with fewer volumes, of
/// which each holds more of the span. Designs in one group ask nothing of each other.
pub fn order(experiment: &Experiment) -> Vec<Vec<usize>> {
    let mut groups: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (index, design) in experiment.designs.iter().enumerate() {
        groups.entry(design.layout.volumes().len()).or_default().push(index);
    }
    groups.into_values().collect()
}

impl Elsewhere {
    /// Adds what a design shows under a workload.
    pub fn add(&mut self, design: usize, workload: usize, volumes: Arc<Vec<OfVolume>>) {
        self.0.insert((design, workload), volumes);
    }

    /// What a design shows under a workload; nothing where it was not added.
    pub fn of(&self, design: usize, workload: usize) -> &[OfVolume] {
        self.0.get(&(design, workload)).map_or(&[], |volumes| volumes.as_slice())
    }
}

/// What trials that only read show of each member, of which `members` are the shares and latencies.
pub fn shown(trials: &[&TrialSamples], members: Vec<(MemberShare, Histogram)>) -> Vec<OfVolume> {
    let steady =
        steady::majority(trials.iter().map(|trial| steady::judge(trial, steady::SteadyMeasure::Throughput)));
    let of = |(share, reads): (MemberShare, Histogram)| {
        let rates = trials.iter().filter_map(|trial| {
            let member = trial.members.iter().find(|member| member.name == share.name)?;
            Some(members::totals(member).ops as f64 / trial.elapsed.as_secs_f64())
        });
        let least = rates.clone().fold(f64::INFINITY, f64::min);
        let holds = rates.fold(0.0, f64::max) <= least * VARIATION;
        OfVolume { holds_its_rate: steady != Some(false) && holds, reads, share }
    };
    members.into_iter().map(of).collect()
}

/// Latency of the reads of a member, or of all.
pub fn read_latency(trials: &[&TrialSamples], name: Option<&str>) -> Histogram {
    let members = trials.iter().flat_map(|trial| &trial.members);
    let meant = members.filter(|member| name.is_none_or(|name| member.name == name));
    Histogram::sum_of(meant.map(|member| &member.ops.read.latency))
}
