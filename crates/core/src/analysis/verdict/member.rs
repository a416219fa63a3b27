//! `member`: one slow member drags the array.
//!
//! Derivation. In a stripe every member gets the same work; a closed loop of `N` operations has them pile up at
//! the slowest, because the others answer and wait for it. The slow one therefore shows in its own latency and in
//! its queue (operations in flight: its rate times its latency), not in its rate, which is the same for all. iostat
//! shows it the same way: one `await` of 483 ms and `aqu-sz` of 149 beside a twin of 34 ms and 10.
//!
//! One member is always the slowest. It is named only when it is so by a factor, and either by a large one or in
//! the same place trial after trial: among `n` equals the same one is slowest in `k` trials with probability
//! `n^-(k-1)`.

use super::background::Background;
use super::{Absent, Case, Judged, Rule, evidence, shared_device, volume_limit};
use crate::analysis::estimate::median;
use crate::analysis::members;
use crate::analysis::{Verdict, VerdictKind};
use crate::samples::TrialSamples;
use crate::units::format_latency;

/// Least factor over the siblings' median, in latency and in queue. Equal members that are all saturated have queues of
/// chance length, and sequential access hands the longest to the same one each time: simulated, a factor of 1.57 in six
/// of six trials.
pub const OUTLIER: f64 = 1.8;
/// A factor that needs no repetition to be believed.
pub const LARGE_OUTLIER: f64 = 3.0;
/// Share of the trials in which it must be the same member.
pub const SAME_MEMBER: f64 = 0.8;
/// Largest probability of that by chance.
pub const CHANCE: f64 = 0.05;
/// Least operations of a member in a trial.
const MIN_OPS: u64 = 20;
/// A member works when it moves at least this share of what an equal part would be.
const WORKS: f64 = 0.5;

/// The rule.
#[derive(Debug)]
pub struct Member;

/// The outlier of one trial.
#[derive(Debug, Clone, PartialEq)]
struct Outlier {
    name: String,
    latency: f64,
    siblings_latency: f64,
    in_flight: f64,
    siblings_in_flight: f64,
    /// Share of all operations in flight that it held, and what an equal share would be.
    share: f64,
    fair: f64,
}

impl Outlier {
    fn excess(&self) -> f64 {
        ((self.share - self.fair) / (1.0 - self.fair)).clamp(0.0, 1.0)
    }

    fn factor(&self) -> f64 {
        (self.latency / self.siblings_latency).min(self.in_flight / self.siblings_in_flight)
    }
}

/// The slowest member of a trial against the median of its siblings; `None` below two comparable members.
fn slowest(trial: &TrialSamples) -> Option<Outlier> {
    let seconds = trial.elapsed.as_secs_f64();
    let moved: u64 = trial.members.iter().map(|m| members::totals(m).1).sum();
    let fair_bytes = moved as f64 / trial.members.len().max(1) as f64;
    let working: Vec<(&str, f64, f64)> = trial
        .members
        .iter()
        .filter(|m| {
            let (ops, bytes) = members::totals(m);
            ops >= MIN_OPS && bytes as f64 >= WORKS * fair_bytes
        })
        .filter_map(|m| {
            let latency = members::latency(m);
            Some((m.name.as_str(), latency.mean()?, latency.sum() as f64 / 1e9 / seconds))
        })
        .collect();
    let slowest = working.iter().enumerate().max_by(|a, b| a.1.1.total_cmp(&b.1.1))?.0;
    let others = |of: fn(&(&str, f64, f64)) -> f64| {
        let values: Vec<f64> =
            working.iter().enumerate().filter(|(i, _)| *i != slowest).map(|(_, member)| of(member)).collect();
        median(&values).filter(|value| *value > 0.0)
    };
    let (name, latency, in_flight) = working[slowest];
    let all_in_flight: f64 = working.iter().map(|member| member.2).sum();
    Some(Outlier {
        name: name.to_owned(),
        latency,
        siblings_latency: others(|member| member.1)?,
        in_flight,
        siblings_in_flight: others(|member| member.2)?,
        share: in_flight / all_in_flight,
        fair: 1.0 / working.len() as f64,
    })
}

