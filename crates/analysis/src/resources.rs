//! The table by which an engineer decides: for each resource how busy it is, what waits for it, and what the short runs gained when it was
//! changed. The first verdict is the row that stands out.

use crate::evidence::{Evidence, Unit, evidence, percent, ratio};
use crate::facts::case::Case;
use crate::facts::group::FullestLimit;
use crate::facts::processors::{THREAD_FULL, WAITED};
use crate::facts::rungs::Step;
use crate::facts::usage::{self, Counted};
use crate::facts::{Facts, calls, moved, standing};
use crate::judged::{Basis, Verdict, VerdictKind};
use ebbtide_model::metric::Metric;
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

/// What a load may be short of; its name is that of the table's row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr, VariantArray)]
#[serde(rename_all = "snake_case")]
pub enum Resource {
    /// What the load keeps in flight, and in which sizes.
    #[strum(serialize = "operations in flight")]
    Operations,
    /// The load's own threads.
    #[strum(serialize = "the load's threads")]
    Threads,
    /// The host's processors.
    #[strum(serialize = "processors")]
    Processors,
    /// Free memory.
    #[strum(serialize = "memory")]
    Memory,
    /// What answers instead of the volumes.
    #[strum(serialize = "caches")]
    Caches,
    /// The places for requests above a device.
    #[strum(serialize = "a device's queue")]
    Queue,
    /// The members' devices.
    #[strum(serialize = "devices")]
    Devices,
    /// What somebody granted or set.
    #[strum(serialize = "a limit that is set")]
    Limit,
    /// What the volumes share on their way here.
    #[strum(serialize = "the link")]
    Link,
    /// Copies and parity.
    #[strum(serialize = "copies and parity")]
    Copies,
    /// Who else is at the disks.
    #[strum(serialize = "others at the disks")]
    Others,
}

impl Resource {
    /// Its name in a table.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The row that a verdict belongs to.
    fn of(verdict: &Verdict, facts: &Facts<'_>) -> Option<Resource> {
        use VerdictKind::*;
        let own_thread = facts.busiest_thread.is_some_and(|busy| busy >= THREAD_FULL)
            || facts.waited.is_some_and(|waited| waited >= WAITED);
        Some(match verdict.kind {
            Unknown => return None,
            Concurrency | SyncWrites | Readahead => Resource::Operations,
            // Too small for a limit of operations, or larger than a device takes.
            RequestSize if facts.met.is_some_and(|met| met >= usage::NEAR) => Resource::Limit,
            RequestSize => Resource::Queue,
            Cpu if own_thread => Resource::Threads,
            Cpu => Resource::Processors,
            Memory => Resource::Memory,
            Cache => Resource::Caches,
            QueueLimit => Resource::Queue,
            RateLimit | Burst => Resource::Limit,
            VolumeLimit if verdict.basis != Some(Basis::Inferred) => Resource::Limit,
            InstanceLimit | RemoteQueue => Resource::Link,
            PartialStripe | IdleCopies => Resource::Copies,
            Background => Resource::Others,
            VolumeLimit | Member | WriteCache | DeviceWaves | FirstTouch | SharedDevice => Resource::Devices,
        })
    }
}

/// A row of the table; what is not known is absent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// What it is about.
    pub resource: Resource,
    /// How busy it is, or how much of it is used, 0 to 1.
    pub utilisation: Option<f64>,
    /// What waits for it.
    pub waiting: Option<Evidence>,
    /// What short runs had when it was changed, over what they had before.
    pub gain: Option<Evidence>,
    /// The verdicts that belong to it, with their ranks, which begin with 1.
    pub verdicts: Vec<(usize, VerdictKind)>,
}

