//! Limits that the load's control groups set on the members' devices (`io.max`), and how much of them is used.

use super::case::Case;
use super::round_rates::grouped;
use super::standing::Devices;
use super::usage::{Counted, NEAR, REACHED};
use crate::evidence::{Evidence, evidence};
use ebbtide_model::per_op::PerOp;
use ebbtide_model::samples::{Count, GroupLimit, TrialSamples};
use ebbtide_model::units::{Bytes, format_throughput};
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
    /// The same as the device counted it, whoever asked.
    moved: f64,
    /// Mean size of a request that the device completed.
    request: Option<Bytes>,
    /// Mean size of an operation of the load at it; nothing where that is not known.
    operation: Option<Bytes>,
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
        let kind = match self.kind {
            OpKind::Read => "reads",
            OpKind::Write => "writes",
        };
        let FullestLimit { device, limit, used, .. } = self;
        if let Some(charged) = self.charged_in_words(kind) {
            return charged;
        }
        let file = self.file_of_limit();
        if self.counted == Counted::Bytes {
            let (limit, used) = (format_throughput(*limit), format_throughput(*used));
            return format!("{file} allows {kind} of {limit} on {device}, and they move {used}");
        }
        format!(
            "{file} allows {} {kind} a second on {device}, and {} are made",
            grouped(*limit),
            grouped(*used)
        )
    }

    /// That the kernel charges more than the device is asked for, where it does. An operation that is larger than a request of the device is
    /// charged as it comes, then it is cut, and what it is cut into is charged as well (block/blk-throttle.c marks a bio as
    /// charged, and block/bio.c passes no such mark on to its pieces). Seen on Linux 6.18: reads of 1 MiB in two pieces are three
    /// operations and 2 MiB. Others of the group would have been seen at the device.
    fn charged_in_words(&self, kind: &str) -> Option<String> {
        let times = self.used / self.moved;
        // What was put together behind the limit was not cut.
        let cut = |request: &Bytes| self.operation.is_none_or(|operation| *request < operation);
        let request = self.request.filter(|_| self.moved > 0.0 && times >= CHARGED_MORE).filter(cut)?;
        let told = |rate: f64| match self.counted {
            Counted::Bytes => format_throughput(rate),
            Counted::Operations => format!("{}/s", grouped(rate)),
        };
        Some(format!(
            "{} allows {kind} of {} on {} and charges {} for the {} that it does: the kernel charges an operation whole and again for each \
             piece that it is cut into, of {request} here; operations of at most that size would be granted up to {times:.1} times as much",
            self.file_of_limit(),
            told(self.limit),
            self.device,
            told(self.used),
            told(self.moved),
        ))
    }

    /// Where it is set; of the first control groups each limit has a file of its own.
    fn file_of_limit(&self) -> String {
        let kind = match self.kind {
            OpKind::Read => "read",
            OpKind::Write => "write",
        };
        let counted = match self.counted {
            Counted::Operations => "iops",
            Counted::Bytes => "bps",
        };
        self.file.replace("*_device", &format!("{kind}_{counted}_device"))
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
    case.working()
        .filter_map(|member| {
            let mut all: Vec<FullestLimit> =
                case.trials.iter().filter_map(|trial| in_trial(case, trial, &member.name, devices)).collect();
            all.sort_by(|a, b| a.share().total_cmp(&b.share()));
            let trials = all.len();
            // One that only some trials met may have been set meanwhile.
            (2 * trials > case.trials.len()).then(|| all.swap_remove((trials - 1) / 2))
        })
        .collect()
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
    let mut fullest: Option<FullestLimit> = None;
    for index in &below.devices {
        let Some(device) = observed.devices.get(*index) else { continue };
        let own = own(case, trial, *index);
        // What a limit below it holds back is at the member's device too.
        let passed = devices.filter(|_| below.devices.first() == Some(index)).map(|devices| devices.share);
        for limit in &device.group_limits {
            for (kind, counted, limited, used) in each(limit, &own) {
                // It was another one for a part of the time.
                let asked = own.get(kind);
                let got = if counted == Counted::Bytes { asked.bytes } else { asked.ops };
                if got as f64 / seconds > CHARGED_MORE * limited {
                    continue;
                }
                let held = FullestLimit {
                    member: member.to_owned(),
                    device: device.shown_name().to_owned(),
                    file: limit.file.clone(),
                    limit: limited,
                    used: used / seconds,
                    moved: match counted {
                        Counted::Operations => *device.total.ops.get(kind),
                        Counted::Bytes => *device.total.bytes.get(kind),
                    } as f64
                        / seconds,
                    request: device.total.bytes.get(kind).checked_div(*device.total.ops.get(kind)).map(Bytes),
                    operation: asked.bytes.checked_div(asked.ops).map(Bytes),
                    passed,
                    kind,
                    counted,
                };
                if fullest.as_ref().is_none_or(|known| known.share() < held.share()) {
                    fullest = Some(held);
                }
            }
        }
    }
    fullest
}

/// Each of the four limits that is set, with what was used of it: what the load asked for counts exactly, what the group's
/// counters say counts others in it too, and operations that are cut in pieces.
fn each(limit: &GroupLimit, own: &PerOp<Count>) -> Vec<(OpKind, Counted, f64, f64)> {
    let mut all = Vec::new();
    for kind in [OpKind::Read, OpKind::Write] {
        let counted = limit.used.map(|used| *used.get(kind)).unwrap_or_default();
        let own = own.get(kind);
        if let Some(most) = limit.iops.get(kind).filter(|most| *most > 0) {
            all.push((kind, Counted::Operations, most as f64, counted.ops.max(own.ops) as f64));
        }
        if let Some(most) = limit.bytes.get(kind).filter(|most| most.0 > 0) {
            all.push((kind, Counted::Bytes, most.0 as f64, counted.bytes.max(own.bytes) as f64));
        }
    }
    all
}

/// What the load asked of the device at this place, directly and as its members' own.
fn own(case: &Case<'_>, trial: &TrialSamples, device: usize) -> PerOp<Count> {
    let observed = trial.observed.iter().flat_map(|observed| &observed.members);
    let below = observed.filter(|below| case.workload.direct && below.devices.first() == Some(&device));
    let members = below.flat_map(|below| trial.members.iter().filter(|m| m.name == below.member));
    members.fold(PerOp::default(), |sum, member| sum.plus(member.ops.counts()))
}
