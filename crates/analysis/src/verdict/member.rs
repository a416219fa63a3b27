//! `member`: one slow member drags the array.
//!
//! Derivation. In a stripe every member gets the same work; a closed loop of `N` operations has them pile up at
//! the slowest, because the others answer and wait for it. The slow one therefore shows in its own latency and in
//! its queue (operations in flight: its rate times its latency), not in its rate, which is the same for all. iostat
//! shows it the same way: one `await` of 483 ms and `aqu-sz` of 149 beside a twin of 34 ms and 10.
//!
//! One member is always the slowest. It is named only when it is so by a factor, and either by a large one or in
//! the same place trial after trial: among `n` equals the same one is slowest in `k` trials with probability
//! `n^-(k-1)`.
//!
//! Devices of an array that was there before are compared by the kernel's counters, and of them equals look like this for a time: at
//! their limit they hold the queue in turn. Each trial therefore also tells whether the slowest was slow all along, and all of them whether it
//! has more to do than its siblings. A moment in which the machine stood still hides the former in some trials of a slow one, which are then no
//! witnesses against it: the same one has to be the slowest in nearly all trials, and half of them have to tell that it is slow.
//! The ladder's short runs with as many or more in flight begin with empty queues: a slow one is the slowest in them too.

use super::volume_limit::at_limit;
use super::*;
use crate::facts::{moved, shared};
use crate::observe::outlier::SAME_WORK_DEVIATIONS;
use crate::{ArrayBelow, below, members};
use ebbtide_model::samples::{Count, DeviceObservation, DiskUse, Join, MemberSamples};
use ebbtide_model::units::format_latency;

/// A factor that needs no repetition to be believed.
pub const LARGE_OUTLIER: f64 = 3.0;
/// Least operations of a member in a trial.
const MIN_OPS: f64 = 20.0;
/// A member works when it moves at least this share of what an equal part would be.
const WORKS: f64 = 0.5;
/// A queue that is longer than this is made of operations that wait for each other.
const QUEUE: f64 = 1.5;
/// Share of the observer's intervals in which it must be the slowest by far where its siblings do as much in the time in which they are busy.
const ALL_ALONG: f64 = 0.95;
/// Least requests of a device in an interval that is looked at.
const INTERVAL_OPS: u64 = 5;

checks! {
    // Simulated, sequential access hands the longest queue to the same of equal members each time: a factor of 1.57 in six of six trials.
    OUTLIER: at_least("its latency and its queue over its siblings' median, the smaller factor", 1.8, Times, "equals at their limit were seen to differ by 1.57");
    SAME_MEMBER: at_least("share of the trials in which it is the same one", 0.8, Share, "one is always the slowest");
    CHANCE: below("probability that chance makes it so; else the factor must be 3", 0.05, Share, "of so many equals so often the same");
    LASTING: at_least("below an array: share of the intervals in which it is the slowest by far", 0.60, Share, "equals hold the queue in turn");
    NEVER_IDLE: at_least("below an array, with a queue: share of the time with a request in flight there", 0.90, Share, "what is left over for a slow one is always there");
}
// Simulated, sequential access hands the longest queue to the same of equal members each time: a factor of 1.57 in six of six trials.

/// What one of those compared did in a trial.
#[derive(Debug, Clone, Copy)]
struct Worker<'a> {
    name: &'a str,
    requests: f64,
    bytes: f64,
    latency: f64,
    in_flight: f64,
}

/// The outlier of one trial, with the medians of its siblings.
#[derive(Debug, Clone, Copy)]
struct Outlier<'a> {
    own: Worker<'a>,
    siblings: Worker<'a>,
    /// Share of all operations in flight that it held, and what an equal share would be.
    share: f64,
    fair: f64,
    /// Whether this trial alone shows that it is slow all along, and does not hold the queue in its turn.
    told: bool,
}

impl Outlier<'_> {
    fn factor(&self) -> f64 {
        (self.own.latency / self.siblings.latency).min(self.own.in_flight / self.siblings.in_flight)
    }
}

