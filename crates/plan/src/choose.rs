//! From all designs to the answer: rejected by rules, predicted the cheapest first, ranked.

use crate::bounds::Bound;
use crate::candidates::{Candidate, candidates, one};
use crate::changes::{self, Objection};
use crate::notes;
use crate::outgrown::{self, Outgrown};
use crate::predict::{Interval, Predict, Prediction, missed};
use crate::rules::{Shortfall, short_of};
use crate::write::work;
use ebbtide_model::catalog::{Catalog, Date, VolumeOrder, VolumeType};
use ebbtide_model::need::Need;
use ebbtide_model::units::{Bytes, format_alike};
use serde::Serialize;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// Designs that are predicted at the same time; who calls may do so on as many threads.
const BATCH: usize = 8;
/// Operations that are simulated for one answer at most: a few seconds of two cores.
const WORK_MOST: f64 = 6e7;
/// Prices that are nearer to each other than this, as a share, are the same: what differs is something else.
const SAME_PRICE: f64 = 0.01;
/// Trials of each workload of a prediction.
const TRIALS: f64 = 6.0;

/// What is ordered for a design.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Volumes {
    /// Type with its provider.
    pub r#type: String,
    /// How many volumes of this kind are ordered.
    pub count: u32,
    /// Size of each volume.
    pub size: Bytes,
    /// Operations per second of each, sustained; absent where nothing limits them.
    pub iops: Option<f64>,
    /// Bytes per second of each, sustained; absent where nothing limits them.
    pub throughput: Option<f64>,
}

/// One design that does what is needed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Plan {
    /// Its place, from 1.
    pub rank: usize,
    /// Name of the design.
    pub design: String,
    /// How its volumes are put together.
    pub layout: String,
    /// The volumes to order.
    pub volumes: Vec<Volumes>,
    /// The instance, where one is named.
    pub instance: Option<String>,
    /// US dollars a month for the volumes.
    pub price_month_usd: f64,
    /// US dollars a month for the instance, where its price is known; for storage hosts and client together, where there are such.
    pub instance_month_usd: Option<f64>,
    /// Storage hosts, of which each is such an instance and the client another, where copies are over several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hosts: Option<u32>,
    /// Sequential bytes per second.
    pub throughput: Interval,
    /// Random operations per second.
    pub iops: Interval,
    /// 99th percentile of latency in nanoseconds, at the rate needed.
    pub lat_p99: Interval,
    /// What gives out first.
    pub limited_by: String,
    /// What limits its operations.
    pub iops_limits: Vec<Bound>,
    /// What limits its sequential bytes.
    pub throughput_limits: Vec<Bound>,
    /// Hours of each day for which it gives what is needed; absent where it always does.
    pub burst_hours_a_day: Option<f64>,
    /// Which of `iops`, `throughput` and `lat_p99` come from burst credits, and are there for the need's hours of each day only.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub in_burst: Vec<&'static str>,
    /// What else a reader of this plan has to know.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
    /// The experiment that predicts and measures it, as a file's text.
    pub experiment: String,
}

/// Designs that will not do, all for the same reason.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Rejected {
    /// Why they were rejected, in words.
    pub why: String,
    /// Designs rejected for this reason.
    pub count: usize,
    /// The one of them that is nearest to doing it, and what it is short of.
    pub nearest: String,
}

/// Volumes that somebody has already, as the planner sees them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExistingVolumes {
    /// The design that they would make.
    pub design: String,
    /// The volumes, by type and number.
    pub volumes: Vec<Volumes>,
    /// The instance that this is seen with, where one is named.
    pub instance: Option<String>,
    /// US dollars a month for them; nothing where the catalogue has no price.
    pub price_month_usd: Option<f64>,
    /// What they lack by arithmetic; nothing where they do what is needed.
    pub short_of: Vec<String>,
}

/// What `count` volumes of `record`, ordered so, would do for `need`; nothing where they make no array that survives what it must,
/// or where such volumes cannot be ordered.
pub fn have(
    need: &Need,
    catalog: &Catalog,
    record: &VolumeType,
    order: VolumeOrder,
    count: u32,
) -> Option<ExistingVolumes> {
    if need.over.is_some() {
        // Nobody says on which hosts they are.
        return None;
    }
    let instance = catalog.instances().iter().find(|instance| need.may_use(&instance.id));
    let candidate = one(need, instance, record, order, count)?;
    // What is there has been paid for: a budget is for what is bought.
    let short = short_of(&candidate, &Need { budget_month: None, ..need.clone() });
    Some(ExistingVolumes {
        design: candidate.name(),
        volumes: vec![volumes(&candidate)],
        instance: instance.map(|instance| instance.id.clone()),
        price_month_usd: candidate.price,
        short_of: short.into_iter().map(|short| format!("{}: {}", short.why, short.by)).collect(),
    })
}

