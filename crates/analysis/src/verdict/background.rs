//! `background`: something else used the devices.
//!
//! Derivation. The disks below the members count what they move for everybody. What they moved beyond the most
//! that the trial's operations can have taken (below a mirror or parity more than was asked), somebody else asked for; what a file system's
//! journal commits for each write that is made durable is the trial's own. With direct I/O the trial's own part is exact; through the page
//! cache readahead and delayed writes are the trial's own too, so there only those are counted whom the
//! observer saw at work.
//!
//! What others take of a disk is their share of what it has least of: of its bytes, where it moves as many as it can, of
//! its requests, where it serves as many as it can. A sequential neighbour of small random operations moves nearly all bytes
//! and makes few requests, and the other way round. Which of them it is, declared limits say, or short runs with other
//! sizes, or short runs with more in flight, beside which others get less: what all of them have together stays the same then. Or requests
//! say it that are small (or large) whoever makes them; where nothing does, the smaller share counts, or the larger one where the latency of operations that met
//! nobody says how much it can be.
//!
//! Of an array the disk counts that the load waits for (`facts::crowded`): a neighbour on one of four disks makes a fifth of what all of
//! them serve, and half of what this one does. It explains its share of that disk for the part of the load's time that is spent there.
//!
//! Of a write that is made durable before the next begins others explain no more than what it waits at the disks: of its requests there their share of
//! what the disks served, and of the flushes what these wait behind them (`facts::durable::flushes_behind_others`). Neither the flush of its own bytes nor the file system's part
//! goes away with them.
//!
//! What others moved is no rate that the trial lost. On a full disk the trial could at most have had what they
//! took, their share of all. But it could not have had more than its volumes and their link grant, nor could its
//! operations have taken less than one alone takes: the least of the three is what others can explain. Nor is a disk full that
//! does more for the trial, when that keeps more in flight, and as much as before for the others: there an operation lost no more than
//! it waited, and the fastest of them waited least. The same holds where the load has one operation in flight, which waits for none of its own, and others
//! are not always there (`facts::undisturbed`). And the operations of one thread come no faster than it gets round to them: who is at the disks
//! can explain that it slept, and nothing of the time in which it ran or waited for a processor.

use crate::estimate::median;
use crate::evidence::{Check, Evidence, Unit, evidence, share_is};
use crate::facts::case::Case;
use crate::facts::crowded::{self, Crowded};
use crate::facts::group::FullestLimit;
use crate::facts::processors::WAITED;
use crate::facts::rungs::{MORE, MoreInFlight, NO_GAIN, Step};
use crate::facts::standing::BUSY;
use crate::facts::usage::{Counted, NEAR};
use crate::facts::{Facts, durable, gained, moved, served, undisturbed};
use crate::judged::{Absent, Judged, Verdict, VerdictKind};
use crate::ordered::entry;
use ebbtide_model::samples::{DiskUse, OtherKind, TrialSamples};
use ebbtide_model::units::{Bytes, format_iops, format_throughput};
use ebbtide_model::volume::{Limit, Shape};

/// Share of what limits the disks (bytes moved, requests served) that must be others': below it, file system metadata and the edges of the measurement
/// explain it.
pub const OTHERS_SHARE: f64 = 0.10;
/// Bytes per second that others must have moved: a journal's commits stay below.
pub const OTHERS_RATE: f64 = 1e6;
/// The same where they moved so much of it all: on a disk that serves some hundred operations per second, small random ones
/// are few bytes.
const MUCH: f64 = 0.30;
const OTHERS_RATE_OF_MUCH: f64 = 1e5;
/// Requests per second that others must have made, where requests are what limits: a journal's commits, some every five
/// seconds, stay below.
const OTHERS_REQUESTS: f64 = 20.0;
/// Mean request of a disk up to which requests limit it: the smallest unit in which a volume's operations are counted (EBS
/// documentation, gp2: 16 KiB), and below what a drive needs to move as many bytes as it can.
const SMALL: f64 = 16.0 * Bytes::KIB as f64;
/// Mean request, and size of the trial's own, from which on bytes limit it: the largest that counts as one operation (EBS
/// documentation, SSD volumes: 256 KiB).
const LARGE: f64 = 256.0 * Bytes::KIB as f64;
/// How the rate of operations falls with their size, as the exponent of it: 0 where operations limit, 1 where bytes do. Up to
/// this it is operations, and from one less this on bytes.
const AS_MANY: f64 = 0.3;
/// Bytes of a request of the others over those of an operation of the load from which on the load waits behind theirs, whatever its own size.
const LARGER: f64 = 4.0;
/// Share of the bytes that is most of them.
const MOST: f64 = 0.50;