/// The slowest of the members of a trial, or of the devices of an array below them; `None` below two comparable ones.
fn slowest<'a>(trial: &'a TrialSamples, array: Option<&ArrayBelow>) -> Option<Outlier<'a>> {
    let seconds = trial.elapsed.as_secs_f64();
    let devices = array.map_or(Some(Vec::new()), |array| Some(below::same(trial, array)?.devices))?;
    let of_device = |device: &&'a DeviceObservation| {
        let (requests, latency) = below::requests_and_wait(device);
        let (bytes, in_flight) =
            (device.total.bytes.total() as f64, device.total.weighted.as_secs_f64() / seconds);
        let (requests, latency) = (requests as f64, latency.unwrap_or(0.0));
        Worker { name: device.shown_name(), requests, bytes, latency, in_flight }
    };
    let of_member = |member: &'a MemberSamples| {
        let (Count { ops, bytes }, latency) = (members::totals(member), member.ops.latency());
        let in_flight = latency.sum() as f64 / 1e9 / seconds;
        let (requests, bytes, latency) = (ops as f64, bytes as f64, latency.mean().unwrap_or(0.0));
        Worker { name: &member.name, requests, bytes, latency, in_flight }
    };
    let mut all: Vec<Worker<'a>> = match array {
        Some(_) => devices.iter().map(of_device).collect(),
        None => trial.members.iter().map(of_member).collect(),
    };
    let fair_bytes = all.iter().map(|worker| worker.bytes).sum::<f64>() / all.len().max(1) as f64;
    all.retain(|worker| worker.requests >= MIN_OPS && worker.bytes >= WORKS * fair_bytes);
    let all_in_flight: f64 = all.iter().map(|worker| worker.in_flight).sum();
    let fair = 1.0 / all.len() as f64;
    let at = (0..all.len()).max_by(|a, b| all[*a].latency.total_cmp(&all[*b].latency))?;
    let own = all.swap_remove(at);
    let usual = |of: fn(&Worker<'_>) -> f64| median(all.iter().map(of)).filter(|of| *of > 0.0);
    let (latency, in_flight) = (usual(|worker| worker.latency)?, usual(|worker| worker.in_flight)?);
    let siblings = Worker {
        name: "",
        requests: usual(|worker| worker.requests)?,
        bytes: fair_bytes,
        latency,
        in_flight,
    };
    let told = array.is_none() || lasts(trial, &devices, &own).unwrap_or(false);
    Some(Outlier { own, siblings, share: own.in_flight / all_in_flight, fair, told })
}

/// Whether the slow one is slow all along. Equal disks at their limit hold the queue in turn, and a short trial may see one
/// turn: then the holder is idle now and then, the others do not do more in the time in which they are busy, and it is not slow in every interval.
fn lasts(trial: &TrialSamples, devices: &[&DeviceObservation], slow: &Worker<'_>) -> Option<bool> {
    let observed = trial.observed.as_deref()?;
    let place = |device: &&DeviceObservation| observed.devices.iter().position(|d| d.name == device.name);
    let (own, siblings): (Vec<_>, Vec<_>) =
        devices.iter().copied().partition(|device| device.shown_name() == slow.name);
    let own = own.first()?;
    let busy = own.total.busy.as_secs_f64() / trial.elapsed.as_secs_f64();
    let pace = |device: &DeviceObservation| {
        let DiskUse { ops, busy, .. } = device.total;
        ops.total() as f64 / busy.as_secs_f64().max(f64::MIN_POSITIVE)
    };
    let faster = median(siblings.iter().map(|device| pace(device)))? >= OUTLIER.edge * pace(own);
    let needed = if faster { LASTING.edge } else { ALL_ALONG };
    let own = place(own)?;
    let siblings: Vec<usize> = siblings.iter().map(place).collect::<Option<_>>()?;
    let is_slow: Vec<bool> = observed
        .series
        .iter()
        .filter_map(|interval| {
            let wait = |place: usize| {
                let used = interval.devices.get(place)?;
                let (requests, time) = (used.ops.total(), used.time.read.plus(used.time.write));
                (requests >= INTERVAL_OPS).then(|| time.0 as f64 / requests as f64)
            };
            Some(wait(own)? >= OUTLIER.edge * median(siblings.iter().filter_map(|at| wait(*at)))?)
        })
        .collect();
    let often = is_slow.iter().filter(|slow| **slow).count() as f64 >= needed * is_slow.len() as f64;
    Some(often && (slow.in_flight <= QUEUE || NEVER_IDLE.holds(busy)))
}

