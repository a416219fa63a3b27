//! Limits that the load's control groups set on the members' devices (`io.max`), and how much of them is used.

use super::member::SlowMember;
use super::set_rates::grouped;
use super::volume_limit::{NEAR, REACHED};
use super::{Absent, Case, Judged, Rule, evidence};
use crate::{Basis, Evidence, Verdict, VerdictKind};
use ebbtide_model::per_op::PerOp;
use ebbtide_model::samples::{Count, GroupLimit, TrialSamples};
use ebbtide_model::units::format_throughput;
use ebbtide_model::workload::OpKind;

/// Share of the operations in flight from which on the array waits for the members at which they are: the others then have less than
/// half of what those have.
const WAITED_FOR: f64 = 0.70;

/// The fullest limit on the way of a member's operations.
#[derive(Debug, Clone, PartialEq)]
pub struct Held {
    /// The member.
    pub member: String,
    /// Device that the limit is on.
    pub device: String,
    /// Where it is set.
    pub file: String,
    /// Per second: operations of this kind, or bytes.
    pub limit: f64,
    /// The same as it was used.
    pub used: f64,
    kind: OpKind,
    is_bytes: bool,
}

impl Held {
    /// Use over limit.
    pub fn share(&self) -> f64 {
        self.used / self.limit
    }

    /// `io.max of ... allows 1,000 reads a second on loop0, and 998 are made`.
    pub fn in_words(&self) -> String {
        let kind = match self.kind {
            OpKind::Read => "reads",
            OpKind::Write => "writes",
        };
        let Held { file, device, limit, used, .. } = self;
        if self.is_bytes {
            let (limit, used) = (format_throughput(*limit), format_throughput(*used));
            return format!("{file} allows {kind} of {limit} on {device}, and they move {used}");
        }
        format!(
            "{file} allows {} {kind} a second on {device}, and {} are made",
            grouped(*limit),
            grouped(*used)
        )
    }

    pub(super) fn evidence(&self) -> Evidence {
        let unit = if self.is_bytes { "bytes/s" } else { "ops/s" };
        let what = format!("what the control group did on {} for {}, of its limit", self.device, self.member);
        evidence(&what, self.used, unit, Some(self.limit))
    }
}

/// Of each member that worked the fullest limit in the median trial; those on whose way there is none are left out.
pub fn held(case: &Case<'_>) -> Vec<Held> {
    let working = case.result.members.iter().filter(|member| member.iops > 0.0);
    working
        .filter_map(|member| {
            let mut all: Vec<Held> =
                case.trials.iter().filter_map(|trial| in_trial(case, trial, &member.name)).collect();
            all.sort_by(|a, b| a.share().total_cmp(&b.share()));
            let trials = all.len();
            // One that only some trials met may have been set meanwhile.
            (2 * trials > case.trials.len()).then(|| all.swap_remove((trials - 1) / 2))
        })
        .collect()
}

/// The limits of all members that worked, where each uses up its own.
pub fn reached(case: &Case<'_>) -> Option<Vec<Held>> {
    let working = case.result.members.iter().filter(|member| member.iops > 0.0).count();
    let full: Vec<Held> = held(case).into_iter().filter(|held| held.share() >= NEAR).collect();
    (!full.is_empty() && full.len() == working).then_some(full)
}

