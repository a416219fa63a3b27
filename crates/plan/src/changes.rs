//! What would change the answer: more money, fewer hours of load, another instance, less of what is asked.

use crate::candidates::{Candidate, lasts, link, required};
use crate::predict::{Predict, Prediction, missed};
use ebbtide_model::catalog::{Catalog, Instance};
use ebbtide_model::need::Need;
use ebbtide_model::units::{format_hours, format_iops, format_latency, format_throughput};
use std::collections::{BTreeMap, BTreeSet};

/// A latency that is so much lower is worth telling.
const LOWER: f64 = 0.8;
/// A latency that is at most so much longer is near to what is asked.
const SLOWER: f64 = 1.5;
/// Types of which it is asked what more money would buy, and instances of each.
const ASKED: (usize, usize) = (3, 3);
/// Cheaper designs that do for some hours that are told of.
const HOURLY: usize = 2;

/// Designs that one thing alone stands against, the cheapest first.
#[derive(Debug, Default)]
pub(crate) struct Objection<'a, 'c> {
    /// Money: what more of it would buy.
    pub(crate) dear: Vec<&'a Candidate<'c>>,
    /// By arithmetic the latency.
    pub(crate) slow: Vec<&'a Candidate<'c>>,
    /// The latency that is predicted.
    pub(crate) late: Vec<(&'a Candidate<'c>, Prediction)>,
}

/// How far `best` goes: the rates up to which it does what is needed, and for how long.
pub(crate) fn reach(best: &Candidate<'_>, need: &Need) -> Vec<String> {
    holds_until(best, need).into_iter().chain(gone_after(best, need)).collect()
}