/// Busy share of the busiest disk below which there was room for both: others who moved bytes on a disk that idled
/// half of the time did not hold the trial back.
pub const DISK_BUSY: f64 = 0.50;
/// What others moved beside more in flight, over what they moved before, from which on nothing was taken from them.
const KEPT_UP: f64 = 0.90;
/// Part of the gap that others must be able to explain: a shape's own latencies vary by some percent.
pub const HELD_BACK: f64 = 0.10;
/// Most of those seen at work whom the sentence names.
const NAMED: usize = 3;

/// Busy share of the busiest disk, median over trials.
fn busiest_disk(case: &Case<'_>) -> Option<f64> {
    case.median(|t| {
        let busiest = moved::disks(t)?.iter().map(|disk| disk.total.busy.0).max()?;
        (t.elapsed.0 > 0).then(|| busiest as f64 / t.elapsed.0 as f64)
    })
}

/// Bytes that others moved in a trial, and all that were moved; `None` where it cannot be known.
fn others(case: &Case<'_>, trial: &TrialSamples) -> Option<(f64, f64)> {
    let m = moved::moved(trial)?;
    let all = m.moved.total() as f64;
    let bytes = if case.workload.direct {
        moved::beyond(trial, &m, case.workload)
    } else {
        // Whoever works on an array works on the disks below it.
        let names: Vec<&str> =
            trial.observed.as_ref()?.devices.iter().map(|device| device.name.as_str()).collect();
        let seen = trial.observed.as_ref()?.others.iter().filter(|other| {
            other.kind != OtherKind::Writeback
                && other.device.as_ref().is_none_or(|device| names.contains(&device.as_str()))
        });
        let bytes = seen.filter_map(|other| other.bytes).map(|b| b.total());
        bytes.sum::<u64>() as f64
    };
    (all > 0.0).then_some((bytes, all.max(bytes)))
}

/// The most of the gap that anything beside volumes, link and depth can explain, with the figures that say so: what
/// the limits leave unused, and the part of a latency beyond what one operation alone takes.
fn room(case: &Case<'_>, facts: &Facts<'_>, undisturbed: Option<f64>) -> (f64, Vec<Evidence>) {
    let (mut room, mut figures) = (1.0_f64, Vec::new());
    if let Some(met) = facts.met {
        room = room.min(1.0 - met);
        let what = "use of the working members' limits, weighted by bytes";
        figures.push(evidence(what, met, Unit::Share, None));
    }
    if facts.group_limits_met {
        let least = facts.held.iter().map(FullestLimit::share).fold(1.0, f64::min);
        room = room.min(1.0 - least);
        figures.extend(facts.held.iter().map(FullestLimit::evidence));
    }
    if let Some(link) = facts.asserted(VerdictKind::InstanceLimit) {
        room = room.min(1.0 - link.explains);
        figures.extend(link.evidence.iter().cloned());
    }
    if let Some((latency, floor)) = facts.latency {
        room = room.min(1.0 - floor / latency);
        let what = "mean latency of the members, against what one operation alone takes";
        figures.push(evidence(what, latency, Unit::Nanoseconds, Some(floor)));
    }
    // Of a rate that is set, what is not at the disks waits for that.
    if let Some(at) = facts.devices.filter(|_| facts.set_rate.is_ok()) {
        room = room.min(at.share);
        let what = "share of the load's operations in flight that are at the disks: the others wait for the rate that is set";
        figures.push(evidence(what, at.share, Unit::Share, None));
    }
    let kept_up = kept_up(facts);
    if let Some((others, Some(grows))) = &kept_up {
        room = room.min(1.0 - *grows);
        let what = "rate with the most in flight over that with as many, as a part of how many more they are: the rest may be waits";
        figures.extend([others.clone(), evidence(what, *grows, Unit::Share, None)]);
    }
    if let Some(pressed) = one_thread(case, facts) {
        room = room.min(1.0 - pressed);
        let what = "share of the time that the load's one thread ran or waited to: the disks explain what it slept at most";
        figures.push(evidence(what, pressed, Unit::Share, None));
    }
    if let Some(undisturbed) = undisturbed {
        room = room.min(1.0 - undisturbed);
        let what = "latency of the operations that found nobody else at the disks, over the mean: the rest may be waits";
        figures.push(evidence(what, undisturbed, Unit::Share, None));
    } else if let Some(fastest) =
        fastest(case).filter(|_| kept_up.is_some() && !undisturbed::others_stay(case))
    {
        room = room.min(1.0 - fastest);
        // Told above where it shows more.
        figures.extend(kept_up.filter(|(_, grows)| grows.is_none()).map(|(others, _)| others));
        let what = "latency of the fastest hundredth of the operations, over the mean: the rest may be waits";
        figures.push(evidence(what, fastest, Unit::Share, None));
    }
    (room.max(0.0), figures)
}

