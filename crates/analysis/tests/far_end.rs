//! A cache behind the volumes, on simulated sessions: named with and without knowing the volumes, and never where
//! credits, bad weeks, arms or first touches make the same volumes slow.

use ebbtide_analysis::stop::Decider;
use ebbtide_analysis::{Analysis, Verdict, VerdictKind, analyse};
use ebbtide_model::experiment::Experiment;
use ebbtide_model::session::Session;

const OVERVIEW: &str = include_str!("../../../experiments/ec2-disk-overview.toml");

fn experiment(text: &str) -> Experiment {
    let mut experiment = ebbtide_experiment::parse(text, "test.toml").expect("is right");
    experiment.workloads.retain(|workload| workload.name == "seeks");
    experiment.answer.trials_max = 6;
    experiment
}

fn session(experiment: &Experiment, seed: u64) -> Session {
    ebbtide_sim::session(experiment, seed, Decider::new(experiment)).expect("runs")
}

/// As on volumes of which nobody declared anything.
fn undeclared(mut session: Session) -> Session {
    for volume in &mut session.experiment.volumes {
        volume.shape = None;
    }
    session.experiment.links.clear();
    session
}

fn verdicts<'a>(analysis: &'a Analysis, design: &str) -> &'a [Verdict] {
    &analysis.results.iter().find(|result| result.design == design).expect("ran").verdicts
}

fn has_cache(verdicts: &[Verdict]) -> bool {
    verdicts.iter().any(|verdict| verdict.kind == VerdictKind::Cache)
}

#[test]
fn thousands_of_seeks_of_a_network_volume_are_its_cache() {
    let session = session(&experiment(OVERVIEW), 1);
    let analysis = analyse(&session);
    for design in ["ebs-4", "ebs-8"] {
        let first = &verdicts(&analysis, design)[0];
        assert_eq!(first.kind, VerdictKind::Cache, "{design}: {}", first.sentence);
        assert!(
            first.sentence.contains("far end of the volumes answered 100% of the reads"),
            "{}",
            first.sentence
        );
    }
    // Most of its reads miss, and nothing waits: the cache is told, second.
    let one = verdicts(&analysis, "ebs-1");
    assert_eq!(
        one.iter().map(|v| v.kind).collect::<Vec<_>>(),
        [VerdictKind::Concurrency, VerdictKind::Cache]
    );
    assert!(one[1].sentence.contains("answered 2"), "{}", one[1].sentence);
    assert!(!has_cache(verdicts(&analysis, "ephemeral-4")));
}

#[test]
fn it_is_named_where_nobody_declared_one() {
    for seed in 1..3 {
        let session = undeclared(session(&experiment(OVERVIEW), seed));
        let analysis = analyse(&session);
        for design in ["ebs-4", "ebs-8"] {
            let first = &verdicts(&analysis, design)[0];
            assert_eq!(first.kind, VerdictKind::Cache, "{design}: {}", first.sentence);
            assert!(first.sentence.contains("in ebs-1 2"), "{}", first.sentence);
        }
        for design in ["ebs-1", "ephemeral-4"] {
            assert!(!has_cache(verdicts(&analysis, design)), "{design}");
        }
    }
}

/// One, two and four of the same volumes under the same seeks, as above, but without a cache.
fn without_a_cache(shape: &str, jobs: u32) -> Experiment {
    let text = format!(
        "name = \"opposite\"\n[volumes.v]\ncount = 4\nsize = \"100GiB\"\n[volumes.v.shape]\n{shape}\n\
         [designs.one]\nlayout = \"linear\"\nmembers = [\"v0\"]\n\
         [designs.two]\nlayout = \"stripe\"\nmembers = [\"v[0..1]\"]\n\
         [designs.four]\nlayout = \"stripe\"\nmembers = [\"v[0..3]\"]\n\
         [workloads.seeks]\nrw = \"randread\"\nbs = \"8KiB\"\nnumjobs = {jobs}\nspan = \"14GiB\"\nruntime = \"5s\"\n\
         [answer]\ntrials_max = 6\n"
    );
    experiment(&text)
}

#[test]
fn what_else_makes_the_same_volumes_slow_is_no_cache() {
    let shapes = [
        ("a limit", "iops = 400\nlatency = \"1ms\""),
        ("credits that run out", "iops = { rate = 100, burst = 3000, credits = 6000 }\nlatency = \"0.7ms\""),
        (
            "bad weeks",
            "latency = \"5ms\"\n[volumes.v.shape.moods.good]\ndwell = \"20s\"\n[volumes.v.shape.moods.bad]\ndwell = \"20s\"\nrate = 0.1\nlatency = 10",
        ),
        (
            "first touches",
            "iops = 4000\nlatency = \"0.6ms\"\nfirst_touch = { block = \"64MiB\", latency = \"15ms\" }",
        ),
        (
            "an arm",
            "seek = { track_to_track = \"1ms\", full_stroke = \"12ms\", rpm = 7200, transfer = \"100MB/s\" }",
        ),
    ];
    for (what, shape) in shapes {
        for jobs in [3, 16] {
            let experiment = without_a_cache(shape, jobs);
            for seed in 1..3 {
                let session = session(&experiment, seed);
                for analysis in [analyse(&session), analyse(&undeclared(session))] {
                    for result in &analysis.results {
                        assert!(
                            !has_cache(&result.verdicts),
                            "{what}, {jobs} jobs, seed {seed}: {:?}",
                            result.verdicts
                        );
                    }
                }
            }
        }
    }
}