/// Sentences, the most useful first. `all` are in the order of their price.
pub(crate) fn of(
    need: &Need,
    catalog: &Catalog,
    all: &[Candidate<'_>],
    chosen: &[(&Candidate<'_>, Prediction)],
    against: &Objection<'_, '_>,
    predict: Predict<'_>,
) -> Vec<String> {
    let mut said = Vec::new();
    match chosen.first() {
        Some((best, predicted)) => {
            said.extend(better(need, all, chosen, (best, predicted), predict));
        }
        None => {
            said.extend(budget(need, &against.dear, predict));
            said.extend(instance(need, catalog, all));
        }
    }
    let best = chosen.iter().map(|(one, _)| one.total()).min_by(f64::total_cmp);
    said.extend(slower(need, against, best, predict));
    said.extend(for_hours(need, all, best));
    said
}

fn dollars(price: f64) -> String {
    format!("${price:.2} a month")
}

/// The rates up to which the best design does it.
fn holds_until(best: &Candidate<'_>, need: &Need) -> Option<String> {
    let of = |bounds, words: &dyn Fn(f64) -> String| {
        let (bound, rate) = best.most(bounds, need)?;
        Some(format!("{} ({})", words(rate), bound.what))
    };
    let iops =
        of(&best.random, &|rate| format!("{} IOPS", format_iops(rate))).filter(|_| need.iops.is_some());
    let bytes = of(&best.sequential, &format_throughput).filter(|_| need.throughput.is_some());
    let both: Vec<String> = iops.into_iter().chain(bytes).collect();
    (!both.is_empty()).then(|| format!("{} does at most {}", best.name(), both.join(" and ")))
}

/// When the best design's credits are gone.
fn gone_after(best: &Candidate<'_>, need: &Need) -> Option<String> {
    let (bound, hours) = best
        .needed(need)
        .map(|(bound, rate)| (bound, bound.hours(rate)))
        .min_by(|a, b| a.1.total_cmp(&b.1))?;
    (hours < 24.0).then(|| {
        format!(
            "{} lives on burst credits: beyond {} of this load a day the credits of {} are gone",
            best.name(),
            format_hours(hours),
            bound.what
        )
    })
}

/// What more money would buy: the cheapest design of another type whose latency is clearly lower.
fn better(
    need: &Need,
    all: &[Candidate<'_>],
    chosen: &[(&Candidate<'_>, Prediction)],
    (best, predicted): (&Candidate<'_>, &Prediction),
    predict: Predict<'_>,
) -> Option<String> {
    let without_budget = Need { budget_month: None, ..need.clone() };
    let told: BTreeSet<String> = chosen.iter().map(|(candidate, _)| candidate.name()).collect();
    let service = |candidate: &Candidate<'_>| candidate.shape.read_latency.mean();
    // The cheapest of a type may be on an instance that is just large enough, where operations wait.
    let mut types: BTreeMap<String, BTreeSet<Option<&str>>> = BTreeMap::new();
    let asked: Vec<&Candidate<'_>> = all
        .iter()
        .filter(|candidate| {
            candidate.total() > best.total()
                && service(candidate) < service(best) * LOWER
                && !candidate.is_local()
                && !told.contains(&candidate.name())
                && crate::rules::short_of(candidate, &without_budget).is_empty()
        })
        .filter(|candidate| {
            let full = types.len() >= ASKED.0 && !types.contains_key(&candidate.type_name());
            if full {
                return false;
            }
            let instances = types.entry(candidate.type_name()).or_default();
            instances.len() < ASKED.1
                && instances.insert(candidate.instance.map(|instance| instance.id.as_str()))
        })
        .collect();
    let found = asked.iter().zip(predict(&asked)).filter_map(|(candidate, prediction)| {
        let found = prediction.ok()?;
        // A plan in the same answer that costs no more and is as fast has it already.
        let known = chosen
            .iter()
            .any(|(plan, of)| plan.total() <= candidate.total() && of.lat_p99.median <= found.lat_p99.median);
        (!known && found.lat_p99.ci_high < predicted.lat_p99.ci_low * LOWER).then_some((*candidate, found))
    });
    let (candidate, found) = found.min_by(|a, b| {
        let (dollars, time) =
            (a.0.total().total_cmp(&b.0.total()), a.1.lat_p99.median.total_cmp(&b.1.lat_p99.median));
        dollars.then(time)
    })?;
    Some(format!(
        "${:.2} more a month buy {}: a p99 of {} instead of {}, for {}",
        candidate.total() - best.total(),
        candidate.name(),
        format_latency(found.lat_p99.median),
        format_latency(predicted.lat_p99.median),
        dollars(candidate.price.unwrap_or(0.0))
    ))
}

/// The longer latency that would do, of the cheapest design that only latency stands against: always where nothing does what is
/// needed, else where it is not much longer and cheaper than every plan.
fn slower(
    need: &Need,
    against: &Objection<'_, '_>,
    best: Option<f64>,
    predict: Predict<'_>,
) -> Option<String> {
    let asked = need.lat_p99?.0 as f64;
    let mut kinds = BTreeSet::new();
    let cheaper = |one: &Candidate<'_>| best.is_none_or(|best| one.total() < best);
    let slow = against.slow.iter().copied().filter(|one| {
        cheaper(one) && !one.is_local() && kinds.insert((one.type_name(), one.array.kind.name()))
    });
    let slow: Vec<&Candidate<'_>> = slow.take(8).collect();
    // What would do with a latency that nothing misses.
    let patient = Need { lat_p99: None, ..need.clone() };
    let by_arithmetic = slow.iter().copied().zip(predict(&slow)).filter_map(|(one, found)| {
        let found = found.ok().filter(|found| missed(found, &patient).is_none())?;
        Some((one, found.lat_p99.ci_high))
    });
    let simulated = against.late.iter().map(|(one, found)| (*one, found.lat_p99.ci_high));
    let near = |time: f64| best.is_none() || time <= asked * SLOWER;
    let (candidate, time) = by_arithmetic
        .chain(simulated)
        .filter(|(one, time)| cheaper(one) && near(*time))
        .min_by(|a, b| a.0.total().total_cmp(&b.0.total()).then_with(|| a.1.total_cmp(&b.1)))?;
    Some(format!(
        "a p99 of {} instead of {} would do for {}: {}",
        format_latency(rounded_up(time)),
        format_latency(asked),
        dollars(candidate.price?),
        candidate.name()
    ))
}

/// `time` with three digits, not less than it is: who asks for what is printed gets it.
fn rounded_up(time: f64) -> f64 {
    let unit = 10f64.powi(time.max(1.0).log10().floor() as i32 - 2);
    (time / unit - 1e-9).ceil() * unit
}

/// The budget that would do.
fn budget(need: &Need, dear: &[&Candidate<'_>], predict: Predict<'_>) -> Option<String> {
    let mut kinds = BTreeSet::new();
    let asked: Vec<&Candidate<'_>> = dear
        .iter()
        .copied()
        .filter(|one| kinds.insert((one.type_name(), one.array.kind.name())))
        .take(8)
        .collect();
    let found = asked.iter().zip(predict(&asked));
    let does = found.filter(|(_, prediction)| {
        prediction
            .as_ref()
            .is_ok_and(|found| need.lat_p99.is_none_or(|asked| found.lat_p99.ci_high <= asked.0 as f64))
    });
    let (candidate, _) = does.min_by(|a, b| a.0.total().total_cmp(&b.0.total()))?;
    Some(format!("a budget of {} would do: {}", dollars(candidate.price?), candidate.name()))
}

/// The instance that would do, where only that is too small.
fn instance(need: &Need, catalog: &Catalog, all: &[Candidate<'_>]) -> Option<String> {
    let fits = |candidate: &&Candidate<'_>| {
        candidate.price.is_some()
            && !candidate.is_local()
            && candidate
                .needed(need)
                .all(|(bound, rate)| !bound.what.is_volumes() || lasts(bound, rate, need))
    };
    let candidate = all.iter().filter(fits).find(|candidate| candidate.instance.is_some())?;
    let enough = |instance: &&Instance| {
        let Some(link) = link(need, Some(instance), false).filter(|_| instance.volumes.is_some()) else {
            return false;
        };
        let of = |load| crate::bounds::bounds(&candidate.array, &candidate.shape, Some(&link), &load);
        let lasts = |bounds: Vec<crate::bounds::Bound>, rate: Option<f64>| {
            rate.is_none_or(|rate| {
                let own = |bound: &&crate::bounds::Bound| !bound.what.is_volumes();
                bounds.iter().filter(own).all(|bound| lasts(bound, required(need, bound, rate), need))
            })
        };
        instance.last_seen.is_none()
            && lasts(of(crate::candidates::random(need)), need.iops)
            && lasts(of(crate::candidates::sequential(need)), need.throughput)
    };
    let wanted: BTreeSet<&str> =
        all.iter().filter_map(|candidate| candidate.instance.map(Instance::family)).collect();
    let smallest = catalog
        .instances()
        .iter()
        .filter(|instance| wanted.contains(instance.family()))
        .filter(enough)
        .min_by_key(|instance| (instance.vcpus, instance.memory_mib))?;
    (!need.may_use(&smallest.id)).then(|| {
        format!(
            "{} would carry {}: the smallest of its family whose limits allow it",
            smallest.id,
            candidate.array.name()
        )
    })
}

/// Cheaper designs that do it for some hours of the day.
fn for_hours(need: &Need, all: &[Candidate<'_>], best: Option<f64>) -> Vec<String> {
    let mut types = BTreeSet::new();
    let mut said = Vec::new();
    for candidate in all {
        let cheaper = best.is_none_or(|best| candidate.total() < best);
        let hours = candidate.needed(need).map(|(bound, rate)| bound.hours(rate)).fold(24.0, f64::min);
        if said.len() >= HOURLY || !cheaper || hours <= 0.05 || hours >= need.hours_a_day {
            continue;
        }
        // Whatever else it is short of, shorter load does not mend.
        let shorter = Need { hours_a_day: hours * (1.0 - 1e-6), ..need.clone() };
        if crate::rules::short_of(candidate, &shorter).is_empty() && types.insert(candidate.type_name()) {
            said.push(format!(
                "for up to {} of this load a day {} would do on burst credits, for {}",
                format_hours(hours),
                candidate.name(),
                dollars(candidate.price.unwrap_or(0.0))
            ));
        }
    }
    said
}
