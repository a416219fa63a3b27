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

use crate::estimate::median;
use crate::evidence::{Check, Evidence, Unit, evidence};
use crate::facts::case::Case;
use crate::facts::{Facts, moved, shared};
use crate::judged::{Absent, Judged, Verdict, VerdictKind};
use crate::observe::outlier::SAME_WORK_DEVIATIONS;
use crate::{ArrayBelow, below, members};
use ebbtide_model::samples::{Count, DeviceObservation, DiskUse, Join, TrialSamples};
use ebbtide_model::units::format_latency;

/// Least factor over the siblings' median, in latency and in queue. Equal members that are all saturated have queues of
/// chance length, and sequential access hands the longest to the same one each time: simulated, a factor of 1.57 in six
/// of six trials.
pub const OUTLIER: f64 = 1.8;
/// A factor that needs no repetition to be believed.
pub const LARGE_OUTLIER: f64 = 3.0;
/// Share of the trials in which it must be the same member.
pub const SAME_MEMBER: f64 = 0.8;
/// Largest probability of that by chance.
pub const CHANCE: f64 = 0.05;
/// Least operations of a member in a trial.
const MIN_OPS: u64 = 20;
/// A member works when it moves at least this share of what an equal part would be.
const WORKS: f64 = 0.5;

/// How many times as many bytes as another a member moves that is given more to do.
const UNEVEN: f64 = 1.1;

/// Part of a slow member's latency that its device takes at most where it is held back above it.
const ABOVE: f64 = 0.20;

/// The outlier of one trial.
#[derive(Debug, Clone, PartialEq)]
struct Outlier {
    name: String,
    latency: f64,
    siblings_latency: f64,
    in_flight: f64,
    siblings_in_flight: f64,
    /// Share of all operations in flight that it held, and what an equal share would be.
    share: f64,
    fair: f64,
    /// Whether this trial alone shows that it is slow all along, and does not hold the queue in its turn.
    told: bool,
    /// Its requests, and those of its siblings' median, where who has more of them may hold the queue.
    work: (f64, f64),
}

impl Outlier {
    fn excess(&self) -> f64 {
        ((self.share - self.fair) / (1.0 - self.fair)).clamp(0.0, 1.0)
    }

    fn factor(&self) -> f64 {
        (self.latency / self.siblings_latency).min(self.in_flight / self.siblings_in_flight)
    }
}

/// What one of those compared did in a trial.
struct Worker<'a> {
    name: &'a str,
    requests: u64,
    bytes: u64,
    latency: Option<f64>,
    in_flight: f64,
}

/// Who is compared with whom.
#[derive(Debug, Clone, Copy)]
enum Group<'a> {
    /// The members of the design.
    Members,
    /// The devices of an array that was there before.
    Below(&'a ArrayBelow),
}

impl Group<'_> {
    /// What waits for the slow one.
    fn name(&self) -> &str {
        match self {
            Group::Members => "the array",
            Group::Below(array) => &array.name,
        }
    }

    fn slowest(&self, trial: &TrialSamples) -> Option<Outlier> {
        let seconds = trial.elapsed.as_secs_f64();
        match self {
            Group::Members => {
                let workers = trial.members.iter().map(|member| {
                    let (Count { ops: requests, bytes }, latency) =
                        (members::totals(member), member.ops.latency());
                    let in_flight = latency.sum() as f64 / 1e9 / seconds;
                    Worker { name: &member.name, requests, bytes, latency: latency.mean(), in_flight }
                });
                slowest(workers.collect())
            }
            Group::Below(array) => {
                let found = below::same(trial, array)?;
                let workers = found.devices.iter().map(|device| {
                    let (requests, latency) = below::requests_and_wait(device);
                    let bytes = device.total.bytes.total();
                    let in_flight = device.total.weighted.as_secs_f64() / seconds;
                    Worker { name: device.shown_name(), requests, bytes, latency, in_flight }
                });
                let workers: Vec<Worker<'_>> = workers.collect();
                let requests: Vec<(String, f64)> =
                    workers.iter().map(|worker| (worker.name.to_owned(), worker.requests as f64)).collect();
                let outlier = slowest(workers)?;
                let told = lasts(trial, &found.devices, &outlier);
                let work = work(&outlier.name, &requests)?;
                Some(Outlier { told, work, ..outlier })
            }
        }
    }
}

