//! What must hold of every need: by made-up needs, with the arithmetic and the simulator each held against the other.
#![allow(clippy::unwrap_used)]

use ebbtide_experiment::{NoFiles, NoTrace, parse_need, parse_with};
use ebbtide_model::catalog::Catalog;
use ebbtide_model::layout::ArrayKind;
use ebbtide_model::need::Need;
use ebbtide_plan::bounds::{Bottleneck, Bound, tightest};
use ebbtide_plan::{
    Answer, Candidate, Interval, PredictError, Prediction, candidates, experiment, plan, predict, short_of,
};
use proptest::prelude::*;

/// Prices so near to each other are the same: of such designs the one of fewer volumes comes first.
const SAME: f64 = 1.01;

fn need(text: &str) -> Need {
    parse_need(text, "test.toml", Catalog::builtin(), &|_, _| Err(NoTrace::File("there is none".to_owned())))
        .unwrap()
}

/// What the arithmetic says, in place of the simulator: fast, and as good for what is ranked.
fn by_arithmetic(batch: &[&Candidate<'_>]) -> Vec<Result<Prediction, PredictError>> {
    let same = |value: f64| Interval { median: value, ci_low: value, ci_high: value };
    let most = |bounds: &[Bound]| same(tightest(bounds, |_| 24.0).map_or(0.0, |(_, rate)| rate.max(1e12)));
    batch
        .iter()
        .map(|candidate| {
            Ok(Prediction {
                throughput: most(&candidate.sequential),
                iops: most(&candidate.random),
                lat_p99: same(1.0),
                experiment: String::new(),
            })
        })
        .collect()
}

fn planned(need: &Need) -> Answer {
    plan(need, Catalog::builtin(), 5, None, &by_arithmetic)
}

/// Any need that somebody might have.
fn any_need() -> impl Strategy<Value = Need> {
    let instances = prop_oneof![Just(""), Just("m6i.*"), Just("c5.*"), Just("r6i.4xlarge"), Just("i4i.*")];
    let optional = |of: std::ops::Range<f64>| prop::option::of(of);
    (
        1u64..20_000,
        optional(10.0..200_000.0),
        optional(1.0..4000.0),
        0u8..=100,
        0u32..=3,
        instances,
        1.0..24.0f64,
        any::<bool>(),
    )
        .prop_map(|(gib, iops, mb, reads, may_lose, instances, hours, daily)| {
            let mut text = format!("capacity = \"{gib}GiB\"\nrwmix = {reads}\nmay_lose = {may_lose}\n");
            if let Some(iops) = iops {
                text += &format!("iops = {}\n", iops.round());
            }
            if let Some(mb) = mb {
                text += &format!("throughput = \"{}MB/s\"\n", mb.round());
            }
            if !instances.is_empty() {
                text += &format!("instances = \"{instances}\"\n");
            }
            if daily {
                text += &format!("hours_a_day = {hours}\n");
            }
            need(&text)
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn more_money_never_makes_the_best_plan_worse(need in any_need(), budget in 1.0f64..5000.0, more in 0.0f64..5000.0) {
        let with = |budget| planned(&Need { budget_month: Some(budget), ..need.clone() });
        let (poor, rich) = (with(budget), with(budget + more));
        if let Some(best) = poor.plans.first() {
            let richer = rich.plans.first().expect("what is affordable stays so");
            prop_assert!(richer.price_month_usd <= best.price_month_usd * SAME + 1e-6);
            prop_assert!(best.price_month_usd <= budget + 1e-3);
        }
        prop_assert!(rich.passed >= poor.passed);
        let count = |answer: &Answer| answer.passed + answer.rejected.iter().map(|of| of.count).sum::<usize>();
        prop_assert_eq!(count(&poor), poor.considered);
    }

    #[test]
    fn asking_for_less_never_costs_more(need in any_need(), share in 0.1f64..1.0) {
        let less = Need { iops: need.iops.map(|rate| rate * share), throughput: need.throughput.map(|rate| rate * share), ..need.clone() };
        if let Some(best) = planned(&need).plans.first() {
            let cheaper = planned(&less);
            prop_assert!(cheaper.plans.first().expect("less is possible too").price_month_usd <= best.price_month_usd * SAME + 1e-6);
        }
    }

    /// What passes has room, by the catalogue's own figures, and its experiment is one that every backend reads.
    #[test]
    fn what_passes_does_it_on_paper_and_is_an_experiment(need in any_need(), pick in any::<prop::sample::Index>()) {
        let (all, _) = candidates(&need, Catalog::builtin());
        let passed: Vec<&Candidate<'_>> = all.iter().filter(|one| short_of(one, &need).is_empty()).collect();
        if !passed.is_empty() {
            let candidate = pick.get(&passed);
            let n = u64::from(candidate.array.members);
            prop_assert!(candidate.size.0 as f64 * candidate.array.data_members() >= need.capacity.0 as f64);
            prop_assert!(candidate.size.0 * n >= need.capacity.0 * u64::from(candidate.array.copies()));
            let text = experiment(candidate, &need);
            let parsed = parse_with(&text, "plan.toml", Catalog::builtin(), &NoFiles);
            prop_assert!(parsed.is_ok(), "{text}\n{}", parsed.unwrap_err());
            let parsed = parsed.unwrap();
            prop_assert!(ebbtide_sim::check(&parsed).is_ok());
            prop_assert_eq!(parsed.volumes.len() as u64, n);
            // The experiment's volumes are those of the plan, at the same price.
            if let Some(price) = candidate.price.filter(|price| *price > 0.0) {
                let sum: f64 = parsed.volumes.iter().map(|one| one.ordered.as_ref().unwrap().price.unwrap()).sum();
                prop_assert!((sum - price).abs() < 0.01, "{sum} {price}\n{text}");
            }
        }
    }

    /// The hours of a day against a bucket that is filled and emptied minute by minute through a day that ends as it began.
    #[test]
    fn credits_last_as_long_as_a_bucket_does(sustained in 100.0f64..5000.0, times in 1.1f64..20.0, share in 0.0f64..1.0, minutes in 10.0f64..4000.0) {
        let burst = sustained * times;
        let rate = sustained + (burst - sustained) * share.max(0.01);
        let credits = (burst - sustained) * minutes * 60.0;
        let bound = Bound { what: Bottleneck::VolumeIops, sustained, burst: Some(burst), credits: Some(credits) };
        let hours = bound.hours(rate);
        let holds = |load: f64| {
            let mut level = credits;
            for minute in 0..1440 {
                let asked = if f64::from(minute) < load * 60.0 { rate } else { 0.0 };
                level = (level + (sustained - asked) * 60.0).min(credits);
                if level < -1e-6 * credits {
                    return false;
                }
            }
            // A day that does not end as it began is followed by worse ones.
            level >= credits * (1.0 - 1e-9)
        };
        // A minute is the oracle's grain; a day of load has no begin where the bucket is full again.
        prop_assert!(holds((hours - 0.05).max(0.0)), "{hours} h are too many");
        prop_assert!(hours > 23.8 || !holds(hours + 0.2), "{hours} h are too few");
        prop_assert!(bound.rate_for(hours) >= rate * 0.999, "{} {rate}", bound.rate_for(hours));
    }
}

/// Small needs, that a debug build simulates in no time, over every layout, type and kind of limit.
const SMALL: &[&str] = &[
    "iops = 600\nrwmix = 100\n",
    "iops = 400\nrwmix = 30\nmay_lose = 1\n",
    "iops = 300\nrwmix = 50\nmay_lose = 2\n",
    "throughput = \"60MB/s\"\nrwmix = 0\n",
    "throughput = \"80MB/s\"\nrwmix = 100\nmay_lose = 1\ninstance = \"t3.small\"\n",
    "iops = 1600\nbs = \"16KiB\"\ninstances = [\"t3.medium\", \"m6i.large\"]\nrwmix = 80\n",
];

/// The simulator and the arithmetic, which know nothing of each other, agree within 10%.
#[test]
fn predictions_are_those_of_the_arithmetic() {
    let mut layouts = std::collections::BTreeSet::new();
    let mut types = std::collections::BTreeSet::new();
    for text in SMALL {
        let need = need(&format!("capacity = \"400GiB\"\n{text}"));
        let (all, _) = candidates(&need, Catalog::builtin());
        let mut seen = std::collections::BTreeSet::new();
        let distinct = all.iter().filter(|one| {
            short_of(one, &need).is_empty()
                && one.array.members <= 4
                && seen.insert((one.type_name(), one.array.kind.name()))
        });
        for candidate in distinct {
            let found = predict(candidate, &need, Catalog::builtin()).unwrap();
            for (found, bounds) in
                [(found.iops, &candidate.random), (found.throughput, &candidate.sequential)]
            {
                let (bound, rate) = tightest(bounds, |_| 24.0).unwrap();
                // Reads of mixed sequential access do not continue each other, which spindles' accounting sees and sums do not.
                let merged =
                    candidate.shape.character.costs.is_some() && !matches!(need.read_percent, 0 | 100);
                let ratio = found.median / rate;
                assert!(
                    (0.9..=1.1).contains(&ratio) || merged,
                    "{}: {} simulated, {rate} by {}\n{}",
                    candidate.name(),
                    found.median,
                    bound.what,
                    experiment(candidate, &need)
                );
            }
            layouts.insert(candidate.array.kind.name());
            types.insert(candidate.type_name());
        }
    }
    assert_eq!(
        layouts.into_iter().collect::<Vec<_>>(),
        ["linear", "mirror", "raid10", "raid5", "raid6", "stripe"]
    );
    assert!(types.len() >= 4, "{types:?}");
}

/// A design that is rejected for a limit does not get past it in the simulator either.
#[test]
fn what_is_rejected_for_a_limit_breaks_it() {
    let mut told = std::collections::BTreeSet::new();
    for text in [
        "iops = 4000\ntypes = [\"gp2\", \"st1\", \"standard\"]\nbudget_month = 100000\n",
        "iops = 5000\nbs = \"64KiB\"\ninstance = \"t3.nano\"\n",
        "throughput = \"300MB/s\"\ninstance = \"m5.large\"\n",
        "iops = 3000\nrwmix = 0\nmay_lose = 1\ninstance = \"m5.large\"\n",
    ] {
        let need = need(&format!("capacity = \"100GiB\"\n{text}"));
        let (all, _) = candidates(&need, Catalog::builtin());
        let mut seen = std::collections::BTreeSet::new();
        for candidate in all.iter().filter(|one| one.array.members <= 4) {
            let short = short_of(candidate, &need);
            let Some(first) =
                short.iter().find(|short| short.why.contains(":") && short.why.starts_with("too little"))
            else {
                continue;
            };
            let in_iops = need.iops.is_some();
            if !seen.insert((candidate.type_name(), candidate.array.kind.name(), first.why.clone())) {
                continue;
            }
            // Of a need without rates the experiment has what is sustained.
            let mut sustained = need.clone();
            sustained.iops = None;
            sustained.throughput = None;
            let found = predict(candidate, &sustained, Catalog::builtin()).unwrap();
            let (got, asked) = match in_iops {
                true => (found.iops.median, need.iops.unwrap()),
                false => (found.throughput.median, need.throughput.unwrap()),
            };
            assert!(got < need.with_headroom(asked), "{}: {} but it gives {got}", candidate.name(), first.by);
            told.insert(first.why.clone());
        }
    }
    assert!(told.len() >= 3, "{told:?}");
}

#[test]
fn each_volume_that_may_be_lost_costs() {
    let price = |may_lose: u32| {
        let need = need(&format!("capacity = \"500GiB\"\niops = 2000\nmay_lose = {may_lose}\n"));
        planned(&need).plans[0].price_month_usd
    };
    assert!(price(0) < price(1) && price(1) < price(2) && price(2) < price(3));
}

#[test]
fn mirrors_are_whole_copies() {
    let need = need("capacity = \"500GiB\"\nmay_lose = 1\n");
    let (all, _) = candidates(&need, Catalog::builtin());
    let mirror = all.iter().find(|one| one.array.kind == ArrayKind::Mirror).unwrap();
    assert_eq!(mirror.size.0 >> 30, 500);
}

/// The width that is shown, and the order: whoever pays a percent less is not ahead for it.
#[test]
fn what_costs_the_same_is_ordered_by_volumes() {
    let need =
        need("capacity = \"2TB\"\nthroughput = \"400MB/s\"\niops = 9000\ninstance = \"r6i.8xlarge\"\n");
    let answer = plan(&need, Catalog::builtin(), 20, None, &by_arithmetic);
    let (all, _) = candidates(&need, Catalog::builtin());
    let passed: Vec<&Candidate<'_>> = all.iter().filter(|one| short_of(one, &need).is_empty()).collect();
    for plan in &answer.plans {
        let shown = passed
            .iter()
            .find(|one| one.name() == plan.design && one.price == Some(plan.price_month_usd))
            .unwrap();
        let same_kind: Vec<_> = passed
            .iter()
            .filter(|one| {
                one.type_name() == shown.type_name() && one.array.kind.name() == shown.array.kind.name()
            })
            .collect();
        let cheapest = same_kind.iter().map(|one| one.total()).min_by(f64::total_cmp).unwrap();
        let fewest =
            same_kind.iter().filter(|one| one.total() <= cheapest * SAME).map(|one| one.array.members).min();
        assert_eq!(Some(shown.array.members), fewest, "{}", plan.design);
    }
    for pair in answer.plans.windows(2) {
        let same = pair[1].price_month_usd <= pair[0].price_month_usd * SAME;
        let fewer = pair[0].volumes[0].count <= pair[1].volumes[0].count;
        assert!(
            pair[0].price_month_usd <= pair[1].price_month_usd * SAME
                && (!same || fewer || pair[0].price_month_usd < pair[1].price_month_usd)
        );
    }
    assert!(answer.plans.len() > 3);
}

/// Orders are what the need takes, to the step.
#[test]
fn orders_are_exact() {
    for (iops, ordered) in [(100_000.0, 110_000.0), (3000.0, 3300.0), (20_000.0, 22_000.0), (3001.0, 3310.0)]
    {
        let need = need(&format!("capacity = \"1TiB\"\niops = {iops}\ntypes = \"io2\"\n"));
        let (all, _) = candidates(&need, Catalog::builtin());
        let single = all.iter().find(|one| one.array.members == 1).unwrap();
        assert_eq!(single.shape.iops.unwrap().rate, ordered);
    }
}

fn one<'c>(need: &Need, name: &str) -> Candidate<'c> {
    let (all, _) = candidates(need, Catalog::builtin());
    all.into_iter().find(|one| one.name() == name).unwrap_or_else(|| panic!("{name}"))
}

/// Bursts that the need does not take are in no figure; what it takes is there for its hours.
#[test]
fn bursts_that_are_not_needed_are_left_out() {
    let text =
        "capacity = \"400GiB\"\niops = 3000\nhours_a_day = 2\ntypes = [\"gp2\"]\ninstance = \"m5.large\"\n";
    let need = need(text);
    let gp2 = one(&need, "gp2-stripe-4-on-m5.large");
    let text = experiment(&gp2, &need);
    assert!(
        text.contains("its baseline") && text.contains("iops = 3600\n") && !text.contains("burst ="),
        "{text}"
    );
    assert!(
        gp2.bursting(&need).iter().all(|what| *what == Bottleneck::VolumeIops),
        "{:?}",
        gp2.bursting(&need)
    );
    let found = predict(&gp2, &need, Catalog::builtin()).unwrap();
    assert!(found.iops.ci_high <= 3600.0 * 1.01 && found.throughput.ci_high <= 81.25e6 * 1.01, "{found:?}");
    // Beyond the baseline the instance's credits are needed too.
    let more = Need { iops: Some(4000.0), ..need.clone() };
    let gp2 = one(&more, "gp2-stripe-4-on-m5.large");
    assert!(gp2.bursting(&more).contains(&Bottleneck::InstanceIops) && gp2.is_burst(&gp2.random, &more));
    let found = predict(&gp2, &more, Catalog::builtin()).unwrap();
    assert!(found.iops.median >= 4000.0, "{found:?}");
    assert!(found.throughput.ci_high <= 81.25e6 * 1.01, "{found:?}");
}

/// What an operation of a spindle's volume is rounded up to does not travel.
#[test]
fn the_link_carries_the_bytes() {
    let need = need("capacity = \"2TiB\"\nbs = \"16KiB\"\ntypes = [\"st1\"]\ninstance = \"m6i.large\"\n");
    let st1 = one(&need, "st1-stripe-12-on-m6i.large");
    let of = |what| st1.random.iter().find(|bound| bound.what == what).unwrap().sustained;
    assert_eq!(of(Bottleneck::InstanceThroughput), 81.25e6 / 16384.0);
    let found = predict(&st1, &need, Catalog::builtin()).unwrap();
    let (_, rate) = tightest(&st1.random, |_| 24.0).unwrap();
    assert!((found.iops.median / rate - 1.0).abs() < 0.1, "{found:?} {rate}");
}

/// Predicted medians reach what is asked, whatever the arithmetic says.
#[test]
fn a_median_below_the_need_is_no_plan() {
    let need = need("capacity = \"100GiB\"\niops = 1000\ntypes = \"gp3\"\n");
    let just = |share: f64| {
        move |batch: &[&Candidate<'_>]| {
            let same = |value: f64| Interval { median: value, ci_low: value * 0.99, ci_high: value * 1.01 };
            let of = |_: &&Candidate<'_>| {
                let (throughput, iops) = (same(1e9), same(1000.0 * share));
                Ok(Prediction { throughput, iops, lat_p99: same(1.0), experiment: String::new() })
            };
            batch.iter().map(of).collect()
        }
    };
    let below = plan(&need, Catalog::builtin(), 1, None, &just(0.999));
    assert!(below.plans.is_empty(), "{below:?}");
    assert!(
        below.rejected.iter().any(|one| one.why == "predicted: too few operations"),
        "{:?}",
        below.rejected
    );
    let enough = plan(&need, Catalog::builtin(), 1, None, &just(1.0));
    assert!(enough.plans[0].remarks[0].contains("begins below the need"), "{:?}", enough.plans[0].remarks);
}

/// Who is a little too slow is told what latency would do, and what is told does.
#[test]
fn a_longer_latency_that_would_do_is_said() {
    let base = "capacity = \"500GiB\"\niops = 300\ntypes = \"gp3\"\n";
    let strict = need(&format!("{base}lat_p99 = \"1ms\"\n"));
    let predicted = |need: &Need| {
        let need = need.clone();
        move |batch: &[&Candidate<'_>]| {
            batch.iter().map(|one| predict(one, &need, Catalog::builtin())).collect()
        }
    };
    let answer = plan(&strict, Catalog::builtin(), 2, None, &predicted(&strict));
    assert!(answer.plans.is_empty());
    let said = answer.changes.iter().find(|said| said.contains("instead of 1.00 ms would do for $")).unwrap();
    let time = said.strip_prefix("a p99 of ").unwrap().split(" instead").next().unwrap().replace(' ', "");
    assert!(
        answer.notes.iter().any(|note| note.contains("aws:gp3") && note.contains("assumptions")),
        "{:?}",
        answer.notes
    );
    let loose = need(&format!("{base}lat_p99 = \"{time}\"\n"));
    assert!(!plan(&loose, Catalog::builtin(), 2, None, &predicted(&loose)).plans.is_empty(), "{said}");
}