/// What comes of a need.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Answer {
    /// Designs that were considered.
    pub considered: usize,
    /// Of these, how many passed the rules.
    pub passed: usize,
    /// Of these, how many were simulated: the cheapest of each kind until there were enough plans.
    pub simulated: usize,
    /// What does it, the cheapest first.
    pub plans: Vec<Plan>,
    /// What does not, the most frequent reason first.
    pub rejected: Vec<Rejected>,
    /// Why md over hosts is the wrong answer; nothing where it is not, or none are asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub outgrown: Vec<Outgrown>,
    /// What to take in its place.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub instead: Vec<String>,
    /// How far the first plan goes.
    pub reach: Vec<String>,
    /// What would change the answer.
    pub changes: Vec<String>,
    /// What somebody has already.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub have: Vec<ExistingVolumes>,
    /// What a reader has to know.
    pub notes: Vec<String>,
    /// Where the figures of the plans come from.
    pub sources: Vec<String>,
}

/// The reasons so far, each with its number and the design that is nearest to being fit.
#[derive(Debug, Default)]
struct Reasons {
    of: BTreeMap<String, (usize, f64, String)>,
    /// Types of which some are too slow in answering, and whether their latencies are assumptions.
    slow: BTreeMap<String, bool>,
}

impl Reasons {
    fn add(&mut self, candidate: &Candidate<'_>, short: &Shortfall) {
        let nearest = || format!("{}: {}", candidate.name(), short.by);
        let known = self.of.entry(short.why.clone()).or_insert_with(|| (0, short.has, nearest()));
        known.0 += 1;
        if short.has > known.1 {
            (known.1, known.2) = (short.has, nearest());
        }
        if short.is_latency {
            self.slow.insert(candidate.type_name(), notes::is_assumed(candidate));
        }
    }

    fn into_list(self) -> Vec<Rejected> {
        let rejected = |(why, (count, _, nearest))| Rejected { why, count, nearest };
        let mut list: Vec<Rejected> = self.of.into_iter().map(rejected).collect();
        list.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.why.cmp(&b.why)));
        list
    }
}

/// Designs of one kind differ in numbers and instances only, and the cheapest of them is enough.
fn kind(candidate: &Candidate<'_>) -> (String, &'static str) {
    (candidate.type_name(), candidate.array.kind.name())
}

/// The one with fewer volumes first, then the one on the smaller instance: what decides where prices do not.
fn by_size(a: &Candidate<'_>, b: &Candidate<'_>) -> Ordering {
    let size = |of: &Candidate<'_>| of.instance.map(|instance| (instance.vcpus, instance.memory_mib));
    a.array.members.cmp(&b.array.members).then_with(|| size(a).cmp(&size(b)))
}

/// Orders candidates by price, the cheaper first.
fn by_price(a: &Candidate<'_>, b: &Candidate<'_>) -> Ordering {
    a.total().total_cmp(&b.total()).then_with(|| by_size(a, b)).then_with(|| a.name().cmp(&b.name()))
}

/// Whether what costs `price` costs as much as the cheapest, at `cheapest`, for all that matters.
fn costs_the_same(cheapest: f64, price: f64) -> bool {
    price <= cheapest * (1.0 + SAME_PRICE)
}

/// The one that stands for its kind.
struct Picked<'a, 'c> {
    candidate: &'a Candidate<'c>,
    /// What the cheapest of its kind costs, which may have more volumes.
    cheapest: f64,
}

/// The one of `left`, the cheapest first, that stands for its kind: of those that cost no more than the cheapest the one with the
/// fewest volumes, then the smallest instance.
fn pick<'a, 'c>(left: &[&'a Candidate<'c>]) -> Option<Picked<'a, 'c>> {
    let cheapest = left.first()?.total();
    let same = left.iter().take_while(|other| costs_the_same(cheapest, other.total()));
    let candidate = same.min_by(|a, b| by_size(a, b).then_with(|| by_price(a, b))).copied()?;
    Some(Picked { candidate, cheapest })
}

