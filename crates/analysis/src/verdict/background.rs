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
//! operations have taken less than one alone takes: the least of these is what others can explain. Nor is a disk full that
//! does more for the trial, when that keeps more in flight, and as much as before for the others. And the operations of one thread come
//! no faster than it gets round to them.

use super::*;
use crate::facts::crowded::{self, Crowded, Taken};
use crate::facts::processors::WAITED;
use crate::facts::rungs::{MORE, MoreInFlight, NO_GAIN};
use crate::facts::usage::{Counted, NEAR};
use crate::facts::{durable, gained, moved, served, undisturbed};
use ebbtide_model::samples::{DiskUse, OtherKind};
use ebbtide_model::units::{Bytes, format_iops, format_throughput};
use ebbtide_model::volume::{Limit, Shape};
use std::collections::{BTreeMap, BTreeSet};

/// Share of the bytes from which on a tenth of the bytes per second is enough: on a disk that serves some hundred operations per second, small
/// random ones are few bytes.
const MUCH: f64 = 0.30;
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
/// What others moved beside more in flight, over what they moved before, from which on nothing was taken from them.
const KEPT_UP: f64 = 0.90;
/// Most of those seen at work whom the sentence names.
const NAMED: usize = 3;

checks! {
    SHARE: at_least("share of the disks' requests, or bytes, that the load did not ask for", 0.10, Share, "below it a file system's metadata may explain it");
    RATE: at_least("bytes that others moved", 1e6, BytesPerSecond, "a journal's commits stay below");
    REQUESTS: at_least("or requests that they made, where requests are short", 20.0, RequestsPerSecond, "a journal's commits stay below");
    DISK_BUSY: at_least("busy share of the busiest disk", 0.50, Share, "below it there was room for both");
    HELD_BACK: at_least("part of the gap that limits, latency and depth leave for others", 0.10, Share, "latencies vary by some percent");
}

/// Whether a request of the others is so much larger than an operation of the load that this waits for its bytes.
fn are_larger(taken: &Taken, case: &Case<'_>) -> bool {
    taken.requests.is_none_or(|(_, rate)| taken.rate >= LARGER * case.workload.mean_bs() * rate)
}

/// Bytes that others moved in a trial, and all that were moved; `None` where it cannot be known.
fn others(case: &Case<'_>, trial: &TrialSamples) -> Option<(f64, f64)> {
    let m = moved::moved(trial)?;
    let all = m.moved.total() as f64;
    let bytes = if case.workload.direct {
        moved::beyond(trial, &m, case.workload)
    } else {
        // Whoever works on an array works on the disks below it.
        let observed = trial.observed.as_ref()?;
        let seen = observed.others.iter().filter(|other| {
            let on = |device: &String| observed.devices.iter().any(|known| known.name == *device);
            other.kind != OtherKind::Writeback && other.device.as_ref().is_none_or(on)
        });
        seen.filter_map(|other| other.bytes).map(|bytes| bytes.total()).sum::<u64>() as f64
    };
    (all > 0.0).then_some((bytes, all.max(bytes)))
}

/// See [`Taken`], medians over the trials, and the busiest disk; nothing where the disks were not observed.
fn taken(case: &Case<'_>, facts: &Facts<'_>) -> Option<Taken> {
    if let Some(crowded) = &facts.crowded {
        return Some(crowded.taken);
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
        busy: case.median(|trial| {
            let busiest = moved::disks(trial)?.iter().map(|disk| disk.total.busy).max()?;
            Some(busiest.as_secs_f64() / seconds(trial))
        })?,
    })
}

