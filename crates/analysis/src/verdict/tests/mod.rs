//! Made-up sessions with a known cause, each beside its opposite: the same set-up without the cause.

mod around;
mod array_members;
mod copies;
mod full_queues;
mod group_limits;
mod host;
mod ladder;
mod limits;
mod members;
mod overclaims;
mod parity;
mod queues;
mod remote;
mod riddles;
mod trees;
mod waves;
mod write_caches;

use crate::fixtures::session;
use crate::{Verdict, VerdictKind, analyse};
use ebbtide_model::backend::PreparedVolume;
use ebbtide_model::experiment::{Design, Experiment, Volume, VolumeSource};
use ebbtide_model::layout::{ArrayKind, LayoutNode};
use ebbtide_model::samples::TrialSamples;
use ebbtide_model::schedule::Trial;
use ebbtide_model::session::{Outcome, Session};
use ebbtide_model::units::{Bytes, Nanos};
use ebbtide_model::volume::{Latency, Limit, Shape};

/// Names of made-up volumes.
const NAMES: [&str; 8] = ["v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7"];

/// One design of `kind` over `members` volumes without shapes, under one random-read workload of iodepth 4.
fn array(kind: ArrayKind, members: usize) -> Experiment {
    let mut experiment = ebbtide_model::testing::experiment(1, 1);
    experiment.volumes = NAMES[..members]
        .iter()
        .map(|name| {
            Volume::new(*name, VolumeSource::NewFile { directory: None }, Some(Bytes(64 * Bytes::MIB)))
        })
        .collect();
    experiment.designs = vec![Design {
        name: "array".into(),
        layout: LayoutNode::Array { kind, members: (0..members).map(LayoutNode::Volume).collect() },
        stack: Default::default(),
    }];
    experiment
}

fn stripe(members: usize) -> Experiment {
    array(ArrayKind::Stripe { chunk: Bytes(64 * Bytes::KIB) }, members)
}

/// Gives every volume this limit of operations and this latency.
fn shaped(mut experiment: Experiment, iops: f64, latency: Nanos) -> Experiment {
    for volume in &mut experiment.volumes {
        volume.shape = Some(Shape {
            iops: Some(Limit::steady(iops)),
            read_latency: Latency::Constant(latency),
            write_latency: Latency::Constant(latency),
            ..Shape::default()
        });
    }
    experiment
}

/// The session's volumes on these disks.
fn on_disks(session: &mut Session, disks: &[&str]) {
    let volumes = session.experiment.volumes.iter().zip(disks);
    session.meta.inventory.volumes = volumes
        .map(|(volume, disk)| PreparedVolume {
            name: volume.name.clone(),
            path: format!("/data/{}", volume.name),
            size: Bytes(64 * Bytes::MIB),
            direct: true,
            disk: Some((*disk).to_owned()),
            disk_name: Some(format!("disk{disk}")),
            ..PreparedVolume::default()
        })
        .collect();
}

/// Six rounds of trials that `run` makes up.
fn six_rounds(experiment: &Experiment, mut run: impl FnMut(&Trial) -> TrialSamples) -> Session {
    session(experiment, 6, |trial| Ok(run(trial)))
}

/// The verdicts on the first design under the first workload.
fn verdicts(session: &Session) -> Vec<Verdict> {
    let result = analyse(session).results.swap_remove(0);
    // Every cause is either asserted or ruled out for a reason.
    let told = result.verdicts.iter().map(|v| v.kind).filter(|kind| *kind != VerdictKind::Unknown);
    let mut told: Vec<&str> = told.chain(result.ruled_out.iter().map(|r| r.kind)).map(|k| k.name()).collect();
    let mut rules: Vec<&str> = super::RULES.iter().map(|rule| rule.kind.name()).collect();
    told.sort_unstable();
    rules.sort_unstable();
    assert_eq!(told, rules);
    assert!(result.ruled_out.iter().all(|absent| !absent.why.is_empty()));
    let verdicts = result.verdicts;
    for verdict in &verdicts {
        assert!((0.0..=1.0).contains(&verdict.confidence), "{verdict:?}");
        assert!((0.0..=1.0).contains(&verdict.explains), "{verdict:?}");
        assert!(verdict.kind == VerdictKind::Unknown || !verdict.evidence.is_empty(), "{verdict:?}");
        assert!(!verdict.sentence.is_empty());
    }
    verdicts
}

/// Why this cause is not asserted, and what was seen against what it would have taken.
#[track_caller]
fn ruled_out(session: &Session, kind: VerdictKind) -> (String, Vec<(f64, Option<f64>)>) {
    let absent = analyse(session).results.swap_remove(0).ruled_out;
    let absent = absent.into_iter().find(|absent| absent.kind == kind).expect("it is not asserted");
    (absent.why, absent.evidence.iter().map(|figure| (figure.value, figure.reference)).collect())
}

