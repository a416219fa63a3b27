//! What a reader of plans has to know, and where their figures come from.

use crate::candidates::{Candidate, Medium};
use ebbtide_model::catalog::{Catalog, Date, Instance, Price};
use ebbtide_model::layout::ArrayKind;
use ebbtide_model::need::Need;
use std::collections::{BTreeMap, BTreeSet};

/// Source of what the catalogue assumes.
const ASSUMED: &str = "assumed";

fn prices<'a>(told: &'a [&Candidate<'_>]) -> impl Iterator<Item = &'a Price> {
    told.iter().filter_map(|candidate| match &candidate.medium {
        Medium::Ordered(record, _) => record.price.as_ref(),
        Medium::Local => None,
    })
}

/// Whether its latencies are assumptions.
pub(crate) fn is_assumed(candidate: &Candidate<'_>) -> bool {
    match candidate.medium {
        Medium::Ordered(record, _) => record.sources.iter().any(|source| source == ASSUMED),
        Medium::Local => true,
    }
}

/// Where the prices at hand are of, where a need's region has none.
pub(crate) fn elsewhere(need: &Need, all: &[Candidate<'_>]) -> Option<String> {
    let region = need.region.as_deref()?;
    let all: Vec<&Candidate<'_>> = all.iter().collect();
    let regions: BTreeSet<&str> = prices(&all).map(|price| price.region.as_str()).collect();
    (!regions.is_empty() && !regions.contains(region)).then(|| {
        let regions: Vec<&str> = regions.into_iter().collect();
        format!(
            "prices at hand are of {}; `aws pricing get-products` with `Field=regionCode,Value={region}`, saved and given with --catalog, \
             has those of {region} (docs/reference/plan.md)",
            regions.join(", ")
        )
    })
}

/// Remarks on these designs.
pub(crate) fn of(
    need: &Need,
    told: &[&Candidate<'_>],
    slow: &BTreeMap<String, bool>,
    today: Option<Date>,
) -> Vec<String> {
    let mut notes = Vec::new();
    let when: BTreeSet<String> = prices(told)
        .map(|price| {
            let day = price.as_of.map_or_else(|| "no day known".to_owned(), |day| day.to_string());
            format!("{}, {day}", price.region)
        })
        .collect();
    if !when.is_empty() {
        let when: Vec<String> = when.into_iter().collect();
        notes.push(format!(
            "prices are list prices ({}), without reserved, spot or negotiated discounts, snapshots and traffic",
            when.join("; ")
        ));
    }
    let is_of = |price: &Price| price.as_of.is_some() && price.as_of == need.as_of;
    let is_old =
        |price: &Price| price.as_of.zip(today).is_none_or(|(as_of, day)| as_of.is_a_year_before(day));
    if let Some(day) = need.as_of {
        if !prices(told).all(is_of) {
            notes.push(format!("limits are those of {day}, prices are not: they are of the days above"));
        }
    } else if prices(told).any(is_old) {
        notes.push(
            "some of these prices are more than a year old or have no day: save today's with `aws pricing get-products` and \
             give them with --catalog"
                .to_owned(),
        );
    }
    if told.iter().any(|candidate| candidate.instance.is_some_and(|one| one.month_usd().is_none())) {
        notes.push("instances are not in the price: no price list with theirs was given".to_owned());
    }
    let assumed = |candidate: &&&Candidate<'_>| is_assumed(candidate);
    let types: BTreeSet<String> =
        told.iter().filter(assumed).map(|candidate| candidate.type_name()).collect();
    let slow: Vec<&str> = slow
        .iter()
        .filter(|(name, assumed)| **assumed && !types.contains(*name))
        .map(|(name, _)| name.as_str())
        .collect();
    if !slow.is_empty() {
        notes.push(format!(
            "designs of {} are rejected for latencies that are assumptions within what is published: measure before you rule them out",
            slow.join(", ")
        ));
    }
    if !types.is_empty() {
        let types: Vec<String> = types.into_iter().collect();
        notes.push(format!(
            "latencies of {} are assumptions within what is published: `ebb catalog show` has them; measure before you rely on a p99",
            types.join(", ")
        ));
    }
    if told.iter().any(|candidate| matches!(candidate.array.kind, ArrayKind::Stripe { .. })) {
        notes.push(
            "a stripe is lost with any one of its volumes, and a snapshot of it is one of all of them at the same instant \
             (`aws ec2 create-snapshots`)"
                .to_owned(),
        );
    }
    if told.iter().any(|candidate| candidate.medium == Medium::Local) {
        notes.push("an instance's own disks lose everything when it stops or fails".to_owned());
    }
    if let (Some(over), false) = (need.over, told.is_empty()) {
        notes.push(format!(
            "the client's network carries every read once and every write {} times; its round trip, a few tenths of a millisecond in a zone, is in no latency here, \
             and no other load on it or on the hosts",
            over.copies
        ));
        if told.iter().any(|candidate| candidate.instance.is_none_or(|one| one.network_gbps.is_none())) {
            notes.push(
                "no network is known: repairs are told for 10 Gbit/s, and no network limits the rates"
                    .to_owned(),
            );
        }
    }
    let shared = told.iter().any(|one| one.bursting(need).iter().any(|what| !what.is_volumes()));
    if shared {
        notes.push(
            "AWS says of an instance's burst that it lasts 30 minutes at least once in 24 hours; that its credits are spent and earned \
             evenly, so that less is there for longer, is assumed"
                .to_owned(),
        );
    }
    let memory = |instance: &Instance| instance.memory_mib.map(|mib| mib.saturating_mul(1 << 20));
    let cached = |candidate: &&&Candidate<'_>| {
        let set = need.working_set?;
        // Three quarters: the rest is the system's and the application's.
        Some(set.0 <= memory(candidate.instance?)? / 4 * 3)
    };
    if let Some(set) = need.working_set
        && let Some(candidate) = told.iter().find(|candidate| cached(candidate) == Some(true))
        && let Some(instance) = candidate.instance
    {
        notes.push(format!(
            "the working set of {} fits into the memory of {}: once it is there, few reads reach the volumes, which must still carry \
             every write and a cold start",
            set.short(),
            instance.id
        ));
    }
    notes
}

/// Where the figures of these designs come from, in full.
pub(crate) fn sources(catalog: &Catalog, told: &[&Candidate<'_>]) -> Vec<String> {
    let of_types = told.iter().filter_map(|candidate| match candidate.medium {
        Medium::Ordered(record, _) => Some(record),
        Medium::Local => None,
    });
    let names = of_types.flat_map(|record| {
        record
            .source_names()
            .filter(|short| *short != ASSUMED)
            .map(|short| catalog.source(short).map_or_else(|| short.to_owned(), |source| source.name.clone()))
    });
    let instances = told.iter().filter_map(|candidate| candidate.instance);
    let of_instances = instances.clone().flat_map(|instance| instance.sources.iter().cloned());
    let local = told.iter().filter(|candidate| candidate.medium == Medium::Local);
    let of_disks = local.filter_map(|one| Some(one.instance?.disks.as_ref()?.speed.as_ref()?.source.clone()));
    let all: BTreeSet<String> = names.chain(of_instances).chain(of_disks).collect();
    all.into_iter().collect()
}