/// What requests are on average, from any source: many small ones, unless few much larger ones are among them, or large ones only.
fn by_mean(case: &Case<'_>, taken: &Taken) -> Option<(Counted, Evidence)> {
    let mean = taken.mean_request?;
    let figure = |edge| evidence("mean request of the disks, from any source", mean, Unit::Bytes, Some(edge));
    if mean <= SMALL && !are_larger(taken, case) {
        Some((Counted::Operations, figure(SMALL)))
    } else {
        (mean >= LARGE && case.workload.mean_bs() >= LARGE).then(|| (Counted::Bytes, figure(LARGE)))
    }
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
    let used = |limit: fn(&Shape) -> Option<Limit>, of: fn(&DiskUse) -> u64| {
        let limits = shapes.iter().map(|shape| limit(shape).map_or(f64::INFINITY, |limit| limit.rate));
        let rate = case.median(|trial| {
            let disks = crowded::looked_at(trial, crowded)?;
            let all: u64 = disks.iter().map(|disk| of(&disk.total)).sum();
            Some(all as f64 / trial.elapsed.as_secs_f64())
        });
        Some(rate? / limits.sum::<f64>())
    };
    let requests = used(|shape| shape.iops, |total| total.ops.total())?;
    let bytes = used(|shape| shape.throughput, |total| total.bytes.total())?;
    let (counted, what, used) = if requests >= bytes {
        (Counted::Operations, "requests of the disks, of the volumes' limit of operations", requests)
    } else {
        (Counted::Bytes, "bytes of the disks, of the volumes' limit of bytes", bytes)
    };
    (used >= DISK_BUSY.edge).then(|| (counted, share_is(what, used, DISK_BUSY.edge)))
}

/// What stays the same in short runs with other sizes. One at a time are as many of any size where each takes as long, and so are those that wait
/// behind much larger ones.
fn by_sizes(case: &Case<'_>, facts: &Facts<'_>, taken: &Taken) -> Option<(Counted, Evidence)> {
    let rungs = facts.rungs.as_ref()?;
    let falls = median(rungs.sizes.iter().map(|step| {
        let times = step.rung.bs.0 as f64 / case.workload.bs.0 as f64;
        -(step.ops.rate / rungs.base).ln() / times.ln()
    }))?;
    let what = "how operations per second fall with their size: 0 as many of any, 1 as many bytes";
    let figure = |edge| evidence(what, falls, Unit::Exponent, Some(edge));
    if falls.abs() <= AS_MANY && !case.one_at_a_time() && !are_larger(taken, case) {
        Some((Counted::Operations, figure(AS_MANY)))
    } else {
        (falls >= 1.0 - AS_MANY).then(|| (Counted::Bytes, figure(1.0 - AS_MANY)))
    }
}

/// The most of the gap that anything beside volumes, link and depth can explain, with the figures that say so.
fn room(case: &Case<'_>, facts: &Facts<'_>, undisturbed: Option<f64>, share: f64) -> (f64, Vec<Evidence>) {
    let used = |what: &str, used: Option<f64>| {
        used.map(|used| (1.0 - used, evidence(what, used, Unit::Share, None)))
    };
    // The only thread, where it waited so much that a processor may be what it lacks.
    let waits = case.workload.numjobs == 1 && facts.waited.is_some_and(|waited| waited >= WAITED);
    let mut all = vec![
        used("use of the working members' limits, weighted by bytes", facts.met),
        used("share of an operation's time that it takes beside others who keep up", kept_up(case, facts)),
        used(
            "share of the time that the load's one thread ran or waited to: the disks explain what it slept at most",
            facts.pressed.filter(|_| waits),
        ),
        used(
            "latency of the operations that found nobody else at the disks, over the mean: the rest may be waits",
            undisturbed,
        ),
        facts.latency.map(|(latency, floor)| {
            let what = "mean latency of the members, against what one operation alone takes";
            (1.0 - floor / latency, evidence(what, latency, Unit::Nanoseconds, Some(floor)))
        }),
        // Flushes wait behind others' requests too, which the latency of those that met nobody has in it.
        of_durable_writes(case, share).filter(|_| undisturbed.is_none()).map(|part| {
            let what = "part of a write's time that others explain: their share of its requests' time and of what flushes wait for";
            (part, evidence(what, part, Unit::Share, None))
        }),
    ];
    let held = facts.held.iter().filter(|_| facts.group_limits_met);
    all.extend(held.map(|held| Some((1.0 - held.share(), held.evidence()))));
    let link = facts.asserted(VerdictKind::InstanceLimit).into_iter();
    all.extend(
        link.flat_map(|link| link.evidence.iter().map(move |e| Some((1.0 - link.explains, e.clone())))),
    );
    let (left, figures): (Vec<f64>, Vec<Evidence>) = all.into_iter().flatten().unzip();
    (left.into_iter().fold(1.0, f64::min).max(0.0), figures)
}