/// A queue that is longer than this is made of operations that wait for each other.
const QUEUE: f64 = 1.5;
/// Share of the time in which a slow one that others wait for has something to do: what is left over for it is always
/// there. The holder of a queue that wanders is idle while another holds it.
const NEVER_IDLE: f64 = 0.90;
/// Share of the observer's intervals in which it must be the slowest by far.
const LASTING: f64 = 0.60;
/// The same where its siblings do as much in the time in which they are busy.
const ALL_ALONG: f64 = 0.95;
/// Least requests of a device in an interval that is looked at.
const INTERVAL_OPS: u64 = 5;

/// Whether the slow one is slow all along. Equal disks at their limit hold the queue in turn, and a short trial may see one
/// turn: then the others do not do more in the time in which they are busy, and the slow one is not slow in every interval.
fn lasts(trial: &TrialSamples, devices: &[&DeviceObservation], outlier: &Outlier) -> bool {
    let Some(observed) = trial.observed.as_deref() else { return false };
    let places: Option<Vec<usize>> = devices
        .iter()
        .map(|device| observed.devices.iter().position(|seen| seen.name == device.name))
        .collect();
    let own = devices.iter().position(|device| device.shown_name() == outlier.name);
    let (Some(places), Some(own)) = (places, own) else { return false };
    let busy = devices[own].total.busy.as_secs_f64();
    if outlier.in_flight > QUEUE && busy < NEVER_IDLE * trial.elapsed.as_secs_f64() {
        return false;
    }
    let pace = |device: &DeviceObservation| {
        let DiskUse { ops, busy, .. } = device.total;
        ops.total() as f64 / busy.as_secs_f64().max(f64::MIN_POSITIVE)
    };
    let siblings = devices.iter().enumerate().filter(|(at, _)| *at != own);
    let faster = median(siblings.map(|(_, device)| pace(device)))
        .is_some_and(|siblings| siblings >= OUTLIER * pace(devices[own]));
    let needed = if faster { LASTING } else { ALL_ALONG };
    let (mut looked, mut slow) = (0u32, 0u32);
    for interval in &observed.series {
        let wait = |place: usize| {
            let used = interval.devices.get(place)?;
            let requests = used.ops.total();
            let time = used.time.read.plus(used.time.write).0;
            (requests >= INTERVAL_OPS).then(|| time as f64 / requests as f64)
        };
        let others = places.iter().enumerate().filter(|(at, _)| *at != own);
        let others = median(others.filter_map(|(_, place)| wait(*place)));
        if let (Some(own), Some(others)) = (wait(places[own]), others) {
            looked += 1;
            slow += u32::from(own >= OUTLIER * others);
        }
    }
    f64::from(slow) >= needed * f64::from(looked)
}

/// In how many of the ladder's runs with as many or more in flight the one of this name is the slowest by far, and how many tell who is.
fn in_short_runs(facts: &Facts<'_>, group: Group<'_>, name: &str) -> (usize, usize) {
    let deep = facts.rungs.iter().flat_map(|rungs| rungs.same.iter().chain(&rungs.deeper));
    let slowest: Vec<Outlier> = deep.filter_map(|step| group.slowest(&step.rung.samples)).collect();
    let same = slowest.iter().filter(|one| one.name == name && one.factor() >= OUTLIER);
    (same.count(), slowest.len())
}

/// Requests of the one of this name, and of its siblings: their median.
fn work(name: &str, requests: &[(String, f64)]) -> Option<(f64, f64)> {
    let (own, others): (Vec<_>, Vec<_>) = requests.iter().partition(|(other, _)| other == name);
    Some((own.first()?.1, median(others.into_iter().map(|(_, requests)| *requests))?))
}

/// How many times as many bytes as the one that moves fewest this member moves, where it is not below the mean.
fn more_bytes(trial: &TrialSamples, name: &str) -> Option<f64> {
    let all: Vec<(&str, u64)> =
        trial.members.iter().map(|member| (member.name.as_str(), members::totals(member).bytes)).collect();
    let own = all.iter().find(|(other, _)| *other == name)?.1;
    let least = all.iter().map(|(_, bytes)| *bytes).min().filter(|least| *least > 0)?;
    let mean = all.iter().map(|(_, bytes)| *bytes).sum::<u64>() / all.len() as u64;
    (own >= mean).then(|| own as f64 / least as f64)
}