/// Their kinds, first to last.
fn kinds(session: &Session) -> Vec<VerdictKind> {
    verdicts(session).iter().map(|verdict| verdict.kind).collect()
}

/// Each kind's page in the user guide.
const PAGES: [(VerdictKind, &str); 22] = [
    (VerdictKind::Member, include_str!("../../../../../docs/verdicts/member.md")),
    (VerdictKind::VolumeLimit, include_str!("../../../../../docs/verdicts/volume-limit.md")),
    (VerdictKind::RateLimit, include_str!("../../../../../docs/verdicts/rate-limit.md")),
    (VerdictKind::InstanceLimit, include_str!("../../../../../docs/verdicts/instance-limit.md")),
    (VerdictKind::Cpu, include_str!("../../../../../docs/verdicts/cpu.md")),
    (VerdictKind::Memory, include_str!("../../../../../docs/verdicts/memory.md")),
    (VerdictKind::RemoteQueue, include_str!("../../../../../docs/verdicts/remote-queue.md")),
    (VerdictKind::SyncWrites, include_str!("../../../../../docs/verdicts/sync-writes.md")),
    (VerdictKind::QueueLimit, include_str!("../../../../../docs/verdicts/queue-limit.md")),
    (VerdictKind::Concurrency, include_str!("../../../../../docs/verdicts/concurrency.md")),
    (VerdictKind::RequestSize, include_str!("../../../../../docs/verdicts/request-size.md")),
    (VerdictKind::PartialStripe, include_str!("../../../../../docs/verdicts/partial-stripe.md")),
    (VerdictKind::IdleCopies, include_str!("../../../../../docs/verdicts/idle-copies.md")),
    (VerdictKind::Readahead, include_str!("../../../../../docs/verdicts/readahead.md")),
    (VerdictKind::Cache, include_str!("../../../../../docs/verdicts/cache.md")),
    (VerdictKind::Burst, include_str!("../../../../../docs/verdicts/burst.md")),
    (VerdictKind::WriteCache, include_str!("../../../../../docs/verdicts/write-cache.md")),
    (VerdictKind::DeviceWaves, include_str!("../../../../../docs/verdicts/device-waves.md")),
    (VerdictKind::FirstTouch, include_str!("../../../../../docs/verdicts/first-touch.md")),
    (VerdictKind::Background, include_str!("../../../../../docs/verdicts/background.md")),
    (VerdictKind::SharedDevice, include_str!("../../../../../docs/verdicts/shared-device.md")),
    (VerdictKind::Unknown, include_str!("../../../../../docs/verdicts/unknown.md")),
];

#[test]
fn every_kind_but_unknown_has_one_rule_and_every_kind_its_page() {
    let rules: Vec<_> = super::RULES.iter().map(|rule| rule.kind).collect();
    for (kind, page) in PAGES {
        let expected = usize::from(kind != VerdictKind::Unknown);
        assert_eq!(rules.iter().filter(|rule| **rule == kind).count(), expected, "{kind:?}");
        assert!(page.starts_with(&format!("# `{}`", kind.name())), "{kind:?}");
    }
    assert_eq!(rules.len() + 1, PAGES.len());
}

/// The tables of the pages are those of the rules. `EBB_TEST_WRITE=1` writes them.
#[test]
#[allow(clippy::disallowed_methods, clippy::disallowed_macros)]
fn pages_have_the_checks_of_their_rules() {
    const MARKS: [&str; 2] = ["<!-- checks: begin -->\n", "<!-- checks: end -->\n"];
    for rule in &super::RULES {
        let name = rule.kind.name();
        let path = format!("{}/../../docs/verdicts/{name}.md", env!("CARGO_MANIFEST_DIR"));
        let page = std::fs::read_to_string(&path).expect("is there");
        let (before, rest) = page.split_once(MARKS[0]).expect("the table begins");
        let (_, after) = rest.split_once(MARKS[1]).expect("the table ends");
        let rows: String = rule.checks.iter().map(|check| check.row() + "\n").collect();
        let table = format!("\n| what is looked at | edge | why |\n| --- | --- | --- |\n{rows}\n");
        let renewed = [before, MARKS[0], &table, MARKS[1], after].concat();
        if std::env::var_os("EBB_TEST_WRITE").is_some() {
            std::fs::write(&path, renewed).expect("is written");
        } else {
            assert!(
                page == renewed,
                "{path}: EBB_TEST_WRITE=1 cargo test -p ebbtide-analysis --lib pages_have"
            );
        }
    }
}

/// A short run of the design with so many operations in flight, of this size.
fn with_rung(session: &mut Session, in_flight: u32, bs: Bytes, samples: TrialSamples) {
    session.meta.rungs.push(ebbtide_model::session::Rung {
        design: session.experiment.designs[0].name.clone(),
        workload: session.experiment.workloads[0].name.clone(),
        in_flight,
        bs,
        samples: Box::new(samples),
    });
}
