//! One case: made, run, and held against its truth.

use super::around::{self, Beside, in_group};
use super::case::{Base, Case, Cause, Truth};
use super::load::Load;
use super::oracle;
use super::said::{Said, understood};
use super::test_bed::{Target, TestBed};
use crate::pages::write;
use crate::run::{output, said, words};
use ebbtide_analysis::VerdictKind;
use std::time::Duration;

/// Rate without a cause over that with it from which on it is there: a short run varies by some percent.
pub const THERE: f64 = 1.15;
/// Of several causes each that gains this share of what the largest gains may come first.
const NEAR: f64 = 0.90;
/// Share of a limit from which on a load may have been held back by it.
const REACHED: f64 = 0.50;
/// Busy share of all cores by others above which a case runs ahead of them (SCHED_FIFO), as if they were not there.
const QUIET: f64 = 0.25;
/// Bytes per second of others on the disk, before or after, up to which a case counts that is on it; and how often it runs.
const STILL: f64 = 100e6;
/// Share of all cores' time that the hypervisor may take during a case that counts: neither the load nor the programs beside it have what
/// it takes, and the runs that say what the truth is need not have had it taken.
const STOLEN: f64 = 0.05;
const TURNS: u32 = 3;
/// Share of what was asked that the disk may have read while a cache answers the rest.
const CACHED: f64 = 0.20;
/// The same below which a load that is to read the disk goes around in a cache.
const FROM_DISK: f64 = 0.80;
/// Share of what arrives from which on all is served.
const SERVED: f64 = 0.97;
/// Readahead that is enough, in KiB.
const WIDE: u64 = 4096;
/// Longest life of a run of `ebb`, in seconds.
const LIFE: u32 = 90;

/// What came of a case.
pub struct Judged {
    pub case: Case,
    pub outcome: Outcome,
    /// Busy share of all cores by others, before and after.
    pub others: f64,
    /// Rate without each cause over that with all.
    pub gains: Vec<f64>,
    /// It ran ahead of others for a processor, because they used much.
    pub ahead: bool,
}

pub enum Outcome {
    Counted(Counted),
    /// The cause was not there, and why that is known.
    Void(String),
    /// Others moved so many bytes per second on the disk, whenever it ran.
    Moved(f64),
    /// The hypervisor took this share of the processors' time, whenever it ran.
    Stole(f64),
    Failed(String),
}

/// A verdict on a case whose truth is known.
pub struct Counted {
    /// Any of these is right.
    pub right: Vec<VerdictKind>,
    /// All verdicts in their order.
    pub named: Vec<VerdictKind>,
    pub sentence: String,
    /// Each verdict with its figures.
    pub figures: Vec<String>,
    /// Why those that would be right, or hold the load back too, were not named.
    pub why_not: Vec<String>,
    /// Whether a cause was named that is not there, first or further down.
    pub invented: bool,
    /// The causes that were made and hold the load back.
    pub there: Vec<VerdictKind>,
}

impl Counted {
    pub fn is_right(&self) -> bool {
        self.named.first().is_some_and(|first| self.right.contains(first))
    }

    pub fn is_wrong(&self) -> bool {
        !self.is_right() && self.named.first() != Some(&VerdictKind::Unknown)
    }
}

/// Makes a case, runs it, and takes all of it away again; anew where others were at work beside it.
pub fn judge(test_bed: &TestBed, case: &Case) -> Judged {
    let mut turns = 0;
    loop {
        let judged = turn(test_bed, case).unwrap_or_else(|why| Judged {
            case: case.clone(),
            outcome: Outcome::Failed(why),
            others: 0.0,
            gains: Vec::new(),
            ahead: false,
        });
        turns += 1;
        if turns == TURNS || !matches!(judged.outcome, Outcome::Moved(_) | Outcome::Stole(_)) {
            return judged;
        }
    }
}

