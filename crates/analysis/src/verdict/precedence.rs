//! The rules and the one table of their precedence: which comes first among equals, to what each yields, and which keep
//! only what another cause leaves to explain.

use super::*;
use crate::facts::WHAT_SERVES;
use crate::judged::RuledOut;
use crate::resources::{self, Lasting, Row};
use VerdictKind::*;

/// A state in which something else is what operations wait for; `why` a rule is not judged then.
type State = fn(&Facts<'_>, &str) -> Result<(), Absent>;
/// The working members are at their own limits.
const VOLUMES: State = |facts, why| facts.yield_to_volumes(why);
/// The same, or at limits that a control group sets them.
const LIMITS: State = |facts, why| facts.yield_to_limits(why);
/// The rate looks like one that somebody set.
const SET_RATE: State = |facts, why| facts.yield_to_set_rate(why);
/// A load thread has little time left.
const BUSY_THREAD: State = |facts, _| facts.yield_to_a_busy_thread();
/// Something is asserted of what serves the operations.
const SERVES: State = |facts, why| facts.yield_to_what_serves(why);

type Judge = fn(&Case<'_>, &Facts<'_>) -> Judged;

/// One cause that may limit a design.
pub struct Rule {
    /// The cause that the rule asserts.
    pub kind: VerdictKind,
    judge: Judge,
    /// What it looks at, each with its edge.
    pub checks: &'static [Check],
    /// States in which something else is what operations wait for.
    not_at: &'static [State],
    /// Causes that keep this one from being asserted.
    yields_to: &'static [VerdictKind],
    /// Causes that are judged first, because the rule asks for them: it yields to them in a part of the cases only, or takes from its share what they
    /// explain.
    asks_for: &'static [VerdictKind],
    /// Causes behind this one, which keeps only what they leave to explain.
    left_by: &'static [VerdictKind],
}

impl Rule {
    const fn of(kind: VerdictKind, judge: Judge, checks: &'static [Check]) -> Rule {
        Rule { kind, judge, checks, not_at: &[], yields_to: &[], asks_for: &[], left_by: &[] }
    }

    const fn not_at(self, not_at: &'static [State]) -> Rule {
        Rule { not_at, ..self }
    }

    const fn yields_to(self, yields_to: &'static [VerdictKind]) -> Rule {
        Rule { yields_to, ..self }
    }

    const fn asks_for(self, asks_for: &'static [VerdictKind]) -> Rule {
        Rule { asks_for, ..self }
    }

    const fn left_by(self, left_by: &'static [VerdictKind]) -> Rule {
        Rule { left_by, ..self }
    }

    /// The causes that are judged first.
    fn earlier(&self) -> impl Iterator<Item = &VerdictKind> {
        self.yields_to.iter().chain(self.asks_for)
    }

    /// Whether it is judged at all, after those that are judged first.
    fn is_judged(&self, facts: &Facts<'_>) -> Result<(), Absent> {
        const WHY: &str = "that is what operations wait for";
        self.not_at.iter().try_for_each(|state| state(facts, WHY))?;
        self.yields_to.iter().try_for_each(|kind| facts.yield_to(*kind, WHY))
    }
}

/// Causes behind a limit that is reached: credits that ran out, a cache that is full, requests too small for it, which use up the
/// operations and leave the bytes, what is read and written for parity, which a link carries too, and copies that are not read.
const BEHIND_A_LIMIT: &[VerdictKind] = &[Burst, WriteCache, RequestSize, PartialStripe, IdleCopies];

/// Causes that are told from what devices and processors show, whatever the load: those that a program has too.
const OF_DEVICES: &[VerdictKind] =
    &[Member, Burst, VolumeLimit, InstanceLimit, RateLimit, Cpu, Memory, SyncWrites, SharedDevice];

/// Every rule, in the order in which equals are ranked.
///
/// Of memory that is freed by the thread that needs it, this thread's processor time and its wait for durability keep what is left.
pub static RULES: [Rule; 21] = [
    Rule::of(Cache, cache::judge, cache::CHECKS),
    Rule::of(Member, member::judge, member::CHECKS)
        .not_at(&[LIMITS])
        .yields_to(&[PartialStripe])
        .asks_for(&[Background]),
    Rule::of(Burst, burst::judge, burst::CHECKS).yields_to(&[WriteCache]).asks_for(&[Background]),
    Rule::of(WriteCache, write_cache::judge, write_cache::CHECKS).yields_to(&[Cache, Background]),
    Rule::of(DeviceWaves, device_waves::judge, device_waves::CHECKS)
        .not_at(&[LIMITS, SERVES])
        .yields_to(&[Burst, WriteCache])
        .asks_for(WHAT_SERVES),
    Rule::of(Background, background::judge, background::CHECKS).asks_for(&[InstanceLimit]),
    Rule::of(IdleCopies, idle_copies::judge, idle_copies::CHECKS)
        .yields_to(&[Member, SharedDevice, Cpu])
        .asks_for(&[InstanceLimit]),
    Rule::of(RateLimit, rate_limit::judge, rate_limit::CHECKS)
        .not_at(&[VOLUMES])
        .asks_for(&[Member])
        .left_by(BEHIND_A_LIMIT),
    Rule::of(VolumeLimit, volume_limit::judge, volume_limit::CHECKS)
        .asks_for(&[
            QueueLimit,
            RateLimit,
            Cpu,
            InstanceLimit,
            Member,
            Background,
            Readahead,
            RequestSize,
            PartialStripe,
            IdleCopies,
        ])
        .left_by(BEHIND_A_LIMIT),
    Rule::of(InstanceLimit, instance_limit::judge, instance_limit::CHECKS)
        .left_by(&[PartialStripe, IdleCopies]),
    Rule::of(Cpu, cpu::judge, cpu::CHECKS)
        .not_at(&[LIMITS, SET_RATE])
        .asks_for(&[Readahead])
        .left_by(&[Memory]),
    Rule::of(Memory, memory::judge, memory::CHECKS).not_at(&[LIMITS, SET_RATE]),
    Rule::of(RemoteQueue, remote::judge, remote::CHECKS).not_at(&[LIMITS, SET_RATE]).yields_to(&[Cpu]),
    Rule::of(SyncWrites, sync_writes::judge, sync_writes::CHECKS)
        .not_at(&[LIMITS, SET_RATE])
        .asks_for(&[Background])
        .left_by(&[Memory]),
    Rule::of(QueueLimit, queue_limit::judge, queue_limit::CHECKS)
        .not_at(&[LIMITS, SERVES])
        .asks_for(WHAT_SERVES),
    Rule::of(Concurrency, concurrency::judge, concurrency::CHECKS)
        .not_at(&[LIMITS, BUSY_THREAD])
        .yields_to(&[SyncWrites, RemoteQueue])
        .asks_for(&[InstanceLimit, Member, Cpu, Background]),
    Rule::of(FirstTouch, first_touch::judge, first_touch::CHECKS).asks_for(&[InstanceLimit]),
    Rule::of(RequestSize, request_size::judge, request_size::CHECKS),
    Rule::of(PartialStripe, partial_stripe::judge, partial_stripe::CHECKS)
        .not_at(&[BUSY_THREAD])
        .yields_to(&[Background]),
    Rule::of(Readahead, readahead::judge, readahead::CHECKS),
    Rule::of(SharedDevice, shared_device::judge, shared_device::CHECKS),
];

/// What is said of a case.
pub struct Judgement {
    /// Every verdict that the evidence supports, the cause that explains most first, or `unknown` when none does.
    pub verdicts: Vec<Verdict>,
    /// What was looked for in vain.
    pub ruled_out: Vec<RuledOut>,
    /// The table by which it is decided.
    pub resources: Vec<Row>,
    /// What is above the rate that lasts.
    pub lasting: Option<Lasting>,
}

/// Judges a case by every rule.
pub fn judge(case: &Case<'_>) -> Judgement {
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
            Some(Err(absent)) => {
                let grounds = absent.grounds();
                let Absent { why, evidence, .. } = absent;
                ruled_out.push(RuledOut { kind: rule.kind, why, grounds, evidence });
            }
            None => {}
        }
    }
    verdicts.sort_by(|a, b| b.weight().total_cmp(&a.weight()));
    if verdicts.is_empty() {
        verdicts.push(unknown::verdict(case, &facts));
    }
    let resources = resources::rows(case, &facts, &verdicts);
    Judgement { verdicts, ruled_out, resources, lasting: resources::lasting(case) }
}

/// Judges a rule after those that are judged first.
fn settle(rule: &Rule, case: &Case<'_>, facts: &mut Facts<'_>) {
    if facts.judged.contains_key(&rule.kind) {
        return;
    }
    for kind in rule.earlier() {
        RULES.iter().filter(|earlier| earlier.kind == *kind).for_each(|earlier| settle(earlier, case, facts));
    }
    if case.workload.program.is_some() && !OF_DEVICES.contains(&rule.kind) {
        let why = "a program is the load: its own operations are not seen";
        facts.judged.insert(rule.kind, Err(Absent::unmeasured(why)));
        return;
    }
    let judged = rule.is_judged(facts).and_then(|()| (rule.judge)(case, facts));
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
            rule(kind).earlier().for_each(|earlier| follow(*earlier, path));
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