/// Share of the time that the load's only thread ran or waited for a processor, where it waited so much that this may be what it lacks; nothing
/// where it is always busy with asking whether something is done.
fn one_thread(case: &Case<'_>, facts: &Facts<'_>) -> Option<f64> {
    let asks = case.workload.engine.hipri || !case.workload.is_free();
    let waits = facts.waited.is_some_and(|waited| waited >= WAITED);
    facts.pressed.filter(|_| case.workload.numjobs == 1 && waits && !asks)
}

/// What an operation takes that met nobody else, over the mean; nothing where it is known otherwise what one alone takes.
fn undisturbed(case: &Case<'_>, facts: &Facts<'_>) -> Option<f64> {
    undisturbed::over_mean(case).filter(|_| facts.latency.is_none())
}

/// The part of the time of a write that is made durable, one at a time, that others explain who had such a `share` of the disks.
fn of_durable_writes(case: &Case<'_>, share: f64) -> Option<(f64, Evidence)> {
    durable::how(case.workload)?;
    if !case.one_at_a_time() {
        return None;
    }
    let of_flushes = durable::flushes_behind_others(case);
    let part = case.median(|trial| {
        let parts = durable::parts(case, trial)?;
        Some((parts.write * share + parts.flush * of_flushes) / parts.whole)
    })?;
    let what = "part of a write's time that others explain: their share of its requests' time and of what flushes wait for";
    Some((part, evidence(what, part, Unit::Share, None)))
}

/// What others moved beside the most in flight of the ladder, over what they moved beside as many as in the trials, where that is about
/// as much: what more in flight gained was not taken from them, and the disks had room for both. With it what the load gained, as a part of
/// how many more it had in flight, where the disks moved clearly more in all: if each then takes as long among more of them, none waited for what the
/// disks had to do.
fn kept_up(facts: &Facts<'_>) -> Option<(Evidence, Option<f64>)> {
    let rungs = facts.rungs.as_ref()?;
    let Some(MoreInFlight::Helped(..)) = rungs.more(MORE) else { return None };
    // Bytes per second of all, and of others.
    let rates = |step: &Step<'_>| -> Option<(f64, f64)> {
        let samples = &step.rung.samples;
        let all: u64 = moved::disks(samples)?.iter().map(|disk| disk.total.bytes.total()).sum();
        let counts = samples.array.counts();
        let own = counts.read.bytes + counts.write.bytes;
        let per_second = |bytes: u64| bytes as f64 / samples.elapsed.as_secs_f64();
        (samples.elapsed.0 > 0).then(|| (per_second(all), per_second(all.saturating_sub(own))))
    };
    let (all, before) = rates(&rungs.same?).filter(|(_, others)| *others > 0.0)?;
    let deepest = rungs.deeper.last()?;
    let (more_of_all, after) = rates(deepest)?;
    let share = after / before;
    let more = f64::from(deepest.rung.in_flight) / f64::from(rungs.same?.rung.in_flight).max(1.0);
    let grows = (deepest.ops.rate / rungs.reference() / more).min(1.0);
    let what =
        "bytes that others moved beside the most in flight, over those beside as many as in the trials";
    // Small operations get as much more behind large ones as they ask for, and wait for them all the same, as long as the disk moves no more in all:
    // what others move more by themselves says nothing of that.
    let own = (more_of_all - after) - (all - before);
    let grows = (more_of_all.min(all + own) >= gained::UNCHANGED * all).then_some(grows);
    (share >= KEPT_UP).then(|| (evidence(what, share, Unit::Times, Some(KEPT_UP)), grows))
}