fn turn(test_bed: &TestBed, case: &Case) -> Result<Judged, String> {
    let alone = case.members == 1;
    let targets: Result<Vec<Target>, String> =
        (0..case.members).map(|index| test_bed.target(case.base, index, alone)).collect();
    let stage = Stage { test_bed, case, targets: targets? };
    let all: Vec<&Cause> = case.causes.iter().collect();
    let disk = test_bed.disk()?.1;
    if case.truth == Truth::Cached {
        // Whatever cache it is to come from has it.
        let target = &stage.targets[0];
        let file = format!("if={}", target.file.as_ref().unwrap_or(&target.path));
        output("dd", &[&file, "of=/dev/null", "bs=1M"])?;
    }
    let on_disk = case.base != Base::LoopInMemory;
    let (before, moved_before) = around::look(&disk)?;
    let hogs = case.causes.iter().any(|cause| matches!(cause, Cause::Hogs(_)));
    let ahead = before > QUIET && !hogs;
    let read = around::bytes_read(&disk)?;
    let (stolen, full) = around::stolen_during(|| stage.run(&case.load, &all, ahead))?;
    let full = full?;
    let read = around::bytes_read(&disk)?.saturating_sub(read);
    let (after, moved_after) = around::look(&disk)?;
    let (others, moved) = (f64::midpoint(before, after), moved_before.max(moved_after));
    let disturbed = if stolen > STOLEN {
        Some(Outcome::Stole(stolen))
    } else {
        (on_disk && moved > STILL).then_some(Outcome::Moved(moved))
    };
    if let Some(outcome) = disturbed {
        return Ok(Judged { case: case.clone(), outcome, others, gains: Vec::new(), ahead });
    }
    let moment = case.load.for_a_moment();
    let mut gains = Vec::new();
    let right = match case.truth {
        Truth::Made if !case.load.direct && (read as f64) < FROM_DISK * full.bytes => {
            let share = read as f64 / full.bytes * 100.0;
            Err(format!("the disk read {share:.0}% of what was asked, and a cache the rest"))
        }
        Truth::Made => {
            for without in &case.causes {
                let kept: Vec<&Cause> = case.causes.iter().filter(|cause| *cause != without).collect();
                gains.push(stage.rate(&moment, &kept, ahead, &full)?);
            }
            let without_all = match case.causes.len() {
                1 => gains[0],
                _ => stage.rate(&moment, &[], ahead, &full)?,
            };
            made(case, &gains, without_all)
        }
        Truth::Built(kind) => Ok(vec![kind]),
        Truth::Served => {
            let asked = case.load.rate_iops.unwrap_or(0) as f64;
            let served = full.iops / asked;
            (served >= SERVED)
                .then(|| vec![VerdictKind::Unknown])
                .ok_or(format!("{:.0}% of what arrived was served", served * 100.0))
        }
        Truth::Cached => {
            let share = read as f64 / full.bytes.max(1.0);
            (share < CACHED)
                .then(|| vec![VerdictKind::Cache])
                .ok_or(format!("the disk read {:.0}% of what was asked", share * 100.0))
        }
        Truth::Saturated => {
            let more = deeper(&moment);
            let mut own = [0.0; oracle::PAIRS];
            for gain in &mut own {
                let as_many = stage.rate(&moment, &all, ahead, &full)?;
                *gain = stage.rate(&more, &all, ahead, &full)? / as_many;
            }
            let right = oracle::saturated(case, &stage.targets[0].path, &own)?;
            let beyond = case.base != Base::File && beyond_queue(&case.load, &stage.targets[0])?;
            right.map(|mut right| {
                // Nobody can give its queue more places, so that fio cannot tell them apart.
                if beyond && right.contains(&VerdictKind::VolumeLimit) {
                    right.push(VerdictKind::QueueLimit);
                }
                right
            })
        }
    };
    let outcome = match right {
        Err(why) => Outcome::Void(why),
        Ok(right) => {
            let asserted = full.named.contains(&VerdictKind::Concurrency);
            let deeper = if asserted { stage.rate(&deeper(&moment), &all, ahead, &full)? } else { 0.0 };
            let few = deeper >= THERE;
            let mut right = right;
            if few && case.truth == Truth::Made && deeper >= NEAR * gains.iter().copied().fold(0.0, f64::max)
            {
                right.push(VerdictKind::Concurrency);
            }
            let there = |kind: &VerdictKind| {
                *kind == VerdictKind::Unknown
                    || (*kind == VerdictKind::Concurrency && few)
                    || right.contains(kind)
                    || case.also.contains(kind)
                    || case.causes.iter().any(|cause| cause.kind() == *kind)
            };
            let invented = full.named.iter().any(|kind| !there(kind));
            let there = holding(case, &gains, full.iops);
            let wanted =
                right.iter().chain(there.iter().chain(case.also).filter(|kind| !right.contains(kind)));
            let why_not = wanted.filter_map(|kind| full.why_not(*kind)).collect();
            let Said { named, sentence, figures, .. } = full;
            Outcome::Counted(Counted { right, named, sentence, figures, why_not, invented, there })
        }
    };
    Ok(Judged { case: case.clone(), outcome, others, gains, ahead })
}

/// `load` with more in flight.
fn deeper(load: &Load) -> Load {
    Load { iodepth: load.iodepth * oracle::DEEPER, psync: false, ..load.clone() }
}

