//! The truth of what nothing was made for: by fio and the kernel's own counters, not by the rules that are judged.

use super::around;
use super::case::{Base, Case};
use crate::run::{output, words};
use ebbtide_analysis::VerdictKind;
use ebbtide_analysis::estimate::median;
use serde_json::Value;

/// Rate with four times as many in flight over that with as many from which on more of them help.
const HELPS: f64 = 1.30;
/// The same below which they do not. Between the two it is not known.
const FLAT: f64 = 1.15;
/// Busy share of all cores from which on they are what is full.
const FULL: f64 = 0.92;
/// The same below which they are not. Between the two either may be.
const ROOM: f64 = 0.80;
/// Busy share of fio's own thread above which it is what is full.
const THREAD: f64 = 0.90;
/// How often the two depths are compared.
pub const PAIRS: usize = 3;
/// Seconds of each of fio's runs.
const SECONDS: f64 = 1.2;
/// How much deeper the second of them is, and any run that is to show whether more in flight help.
pub const DEEPER: u32 = 4;

#[derive(Debug, Clone, Copy)]
struct Seen {
    iops: f64,
    /// Processor time of its thread, of the time.
    thread: f64,
    /// Busy share of all cores.
    host: f64,
}

impl Seen {
    /// The median of each figure.
    fn middle(all: &[Seen]) -> Seen {
        let of = |figure: fn(&Seen) -> f64| median(all.iter().map(figure)).unwrap_or_default();
        Seen { iops: of(|seen| seen.iops), thread: of(|seen| seen.thread), host: of(|seen| seen.host) }
    }
}

fn fio(case: &Case, path: &str, depth: u32) -> Result<Seen, String> {
    // Ahead of others, whose use of the processors is no part of the question.
    let arguments = format!("--fifo 1 fio {}", case.load.fio(path, depth, SECONDS));
    let (host, text) = around::busy_during(|| output("chrt", &words(&arguments)))?;
    let document: Value =
        serde_json::from_str(&text?).map_err(|error| format!("fio's result of {case}: {error}"))?;
    let job = &document["jobs"][0];
    let of = |key: &str| job[key]["iops"].as_f64().unwrap_or(0.0);
    let cpu = |key: &str| job[key].as_f64().unwrap_or(0.0) / 100.0;
    Ok(Seen { iops: of("read") + of("write"), thread: cpu("usr_cpu") + cpu("sys_cpu"), host })
}

/// The kinds that are right for a load that nothing was made to limit; an error says why none is known. The two depths in turn, as the disk of a virtual machine
/// may do half as much again a moment later: pairs that say the opposite of one another say nothing. So do `own`, the gains of the load itself: where
/// small writes come one after the other a device puts those of fio together in other ways, and serves it three times fewer.
pub fn saturated(
    case: &Case,
    path: &str,
    own: &[f64; PAIRS],
) -> Result<Result<Vec<VerdictKind>, String>, String> {
    let deep = case.load.iodepth.saturating_mul(DEEPER);
    let pair = |_| Ok::<_, String>((fio(case, path, case.load.iodepth)?, fio(case, path, deep)?));
    let pairs: Vec<(Seen, Seen)> = (0..PAIRS).map(pair).collect::<Result<_, _>>()?;
    Ok(told(&pairs, own, case.base != Base::File))
}

fn told(pairs: &[(Seen, Seen)], own: &[f64], served_here: bool) -> Result<Vec<VerdictKind>, String> {
    let by_fio = pairs.iter().map(|(as_many, deeper)| deeper.iops / as_many.iops.max(1.0));
    let gains = by_fio.chain(own.iter().copied());
    let (least, most) =
        gains.fold((f64::INFINITY, 0.0), |(least, most), gain| (f64::min(least, gain), f64::max(most, gain)));
    if least < FLAT && most >= HELPS {
        return Err(format!(
            "with {DEEPER} times as many in flight fio and the load itself had {least:.2} to {most:.2} times the rate"
        ));
    }
    let (as_many, deeper): (Vec<Seen>, Vec<Seen>) = pairs.iter().copied().unzip();
    kinds(Seen::middle(&as_many), Seen::middle(&deeper), served_here)
}

fn kinds(as_many: Seen, deeper: Seen, served_here: bool) -> Result<Vec<VerdictKind>, String> {
    let gain = deeper.iops / as_many.iops.max(1.0);
    let (host, thread) = (as_many.host, as_many.thread);
    let mut kinds = Vec::new();
    if gain >= FLAT {
        kinds.push(VerdictKind::Concurrency);
    }
    if gain < HELPS {
        // Full processors matter to fio, or to what serves the device.
        if thread >= THREAD || (host >= ROOM && served_here) {
            kinds.push(VerdictKind::Cpu);
        }
        if thread < THREAD && (host < FULL || !served_here) {
            kinds.push(VerdictKind::VolumeLimit);
        }
    }
    if kinds.len() < 3 {
        return Ok(kinds);
    }
    Err(format!(
        "fio had {:.0} and {:.0} operations/s, cores busy {:.0}%, its thread {:.0}%",
        as_many.iops,
        deeper.iops,
        host * 100.0,
        thread * 100.0
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_full_is_told_by_depth_and_processors() {
        let seen = |iops, thread, host| Seen { iops, thread, host };
        let idle = kinds(seen(1000.0, 0.2, 0.3), seen(1020.0, 0.2, 0.3), true);
        assert_eq!(idle, Ok(vec![VerdictKind::VolumeLimit]));
        let busy = |served_here| kinds(seen(1000.0, 0.5, 0.97), seen(1020.0, 0.5, 0.97), served_here);
        assert_eq!(busy(true), Ok(vec![VerdictKind::Cpu]));
        assert_eq!(busy(false), Ok(vec![VerdictKind::VolumeLimit]), "a disk has processors of its own");
        let few = kinds(seen(1000.0, 0.2, 0.3), seen(2000.0, 0.3, 0.4), true);
        assert_eq!(few, Ok(vec![VerdictKind::Concurrency]));
        let between = kinds(seen(1000.0, 0.2, 0.85), seen(1200.0, 0.3, 0.85), true);
        assert!(between.is_err(), "{between:?}");
        let pair = |deeper| (seen(1000.0, 0.2, 0.3), seen(deeper, 0.2, 0.3));
        assert_eq!(
            told(&[pair(1020.0), pair(990.0), pair(1140.0)], &[1.0, 1.1], true),
            Ok(vec![VerdictKind::VolumeLimit])
        );
        assert!(told(&[pair(1020.0), pair(990.0), pair(1400.0)], &[], true).is_err());
        assert!(told(&[pair(1020.0), pair(990.0), pair(1140.0)], &[1.0, 1.4], true).is_err());
    }
}