/// Latency of the fastest hundredth of the operations over the mean, median over the trials.
fn fastest(case: &Case<'_>) -> Option<f64> {
    case.median(|trial| {
        let latency = trial.latency();
        Some(latency.percentile(1.0)? as f64 / latency.mean()?)
    })
}

/// What others had of the disks, medians over the trials.
struct Taken {
    /// Share of the bytes moved.
    share: f64,
    /// Bytes per second.
    rate: f64,
    /// Share of the requests and requests per second, where it is known how many the trial made.
    requests: Option<(f64, f64)>,
    /// Bytes of a request, whoever made it.
    mean_request: Option<f64>,
}

impl Taken {
    /// Whether a request of the others is so much larger than an operation of the load that this waits for its bytes.
    fn are_larger(&self, case: &Case<'_>) -> bool {
        self.requests.is_none_or(|(_, rate)| self.rate >= LARGER * case.workload.mean_bs() * rate)
    }

    /// Share of the disks' time that others had, where it is not known whether requests or bytes take it: what is left of it to the
    /// load is the geometric mean of what it would be by either.
    fn by_either(&self) -> Option<f64> {
        let (requests, _) = self.requests?;
        Some(1.0 - ((1.0 - requests) * (1.0 - self.share)).max(0.0).sqrt())
    }
}

/// See [`Taken`]; nothing where the disks were not observed.
fn taken(case: &Case<'_>, facts: &Facts<'_>) -> Option<Taken> {
    if let Some(crowded) = &facts.crowded {
        return Some(Taken {
            share: crowded.bytes,
            rate: crowded.bytes_rate,
            requests: Some((crowded.requests, crowded.requests_rate)),
            mean_request: Some(crowded.mean_request),
        });
    }
    let seconds = |trial: &TrialSamples| trial.elapsed.as_secs_f64();
    let requests = |trial: &TrialSamples| moved::requests(trial, case.workload);
    let share = case.median(|trial| moved::requested_by_others(trial, case.workload));
    let rate = case.median(|trial| requests(trial).map(|(_, others)| others / seconds(trial)));
    Some(Taken {
        share: case.median(|trial| others(case, trial).map(|(bytes, all)| bytes / all))?,
        rate: case.median(|trial| others(case, trial).map(|(bytes, _)| bytes / seconds(trial)))?,
        requests: share.zip(rate),
        mean_request: case.median(|trial| {
            let moved = moved::moved(trial)?.moved;
            requests(trial).map(|(all, _)| moved.total() as f64 / all)
        }),
    })
}

/// What the disks have least of: of what is known, and how; nothing where nothing says it.
fn limiting(
    case: &Case<'_>,
    facts: &Facts<'_>,
    taken: &Taken,
    declared: Option<(Counted, Evidence)>,
) -> Option<(Counted, Evidence)> {
    // Where all requests are about as large, more in flight have more of both, and their size says which it is.
    declared
        .or_else(|| by_mean(case, facts, taken).filter(|_| !taken.are_larger(case)))
        .or_else(|| facts.gained.clone())
        .or_else(|| by_sizes(case, facts, taken))
        .or_else(|| by_mean(case, facts, taken))
}