/// How many times as many requests the one that holds the queue has as its siblings, and how many chance may make of it, where it is more. Equal
/// disks at their limit hold the longest queue in turn, and who holds it has more of them: in a single trial one cannot be too careful,
/// and a slow one is missed now and then. Over several the excess of one that always has more to do grows with their number,
/// that of chance with its root: of the difference between a count and the median of three others, 2.5 roots are two in a hundred.
fn more_work(same: &[&Outlier]) -> Option<(f64, f64)> {
    const OF_SEVERAL: f64 = 2.5;
    let (own, usual) = same.iter().fold((0.0, 0.0), |sum, one| (sum.0 + one.work.0, sum.1 + one.work.1));
    let most = if same.len() > 1 { OF_SEVERAL } else { SAME_WORK_DEVIATIONS };
    (own > usual + most * usual.sqrt()).then(|| (own / usual, 1.0 + most / usual.sqrt()))
}

/// The slowest of these against the median of its siblings; `None` below two comparable ones.
fn slowest(all: Vec<Worker<'_>>) -> Option<Outlier> {
    let fair_bytes = all.iter().map(|worker| worker.bytes).sum::<u64>() as f64 / all.len().max(1) as f64;
    let working: Vec<(&str, f64, f64)> = all
        .iter()
        .filter(|worker| worker.requests >= MIN_OPS && worker.bytes as f64 >= WORKS * fair_bytes)
        .filter_map(|worker| Some((worker.name, worker.latency?, worker.in_flight)))
        .collect();
    let slowest = working.iter().enumerate().max_by(|a, b| a.1.1.total_cmp(&b.1.1))?.0;
    let others = |of: fn(&(&str, f64, f64)) -> f64| {
        let others = working.iter().enumerate().filter(|(i, _)| *i != slowest);
        median(others.map(|(_, member)| of(member))).filter(|value| *value > 0.0)
    };
    let (name, latency, in_flight) = working[slowest];
    let all_in_flight: f64 = working.iter().map(|member| member.2).sum();
    Some(Outlier {
        name: name.to_owned(),
        latency,
        siblings_latency: others(|member| member.1)?,
        in_flight,
        siblings_in_flight: others(|member| member.2)?,
        share: in_flight / all_in_flight,
        fair: 1.0 / working.len() as f64,
        told: true,
        work: (0.0, 0.0),
    })
}

/// What is looked at, each with its edge.
#[rustfmt::skip]
pub(super) const CHECKS: &[Check] = &[
    Check::at_least("its latency and its queue over its siblings' median, the smaller factor", OUTLIER, Unit::Times, "equals at their limit were seen to differ by 1.57"),
    Check::at_least("share of the trials in which it is the same one", SAME_MEMBER, Unit::Share, "one is always the slowest"),
    Check::below("probability that chance makes it so; else the factor must be 3", CHANCE, Unit::Share, "of so many equals so often the same"),
    Check::at_least("below an array: share of the intervals in which it is the slowest by far", LASTING, Unit::Share, "equals hold the queue in turn"),
    Check::at_least("below an array, with a queue: share of the time with a request in flight there", NEVER_IDLE, Unit::Share, "what is left over for a slow one is always there"),
];

pub(super) fn judge(case: &Case<'_>, facts: &Facts<'_>) -> Judged {
    // When every member is at its own limit, none waits for another.
    facts.yield_to_limits("with every member at its limit none waits for another")?;
    let of_design = of_group(case, facts, Group::Members);
    if of_design.is_ok() {
        return of_design;
    }
    // An array of the host has its own members.
    let below = case.result.below.iter().filter(|array| array.join.of_equals());
    let below: Vec<Judged> = below.map(|array| of_group(case, facts, Group::Below(array))).collect();
    let alone = case.result.members.len() < 2;
    let mut absent = of_design;
    for judged in below {
        match judged {
            Ok(_) => return judged,
            // Where the design has nobody to compare, what the array below shows is the reason.
            Err(_) if alone && absent.as_ref().is_err_and(|a| a.evidence.is_empty()) => absent = judged,
            Err(_) => {}
        }
    }
    absent
}

