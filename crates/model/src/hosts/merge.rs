//! What several hosts have seen at once, as one trial: counts are added, histograms bucket by bucket, members put in the order of the
//! design.

use super::Offset;
use crate::per_op::PerOp;
use crate::samples::{
    Count, CpuUse, Execution, Histogram, HostSamples, Interval, MemberSamples, OpSamples, TrialSamples,
};
use crate::units::{Nanos, UnixTime};
use crate::workload::SteadyResult;

mod observed;

/// One host's part of a trial, cut to the time in which all were at work.
#[derive(Debug, Clone, PartialEq)]
pub struct HostPart {
    /// As the user wrote it.
    pub host: String,
    /// Jobs that it ran.
    pub jobs: u32,
    /// What it has seen.
    pub samples: TrialSamples,
    /// From the agreed instant until the last of its jobs was at work.
    pub late: Nanos,
    /// What it measured before that was cut.
    pub measured: Nanos,
    /// Its monotonic clock against this host's.
    pub clock: Offset,
    /// Its wall clock against this host's.
    pub wall: Offset,
}

/// The trial that `parts` are together, which began to count at `started`; `members` are the design's volumes in the order of its leaves,
/// and `idle` the hosts that had no job of it.
pub fn merge(
    mut parts: Vec<HostPart>,
    idle: Vec<HostSamples>,
    members: &[String],
    started: UnixTime,
) -> Option<TrialSamples> {
    let first = parts.first()?;
    let (interval, execution) = (first.samples.interval, first_execution(&first.samples.execution));
    let elapsed = parts.iter().map(|part| part.samples.elapsed).max()?;
    let observed = observed::merge(&mut parts, members);
    let notes = notes(&parts);
    let mut whole = TrialSamples {
        started_unix: started,
        elapsed,
        interval,
        array: PerOp::default(),
        members: Vec::new(),
        series: series(&parts, members),
        cpu: CpuUse::default(),
        mean_in_flight: Some(0.0),
        execution,
        observed: observed.map(Box::new),
        hosts: Vec::new(),
        notes,
    };
    for HostPart { host, jobs, samples, late, measured, clock, wall } in parts {
        add_ops(&mut whole.array, &samples.array);
        add_cpu(&mut whole.cpu, &samples.cpu);
        add_execution(&mut whole.execution, samples.execution);
        whole.mean_in_flight = whole.mean_in_flight.zip(samples.mean_in_flight).map(|(sum, more)| sum + more);
        whole.members.extend(samples.members);
        let (ops, cpu) = (samples.array, samples.cpu);
        whole.hosts.push(HostSamples { name: host, jobs, ops, late, measured, clock, wall, cpu });
    }
    whole.hosts.extend(idle);
    let mut found = std::mem::take(&mut whole.members);
    whole.members = members.iter().map(|name| taken(&mut found, name)).collect();
    Some(whole)
}

/// The samples of the member `name`; one on a host without a job did nothing.
fn taken(found: &mut Vec<MemberSamples>, name: &str) -> MemberSamples {
    match found.iter().position(|member| member.name == name) {
        Some(place) => found.swap_remove(place),
        None => MemberSamples { name: name.to_owned(), ..MemberSamples::default() },
    }
}

fn add_ops(sum: &mut PerOp<OpSamples>, more: &PerOp<OpSamples>) {
    for (sum, more) in [(&mut sum.read, &more.read), (&mut sum.write, &more.write)] {
        sum.count += more.count;
        sum.latency.merge(&more.latency);
        if let Some(service) = &more.service {
            sum.service.get_or_insert_with(Histogram::default).merge(service);
        }
    }
}

fn add_cpu(sum: &mut CpuUse, more: &CpuUse) {
    let first = sum.cores == 0;
    let both = |sum: Option<Nanos>, more: Option<Nanos>| match first {
        true => more,
        false => Some(sum?.plus(more?)),
    };
    *sum = CpuUse {
        load_user: sum.load_user.plus(more.load_user),
        load_system: sum.load_system.plus(more.load_system),
        host_busy: both(sum.host_busy, more.host_busy),
        host_steal: both(sum.host_steal, more.host_steal),
        cores: sum.cores.saturating_add(more.cores),
        busiest_thread_permille: sum.busiest_thread_permille.max(more.busiest_thread_permille),
        most_waiting_permille: sum.most_waiting_permille.max(more.most_waiting_permille),
        least_idle_permille: sum.least_idle_permille.max(more.least_idle_permille),
    };
}

/// What the others are held against.
fn first_execution(of: &Execution) -> Execution {
    Execution { ioengine: of.ioengine, steady: of.steady.clone(), ..Execution::default() }
}

fn add_execution(sum: &mut Execution, more: Execution) {
    sum.ioengine = sum.ioengine.filter(|engine| more.ioengine == Some(*engine));
    sum.threads = sum.threads.max(more.threads);
    sum.unfinished = sum.unfinished.saturating_add(more.unfinished);
    sum.failed = sum.failed.saturating_add(more.failed);
    sum.first_error = sum.first_error.or(more.first_error);
    sum.syncs.merge(&more.syncs);
    sum.lateness.merge(&more.lateness);
    sum.slot_waits.merge(&more.slot_waits);
    // All are steady only when each is.
    sum.steady = sum.steady.take().zip(more.steady).map(|(one, other)| SteadyResult {
        attained: one.attained && other.attained,
        ..if one.attained { other } else { one }
    });
}

/// The intervals of all, which are the same stretches of time; members in the order of the design.
fn series(parts: &[HostPart], members: &[String]) -> Vec<Interval> {
    let length = parts.iter().map(|part| part.samples.series.len()).max().unwrap_or(0);
    let places: Vec<Vec<Option<usize>>> = parts
        .iter()
        .map(|part| {
            let place = |name: &String| members.iter().position(|member| member == name);
            part.samples.members.iter().map(|member| place(&member.name)).collect()
        })
        .collect();
    (0..length)
        .map(|index| {
            let mut sum = Interval {
                end: Nanos(0),
                array: PerOp::<Count>::default(),
                latency: Histogram::default(),
                members: vec![PerOp::default(); members.len()],
            };
            for (part, places) in parts.iter().zip(&places) {
                let Some(own) = part.samples.series.get(index) else { continue };
                sum.end = sum.end.max(own.end);
                sum.array = sum.array.plus(own.array);
                sum.latency.merge(&own.latency);
                for (place, count) in places.iter().zip(&own.members) {
                    if let Some(slot) = place.and_then(|place| sum.members.get_mut(place)) {
                        *slot = slot.plus(*count);
                    }
                }
            }
            sum
        })
        .collect()
}

/// What all say is said once, the rest with the host that says it.
fn notes(parts: &[HostPart]) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    for part in parts {
        for note in &part.samples.notes {
            let common = parts.iter().all(|other| other.samples.notes.contains(note));
            let note = if common { note.clone() } else { format!("{}: {note}", part.host) };
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
    }
    notes
}

#[cfg(test)]
#[path = "merge_tests.rs"]
mod tests;