/// Whether the load wants more requests at the device than its queue holds.
fn beyond_queue(load: &Load, target: &Target) -> Result<bool, String> {
    let figure = |name: &str| {
        let text = super::test_bed::read(&target.queue(name))?;
        text.parse::<u64>().map_err(|error| format!("{name} is {text:?}: {error}"))
    };
    let requests = load.bs_kib.div_ceil(figure("max_sectors_kb")?.max(1)) * u64::from(load.iodepth);
    Ok(requests > figure("nr_requests")?)
}

/// The causes that are right as the first: whose end gains most, or nearly as much.
fn made(case: &Case, gains: &[f64], without_all: f64) -> Result<Vec<VerdictKind>, String> {
    if without_all < THERE {
        return Err(format!("without it the rate was {without_all:.2} times as high"));
    }
    let most = gains.iter().copied().fold(0.0, f64::max);
    // Where none alone holds it back, each does.
    let near = |gain: f64| most < THERE || gain >= NEAR * most;
    let causes = case.causes.iter().zip(gains).filter(|(_, gain)| near(**gain));
    Ok(causes.map(|(cause, _)| cause.kind()).collect())
}

/// The causes without which the load is faster at a rate of `iops` under all; each where none alone makes a difference. A limit that
/// was not nearly reached held nothing back, whatever the neighbours did in the run without it.
fn holding(case: &Case, gains: &[f64], iops: f64) -> Vec<VerdictKind> {
    let alone = gains.iter().any(|gain| *gain >= THERE);
    let reached = |cause: &Cause| match cause {
        Cause::Throttle(throttle) if !throttle.bytes => iops >= REACHED * throttle.rate as f64,
        _ => true,
    };
    let causes = case.causes.iter().zip(gains);
    let there = causes.filter(|(cause, gain)| (!alone || **gain >= THERE) && reached(cause));
    there.map(|(cause, _)| cause.kind()).collect()
}

/// A case whose devices are there.
struct Stage<'a> {
    test_bed: &'a TestBed,
    case: &'a Case,
    targets: Vec<Target>,
}