/// The cheaper first; of those whose prices are the same the one of fewer volumes, then on the smaller instance, then the faster. Prices are
/// held against the cheapest of any kind: against those that stand for their kinds, which may cost a little more, it would come to twice as much.
fn rank(chosen: &mut [(Picked<'_, '_>, Prediction)]) {
    chosen.sort_by(|a, b| by_price(a.0.candidate, b.0.candidate));
    let mut left = chosen;
    while !left.is_empty() {
        let cheapest = left.iter().map(|(of, _)| of.cheapest).fold(f64::INFINITY, f64::min);
        let same = left.iter().take_while(|(of, _)| costs_the_same(cheapest, of.candidate.total())).count();
        let (group, rest) = left.split_at_mut(same.max(1));
        group.sort_by(|a, b| {
            by_size(a.0.candidate, b.0.candidate)
                .then_with(|| a.1.lat_p99.median.total_cmp(&b.1.lat_p99.median))
                .then_with(|| by_price(a.0.candidate, b.0.candidate))
        });
        left = rest;
    }
}

/// The designs for `need` out of `catalog`: at most `wanted`, one of each kind, the cheapest first. `predict` says what each does;
/// `today` is held against the days of prices.
pub fn plan(
    need: &Need,
    catalog: &Catalog,
    wanted: usize,
    today: Option<Date>,
    predict: Predict<'_>,
) -> Answer {
    let (mut all, notes) = candidates(need, catalog);
    all.sort_by(by_price);
    let mut answer = Answer { considered: all.len(), notes, ..Answer::default() };
    let mut reasons = Reasons::default();
    let mut passed: Vec<&Candidate<'_>> = Vec::new();
    let mut against = Objection::default();
    for candidate in &all {
        let short = short_of(candidate, need);
        match short.first() {
            None => passed.push(candidate),
            Some(first) => {
                reasons.add(candidate, first);
                if first.is_budget {
                    against.dear.push(candidate);
                } else if first.is_latency && short.len() == 1 {
                    against.slow.push(candidate);
                }
            }
        }
    }
    answer.passed = passed.len();
    let mut chosen: Vec<(Picked<'_, '_>, Prediction)> = Vec::new();
    let mut have = BTreeSet::new();
    let (mut spent, mut left) = (0.0, passed.as_slice());
    let mut unseen = 0;
    while !left.is_empty() && chosen.len() < wanted {
        // The best of each kind that is not there yet; the next of its kind has to wait for what comes of it.
        let mut kinds: BTreeMap<_, Vec<&Candidate<'_>>> = BTreeMap::new();
        for candidate in left.iter().copied().filter(|candidate| !have.contains(&kind(candidate))) {
            kinds.entry(kind(candidate)).or_default().push(candidate);
        }
        let mut picked: Vec<Picked<'_, '_>> = kinds.values().filter_map(|of| pick(of)).collect();
        picked.sort_by(|a, b| by_price(a.candidate, b.candidate));
        picked.truncate(BATCH);
        let batch: Vec<&Candidate<'_>> = picked.iter().map(|of| of.candidate).collect();
        let later: Vec<&Candidate<'_>> = left
            .iter()
            .copied()
            .filter(|one| !have.contains(&kind(one)) && !batch.iter().any(|other| std::ptr::eq(*one, *other)))
            .collect();
        let cost: f64 = batch.iter().map(|candidate| TRIALS * work(candidate, need)).sum();
        if answer.simulated > 0 && spent + cost > WORK_MOST {
            unseen = batch.len() + later.len();
            break;
        }
        spent += cost;
        answer.simulated += batch.len();
        for (of, predicted) in picked.into_iter().zip(predict(&batch)) {
            let candidate = of.candidate;
            match predicted.map(|prediction| (missed(&prediction, need), prediction)) {
                Ok((None, prediction)) => {
                    have.insert(kind(candidate));
                    chosen.push((of, prediction));
                }
                Ok((Some(short), prediction)) => {
                    reasons.add(candidate, &short);
                    if short.is_latency {
                        against.late.push((candidate, prediction));
                    }
                }
                Err(why) => {
                    reasons.add(
                        candidate,
                        &Shortfall::new("the simulator does not take it", why.to_string(), 0.0),
                    );
                }
            }
        }
        passed = later;
        left = passed.as_slice();
    }
    if unseen > 0 {
        answer.notes.push(format!(
            "{unseen} dearer designs were not simulated: that would take long, and cheaper ones are known by then"
        ));
    }
    rank(&mut chosen);
    chosen.truncate(wanted);
    let chosen: Vec<(&Candidate<'_>, Prediction)> =
        chosen.into_iter().map(|(of, prediction)| (of.candidate, prediction)).collect();
    answer.reach = chosen.first().map_or_else(Vec::new, |(best, _)| changes::reach(best, need));
    answer.outgrown = outgrown::everywhere(need, catalog);
    if answer.outgrown.is_empty() {
        answer.changes = changes::of(need, catalog, &all, &chosen, &against, predict);
    } else {
        answer.instead = outgrown::instead(need);
    }
    let told: Vec<&Candidate<'_>> = chosen.iter().map(|(candidate, _)| *candidate).collect();
    answer.notes.extend(notes::of(need, &told, &reasons.slow, today));
    answer.notes.extend(notes::elsewhere(need, &all));
    answer.rejected = reasons.into_list();
    answer.sources = notes::sources(catalog, &told);
    answer.plans = chosen.into_iter().enumerate().map(|(place, of)| planned(place + 1, of, need)).collect();
    answer
}

/// What a reader of this plan has to know, beside its figures.
fn remarks(candidate: &Candidate<'_>, prediction: &Prediction, need: &Need) -> Vec<String> {
    let less = |of: &Interval, rate: Option<f64>, unit: &str, noun: &str| {
        let rate = rate.filter(|rate| of.ci_low < *rate)?;
        let (low, asked) = format_alike(of.ci_low, rate, unit);
        Some(format!("the interval begins below the need, at {low} of {asked}{noun}: there is no room"))
    };
    let mut said: Vec<String> = less(&prediction.iops, need.iops, "", " IOPS").into_iter().collect();
    said.extend(less(&prediction.throughput, need.throughput, "B/s", ""));
    said.extend(need.over.map(|over| outgrown::repair(need, over, outgrown::network(candidate.instance))));
    if candidate.array.parity() > 0 && !candidate.is_local() {
        said.push(
            "parity on EBS: AWS advises against it, for 20 to 30% fewer usable IOPS than a stripe has; and a crash in the middle of a \
             write can leave data and parity apart (the write hole)"
                .to_owned(),
        );
    }
    said
}

/// Which figures come from burst credits.
fn in_burst(candidate: &Candidate<'_>, need: &Need) -> Vec<&'static str> {
    let of = |bounds, name| candidate.is_burst(bounds, need).then_some(name);
    let latency = need.iops.and_then(|_| of(&candidate.random, "lat_p99"));
    [of(&candidate.random, "iops"), of(&candidate.sequential, "throughput"), latency]
        .into_iter()
        .flatten()
        .collect()
}

/// What is ordered for `candidate`.
pub(crate) fn volumes(candidate: &Candidate<'_>) -> Volumes {
    Volumes {
        r#type: candidate.type_name(),
        count: candidate.array.members,
        size: candidate.size,
        iops: candidate.shape.iops.map(|limit| limit.rate),
        throughput: candidate.shape.throughput.map(|limit| limit.rate),
    }
}

/// What gives out first: of the bounds the one whose rate is nearest to the need's, or of the operations where nothing is asked.
fn limited_by(candidate: &Candidate<'_>, need: &Need) -> String {
    let of = |bounds, rate: Option<f64>| {
        let (bound, most): (&Bound, f64) = candidate.most(bounds, need)?;
        Some((bound.what, most / rate?))
    };
    let asked = [of(&candidate.random, need.iops), of(&candidate.sequential, need.throughput)];
    let nearest = asked.into_iter().flatten().min_by(|a, b| a.1.total_cmp(&b.1)).map(|(what, _)| what);
    let first = || candidate.most(&candidate.random, need).map(|(bound, _)| bound.what);
    nearest.or_else(first).map_or_else(|| "nothing".to_owned(), |what| what.name().to_owned())
}

fn planned(rank: usize, (candidate, prediction): (&Candidate<'_>, Prediction), need: &Need) -> Plan {
    let hours = candidate.needed(need).map(|(bound, rate)| bound.hours(rate)).fold(24.0, f64::min);
    Plan {
        rank,
        design: candidate.name(),
        layout: candidate.array.name(),
        volumes: vec![volumes(candidate)],
        instance: candidate.instance.map(|instance| instance.id.clone()),
        price_month_usd: candidate.price.unwrap_or(0.0),
        instance_month_usd: candidate.instances_month_usd(),
        hosts: need.over.map(|over| over.hosts),
        throughput: prediction.throughput,
        iops: prediction.iops,
        lat_p99: prediction.lat_p99,
        limited_by: limited_by(candidate, need),
        iops_limits: candidate.random.clone(),
        throughput_limits: candidate.sequential.clone(),
        burst_hours_a_day: (hours < 24.0).then_some(hours),
        in_burst: in_burst(candidate, need),
        remarks: remarks(candidate, &prediction, need),
        experiment: prediction.experiment,
    }
}