/// The slow one of a group.
fn of_group(case: &Case<'_>, facts: &Facts<'_>, group: Group<'_>) -> Judged {
    // All of them on the same disk: then it is not the member that is slow.
    let (on_one_disk, all) = match group {
        Group::Members => (facts.shared.clone(), case.result.members.len()),
        Group::Below(array) => (shared::within(case, array), array.devices.len()),
    };
    if on_one_disk.is_some_and(|(count, _)| count >= all) {
        return Err(Absent::yields(VerdictKind::SharedDevice, "one disk is below all of them"));
    }
    // Below copies and parity all are given the same work: of equals the queue stays at whichever is a little behind, and the
    // others are quick because they wait for it.
    if let Group::Below(array) = group {
        match array.join {
            Join::Mirror { .. } | Join::Parity { .. } if !case.workload.reads() => {
                let why =
                    "every write is given to several of its devices: which of them is slower does not show";
                return Err(Absent::because(why));
            }
            Join::Mirror { .. } | Join::Parity { .. } if facts.set_rate.is_ok() => {
                let why =
                    "its devices are given the same work, and a rate that is set shows at one of them first";
                return Err(Absent::yields(VerdictKind::RateLimit, why));
            }
            _ => {}
        }
    }
    // What builds or checks an array gives its members unequal work.
    if moved::resyncs(case.trials) {
        return Err(Absent::yields(
            VerdictKind::Background,
            "an array is built or checked, of which each member has its part",
        ));
    }
    let slowest: Vec<Outlier> = case.trials.iter().filter_map(|t| group.slowest(t)).collect();
    let usual = median(slowest.iter().map(Outlier::factor)).ok_or_else(|| {
        Absent::because("no trial has two members with comparable work and latencies of their own")
    })?;
    let too_alike = || {
        let what = "the slowest member's latency and queue over its siblings', the smaller factor of the two";
        Absent::because("no member stands out").seen(what, usual, Unit::Times, OUTLIER)
    };
    let outliers: Vec<Outlier> = slowest.into_iter().filter(|o| o.factor() >= OUTLIER).collect();
    // The member that is the outlier most often.
    let count = |name: &str| outliers.iter().filter(|o| o.name == name).count();
    let name = &outliers.iter().max_by_key(|o| count(&o.name)).ok_or_else(too_alike)?.name;
    let same: Vec<&Outlier> = outliers.iter().filter(|o| o.name == *name).collect();
    let of = |value: fn(&Outlier) -> f64| median(same.iter().map(|o| value(o))).unwrap_or(f64::NAN);
    let needed = SAME_MEMBER * case.trials.len() as f64;
    if (same.len() as f64) < needed {
        let what = format!("trials in which {name} is the slowest by far, more than any other");
        return Err(too_alike().seen(&what, same.len() as f64, Unit::Trials, needed));
    }
    if let Group::Members = group
        && case.median(|trial| more_bytes(trial, name)).is_some_and(|times| times >= UNEVEN)
    {
        let why = format!("{name} is given more to do than others by writes of parts of stripes");
        facts.yield_to(VerdictKind::PartialStripe, &why)?;
    }
    if let Some((times, most)) = more_work(&same) {
        let why = format!("{name} is the slowest by far, but has more to do than its siblings");
        let what = "its requests over theirs, which would have to be below";
        return Err(Absent::because(why)
            .seen("its factor over its siblings", usual, Unit::Times, OUTLIER)
            .seen(what, times, Unit::Times, most));
    }
    // A machine that stands still for a moment hides in some trials that a slow one always has something to do; equals that hold the
    // queue in turn do not have it in most.
    let told = same.iter().filter(|outlier| outlier.told).count();
    if 2 * told < case.trials.len() {
        let why = format!("{name} is the slowest by far, but as one that holds the queue for a turn");
        let what = format!("trials in which {name} is slow all along");
        let needed = case.trials.len() as f64 / 2.0;
        return Err(Absent::because(why)
            .seen("its factor over its siblings", usual, Unit::Times, OUTLIER)
            .seen(&what, told as f64, Unit::Trials, needed));
    }
    // Nor when others hold its disk back; they are not what slows a volume that is slow by its shape.
    if !case.slowed_by_tool(name) {
        facts.yield_to(VerdictKind::Background, &format!("other processes may be what slows {name}"))?;
    }
    let (again, looked) = in_short_runs(facts, group, name);
    if 2 * again < looked {
        let why = format!("{name} is the slowest by far, but not in the short runs that began anew");
        let what = format!("short runs in which {name} is the slowest by far");
        return Err(Absent::because(why)
            .seen("its factor over its siblings", usual, Unit::Times, OUTLIER)
            .seen(&what, again as f64, Unit::Runs, looked as f64 / 2.0));
    }
    let chance = of(|o| o.fair).powi((same.len() + again) as i32 - 1);
    let factor = of(Outlier::factor);
    let confidence = match (chance <= CHANCE, factor >= LARGE_OUTLIER) {
        (true, true) => 0.95,
        (true, false) => 0.85,
        (false, true) => 0.75,
        (false, false) => {
            let why = format!("{name} stands out, but too seldom for its factor");
            let what = "probability that chance makes it so, which would have to be at most";
            return Err(Absent::because(why)
                .seen("its factor over its siblings", factor, Unit::Times, LARGE_OUTLIER)
                .seen(what, chance, Unit::Share, CHANCE));
        }
    };
    let (latency, siblings, share) = (of(|o| o.latency), of(|o| o.siblings_latency), of(|o| o.share));
    let mean = format!("mean latency of {name}, against its siblings' median");
    let queue = format!("operations in flight at {name}, against its siblings' median");
    let often = format!("trials in which {name} is the outlier");
    let mut figures = vec![
        evidence(mean, latency, Unit::Nanoseconds, Some(siblings)),
        evidence(queue, of(|o| o.in_flight), Unit::Operations, Some(of(|o| o.siblings_in_flight))),
        evidence(often, same.len() as f64, Unit::Trials, Some(case.trials.len() as f64)),
    ];
    let mut sentence = format!(
        "{name} answers in {} where its siblings take {}, and holds {:.0}% of the operations in flight: {} waits for it",
        format_latency(latency),
        format_latency(siblings),
        share * 100.0,
        group.name()
    );
    if let Group::Members = group
        && let Some((clause, figure)) = held_above(case, facts, name, latency)
    {
        sentence.push_str(&format!("; {clause}"));
        figures.push(figure);
    }
    Ok(Verdict::new(VerdictKind::Member, confidence, of(Outlier::excess), sentence, figures))
}

