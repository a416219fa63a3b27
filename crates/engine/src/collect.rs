//! Puts the records of all jobs together.

use crate::cpu::{CpuTime, ThreadTime};
use crate::record::{Errors, Record, Tally, merge};
use crate::shared::Shared;
use ebbtide_model::per_op::PerOp;
use ebbtide_model::samples::{
    Count, CpuUse, ErrorCount, Execution, Histogram, Interval, MemberSamples, TrialSamples,
};
use ebbtide_model::units::{Nanos, UnixTime};
use std::collections::BTreeMap;

/// Most intervals that a series keeps; a longer trial gets longer intervals.
const INTERVALS_MAX: usize = 1200;

/// One interval under construction.
#[derive(Debug, Clone, Default)]
struct Part {
    array: PerOp<Count>,
    latency: Histogram,
    members: Vec<PerOp<Count>>,
}

impl Part {
    fn fold(&mut self, other: Part) {
        self.array += other.array;
        self.latency.merge(&other.latency);
        if self.members.is_empty() {
            self.members = other.members;
        } else {
            self.members.iter_mut().zip(other.members).for_each(|(to, from)| *to += from);
        }
    }
}

/// What is seen of all jobs so far.
#[derive(Debug)]
pub(crate) struct Collected {
    array: Tally,
    service: Option<PerOp<Histogram>>,
    members: Vec<Tally>,
    parts: Vec<Part>,
    /// Nominal intervals in one part.
    factor: u64,
    errors: Errors,
    /// Records by their interval, while it is not known which of them count.
    waiting: Option<BTreeMap<u64, Box<Record>>>,
    /// How it is carried out.
    pub(crate) execution: Execution,
    notes: Vec<String>,
}

impl Collected {
    pub(crate) fn new() -> Self {
        Collected {
            array: Tally::new(),
            service: None,
            members: Vec::new(),
            parts: Vec::new(),
            factor: 1,
            errors: Errors::new(),
            waiting: None,
            execution: Execution::default(),
            notes: Vec::new(),
        }
    }

    /// Something that the reader must know; the same note of several jobs is kept once.
    pub(crate) fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    pub(crate) fn errors(&mut self, errors: Errors) {
        for (key, count) in errors {
            *self.errors.entry(key).or_default() += count;
        }
    }

    /// From now on records are kept until it is known which intervals count ([`count`](Self::count)).
    pub(crate) fn wait(&mut self) {
        self.waiting = Some(BTreeMap::new());
    }

    /// Adds the `number` whole intervals from `first` on of what was kept: they are all of the trial that counts.
    pub(crate) fn count(&mut self, first: u64, number: u64) {
        for (interval, record) in self.waiting.take().into_iter().flatten() {
            if (first..first + number).contains(&interval) {
                self.add_at(&record, interval - first);
            }
        }
    }

    /// Adds one job's record of one interval; the warm-up's is left out.
    pub(crate) fn add(&mut self, record: &Record) {
        let Some(interval) = record.interval else { return };
        match &mut self.waiting {
            Some(kept) => kept.entry(interval).or_insert_with(|| Box::new(Record::kept(record))).add(record),
            None => self.add_at(record, interval),
        }
    }

    /// Adds `record` as what was seen in the interval number `interval`.
    fn add_at(&mut self, record: &Record, interval: u64) {
        self.array.add(&record.array);
        if let Some(service) = &record.service {
            merge(self.service.get_or_insert_with(|| PerOp::each(Histogram::with_buckets)), service);
        }
        self.execution.syncs.merge(&record.syncs);
        self.execution.lateness.merge(&record.lateness);
        self.execution.slot_waits.merge(&record.slot_waits);
        self.members.resize_with(record.members.len().max(self.members.len()), Tally::new);
        self.members.iter_mut().zip(&record.members).for_each(|(sum, tally)| sum.add(tally));
        while (interval / self.factor) as usize >= INTERVALS_MAX {
            self.halve();
        }
        let index = (interval / self.factor) as usize;
        if self.parts.len() <= index {
            self.parts.resize_with(index + 1, Part::default);
        }
        let part = &mut self.parts[index];
        part.fold(Part {
            array: record.array.counts(),
            latency: Histogram::default(),
            members: record.members.iter().map(Tally::counts).collect(),
        });
        part.latency.merge(&record.array.latency.read);
        part.latency.merge(&record.array.latency.write);
    }

    /// Makes intervals twice as long.
    fn halve(&mut self) {
        let parts = std::mem::take(&mut self.parts);
        for (index, part) in parts.into_iter().enumerate() {
            if index % 2 == 0 {
                self.parts.push(part);
            } else if let Some(last) = self.parts.last_mut() {
                last.fold(part);
            }
        }
        self.factor *= 2;
    }