/// What requests are on average, from any source.
fn by_mean(case: &Case<'_>, facts: &Facts<'_>, taken: &Taken) -> Option<(Counted, Evidence)> {
    let mean = taken.mean_request?;
    let figure = |edge| evidence("mean request of the disks, from any source", mean, Unit::Bytes, Some(edge));
    // Few large ones among many small ones may be what a full disk does most of the time.
    if mean <= SMALL && !(is_full(facts) && taken.are_larger(case)) {
        Some((Counted::Operations, figure(SMALL)))
    } else {
        (mean >= LARGE && case.workload.mean_bs() >= LARGE).then(|| (Counted::Bytes, figure(LARGE)))
    }
}

/// Whether the ladder shows that the disks do no more for the load.
fn is_full(facts: &Facts<'_>) -> bool {
    let more = facts.rungs.as_ref().and_then(|rungs| rungs.more(NO_GAIN));
    matches!(more, Some(MoreInFlight::Flat(..)))
}

/// The fuller of the volumes' declared limits, of what all who use the disks took.
fn declared(case: &Case<'_>, facts: &Facts<'_>) -> Option<(Counted, Evidence)> {
    let crowded = facts.crowded.as_ref();
    let counted = case.working().filter(|m| crowded.is_none_or(|c| c.members.contains(&m.name)));
    let shapes = counted
        .map(|member| case.shape(&member.name).filter(|_| !case.slowed_by_tool(&member.name)))
        .collect::<Option<Vec<&Shape>>>()?;
    // Disks below an array of the host are no members, and nothing is declared of them.
    if shapes.is_empty() {
        return None;
    }
    let limit = |of: fn(&Shape) -> Option<Limit>| -> f64 {
        shapes.iter().map(|shape| of(shape).map_or(f64::INFINITY, |limit| limit.rate)).sum()
    };
    let (iops, throughput) = (limit(|shape| shape.iops), limit(|shape| shape.throughput));
    let of_disks = |of: fn(&DiskUse) -> u64| {
        case.median(|trial| {
            let all: u64 =
                crowded::looked_at(trial, facts.crowded.as_ref())?.iter().map(|disk| of(&disk.total)).sum();
            Some(all as f64 / trial.elapsed.as_secs_f64())
        })
    };
    let requests = of_disks(|total| total.ops.total())? / iops;
    let bytes = of_disks(|total| total.bytes.total())? / throughput;
    let (counted, what, used) = if requests >= bytes {
        (Counted::Operations, "requests of the disks, of the volumes' limit of operations", requests)
    } else {
        (Counted::Bytes, "bytes of the disks, of the volumes' limit of bytes", bytes)
    };
    (used >= DISK_BUSY).then(|| (counted, share_is(what, used, DISK_BUSY)))
}

/// What stays the same in short runs with other sizes.
fn by_sizes(case: &Case<'_>, facts: &Facts<'_>, taken: &Taken) -> Option<(Counted, Evidence)> {
    let rungs = facts.rungs.as_ref()?;
    let falls = median(rungs.sizes.iter().map(|step| {
        let times = step.rung.bs.0 as f64 / case.workload.bs.0 as f64;
        -(step.ops.rate / rungs.base).ln() / times.ln()
    }))?;
    let what = "how operations per second fall with their size: 0 as many of any, 1 as many bytes";
    let figure = |edge| evidence(what, falls, Unit::Exponent, Some(edge));
    // Larger operations are counted as several, and a disk that has few of them left is short of bytes. One at a time are as many of any size where
    // each takes as long, whatever the disk could do; so are those that wait behind much larger ones.
    let is_small = case.workload.mean_bs() < LARGE;
    if falls.abs() <= AS_MANY && !case.one_at_a_time() && is_small && !taken.are_larger(case) {
        Some((Counted::Operations, figure(AS_MANY)))
    } else if falls >= 1.0 - AS_MANY {
        Some((Counted::Bytes, figure(1.0 - AS_MANY)))
    } else {
        None
    }
}

/// What is looked at, each with its edge.
#[rustfmt::skip]
pub(super) const CHECKS: &[Check] = &[
    Check::at_least("share of the disks' requests, or bytes, that the load did not ask for", OTHERS_SHARE, Unit::Share, "below it a file system's metadata may explain it"),
    Check::at_least("bytes that others moved", OTHERS_RATE, Unit::BytesPerSecond, "a journal's commits stay below"),
    Check::at_least("or requests that they made, where requests are short", OTHERS_REQUESTS, Unit::RequestsPerSecond, "a journal's commits stay below"),
    Check::at_least("busy share of the busiest disk", DISK_BUSY, Unit::Share, "below it there was room for both"),
    Check::at_least("part of the gap that limits, latency and depth leave for others", HELD_BACK, Unit::Share, "latencies vary by some percent"),
];