impl Stage<'_> {
    /// Rate under `causes` over that of `full`.
    fn rate(&self, load: &Load, causes: &[&Cause], ahead: bool, full: &Said) -> Result<f64, String> {
        Ok(self.run(load, causes, ahead)?.iops / full.iops.max(1e-9))
    }

    /// Runs `ebb` under these causes, which end with it; `ahead` of all others who want a processor.
    fn run(&self, load: &Load, causes: &[&Cause], ahead: bool) -> Result<Said, String> {
        let (group, others) = (self.test_bed.group("load")?, self.test_bed.group("others")?);
        let mut load = load.clone();
        // The last core: the first has more of the interrupts.
        let core = std::thread::available_parallelism().map_or(1, usize::from) - 1;
        let pinned = self.case.causes.iter().any(|cause| matches!(cause, Cause::Hogs(_)));
        let (mut beside, mut later): (Vec<Beside>, Vec<std::thread::JoinHandle<()>>) = Default::default();
        // A cause that can be seen on the device is set either way.
        for cause in &self.case.causes {
            let is_there = causes.contains(&cause);
            match cause {
                Cause::Shallow(times) if !is_there => load.iodepth *= times,
                Cause::Durable if !is_there => load.durable = None,
                Cause::Readahead(kib) => {
                    let kib = if is_there { *kib } else { WIDE };
                    for target in &self.targets {
                        write(&target.queue("read_ahead_kb"), &kib.to_string())?;
                        output("blockdev", &["--flushbufs", &target.path])?;
                    }
                }
                Cause::Split(kib) => {
                    for target in &self.targets {
                        let most = super::test_bed::read(&target.queue("max_hw_sectors_kb"))?;
                        let kib = if is_there { kib.to_string() } else { most };
                        write(&target.queue("max_sectors_kb"), &kib)?;
                    }
                }
                _ => {}
            }
        }
        for cause in causes {
            match cause {
                Cause::Throttle(throttle) => {
                    let device =
                        if throttle.below { self.test_bed.disk()?.0 } else { self.targets[0].number.clone() };
                    match throttle.first {
                        Some((times, seconds)) => {
                            group.hold(&device, throttle, (throttle.rate as f64 * times) as u64)?;
                            let after = Duration::from_secs_f64(seconds);
                            later.push(group.hold_later(&device, *throttle, after));
                        }
                        None => group.hold(&device, throttle, throttle.rate)?,
                    }
                }
                Cause::SlowMember(index, throttle) => {
                    group.hold(&self.targets[*index].number, throttle, throttle.rate)?;
                }
                Cause::Hogs(number) => {
                    for _ in 0..*number {
                        beside.push(around::hog(&others, core)?);
                    }
                }
                Cause::Neighbour(neighbour) => {
                    let path = self.test_bed.file(Base::File, 1, true)?;
                    beside.push(around::neighbour(&others, &path, neighbour)?);
                    // Until it has started.
                    std::thread::sleep(Duration::from_millis(500));
                }
                _ => {}
            }
        }
        let arguments = self.arguments(&load)?;
        let mut command = in_group(&group, ahead, "timeout");
        command.arg(LIFE.to_string());
        if ahead {
            command.args(["chrt", "--fifo", "1"]);
        }
        if pinned {
            command.args(["taskset", "-c", &core.to_string()]);
        }
        let home = self.test_bed.directory();
        command.arg(&self.test_bed.ebb).args(words(&arguments)).current_dir(home);
        command.env("XDG_DATA_HOME", home.join("data")).env("XDG_STATE_HOME", home.join("state"));
        let done = command.output().map_err(|error| format!("sh: {error}"))?;
        drop(beside);
        for thread in later {
            let _ = thread.join();
        }
        // 3: it ran and is not sure.
        if !matches!(done.status.code(), Some(0 | 3)) {
            return Err(format!("ebb {arguments}: {}: {}", done.status, said(&done)));
        }
        let document =
            serde_json::from_slice(&done.stdout).map_err(|error| format!("ebb {arguments}: {error}"))?;
        understood(&document).ok_or_else(|| format!("ebb {arguments}: no rate in its answer"))
    }

    /// `ebb bench` on one target; `ebb run` with a stripe over several.
    fn arguments(&self, load: &Load) -> Result<String, String> {
        if let [target] = self.targets.as_slice() {
            return Ok(format!("bench {} --json --quiet --no-save {}", target.path, load.options()));
        }
        let mut text = "name = \"real\"\n".to_owned();
        for (index, target) in self.targets.iter().enumerate() {
            let key = if target.file.is_some() { "device" } else { "file" };
            text.push_str(&format!("[volumes.v{index}]\n{key} = \"{}\"\n", target.path));
        }
        let last = self.targets.len() - 1;
        text.push_str(&format!(
            "[designs.array]\nlayout = \"stripe\"\nchunk = \"64KiB\"\nmembers = [\"v[0..{last}]\"]\n\
             [workloads.load]\n{}[answer]\nlevel = 0.75\ntrials_min = 3\ntrials_max = 3\nbudget = \"60s\"\n",
            load.toml()
        ));
        let file = self.test_bed.directory().join("real.toml");
        write(&file, &text)?;
        Ok(format!("run real.toml --json --quiet{}", if load.writes() { " --destroy" } else { "" }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::case::Throttle;
    use super::*;

    fn case(causes: Vec<Cause>) -> Case {
        Case {
            class: "mixed",
            seed: 1,
            base: Base::File,
            members: 1,
            load: Load::new("randread", 4, 8),
            causes,
            truth: Truth::Made,
            also: &[],
        }
    }

    #[test]
    fn the_cause_whose_end_gains_most_is_first_and_one_that_gains_nothing_is_void() {
        let throttle = Throttle { below: false, write: false, bytes: false, rate: 100, first: None };
        let two = case(vec![Cause::Throttle(throttle), Cause::Hogs(2)]);
        assert_eq!(made(&two, &[3.0, 1.1], 4.0), Ok(vec![VerdictKind::RateLimit]));
        assert_eq!(made(&two, &[1.3, 1.29], 4.0), Ok(vec![VerdictKind::RateLimit, VerdictKind::Cpu]));
        // At the boundary neither alone makes a difference, but both together do.
        assert_eq!(made(&two, &[1.1, 1.0], 4.0), Ok(vec![VerdictKind::RateLimit, VerdictKind::Cpu]));
        assert!(made(&two, &[1.1, 1.0], 1.1).is_err());
        assert_eq!(holding(&two, &[3.0, 1.1], 100.0), [VerdictKind::RateLimit]);
        assert_eq!(holding(&two, &[1.3, 1.2], 90.0), [VerdictKind::RateLimit, VerdictKind::Cpu]);
        assert_eq!(holding(&two, &[1.1, 1.0], 90.0), [VerdictKind::RateLimit, VerdictKind::Cpu]);
        assert_eq!(holding(&two, &[5.0, 1.2], 10.0), [VerdictKind::Cpu], "the limit is far");
        let one = case(vec![Cause::Hogs(2)]);
        assert_eq!(made(&one, &[1.5], 1.5), Ok(vec![VerdictKind::Cpu]));
        assert!(made(&one, &[1.05], 1.05).is_err());
    }
}
