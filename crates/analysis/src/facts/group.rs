//! Limits that the load's control groups set on the members' devices (`io.max`), and how much of them is used.

use super::round_rates::grouped;
use super::usage::REACHED;
use super::*;
use ebbtide_model::per_op::PerOp;
use ebbtide_model::samples::Count;
use ebbtide_model::units::format_throughput;
use ebbtide_model::workload::OpKind;

/// What is charged over what the device did, from which on operations are charged more than once: counters are read at other moments.
const CHARGED_MORE: f64 = 1.3;

/// Share of the operations in flight that are past a limit from which on it holds back hardly any: the others are what it could gain.
const PASSED: f64 = 0.90;

/// The fullest limit on the way of a member's operations.
#[derive(Debug, Clone, PartialEq)]
pub struct FullestLimit {
    /// Name of the member with the limit.
    pub member: String,
    /// Device that the limit is on.
    pub device: String,
    /// Where it is set.
    pub file: String,
    /// Per second: operations of this kind, or bytes.
    pub limit: f64,
    /// The same as it was used.
    pub used: f64,
    /// The same as the load asked for it.
    asked: f64,
    /// The same as the device counted it, whoever asked.
    moved: f64,
    /// Share of the operations in flight that have passed it and are at the member's device; nothing where that is not known.
    passed: Option<f64>,
    kind: OpKind,
    counted: Counted,
}

impl FullestLimit {
    /// Use as a share of the limit: 1 is all of it.
    pub fn share(&self) -> f64 {
        self.used / self.limit
    }

    /// `io.max of ... allows 1,000 reads a second on loop0, and 998 are made`.
    pub fn in_words(&self) -> String {
        let (kind, kinds) = match self.kind {
            OpKind::Read => ("read", "reads"),
            OpKind::Write => ("write", "writes"),
        };
        let FullestLimit { device, limit, used, moved, .. } = self;
        // Of the first control groups each limit has a file of its own.
        let file = |counted| self.file.replace("*_device", &format!("{kind}_{counted}_device"));
        if self.counted == Counted::Operations {
            let (file, limit, used) = (file("iops"), grouped(*limit), grouped(*used));
            return format!("{file} allows {limit} {kinds} a second on {device}, and {used} are made");
        }
        let told = format!("{} allows {kinds} of {} on {device}", file("bps"), format_throughput(*limit));
        let charged = format_throughput(*used);
        // block/blk-throttle.c marks a bio as charged, and block/bio.c passes no such mark on to its pieces. Seen on Linux 6.18.
        if *moved > 0.0 && *used >= CHARGED_MORE * moved {
            let moved = format_throughput(*moved);
            return format!(
                "{told} and charges {charged} for the {moved} that it does: an operation that is cut is charged whole and again for each piece"
            );
        }
        format!("{told}, and they move {charged}")
    }

    /// Whether it is used up: it is not where a part of it is left and most operations have passed it.
    pub fn is_reached(&self) -> bool {
        let passed = self.passed.is_some_and(|passed| passed >= PASSED);
        self.share() >= if passed { REACHED } else { NEAR }
    }

    /// What was used of it.
    pub fn evidence(&self) -> Evidence {
        let what = format!("what the control group did on {} for {}, of its limit", self.device, self.member);
        evidence(what, self.used, self.counted.unit(), Some(self.limit))
    }
}

/// Of each member that worked the fullest limit in the median trial; those on whose way there is none are left out. `devices` is how those of the
/// members stood.
pub fn held(case: &Case<'_>, devices: Option<Devices>) -> Vec<FullestLimit> {
    let seen = |trial: &TrialSamples| {
        let working = case.working();
        working.filter_map(|member| in_trial(case, trial, &member.name, devices)).collect()
    };
    in_most(case.trials, seen, |a, b| a.member == b.member, FullestLimit::share)
}

/// Whether each member that worked uses up its own of the limits `held`.
pub fn reached(case: &Case<'_>, held: &[FullestLimit]) -> bool {
    !held.is_empty() && held.len() == case.working().count() && held.iter().all(FullestLimit::is_reached)
}

fn in_trial(
    case: &Case<'_>,
    trial: &TrialSamples,
    member: &str,
    devices: Option<Devices>,
) -> Option<FullestLimit> {
    let observed = trial.observed.as_ref()?;
    let below = observed.member(member)?;
    let seconds = trial.elapsed.as_secs_f64();
    let mut all: Vec<FullestLimit> = Vec::new();
    for index in &below.devices {
        let Some(device) = observed.devices.get(*index) else { continue };
        let own = own(case, trial, *index);
        // What a limit below it holds back is at the member's device too.
        let passed = devices.filter(|_| below.devices.first() == Some(index)).map(|devices| devices.share);
        for (limit, kind) in device.group_limits.iter().flat_map(|l| [(l, OpKind::Read), (l, OpKind::Write)])
        {
            // What the load asked for counts exactly; the group's counters have others in it too, and what is charged again.
            let charged = limit.used.map(|used| *used.get(kind)).unwrap_or_default();
            let (asked, total) = (own.get(kind), &device.total);
            let ops = limit.iops.get(kind).map(|most| most as f64);
            let bytes = limit.bytes.get(kind).map(|most| most.0 as f64);
            for (counted, limited, asked, charged, moved) in [
                (Counted::Operations, ops, asked.ops, charged.ops, *total.ops.get(kind)),
                (Counted::Bytes, bytes, asked.bytes, charged.bytes, *total.bytes.get(kind)),
            ] {
                all.extend(limited.map(|limited| FullestLimit {
                    member: member.to_owned(),
                    device: device.shown_name().to_owned(),
                    file: limit.file.clone(),
                    limit: limited,
                    used: asked.max(charged) as f64 / seconds,
                    asked: asked as f64 / seconds,
                    moved: moved as f64 / seconds,
                    passed,
                    kind,
                    counted,
                }));
            }
        }
    }
    // It was another one for a part of the time where the load had more.
    let all = all.into_iter().filter(|held| held.limit > 0.0 && held.asked <= CHARGED_MORE * held.limit);
    all.max_by(|a, b| a.share().total_cmp(&b.share()))
}

/// What the load asked of the device at this place, directly and as its members' own.
fn own(case: &Case<'_>, trial: &TrialSamples, device: usize) -> PerOp<Count> {
    let observed = trial.observed.iter().flat_map(|observed| &observed.members);
    let below = observed.filter(|below| case.workload.direct && below.devices.first() == Some(&device));
    let members = below.flat_map(|below| trial.members.iter().filter(|m| m.name == below.member));
    members.fold(PerOp::default(), |sum, member| sum.plus(member.ops.counts()))
}