pub(super) fn judge(case: &Case<'_>, facts: &Facts<'_>) -> Judged {
    let taken =
        taken(case, facts).ok_or_else(|| Absent::because("the disks below the members were not observed"))?;
    let undisturbed = undisturbed(case, facts);
    let declared = declared(case, facts);
    let reached = declared.as_ref().is_some_and(|(_, used)| used.value >= NEAR);
    let (counted, why) = match (taken.requests, limiting(case, facts, &taken, declared)) {
        (None, _) => (Counted::Bytes, None),
        (Some(_), Some((counted, why))) => (counted, Some(why)),
        // How long its operations waited says how much it is, whichever is short.
        (Some((share, _)), None) if (share < taken.share) != undisturbed.is_some() => {
            (Counted::Operations, None)
        }
        (Some(_), None) => (Counted::Bytes, None),
    };
    let (what, (share, rate), (least, unit)) = match taken.requests.filter(|_| counted == Counted::Operations)
    {
        Some(requests) => (
            ["share of the disks' requests that the trial did not make", "requests that others made"],
            requests,
            (OTHERS_REQUESTS, Unit::RequestsPerSecond),
        ),
        None => (
            ["share of the disks' bytes that the trial did not ask for", "bytes that others moved"],
            (taken.share, taken.rate),
            (if taken.share >= MUCH { OTHERS_RATE_OF_MUCH } else { OTHERS_RATE }, Unit::BytesPerSecond),
        ),
    };
    let seen = [share_is(what[0], share, OTHERS_SHARE), evidence(what[1], rate, unit, Some(least))];
    let absent = |why: &str| Absent::because(why).with(seen.clone());
    let either = taken.by_either().filter(|_| why.is_none() && undisturbed.is_none());
    let explained = either.unwrap_or(share);
    let busy = facts.crowded.as_ref().map(|crowded| crowded.busy).or_else(|| busiest_disk(case));
    let busy = busy.ok_or_else(|| absent("how busy the disks were is not known"))?;
    // With room at the disks the smaller of two shares is the surer one, unless the load's requests wait behind larger ones that move most of what
    // is moved.
    let waits_behind = busy >= BUSY && taken.share >= MOST && taken.are_larger(case);
    let at_least = if is_full(facts) || (waits_behind && !case.one_at_a_time()) { explained } else { share };
    if at_least < OTHERS_SHARE || rate < least {
        let why = match durable::how(case.workload) {
            None => "other processes did too little I/O",
            Some(_) => {
                "beside what a file system's journal may have done for this load, other processes did too little I/O"
            }
        };
        return Err(absent(why));
    }
    let busy_is = share_is("busy share of the busiest disk", busy, DISK_BUSY);
    if busy < DISK_BUSY {
        return Err(absent("the disks had room for both").with([busy_is]));
    }
    let (room, mut figures) = room(case, facts, undisturbed);
    // What an operation waits elsewhere, for a processor say, others at the disks have no part in.
    let waits = match &facts.crowded {
        Some(crowded) => {
            Some((crowded.waits, "share of the load's operations in flight that are at these disks"))
        }
        None => facts
            .devices
            .filter(|all| case.workload.direct && all.share_at_most > 0.0 && all.share_at_most < 1.0)
            .map(|all| {
                (all.share_at_most, "share of the load's operations in flight that are at the disks, at most")
            }),
    };
    figures.extend(waits.map(|(share, what)| evidence(what, share, Unit::Share, None)));
    let waits = waits.map_or(1.0, |(share, _)| share);
    // Flushes wait behind others' requests too, which the latency of those that met nobody has in it.
    let of_writes = match undisturbed {
        Some(_) => None,
        None => of_durable_writes(case, share),
    };
    let room = of_writes.as_ref().map_or(room, |(part, _)| room.min(*part));
    figures.extend(of_writes.map(|(_, figure)| figure));
    let taken_at_most = explained * waits;
    let explains = taken_at_most.min(room);
    if explains < HELD_BACK {
        let what = "part of the gap that limits and latency leave for others to explain";
        let absent = absent("others moved much, but did not hold the trial back");
        return Err(absent.seen(what, room, Unit::Share, HELD_BACK).with(figures));
    }
    // Who, and in how many trials.
    let mut who: Vec<(&str, u32)> = Vec::new();
    for trial in case.trials {
        let mut here: Vec<&str> = Vec::new();
        for other in trial.observed.iter().flat_map(|observed| &observed.others) {
            if !here.contains(&other.who.as_str()) {
                here.push(&other.who);
            }
        }
        here.into_iter().for_each(|name| *entry(&mut who, name) += 1);
    }
    let named = if who.is_empty() {
        "by whom cannot be seen from here".to_owned()
    } else {
        let more = match who.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let named: Vec<&str> = who.iter().take(NAMED).map(|(name, _)| *name).collect();
        format!("seen running: {}{more}", named.join(", "))
    };
    let mut list = seen.to_vec();
    list.push(busy_is);
    if taken.requests.is_some() && counted == Counted::Operations {
        list.push(evidence("share of the disks' bytes that others moved", taken.share, Unit::Share, None));
    }
    list.extend(why.clone());
    list.extend(
        facts.gained.as_ref().map(|(_, figure)| figure.clone()).filter(|figure| why.as_ref() != Some(figure)),
    );
    list.extend(figures);
    list.extend(who.iter().map(|(who, trials)| {
        let what = format!("trials during which this was running: {who}");
        evidence(what, f64::from(*trials), Unit::Trials, None)
    }));
    // What a disk serves that is not known to be full may be short of neither.
    let shown = why.is_some() && (facts.gained.is_some() || is_full(facts) || reached);
    // The operations that met nobody are the fastest anyway: what the others took longer may be waits, and need not.
    let may_be_less = undisturbed.is_some() && room < taken_at_most;
    let confidence = if who.is_empty() || may_be_less { 0.8 } else { 0.95 };
    let mut sentence = format!("{}; {named}", in_words(&taken, counted, shown, facts.crowded.as_ref()));
    if served::served(case) {
        sentence.push_str("; the load has the rate that it asks for, and its operations take longer");
    }
    Ok(Verdict::new(VerdictKind::Background, confidence, explains, sentence, list))
}