/// The part of the time of a write that is made durable, one at a time, that others explain who had such a `share` of the disks.
fn of_durable_writes(case: &Case<'_>, share: f64) -> Option<f64> {
    durable::how(case.workload).filter(|_| case.one_at_a_time())?;
    let of_flushes = durable::flushes_behind_others(case);
    case.median(|trial| {
        let parts = durable::parts(case, trial)?;
        Some((parts.write * share + parts.flush * of_flushes) / parts.whole)
    })
}

/// Where others moved about as much beside more in flight, and the disks moved more in all: what the load gained, as a part of how many more it had.
/// If each takes as long among more of them, none waited for the disks. Otherwise what the fastest hundredth of the operations take, of the mean,
/// unless others always are at the disks.
fn kept_up(case: &Case<'_>, facts: &Facts<'_>) -> Option<f64> {
    let rungs = facts.rungs.as_ref()?;
    let Some(MoreInFlight::Helped(..)) = rungs.more(MORE) else { return None };
    let (same, deepest) = (rungs.same?, rungs.deeper.last()?);
    let bytes = |step| gained::rates(step, None, |disk| disk.bytes.total(), |count| count.bytes);
    let ((all, own), (more_of_all, more_of_own)) = (bytes(&same)?, bytes(deepest)?);
    if all <= own {
        return None;
    }
    let kept_up = (more_of_all - more_of_own).max(0.0) / (all - own);
    // What others move more by themselves says nothing of room for the load.
    let has_room = more_of_all.min(all + more_of_own - own) >= gained::UNCHANGED * all;
    let more = f64::from(deepest.rung.in_flight) / f64::from(same.rung.in_flight).max(1.0);
    let grows = (deepest.ops.rate / rungs.reference() / more).min(1.0);
    if kept_up < KEPT_UP {
        None
    } else if has_room {
        Some(grows)
    } else {
        let fastest = case.median(|trial| {
            let latency = trial.latency();
            Some(latency.percentile(1.0)? as f64 / latency.mean()?)
        });
        fastest.filter(|_| !undisturbed::others_stay(case))
    }
}

