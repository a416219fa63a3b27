//! `background`: something else used the devices.
//!
//! Derivation. The disks below the members count what they move for everybody. What they moved beyond the most
//! that the trial's operations can have taken (below a mirror or parity more than was asked), somebody else asked for. With direct I/O the trial's own part is exact; through the page
//! cache readahead and delayed writes are the trial's own too, so there only those are counted whom the
//! observer saw at work.
//!
//! Bytes that others moved are no rate that the trial lost. On a full disk the trial could at most have had what they
//! took, their share of all. But it could not have had more than its volumes and their link grant, nor could its
//! operations have taken less than one alone takes: the least of the three is what others can explain.

use super::{Absent, Case, Judged, Rule, concurrency, evidence, instance_limit, moved, usage};
use crate::estimate::median;
use crate::{Evidence, Verdict, VerdictKind};
use ebbtide_model::samples::{OtherKind, TrialSamples};
use ebbtide_model::units::format_throughput;

/// Share of the bytes moved that must be others': below it, file system metadata and the edges of the measurement
/// explain it.
pub const OTHERS_SHARE: f64 = 0.10;
/// Bytes per second that others must have moved: a journal's commits stay below.
pub const OTHERS_RATE: f64 = 1e6;
/// The same where they moved so much of it all: on a disk that serves some hundred operations per second, small random ones
/// are few bytes.
const MUCH: f64 = 0.30;
const OTHERS_RATE_OF_MUCH: f64 = 1e5;

/// Busy share of the busiest disk below which there was room for both: others who moved bytes on a disk that idled
/// half of the time did not hold the trial back.
pub const DISK_BUSY: f64 = 0.50;
/// Part of the gap that others must be able to explain: a shape's own latencies vary by some percent.
pub const HELD_BACK: f64 = 0.10;
/// Most of those seen at work whom the sentence names.
const NAMED: usize = 3;

#[derive(Debug)]
pub struct Background;

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
    let all = m.moved.read.saturating_add(m.moved.write) as f64;
    let bytes = if case.workload.direct {
        let beyond = |moved: u64, due: f64| (moved as f64 - due).max(0.0);
        beyond(m.moved.read, m.due.read.most) + beyond(m.moved.write, m.due.write.most)
    } else {
        // Whoever works on an array works on the disks below it.
        let names: Vec<&str> =
            trial.observed.as_ref()?.devices.iter().map(|device| device.name.as_str()).collect();
        let seen = trial.observed.as_ref()?.others.iter().filter(|other| {
            other.kind != OtherKind::Writeback
                && other.device.as_ref().is_none_or(|device| names.contains(&device.as_str()))
        });
        let bytes = seen.filter_map(|other| other.bytes).map(|b| b.read.saturating_add(b.write));
        bytes.sum::<u64>() as f64
    };
    (all > 0.0).then_some((bytes, all.max(bytes)))
}

/// The most of the gap that anything beside volumes, link and depth can explain, with the figures that say so: what
/// the limits leave unused, and the part of a latency beyond what one operation alone takes.
fn room(case: &Case<'_>) -> (f64, Vec<Evidence>) {
    let (mut room, mut figures) = (1.0_f64, Vec::new());
    if let Some(met) = usage::met(case) {
        room = room.min(1.0 - met);
        figures.push(evidence("use of the working members' limits, weighted by bytes", met, "share", None));
    }
    if let Ok(link) = instance_limit::InstanceLimit.judge(case) {
        room = room.min(1.0 - link.explains);
        figures.extend(link.evidence);
    }
    if let Some((latency, floor)) = concurrency::latency_over_floor(case) {
        room = room.min(1.0 - floor / latency);
        let what = "mean latency of the members, against what one operation alone takes";
        figures.push(evidence(what, latency, "ns", Some(floor)));
    }
    (room.max(0.0), figures)
}

/// Others' share of the bytes moved and their bytes per second, median over trials; nothing where the disks were not
/// observed.
fn share_and_rate(case: &Case<'_>) -> Option<(f64, f64)> {
    let (mut shares, mut rates) = (Vec::new(), Vec::new());
    for trial in case.trials {
        if let Some((bytes, all)) = others(case, trial) {
            shares.push(bytes / all);
            rates.push(bytes / trial.elapsed.as_secs_f64());
        }
    }
    median(&shares).zip(median(&rates))
}

impl Rule for Background {
    fn kind(&self) -> VerdictKind {
        VerdictKind::Background
    }

    fn judge(&self, case: &Case<'_>) -> Judged {
        let (share, rate) = share_and_rate(case)
            .ok_or_else(|| Absent::because("the disks below the members were not observed"))?;
        let what = ["share of the disks' bytes that the trial did not ask for", "bytes that others moved"];
        let least = if share >= MUCH { OTHERS_RATE_OF_MUCH } else { OTHERS_RATE };
        let seen = |why: &str| {
            let absent = Absent::because(why).seen(what[0], share, "share", OTHERS_SHARE);
            absent.seen(what[1], rate, "bytes/s", least)
        };
        if share < OTHERS_SHARE || rate < least {
            return Err(seen("others moved too little"));
        }
        let busy = busiest_disk(case).ok_or_else(|| seen("how busy the disks were is not known"))?;
        if busy < DISK_BUSY {
            let absent = seen("the disks had room for both");
            return Err(absent.seen("busy share of the busiest disk", busy, "share", DISK_BUSY));
        }
        let (room, figures) = room(case);
        let explains = share.min(room);
        if explains < HELD_BACK {
            let mut absent = seen("others moved much, but did not hold the trial back").seen(
                "part of the gap that limits and latency leave for others to explain",
                room,
                "share",
                HELD_BACK,
            );
            absent.evidence.extend(figures);
            return Err(absent);
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
            for name in here {
                match who.iter_mut().find(|(known, _)| *known == name) {
                    Some((_, trials)) => *trials += 1,
                    None => who.push((name, 1)),
                }
            }
        }
        let named = if who.is_empty() {
            "who is not visible from here".to_owned()
        } else {
            let more = match who.len().saturating_sub(NAMED) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let named: Vec<&str> = who.iter().take(NAMED).map(|(name, _)| *name).collect();
            format!("seen at work: {}{more}", named.join(", "))
        };
        let mut list: Vec<Evidence> = vec![
            evidence(what[0], share, "share", Some(OTHERS_SHARE)),
            evidence(what[1], rate, "bytes/s", Some(least)),
            evidence("busy share of the busiest disk", busy, "share", Some(DISK_BUSY)),
        ];
        list.extend(figures);
        list.extend(who.iter().map(|(who, trials)| {
            evidence(
                &format!("trials during which this was at work: {who}"),
                f64::from(*trials),
                "trials",
                None,
            )
        }));
        Ok(Verdict {
            kind: VerdictKind::Background,
            basis: None,
            confidence: if who.is_empty() { 0.8 } else { 0.95 },
            explains,
            sentence: format!(
                "others moved {} on the same disks, {:.0}% of all that the disks moved; {named}",
                format_throughput(rate),
                share * 100.0
            ),
            evidence: list,
        })
    }
}