/// What others took, by what is limiting; `known` says whether that is.
fn in_words(taken: &Taken, counted: Counted, known: bool, crowded: Option<&Crowded>) -> String {
    let percent = |share: f64| format!("{:.0}%", share * 100.0);
    let (place, of_all) = crowded.map_or_else(
        || ("the same disks".to_owned(), "the disks"),
        |crowded| (crowded.disks.join(", "), if crowded.disks.len() == 1 { "it" } else { "they" }),
    );
    let limit =
        |what: &str| crowded.map_or(format!("{what} limit the disks"), |_| format!("{what} limit it"));
    let waits = crowded.map_or(String::new(), |crowded| {
        format!(
            ", for which {} waits: {} of the operations in flight are there",
            crowded.array,
            percent(crowded.waits)
        )
    });
    match taken.requests.filter(|_| counted == Counted::Operations) {
        Some((share, rate)) => format!(
            "others made {} requests/s on {place}, {} of all that {of_all} served ({} of the bytes){waits}; {}",
            format_iops(rate),
            percent(share),
            percent(taken.share),
            if known {
                limit("operations")
            } else {
                format!("whether operations or bytes limit {} is not known", crowded.map_or("them", |_| "it"))
            }
        ),
        None => {
            let moved = format!(
                "others moved {} on {place}, {} of all that {of_all} moved",
                format_throughput(taken.rate),
                percent(taken.share)
            );
            match taken.requests.filter(|_| known) {
                Some((share, _)) => {
                    format!("{moved} ({} of the requests){waits}; {}", percent(share), limit("bytes"))
                }
                None => format!("{moved}{waits}"),
            }
        }
    }
}