impl Rule for Member {
    fn kind(&self) -> VerdictKind {
        VerdictKind::Member
    }

    fn judge(&self, case: &Case<'_>) -> Judged {
        // When every member is at its own limit, none waits for another.
        volume_limit::yield_to(case, "with every member at its limit none waits for another")?;
        // All members on the same disk: then it is not the member that is slow.
        if shared_device::shared(case).is_some_and(|(count, _)| count >= case.result.members.len()) {
            return Err(Absent::yields(VerdictKind::SharedDevice, "one disk is below all of them"));
        }
        let slowest: Vec<Outlier> = case.trials.iter().filter_map(|t| slowest(t)).collect();
        let factors: Vec<f64> = slowest.iter().map(Outlier::factor).collect();
        let usual = median(&factors).ok_or_else(|| {
            Absent::because("no trial has two members with comparable work and latencies of their own")
        })?;
        let too_alike = || {
            let what =
                "the slowest member's latency and queue over its siblings', the smaller factor of the two";
            Absent::because("no member stands out").seen(what, usual, "times", OUTLIER)
        };
        let outliers: Vec<Outlier> = slowest.into_iter().filter(|o| o.factor() >= OUTLIER).collect();
        // The member that is the outlier most often.
        let count = |name: &str| outliers.iter().filter(|o| o.name == name).count();
        let name = &outliers.iter().max_by_key(|o| count(&o.name)).ok_or_else(too_alike)?.name;
        let same: Vec<&Outlier> = outliers.iter().filter(|o| o.name == *name).collect();
        let of = |value: fn(&Outlier) -> f64| {
            median(&same.iter().map(|o| value(o)).collect::<Vec<_>>()).unwrap_or(f64::NAN)
        };
        let needed = SAME_MEMBER * case.trials.len() as f64;
        if (same.len() as f64) < needed {
            let what = format!("trials in which {name} is the slowest by far, more than any other");
            return Err(too_alike().seen(&what, same.len() as f64, "trials", needed));
        }
        // Nor when others hold its disk back; they are not what slows a volume that is slow by its shape.
        if !case.slowed_by_tool(name) && Background.judge(case).is_ok() {
            let why = format!("others at work may be what slows {name}");
            return Err(Absent::yields(VerdictKind::Background, &why));
        }
        let chance = of(|o| o.fair).powi(same.len() as i32 - 1);
        let factor = of(Outlier::factor);
        let confidence = match (chance <= CHANCE, factor >= LARGE_OUTLIER) {
            (true, true) => 0.95,
            (true, false) => 0.85,
            (false, true) => 0.75,
            (false, false) => {
                let why = format!("{name} stands out, but too seldom for its factor");
                return Err(Absent::because(why)
                    .seen("its factor over its siblings", factor, "times", LARGE_OUTLIER)
                    .seen(
                        "probability that chance makes it so, which would have to be at most",
                        chance,
                        "share",
                        CHANCE,
                    ));
            }
        };
        let (latency, siblings, share) = (of(|o| o.latency), of(|o| o.siblings_latency), of(|o| o.share));
        Ok(Verdict {
            kind: VerdictKind::Member,
            confidence,
            explains: of(Outlier::excess),
            sentence: format!(
                "{name} answers in {} where its siblings take {}, and holds {:.0}% of the operations in flight: the array \
                 waits for it",
                format_latency(latency),
                format_latency(siblings),
                share * 100.0
            ),
            evidence: vec![
                evidence(
                    &format!("mean latency of {name}, against its siblings' median"),
                    latency,
                    "ns",
                    Some(siblings),
                ),
                evidence(
                    &format!("operations in flight at {name}, against its siblings' median"),
                    of(|o| o.in_flight),
                    "operations",
                    Some(of(|o| o.siblings_in_flight)),
                ),
                evidence(
                    &format!("trials in which {name} is the outlier"),
                    same.len() as f64,
                    "trials",
                    Some(case.trials.len() as f64),
                ),
            ],
        })
    }
}