/// The table of a case, of what is known.
pub(crate) fn rows(case: &Case<'_>, facts: &Facts<'_>, verdicts: &[Verdict]) -> Vec<Row> {
    let row = |resource: &Resource| {
        let ranked = verdicts.iter().enumerate();
        let of_it = ranked.filter(|(_, verdict)| Resource::of(verdict, facts) == Some(*resource));
        let of_it: Vec<(usize, &Verdict)> = of_it.collect();
        // Where nothing of it waits in a queue, what its verdict rests on.
        let shown = || of_it.iter().find_map(|(_, verdict)| verdict.evidence.first().cloned());
        let row = Row {
            resource: *resource,
            utilisation: utilisation(*resource, case, facts),
            waiting: waiting(*resource, case, facts).or_else(shown),
            gain: gain(*resource, case, facts),
            verdicts: of_it.iter().map(|(at, verdict)| (at + 1, verdict.kind)).collect(),
        };
        let known = row.utilisation.is_some() || row.waiting.is_some() || row.gain.is_some();
        (known || !row.verdicts.is_empty()).then_some(row)
    };
    Resource::VARIANTS.iter().filter_map(row).collect()
}

/// What would be full next once the first verdict's limit is lifted, in words, where its use is known: of what a load uses more of
/// the faster it is. A limit or a link may have a burst rate above the one that it is held against, so that no most follows from them.
pub fn next(rows: &[Row]) -> Option<String> {
    let is_first = |row: &Row| row.verdicts.iter().any(|(rank, _)| *rank == 1);
    rows.iter().find(|row| is_first(row))?;
    let grows = [Resource::Threads, Resource::Processors, Resource::Limit, Resource::Link];
    let others = rows.iter().filter(|row| !is_first(row) && grows.contains(&row.resource));
    let known = others.filter_map(|row| Some((row.resource, row.utilisation.filter(|used| *used > 0.0)?)));
    let (resource, used) = known.max_by(|a, b| a.1.total_cmp(&b.1))?;
    let most = match resource {
        Resource::Threads | Resource::Processors => {
            format!(", so at most {} times this rate", ratio(1.0 / used))
        }
        _ => String::new(),
    };
    Some(format!("the next limit: {}, {} used now{most}", resource.name(), percent(used)))
}

/// Share of the time that somebody of the host waited for it (PSI).
fn pressure(case: &Case<'_>, word: &str) -> Option<Evidence> {
    standing::waits(case).into_iter().find(|figure| figure.what.contains(word))
}

fn utilisation(resource: Resource, case: &Case<'_>, facts: &Facts<'_>) -> Option<f64> {
    let share = match resource {
        Resource::Threads => facts.busiest_thread,
        Resource::Processors => facts.host_busy,
        Resource::Queue => facts.full_queues.first().map(|queue| queue.mean / queue.holds),
        Resource::Devices => facts.devices.map(|devices| devices.least_busy),
        Resource::Limit => facts.met.or_else(|| facts.held.first().map(FullestLimit::share)),
        Resource::Link => facts.link.or_else(|| calls::fullest_link(case).map(|(_, share)| share)),
        Resource::Caches => case.median(|trial| {
            let moved = moved::moved(trial)?;
            let due = moved.due.read.least + moved.due.write.least;
            (due > 0.0).then(|| (1.0 - moved.moved.total() as f64 / due).max(0.0))
        }),
        Resource::Others => case.median(|trial| {
            let moved = moved::moved(trial)?;
            let all = moved.moved.total() as f64;
            let of_requests = moved::requested_by_others(trial, case.workload).unwrap_or(0.0);
            (all > 0.0).then(|| (moved::beyond(trial, &moved, case.workload) / all).max(of_requests))
        }),
        Resource::Operations | Resource::Memory | Resource::Copies => None,
    };
    share.filter(|share| share.is_finite()).map(|share| share.clamp(0.0, 1.0))
}