pub(super) fn judge(case: &Case<'_>, facts: &Facts<'_>) -> Judged {
    let of_design = of_group(case, facts, None);
    if of_design.is_ok() {
        return of_design;
    }
    // An array of the host has its own members; where the design has nobody to compare, what it shows is the reason.
    let below = case.result.below.iter().filter(|array| array.join.of_equals());
    let below: Vec<Judged> = below.map(|array| of_group(case, facts, Some(array))).collect();
    let alone = case.result.members.len() < 2;
    let told = below.iter().position(Result::is_ok).or_else(|| (alone && !below.is_empty()).then_some(0));
    told.and_then(|at| below.into_iter().nth(at)).unwrap_or(of_design)
}

/// The slow one of a group.
fn of_group(case: &Case<'_>, facts: &Facts<'_>, array: Option<&ArrayBelow>) -> Judged {
    // All of them on the same disk: then it is not the member that is slow.
    let (on_one_disk, all, whole) = match array {
        None => (facts.shared.clone(), case.result.members.len(), "the array"),
        Some(array) => (shared::within(case, array), array.devices.len(), array.name.as_str()),
    };
    if on_one_disk.is_some_and(|(count, _)| count >= all) {
        return Err(Absent::yields(VerdictKind::SharedDevice, "one disk is below all of them"));
    }
    // Below copies and parity all are given the same work: of equals the queue stays at whichever is a little behind, and the
    // others are quick because they wait for it.
    if let Some(ArrayBelow { join: Join::Mirror { .. } | Join::Parity { .. }, .. }) = array {
        if !case.workload.reads() {
            let why = "every write is given to several of its devices: which of them is slower does not show";
            return Err(Absent::because(why));
        }
        facts.yield_to_set_rate(
            "its devices are given the same work, and a rate that is set shows at one first",
        )?;
    }
    // What builds or checks an array gives its members unequal work.
    if moved::resyncs(case.trials) {
        return Err(Absent::yields(VerdictKind::Background, "an array is built or checked"));
    }
    let found: Vec<Outlier<'_>> = case.trials.iter().filter_map(|t| slowest(t, array)).collect();
    let usual = median(found.iter().map(Outlier::factor)).ok_or_else(|| {
        Absent::unmeasured("no trial has two members with comparable work and latencies of their own")
    })?;
    let because = |why: String| Absent::because(why).with([OUTLIER.figure(usual)]);
    let outliers: Vec<Outlier<'_>> = found.into_iter().filter(|o| OUTLIER.holds(o.factor())).collect();
    // The member that is the outlier most often.
    let count = |name: &str| outliers.iter().filter(|o| o.own.name == name).count();
    let too_alike = || because("no member stands out".to_owned());
    let name = outliers.iter().max_by_key(|o| count(o.own.name)).ok_or_else(too_alike)?.own.name;
    let same: Vec<&Outlier<'_>> = outliers.iter().filter(|o| o.own.name == name).collect();
    let (often, trials) = (same.len() as f64, case.trials.len() as f64);
    SAME_MEMBER.require(often / trials, "no member stands out")?;
    if let (Some(_), Some((times, most))) = (array, more_work(&same)) {
        let what = "its requests over theirs, which would have to be below";
        let why = format!("{name} is the slowest by far, but has more to do than its siblings");
        return Err(because(why).seen(what, times, Unit::Times, most));
    }
    // A machine that stands still for a moment hides in some trials that a slow one always has something to do; equals that hold the
    // queue in turn do not have it in most.
    let told = same.iter().filter(|outlier| outlier.told).count() as f64;
    if 2.0 * told < trials {
        let why = format!("{name} is the slowest by far, but as one that holds the queue for a turn");
        let what = format!("trials in which {name} is slow all along");
        return Err(because(why).seen(what, told, Unit::Trials, trials / 2.0));
    }
    // Nor when others hold its disk back; they are not what slows a volume that is slow by its shape.
    if !case.slowed_by_tool(name) {
        facts.yield_to(VerdictKind::Background, &format!("other processes may be what slows {name}"))?;
    }
    // The ladder's short runs with as many or more in flight begin with empty queues.
    let deep = facts.rungs.iter().flat_map(|rungs| rungs.same.iter().chain(&rungs.deeper));
    let runs: Vec<Outlier<'_>> = deep.filter_map(|step| slowest(&step.rung.samples, array)).collect();
    let again = runs.iter().filter(|one| one.own.name == name && OUTLIER.holds(one.factor())).count();
    if 2 * again < runs.len() {
        let why = format!("{name} is the slowest by far, but not in the short runs that began anew");
        let what = format!("short runs in which {name} is the slowest by far");
        return Err(because(why).seen(what, again as f64, Unit::Runs, runs.len() as f64 / 2.0));
    }
    let of = |value: fn(&Outlier<'_>) -> f64| median(same.iter().map(|o| value(o))).unwrap_or(f64::NAN);
    let chance = of(|o| o.fair).powi((same.len() + again) as i32 - 1);
    let sure = match (CHANCE.holds(chance), of(|o| o.factor()) >= LARGE_OUTLIER) {
        (true, true) => Sure::Certain,
        (true, false) => Sure::Likely,
        (false, true) => Sure::Possible,
        (false, false) => {
            let why = format!("{name} stands out, but too seldom for its factor");
            return Err(because(why).with([CHANCE.missed(chance)]));
        }
    };
    let (latency, siblings, share) = (of(|o| o.own.latency), of(|o| o.siblings.latency), of(|o| o.share));
    let mean = format!("mean latency of {name}, against its siblings' median");
    let queue = format!("operations in flight at {name}, against its siblings' median");
    let mut figures = vec![
        evidence(mean, latency, Unit::Nanoseconds, Some(siblings)),
        evidence(queue, of(|o| o.own.in_flight), Unit::Operations, Some(of(|o| o.siblings.in_flight))),
        evidence(format!("trials in which {name} is the outlier"), often, Unit::Trials, Some(trials)),
    ];
    let mut sentence = format!(
        "{name} answers in {} where its siblings take {}, and holds {:.0}% of the operations in flight: {whole} waits for it",
        format_latency(latency),
        format_latency(siblings),
        share * 100.0,
    );
    if let Some(held) = facts.held.iter().find(|held| held.member == name && held.is_reached()) {
        let clause = "the load's control group is held to a rate there, not the device";
        sentence.push_str(&format!("; {clause}: {}", held.in_words()));
        figures.push(held.evidence());
    }
    let place = case.result.members.iter().position(|member| array.is_none() && member.name == name);
    if let Some(own) = place.and_then(|place| at_limit(facts, place, name)) {
        let limit = own.counted.unit().rate_in_words(own.used.limit);
        sentence.push_str(&format!("; it is at its own limit of {limit}, which the others wait for"));
    }
    let excess = of(|o| (o.share - o.fair) / (1.0 - o.fair));
    Ok(Verdict::new(VerdictKind::Member, sure, excess, sentence, figures))
}

/// How many times as many requests the one that holds the queue has as its siblings, and how many chance may make of it, where it is more. Equal
/// disks at their limit hold the longest queue in turn, and who holds it has more of them. Of the difference between a count and the median of three
/// others, 2.5 roots are two in a hundred; in a single trial one cannot be too careful.
fn more_work(same: &[&Outlier<'_>]) -> Option<(f64, f64)> {
    let own: f64 = same.iter().map(|one| one.own.requests).sum();
    let usual: f64 = same.iter().map(|one| one.siblings.requests).sum();
    let most = 1.0 + if same.len() > 1 { 2.5 } else { SAME_WORK_DEVIATIONS } / usual.sqrt();
    (own > most * usual).then(|| (own / usual, most))
}
