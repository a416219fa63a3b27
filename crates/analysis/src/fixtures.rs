//! Made-up samples and sessions for tests.

mod normal;

use crate::stop::Decider;
use ebbtide_model::backend::BackendKind;
use ebbtide_model::experiment::Experiment;
use ebbtide_model::per_op::PerOp;
use ebbtide_model::samples::{Count, CpuUse, Histogram, Interval, MemberSamples, OpSamples, TrialSamples};
use ebbtide_model::schedule::{Referee, Schedule, Trial};
use ebbtide_model::session::{Ending, Outcome, Session, SessionMeta, TrialRecord};
use ebbtide_model::units::{Nanos, UnixTime};
pub use normal::normal;

/// Bytes of an operation in made-up trials.
pub const BS: u64 = 4096;

/// 100 ms intervals in which so many reads of [`BS`] completed, each after 1 ms.
pub fn series(ops: &[u64]) -> Vec<Interval> {
    (1..).zip(ops).map(|(i, ops)| interval(i * 100, *ops, 1_000_000)).collect()
}

fn interval(end_millis: u64, ops: u64, latency: u64) -> Interval {
    let mut histogram = Histogram::default();
    (0..ops).for_each(|_| histogram.record(latency));
    histogram.compact();
    Interval {
        end: Nanos::from_millis(end_millis),
        array: reads(ops),
        latency: histogram,
        members: Vec::new(),
    }
}

/// So many reads of [`BS`].
pub fn reads(ops: u64) -> PerOp<Count> {
    PerOp { read: Count { ops, bytes: ops * BS }, write: Count::default() }
}

/// What a made-up member does: its name, its reads per second, their latency in nanoseconds.
pub type Member<'a> = (&'a str, u64, u64);

/// A made-up trial of two seconds in which each member serves its reads evenly, and the array is their sum.
pub fn trial(members: &[Member<'_>]) -> TrialSamples {
    let seconds = 2;
    let samples = |ops: u64, latency: u64| {
        let mut histogram = Histogram::default();
        // A spread of ±10% so that percentiles differ.
        (0..ops).for_each(|i| histogram.record(latency * (90 + i % 21) / 100));
        histogram.compact();
        OpSamples { count: Count { ops, bytes: ops * BS }, latency: histogram, service: None }
    };
    let mut array = OpSamples::default();
    let members: Vec<_> = members
        .iter()
        .map(|(name, iops, latency)| {
            let read = samples(iops * seconds, *latency);
            array.count.ops += read.count.ops;
            array.count.bytes += read.count.bytes;
            array.latency.merge(&read.latency);
            MemberSamples {
                name: (*name).to_owned(),
                ops: PerOp { read, write: OpSamples::default() },
                errors: Vec::new(),
                model: None,
            }
        })
        .collect();
    let intervals = seconds * 10;
    let mean = array.latency.mean().unwrap_or(1e6) as u64;
    let series = (1..=intervals)
        .map(|i| Interval {
            members: members.iter().map(|m| reads(m.ops.read.count.ops / intervals)).collect(),
            ..interval(i * 100, array.count.ops / intervals, mean)
        })
        .collect();
    let in_flight = array.latency.sum() as f64 / 1e9 / seconds as f64;
    TrialSamples {
        started_unix: UnixTime::EPOCH,
        elapsed: Nanos::from_secs(seconds),
        interval: Nanos::from_millis(100),
        array: PerOp { read: array, write: OpSamples::default() },
        members,
        series,
        cpu: CpuUse { cores: 2, ..CpuUse::default() },
        execution: Default::default(),
        mean_in_flight: Some(in_flight),
        observed: None,
        hosts: Vec::new(),
        notes: Vec::new(),
    }
}

/// A session of `rounds` rounds of `experiment` whose trials are what `run` makes of them.
pub fn session(
    experiment: &Experiment,
    rounds: u32,
    mut run: impl FnMut(&Trial) -> Result<TrialSamples, String>,
) -> Session {
    let schedule = Schedule::new(experiment, 1);
    let trials = (0..rounds).flat_map(|round| schedule.round(round)).map(|trial| record(trial, &mut run));
    made_up(experiment, trials.collect())
}

/// A session of `experiment`, which has a sweep, that a [`Decider`] ends, on a machine on which `run` is what a trial does.
pub fn raced(
    experiment: &Experiment,
    mut run: impl FnMut(&Trial) -> Result<TrialSamples, String>,
) -> Session {
    let schedule = Schedule::new(experiment, 1);
    let (mut decider, mut trials) = (Decider::new(experiment), Vec::new());
    for round in 0.. {
        let of_round = schedule.round_of(round, trials.len() as u32, |design| decider.runs(design));
        trials.extend(of_round.into_iter().map(|trial| record(trial, &mut run)));
        if decider.after(experiment, &trials, round + 1, Nanos(0)).is_some() {
            break;
        }
    }
    made_up(experiment, trials)
}

fn record(trial: Trial, run: &mut impl FnMut(&Trial) -> Result<TrialSamples, String>) -> TrialRecord {
    let outcome = match run(&trial) {
        Ok(samples) => Outcome::Samples(Box::new(samples)),
        Err(reason) => Outcome::Failed(reason),
    };
    TrialRecord { trial, outcome }
}

fn made_up(experiment: &Experiment, trials: Vec<TrialRecord>) -> Session {
    Session {
        meta: SessionMeta {
            version: "0".into(),
            ending: Ending::Reached,
            ..SessionMeta::new("made-up", BackendKind::Files, 1, UnixTime::EPOCH)
        },
        experiment: experiment.clone(),
        experiment_text: String::new(),
        trials,
    }
}