fn waiting(resource: Resource, case: &Case<'_>, facts: &Facts<'_>) -> Option<Evidence> {
    match resource {
        Resource::Operations => Some(evidence("kept in flight", case.kept(), Unit::Operations, None)),
        Resource::Threads => {
            facts.waited.map(|waited| evidence("waited for a processor", waited, Unit::Share, None))
        }
        Resource::Processors => pressure(case, "processor"),
        Resource::Memory => pressure(case, "memory"),
        Resource::Queue => facts.full_queues.first().map(|queue| {
            evidence("wanted there", queue.wanted(case.kept()), Unit::Requests, Some(queue.holds))
        }),
        Resource::Devices => {
            facts.devices.map(|devices| evidence("in flight there", devices.queue, Unit::Requests, None))
        }
        _ => None,
    }
}

/// What the most telling of the short runs had over what is compared.
fn gain(resource: Resource, case: &Case<'_>, facts: &Facts<'_>) -> Option<Evidence> {
    let rungs = facts.rungs.as_ref()?;
    match resource {
        Resource::Operations => {
            let step = most(&rungs.deeper).or(rungs.shallower.last())?;
            let what = format!("the rate with {} in flight", step.rung.in_flight);
            Some(evidence(what, step.ops.rate / rungs.reference(), Unit::Times, None))
        }
        Resource::Limit => {
            let counted = facts.set_rate.as_ref().map_or(Counted::Operations, |rate| rate.counted);
            let step = rungs.sizes.last()?;
            let times = step.rung.bs.0 as f64 / case.workload.bs.0.max(1) as f64;
            let (of, over) = match counted {
                Counted::Operations => ("operations", 1.0),
                Counted::Bytes => ("bytes", times),
            };
            let what = format!("the {of} with {}", step.rung.bs);
            Some(evidence(what, step.ops.rate * over / rungs.reference(), Unit::Times, None))
        }
        Resource::Queue => {
            facts.full_queues.first()?;
            let step = rungs.shallower.last()?;
            let what = format!("the rate with {} in flight", step.rung.in_flight);
            Some(evidence(what, step.ops.rate / rungs.reference(), Unit::Times, None))
        }
        _ => None,
    }
}

fn most<'a, 'b>(steps: &'b [Step<'a>]) -> Option<&'b Step<'a>> {
    steps.iter().max_by(|a, b| a.ops.rate.total_cmp(&b.ops.rate))
}

/// A rate that is above what lasts: of a volume, or of the link that volumes share, which spends credits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Lasting {
    /// What spends them, in words.
    pub who: String,
    /// The rate that was measured of it.
    pub now: f64,
    /// The rate that lasts.
    pub lasts: f64,
    /// What both are counted in.
    pub unit: Unit,
}

impl Lasting {
    /// Of a figure that was measured, what lasts; nothing of a latency.
    pub fn of(&self, metric: Metric, measured: f64) -> Option<f64> {
        let is_rate = matches!(metric, Metric::Throughput | Metric::Iops);
        (is_rate && self.now > 0.0).then(|| measured * self.lasts / self.now)
    }

    /// What a reader must know beside the figure.
    pub fn in_words(&self) -> String {
        let rate = |rate| self.unit.rate_in_words(rate);
        let (now, lasts) = (rate(self.now), rate(self.lasts));
        format!("{} spends credits: {now} in these trials, {lasts} is what lasts", self.who)
    }
}

/// What is above what lasts, the one that falls furthest.
pub(crate) fn lasting(case: &Case<'_>) -> Option<Lasting> {
    let of_links = usage::bursting_links(case).into_iter().map(|link| Lasting {
        who: format!("the link `{}`", link.link),
        now: link.used.rate,
        lasts: link.used.lasts,
        unit: link.counted.unit(),
    });
    let of_volumes = usage::bursting(case).into_iter().map(|(name, counted, used)| Lasting {
        who: name.to_owned(),
        now: used.rate,
        lasts: used.lasts,
        unit: counted.unit(),
    });
    of_links.chain(of_volumes).min_by(|a, b| (a.lasts / a.now).total_cmp(&(b.lasts / b.now)))
}