    pub(crate) fn finish(
        mut self,
        shared: &Shared<'_>,
        started_unix: UnixTime,
        elapsed: Nanos,
        cpu: CpuUse,
    ) -> TrialSamples {
        let members = &shared.target.members;
        let interval = shared.workload.series_interval().times(self.factor);
        let in_flight =
            self.service.as_ref().unwrap_or(&self.array.latency).as_ref().map(Histogram::sum).total();
        let mut array = self.array.samples();
        // Where the array is its only member, the member's figures are the array's.
        let alone = shared.plain.then(|| array.clone());
        if let Some(service) = self.service {
            array.read.service = Some(service.read.compacted());
            array.write.service = Some(service.write.compacted());
        }
        self.members.resize_with(members.len(), Tally::new);
        let leaves = shared.target.map.leaves();
        let member_samples = members
            .iter()
            .zip(self.members)
            .enumerate()
            .filter(|(index, _)| leaves.contains(index))
            .map(|(index, (member, sum))| MemberSamples {
                name: member.name.clone(),
                ops: alone.clone().unwrap_or_else(|| sum.samples()),
                errors: self
                    .errors
                    .iter()
                    .filter(|((of, _), _)| *of == index)
                    .map(|((_, name), count)| ErrorCount { name: name.clone(), count: *count })
                    .collect(),
                model: member.shaper.as_ref().map(|shaper| shaper.report(shared.clock.now())),
            })
            .collect();
        let length = elapsed.0.div_ceil(interval.0.max(1)) as usize;
        self.parts.resize_with(length, Part::default);
        let series = self
            .parts
            .into_iter()
            .enumerate()
            .map(|(index, mut part)| {
                if shared.plain {
                    part.members = vec![part.array];
                }
                part.members.resize_with(members.len(), PerOp::default);
                let mut kept = 0..;
                part.members.retain(|_| kept.next().is_some_and(|index| leaves.contains(&index)));
                Interval {
                    end: Nanos(((index as u64 + 1) * interval.0).min(elapsed.0)),
                    array: part.array,
                    latency: part.latency,
                    members: part.members,
                }
            })
            .collect();
        let mean_in_flight = (elapsed.0 > 0).then(|| in_flight as f64 / elapsed.0 as f64);
        TrialSamples {
            started_unix,
            elapsed,
            interval,
            array,
            members: member_samples,
            series,
            cpu,
            mean_in_flight,
            execution: self.execution,
            notes: self.notes,
            observed: None,
            hosts: Vec::new(),
        }
    }
}

/// CPU of the load: its threads, and in system time what the process used beside them and the collecting thread, which
/// is io_uring's workers and submission threads.
pub(crate) fn cpu_use(jobs: &[ThreadTime], process: CpuTime, collector: CpuTime, elapsed: Nanos) -> CpuUse {
    let load = jobs.iter().fold(CpuTime::default(), |sum, job| sum.plus(job.cpu));
    let helpers = process.system.since(load.system.plus(collector.system));
    // A thread that has no processor when the measurement ends tells its times later, and waits until then.
    let permille = |job: &ThreadTime, time: Nanos| {
        let share = |wall: Nanos| (time.times(1000).0 / wall.0).min(1000) as u32;
        Some(job.wall.max(elapsed)).filter(|wall| *wall > Nanos(0)).map(share)
    };
    let most = |of: &dyn Fn(&ThreadTime) -> Option<Nanos>| {
        jobs.iter().filter_map(|job| permille(job, of(job)?)).max()
    };
    CpuUse {
        load_user: load.user,
        load_system: load.system.plus(helpers),
        cores: std::thread::available_parallelism().map_or(1, |n| n.get() as u32),
        busiest_thread_permille: most(&|job| Some(job.cpu.all())),
        most_waiting_permille: most(&|job| job.waited),
        least_idle_permille: most(&|job| Some(job.waited?.plus(job.cpu.all()))),
        ..CpuUse::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_s_times_are_shares_of_its_own_time() {
        let ms = Nanos::from_millis;
        let job = |wall: u64, ran: u64, waited: u64| ThreadTime {
            wall: ms(wall),
            cpu: CpuTime { user: ms(ran), system: Nanos(0) },
            waited: Some(ms(waited)),
        };
        let shares = |jobs: &[ThreadTime]| {
            let used = cpu_use(jobs, CpuTime::default(), CpuTime::default(), ms(300));
            (used.busiest_thread_permille, used.most_waiting_permille, used.least_idle_permille)
        };
        // Its last turn came 300 ms after the measurement had ended.
        assert_eq!(shares(&[job(600, 60, 480)]), (Some(100), Some(800), Some(900)));
        // One that ended early did nothing for the rest.
        assert_eq!(shares(&[job(100, 60, 40)]), (Some(200), Some(133), Some(333)));
        assert_eq!(shares(&[job(300, 240, 30), job(300, 30, 240)]), (Some(800), Some(800), Some(900)));
        assert_eq!(shares(&[]), (None, None, None));
    }
}
