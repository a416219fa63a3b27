//! The rules and the one table of their precedence: which comes first among equals, to which others each yields, and which keep
//! only what another cause leaves to explain.

use super::{
    background, burst, cache, concurrency, cpu, device_waves, first_touch, idle_copies, instance_limit,
    member, memory, partial_stripe, queue_limit, rate_limit, readahead, remote, request_size, shared_device,
    sync_writes, unknown, volume_limit, write_cache,
};
use crate::facts::case::Case;
use crate::facts::{Facts, WHAT_SERVES};
use crate::judged::VerdictKind::{self, *};
use crate::judged::{Absent, Judged, RuledOut, Verdict};

/// One cause that may limit a design.
pub struct Rule {
    kind: VerdictKind,
    judge: fn(&Case<'_>, &Facts<'_>) -> Judged,
    /// Causes that are judged first, because this one may yield to them.
    yields_to: &'static [VerdictKind],
    /// Causes behind this one, which keeps only what they leave to explain.
    left_by: &'static [VerdictKind],
}

impl Rule {
    /// The cause that the rule asserts.
    pub fn kind(&self) -> VerdictKind {
        self.kind
    }

    const fn of(kind: VerdictKind, judge: fn(&Case<'_>, &Facts<'_>) -> Judged) -> Rule {
        Rule { kind, judge, yields_to: &[], left_by: &[] }
    }

    const fn yields_to(self, yields_to: &'static [VerdictKind]) -> Rule {
        Rule { yields_to, ..self }
    }

    const fn left_by(self, left_by: &'static [VerdictKind]) -> Rule {
        Rule { left_by, ..self }
    }
}

/// Causes behind a limit that is reached: credits that ran out, a cache that is full, requests too small for it, which use up the
/// operations and leave the bytes, what is read and written for parity, which a link carries too, and copies that are not read.
const BEHIND_A_LIMIT: &[VerdictKind] = &[Burst, WriteCache, RequestSize, PartialStripe, IdleCopies];

/// Every rule, in the order in which equals are ranked.
///
/// Of memory that is freed by the thread that needs it, this thread's processor time and its wait for durability keep what is left.
static RULES: [Rule; 21] = [
    Rule::of(Cache, cache::judge),
    Rule::of(Member, member::judge).yields_to(&[Background, PartialStripe]),
    Rule::of(Burst, burst::judge).yields_to(&[Background, WriteCache]),
    Rule::of(WriteCache, write_cache::judge).yields_to(&[Cache, Background]),
    Rule::of(DeviceWaves, device_waves::judge).yields_to(&[
        Burst,
        WriteCache,
        Background,
        RateLimit,
        Cpu,
        InstanceLimit,
        Member,
    ]),
    Rule::of(Background, background::judge).yields_to(&[InstanceLimit]),
    Rule::of(IdleCopies, idle_copies::judge).yields_to(&[Cpu, InstanceLimit]),
    Rule::of(RateLimit, rate_limit::judge).yields_to(&[Member]).left_by(BEHIND_A_LIMIT),
    Rule::of(VolumeLimit, volume_limit::judge)
        .yields_to(&[QueueLimit, RateLimit, Cpu, InstanceLimit, Member, Background, Readahead])
        .left_by(BEHIND_A_LIMIT),
    Rule::of(InstanceLimit, instance_limit::judge).left_by(&[PartialStripe, IdleCopies]),
    Rule::of(Cpu, cpu::judge).yields_to(&[Readahead]).left_by(&[Memory]),
    Rule::of(Memory, memory::judge),
    Rule::of(RemoteQueue, remote::judge).yields_to(&[Cpu]),
    Rule::of(SyncWrites, sync_writes::judge).yields_to(&[Background]).left_by(&[Memory]),
    Rule::of(QueueLimit, queue_limit::judge).yields_to(WHAT_SERVES),
    Rule::of(Concurrency, concurrency::judge).yields_to(&[
        SyncWrites,
        RemoteQueue,
        InstanceLimit,
        Member,
        Cpu,
        Background,
        PartialStripe,
    ]),
    Rule::of(FirstTouch, first_touch::judge).yields_to(&[InstanceLimit]),
    Rule::of(RequestSize, request_size::judge),
    Rule::of(PartialStripe, partial_stripe::judge).yields_to(&[Background]),
    Rule::of(Readahead, readahead::judge),
    Rule::of(SharedDevice, shared_device::judge),
];

/// Every rule, in the order in which equals are ranked.
pub fn rules() -> &'static [Rule] {
    &RULES
}

/// Every verdict that the evidence supports, the cause that explains most first, or `unknown` when none does; and what
/// was looked for in vain.
pub fn judge(case: &Case<'_>) -> (Vec<Verdict>, Vec<RuledOut>) {
    let mut facts = Facts::new(case);
    RULES.iter().for_each(|rule| settle(rule, case, &mut facts));
    let (mut verdicts, mut ruled_out) = (Vec::new(), Vec::new());
    for rule in &RULES {
        match facts.judged.get(&rule.kind).cloned() {
            Some(Ok(verdict)) => {
                let left = rule.left_by.iter().filter_map(|deeper| facts.asserted(*deeper));
                let explains = left.fold(verdict.explains, |rest, deeper| rest * (1.0 - deeper.explains));
                verdicts.push(Verdict { explains, ..verdict });
            }
            Some(Err(Absent { why, evidence })) => {
                ruled_out.push(RuledOut { kind: rule.kind, why, evidence })
            }
            None => {}
        }
    }
    verdicts.sort_by(|a, b| b.weight().total_cmp(&a.weight()));
    if verdicts.is_empty() {
        verdicts.push(unknown::verdict(case, &facts));
    }
    (verdicts, ruled_out)
}

/// Judges a rule after those to which it may yield.
fn settle(rule: &Rule, case: &Case<'_>, facts: &mut Facts<'_>) {
    if facts.judged.contains_key(&rule.kind) {
        return;
    }
    for earlier in RULES.iter().filter(|earlier| rule.yields_to.contains(&earlier.kind)) {
        settle(earlier, case, facts);
    }
    let judged = (rule.judge)(case, facts);
    facts.judged.insert(rule.kind, judged);
}

#[cfg(test)]
mod tests {
    use super::*;
    use strum::VariantArray;

    fn rule(kind: VerdictKind) -> &'static Rule {
        RULES.iter().find(|rule| rule.kind == kind).expect("it has a rule")
    }

    #[test]
    fn every_kind_has_a_row_and_none_yields_to_itself_by_way_of_others() {
        fn follow(kind: VerdictKind, path: &mut Vec<VerdictKind>) {
            assert!(!path.contains(&kind), "{kind:?} yields to itself: {path:?}");
            path.push(kind);
            rule(kind).yields_to.iter().for_each(|earlier| follow(*earlier, path));
            path.pop();
        }
        let judged = VerdictKind::VARIANTS.iter().filter(|kind| **kind != Unknown);
        judged.for_each(|kind| follow(*kind, &mut Vec::new()));
    }

    /// Otherwise what is left would depend on the order in which it is worked out.
    #[test]
    fn what_leaves_a_part_to_others_keeps_all_of_its_own() {
        let behind = RULES.iter().flat_map(|rule| rule.left_by);
        behind.for_each(|kind| assert!(rule(*kind).left_by.is_empty(), "{kind:?}"));
    }
}