fn in_trial(case: &Case<'_>, trial: &TrialSamples, member: &str) -> Option<Held> {
    let observed = trial.observed.as_ref()?;
    let below = observed.members.iter().find(|m| m.member == member)?;
    let seconds = trial.elapsed.as_secs_f64();
    let mut fullest: Option<Held> = None;
    for index in &below.devices {
        let Some(device) = observed.devices.get(*index) else { continue };
        let own = own(case, trial, *index);
        for limit in &device.group_limits {
            for (kind, is_bytes, limited, used) in each(limit, &own) {
                let held = Held {
                    member: member.to_owned(),
                    device: device.shown_name().to_owned(),
                    file: limit.file.clone(),
                    limit: limited,
                    used: used / seconds,
                    kind,
                    is_bytes,
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
fn each(limit: &GroupLimit, own: &PerOp<Count>) -> Vec<(OpKind, bool, f64, f64)> {
    let mut all = Vec::new();
    for kind in [OpKind::Read, OpKind::Write] {
        let counted = limit.used.map(|used| *used.get(kind)).unwrap_or_default();
        let own = own.get(kind);
        if let Some(most) = limit.iops.get(kind).filter(|most| *most > 0) {
            all.push((kind, false, most as f64, counted.ops.max(own.ops) as f64));
        }
        if let Some(most) = limit.bytes.get(kind).filter(|most| most.0 > 0) {
            all.push((kind, true, most.0 as f64, counted.bytes.max(own.bytes) as f64));
        }
    }
    all
}

/// What the load asked of the device at this place, directly and as its members' own.
fn own(case: &Case<'_>, trial: &TrialSamples, device: usize) -> PerOp<Count> {
    let mut sum = PerOp::<Count>::default();
    let observed = trial.observed.iter().flat_map(|observed| &observed.members);
    for below in observed.filter(|below| case.workload.direct && below.devices.first() == Some(&device)) {
        for member in trial.members.iter().filter(|member| member.name == below.member) {
            for kind in [OpKind::Read, OpKind::Write] {
                let (sum, more) = (sum.get_mut(kind), member.ops.get(kind).count);
                sum.ops = sum.ops.saturating_add(more.ops);
                sum.bytes = sum.bytes.saturating_add(more.bytes);
            }
        }
    }
    sum
}

/// Every member that works uses up what a control group allows.
pub(super) fn by_group(held: &[Held]) -> Verdict {
    let least = held.iter().map(Held::share).fold(f64::MAX, f64::min);
    let more = match held.len() {
        1 => String::new(),
        all => format!("; so it is for each of {all} members"),
    };
    let first = held.first().map(Held::in_words).unwrap_or_default();
    Verdict {
        kind: VerdictKind::RateLimit,
        basis: Some(Basis::Declared),
        confidence: if least >= REACHED { 0.95 } else { 0.7 },
        explains: least.min(1.0),
        sentence: format!("the load's control group is held to a rate: {first}{more}"),
        evidence: held.iter().map(Held::evidence).collect(),
    }
}

/// Only some of the members that work use up what a control group allows: whether the array waits for them.
pub(super) fn of_some(case: &Case<'_>, held: &[Held]) -> Judged {
    let names: Vec<&str> = held.iter().map(|held| held.member.as_str()).collect();
    let first = held.first().map(Held::in_words).unwrap_or_default();
    if SlowMember.judge(case).is_ok() {
        return Err(Absent::yields(
            VerdictKind::Member,
            &format!("one member is held to a rate alone: {first}"),
        ));
    }
    let in_flight = |held: bool| {
        let members = case.result.members.iter().filter(|m| !held || names.contains(&m.name.as_str()));
        members.filter_map(|member| member.in_flight).sum::<f64>()
    };
    let (there, all) = (in_flight(true), in_flight(false));
    let share = if all > 0.0 { there / all } else { 0.0 };
    let what = format!("share of the operations in flight that are at {}", names.join(", "));
    if share < WAITED_FOR {
        let why = format!(
            "only {} of the members at work are held to a rate, and the others have as much to do: {first}",
            names.join(", ")
        );
        return Err(Absent::because(why).seen(&what, share, "share", WAITED_FOR));
    }
    let mut verdict = by_group(held);
    verdict.explains = share;
    verdict.sentence = format!(
        "the load's control group is held to a rate on {} of {} members: {first}; {:.0}% of the operations in flight wait there",
        held.len(),
        case.result.members.len(),
        share * 100.0
    );
    verdict.evidence.push(evidence(&what, share, "share", Some(WAITED_FOR)));
    Ok(verdict)
}