/// That the slow member is not slow itself: its operations are held back before they reach its device, and by what, where that
/// is known. Its device then takes little of its `latency` (nanoseconds).
fn held_above(case: &Case<'_>, facts: &Facts<'_>, name: &str, latency: f64) -> Option<(String, Evidence)> {
    if let Some(held) = facts.held.iter().find(|held| held.member == name && held.is_reached()) {
        let clause = "the load's control group is held to a rate there, not the device";
        return Some((format!("{clause}: {}", held.in_words()), held.evidence()));
    }
    if case.slowed_by_tool(name) {
        return None;
    }
    let device = |trial: &TrialSamples| -> Option<(String, f64)> {
        let observed = trial.observed.as_ref()?;
        let below = observed.member(name)?;
        let device = observed.devices.get(*below.devices.first()?)?;
        let (requests, wait) = below::requests_and_wait(device);
        wait.filter(|_| requests >= MIN_OPS).map(|wait| (device.shown_name().to_owned(), wait))
    };
    let wait = case.median(|trial| device(trial).map(|(_, wait)| wait))?;
    let (shown, _) = case.trials.iter().find_map(|trial| device(trial))?;
    if wait > ABOVE * latency {
        return None;
    }
    let what = format!("time of a request at {shown}, against {name}'s latency");
    let clause =
        format!("{shown} itself answers in {}, so that something holds it back above", format_latency(wait));
    Some((clause, evidence(what, wait, Unit::Nanoseconds, Some(latency))))
}