pub(super) fn judge(case: &Case<'_>, facts: &Facts<'_>) -> Judged {
    let taken = taken(case, facts)
        .ok_or_else(|| Absent::unmeasured("the disks below the members were not observed"))?;
    // What one takes that met nobody else, where nothing else says what one alone takes.
    let undisturbed = undisturbed::over_mean(case).filter(|_| facts.latency.is_none());
    let declared = declared(case, facts);
    let reached = declared.as_ref().is_some_and(|(_, used)| used.value >= NEAR);
    let limiting = declared
        .or_else(|| facts.gained.clone())
        .or_else(|| by_mean(case, &taken))
        .or_else(|| by_sizes(case, facts, &taken))
        .filter(|_| taken.requests.is_some());
    let fewer = taken.requests.is_some_and(|(share, _)| share < taken.share);
    let counted = match limiting {
        Some((counted, _)) => counted,
        None if fewer => Counted::Operations,
        None => Counted::Bytes,
    };
    let by_requests = taken.requests.filter(|_| counted == Counted::Operations);
    let (of_share, check) = match by_requests {
        Some(_) => ("share of the disks' requests that the trial did not make", REQUESTS),
        None => ("share of the disks' bytes that the trial did not ask for", RATE),
    };
    let (share, rate) = by_requests.unwrap_or((taken.share, taken.rate));
    let of_much = if counted == Counted::Bytes && taken.share >= MUCH { 0.1 } else { 1.0 };
    let least = check.edge * of_much;
    let seen =
        [share_is(of_share, share, SHARE.edge), Evidence { reference: Some(least), ..check.figure(rate) }];
    let absent = |why: &str| Absent::because(why).with(seen.clone());
    // What is left to the load is the geometric mean of what it would be by requests and by bytes, where neither is known to be short.
    let explained = match taken.requests.filter(|_| limiting.is_none()) {
        Some((requests, _)) => 1.0 - ((1.0 - requests) * (1.0 - taken.share)).max(0.0).sqrt(),
        None => share,
    };
    // With room at the disks the smaller of two shares is the surer one.
    let more = facts.rungs.as_ref().and_then(|rungs| rungs.more(NO_GAIN));
    let full = matches!(more, Some(MoreInFlight::Flat(..)));
    let at_least = if full || undisturbed.is_some() { explained } else { share };
    if !SHARE.holds(at_least) || rate < least {
        return Err(absent(
            "beside what a file system's journal may have done, other processes did too little I/O",
        ));
    }
    let busy = DISK_BUSY.figure(taken.busy);
    if !DISK_BUSY.holds(taken.busy) {
        return Err(absent("the disks had room for both").with([busy]));
    }
    let (room, mut figures) = room(case, facts, undisturbed, share);
    // What an operation waits elsewhere, for a processor say, others at the disks have no part in.
    let at_disks = facts.devices.filter(|all| case.workload.direct && all.share_at_most > 0.0);
    let waits = match &facts.crowded {
        Some(crowded) => crowded.waits,
        None => at_disks.map_or(1.0, |all| all.share_at_most.min(1.0)),
    };
    if waits < 1.0 {
        let what = "share of the load's operations in flight that are at these disks, at most";
        figures.push(evidence(what, waits, Unit::Share, None));
    }
    let explains = (explained * waits).min(room);
    if !HELD_BACK.holds(explains) {
        let absent = absent("others moved much, but did not hold the trial back");
        return Err(absent.with([HELD_BACK.missed(room)]).with(figures));
    }
    // Who, and in how many trials.
    let mut who: BTreeMap<&str, u32> = BTreeMap::new();
    for trial in case.trials {
        let others = trial.observed.iter().flat_map(|seen| &seen.others);
        let here: BTreeSet<&str> = others.map(|other| other.who.as_str()).collect();
        here.into_iter().for_each(|name| *who.entry(name).or_default() += 1);
    }
    let mut named: Vec<&str> = who.keys().copied().collect();
    named.sort_by_key(|name| std::cmp::Reverse(who[name]));
    let more = match named.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    named.truncate(NAMED);
    let (sure, named) = match named.is_empty() {
        true => (Sure::Likely, "by whom cannot be seen from here".to_owned()),
        false => (Sure::Certain, format!("seen running: {}{more}", named.join(", "))),
    };
    let mut list = seen.to_vec();
    list.push(busy);
    if counted == Counted::Operations {
        list.push(evidence("share of the disks' bytes that others moved", taken.share, Unit::Share, None));
    }
    // What a disk serves that is not known to be full may be short of neither.
    let known = limiting.is_some() && (facts.gained.is_some() || full || reached);
    list.extend(limiting.map(|(_, figure)| figure));
    list.extend(figures);
    list.extend(who.iter().map(|(who, trials)| {
        let what = format!("trials during which this was running: {who}");
        evidence(what, f64::from(*trials), Unit::Trials, None)
    }));
    let mut sentence = format!("{}; {named}", in_words(&taken, counted, known, facts.crowded.as_ref()));
    if served::served(case) {
        sentence.push_str("; the load has the rate that it asks for, and its operations take longer");
    }
    Ok(Verdict::new(VerdictKind::Background, sure, explains, sentence, list))
}

/// What others took, by what is limiting; `known` says whether that is.
fn in_words(taken: &Taken, counted: Counted, known: bool, crowded: Option<&Crowded>) -> String {
    let percent = |share: f64| format!("{:.0}%", share * 100.0);
    let (mut place, mut of_all, mut them) = ("the same disks".to_owned(), "the disks", "them");
    let mut waits = String::new();
    if let Some(Crowded { disks, array, waits: there, .. }) = crowded {
        place = disks.join(", ");
        (of_all, them) = if disks.len() == 1 { ("it", "it") } else { ("they", "them") };
        waits =
            format!(", for which {array} waits: {} of the operations in flight are there", percent(*there));
    }
    let moved = format!("others moved {} on {place}, ", format_throughput(taken.rate));
    let bytes = percent(taken.share);
    let Some((share, rate)) = taken.requests else {
        return format!("{moved}{bytes} of all that {of_all} moved{waits}");
    };
    let (requests, rate) = (percent(share), format_iops(rate));
    let (took, short) = match counted {
        Counted::Operations => (
            format!(
                "others made {rate} requests/s on {place}, {requests} of all that {of_all} served ({bytes} of the bytes)"
            ),
            "operations",
        ),
        Counted::Bytes => {
            (format!("{moved}{bytes} of all that {of_all} moved ({requests} of the requests)"), "bytes")
        }
    };
    let limits = match known {
        true => format!("{short} limit {them}"),
        false => format!("whether operations or bytes limit {them} is not known"),
    };
    format!("{took}{waits}; {limits}")
}
