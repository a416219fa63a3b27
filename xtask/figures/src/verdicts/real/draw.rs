//! What the cases are: drawn from seeds, class by class.

use super::super::random::Random;
use super::case::{Base, Case, Cause, Neighbour, Throttle, Truth};
use super::load::Load;
use ebbtide_analysis::VerdictKind;

type Draw = fn(&mut Random) -> Case;

/// Classes in the order of the table, with the number of cases of each in a set.
pub const CLASSES: [(&str, u64, Draw); 16] = [
    ("throttle", 6, throttle),
    ("throttle-below", 4, throttle_below),
    ("burst", 4, burst),
    ("disk", 4, disk),
    ("memory", 4, memory),
    ("hogs", 5, hogs),
    ("neighbour", 4, neighbour),
    ("durable", 4, durable),
    ("shallow", 4, shallow),
    ("cached", 4, cached),
    ("member", 4, member),
    ("one-disk", 4, one_disk),
    ("window", 3, window),
    ("split", 4, split),
    ("served", 4, served),
    ("mixed", 16, mixed),
];

/// Hundreds of seeds at which the reporting set begins: those of the odd ones before were looked at when rules were made.
const REPORTED_FROM: u64 = 610;

/// Every case of a set. A seed is of one class, and even or odd by its hundreds.
pub fn all(reporting: bool) -> Vec<Case> {
    let of_class = |(index, (class, number, draw)): (usize, &(&'static str, u64, Draw))| {
        let case = |n: u64| {
            let hundreds = if reporting { REPORTED_FROM + 1 + 2 * n } else { 2 * n };
            let seed = hundreds * 100 + index as u64;
            Case { class, seed, ..draw(&mut Random::new(seed)) }
        };
        (0..*number).map(case).collect::<Vec<Case>>()
    };
    let mut all: Vec<Case> = CLASSES.iter().enumerate().flat_map(of_class).collect();
    // The first of each class first: what there is no time for is then of no class alone.
    all.sort_by_key(|case| case.seed);
    all
}

fn case(base: Base, load: Load, causes: Vec<Cause>) -> Case {
    Case { class: "", seed: 0, base, members: 1, load, causes, truth: Truth::Made, also: &[] }
}

/// Two significant digits, as people set limits.
fn set(rate: f64) -> u64 {
    let step = 10f64.powf(rate.log10().floor() - 1.0);
    ((rate / step).round() * step) as u64
}

/// A rate in operations or bytes far below what the devices do, for operations of `bs_kib`.
fn rate(random: &mut Random, bs_kib: u64, write: bool, below: bool) -> Throttle {
    let bytes = random.chance(0.5);
    let most = 60e6;
    let rate = if bytes {
        set(random.about((bs_kib as f64 * 1024.0 * 200.0).min(most / 2.0), most))
    } else {
        set(random.about(200.0, (most / (bs_kib as f64 * 1024.0)).min(4000.0)))
    };
    Throttle { below, write, bytes, rate, first: None }
}

fn throttle(random: &mut Random) -> Case {
    let write = random.chance(0.4);
    let bs_kib = random.one_of(&[4, 8, 16, 64]);
    let throttle = rate(random, bs_kib, write, false);
    let base = random.one_of(&[Base::LoopInMemory, Base::LoopOnDisk]);
    let load =
        Load::new(if write { "randwrite" } else { "randread" }, bs_kib, random.one_of(&[4, 8, 16, 32]));
    case(base, load, vec![Cause::Throttle(throttle)])
}

/// The limit is on the disk, the load on a file or loop device above it.
fn throttle_below(random: &mut Random) -> Case {
    let bs_kib = random.one_of(&[4, 16, 64]);
    let write = random.chance(0.3);
    let throttle = rate(random, bs_kib, write, true);
    let base = random.one_of(&[Base::File, Base::LoopOnDisk]);
    let load = Load::new(if write { "randwrite" } else { "randread" }, bs_kib, random.one_of(&[8, 16, 32]));
    case(base, load, vec![Cause::Throttle(throttle)])
}

/// A limit that becomes lower while the load runs, as one of credits that are spent.
fn burst(random: &mut Random) -> Case {
    let write = random.chance(0.3);
    let rate = set(random.about(200.0, 1500.0));
    let first = Some((random.between(2.5, 6.0), random.between(2.2, 3.6)));
    let throttle = Throttle { below: false, write, bytes: false, rate, first };
    let load = Load {
        seconds: 6.0,
        ..Load::new(if write { "randwrite" } else { "randread" }, 4, random.one_of(&[8, 16, 32]))
    };
    let base = random.one_of(&[Base::LoopInMemory, Base::LoopOnDisk]);
    Case { also: &[VerdictKind::RateLimit], ..case(base, load, vec![Cause::Throttle(throttle)]) }
}

fn deep(random: &mut Random, base: Base) -> Case {
    let rw = random.one_of(&["randread", "randread", "randwrite", "read", "write"]);
    let bs_kib = random.one_of(&[4, 4, 64, 1024]);
    let load = Load::new(rw, bs_kib, random.one_of(&[32, 128, 256]));
    Case { truth: Truth::Saturated, ..case(base, load, Vec::new()) }
}

/// The disk itself, deep.
fn disk(random: &mut Random) -> Case {
    let base = random.one_of(&[Base::File, Base::LoopOnDisk]);
    deep(random, base)
}

/// Devices in memory, which the processors serve, deep.
fn memory(random: &mut Random) -> Case {
    deep(random, Base::LoopInMemory)
}

fn hogs(random: &mut Random) -> Case {
    let base = random.one_of(&[Base::LoopInMemory, Base::LoopInMemory, Base::File]);
    let load = Load::new("randread", random.one_of(&[4, 8, 16]), random.one_of(&[1, 4, 8, 16, 32]));
    case(base, load, vec![Cause::Hogs(random.one_of(&[2, 3, 4]))])
}

fn neighbour(random: &mut Random) -> Case {
    let base = random.one_of(&[Base::File, Base::File, Base::LoopOnDisk]);
    let load = Load::new("randread", random.one_of(&[4, 16, 64]), random.one_of(&[1, 4, 16, 32]));
    let neighbour = Neighbour {
        rw: random.one_of(&["read", "randread", "write"]),
        bs_kib: random.one_of(&[256, 1024]),
        iodepth: random.one_of(&[4, 16, 32]),
        rate_mib: random.chance(0.3).then(|| random.between(400.0, 1000.0) as u64),
    };
    Case {
        // The disk is full between the two.
        also: &[VerdictKind::VolumeLimit, VerdictKind::Concurrency],
        ..case(base, load, vec![Cause::Neighbour(neighbour)])
    }
}

fn durable(random: &mut Random) -> Case {
    let load = Load {
        durable: Some(random.one_of(&["sync", "fsync", "fdatasync"])),
        psync: random.chance(0.5),
        numjobs: random.one_of(&[1, 1, 2]),
        ..Load::new(random.one_of(&["randwrite", "write"]), random.one_of(&[4, 16, 64]), 1)
    };
    case(Base::File, load, vec![Cause::Durable])
}

/// One or two at a time, of which more have more done.
fn shallow(random: &mut Random) -> Case {
    let base = random.one_of(&[Base::File, Base::File, Base::LoopOnDisk]);
    let psync = random.chance(0.3);
    let depth = if psync { 1 } else { random.one_of(&[1, 1, 2, 4]) };
    let load = Load { psync, ..Load::new("randread", random.one_of(&[4, 8, 16]), depth) };
    case(base, load, vec![Cause::Shallow(4)])
}

fn cached(random: &mut Random) -> Case {
    let through_loop = random.chance(0.4);
    let load = Load {
        direct: through_loop,
        psync: random.chance(0.5),
        // A file's cache is dropped before a run, and full again after this.
        span_mib: Some(random.one_of(&[32, 64, 128])),
        ..Load::new(
            random.one_of(&["randread", "read"]),
            random.one_of(&[16, 64, 128]),
            random.one_of(&[1, 4, 16]),
        )
    };
    Case {
        truth: Truth::Cached,
        // Copying keeps the thread busy, or the worker that reads for the loop device waits for more.
        also: &[VerdictKind::Cpu, VerdictKind::Concurrency, VerdictKind::VolumeLimit],
        ..case(if through_loop { Base::LoopCached } else { Base::File }, load, Vec::new())
    }
}

fn member(random: &mut Random) -> Case {
    let members = random.one_of(&[2, 4, 8]);
    let write = random.chance(0.3);
    let rw = if write { "randwrite" } else { "randread" };
    let bs_kib = random.one_of(&[4, 16]);
    let throttle =
        Throttle { below: false, write, bytes: false, rate: set(random.about(300.0, 3000.0)), first: None };
    let load = Load { seconds: 1.0, ..Load::new(rw, bs_kib, random.one_of(&[4, 8]) * members as u32) };
    Case {
        members,
        // The one is held to a rate.
        also: &[VerdictKind::RateLimit],
        ..case(Base::LoopInMemory, load, vec![Cause::SlowMember(random.below(members), throttle)])
    }
}

fn one_disk(random: &mut Random) -> Case {
    let members = random.one_of(&[2, 4]);
    let base = random.one_of(&[Base::File, Base::LoopOnDisk]);
    let bs_kib = random.one_of(&[4, 16, 64]);
    let rw = random.one_of(&["randread", "randread", "randwrite"]);
    let load = Load { seconds: 1.0, ..Load::new(rw, bs_kib, random.one_of(&[8, 16, 32])) };
    Case {
        members,
        truth: Truth::Built(VerdictKind::SharedDevice),
        also: &[VerdictKind::Concurrency, VerdictKind::VolumeLimit, VerdictKind::Cpu],
        ..case(base, load, Vec::new())
    }
}

/// Sequential reads through the page cache with a window that is too small.
fn window(random: &mut Random) -> Case {
    let load = Load {
        direct: false,
        psync: random.chance(0.5),
        // The file is read once at most: what is read again comes from the cache.
        seconds: 1.0,
        ..Load::new("read", random.one_of(&[64, 128, 256]), 1)
    };
    case(Base::LoopOnDisk, load, vec![Cause::Readahead(random.one_of(&[4, 8, 16, 32]))])
}

/// Requests larger than the device takes.
fn split(random: &mut Random) -> Case {
    let base = random.one_of(&[Base::LoopOnDisk, Base::LoopInMemory]);
    let rw = random.one_of(&["randread", "read"]);
    let load = Load::new(rw, random.one_of(&[256, 512, 1024]), random.one_of(&[4, 8, 16]));
    Case {
        // The parts are the processors' work, and what the device does no faster.
        also: &[VerdictKind::Cpu, VerdictKind::VolumeLimit],
        ..case(base, load, vec![Cause::Split(random.one_of(&[4, 8, 16]))])
    }
}

/// Two causes at once, of which either may be the larger: a neighbour that takes all that the disk can do hides any other. Of two limits
/// only the lower holds a load back; what is waited for adds up, and both do.
fn mixed(random: &mut Random) -> Case {
    let bs_kib = random.one_of(&[4, 16]);
    let mut load = Load::new("randread", bs_kib, random.one_of(&[4, 8, 16]));
    let neighbour = Cause::Neighbour(Neighbour {
        rw: random.one_of(&["read", "randread"]),
        bs_kib: random.one_of(&[256, 1024]),
        iodepth: random.one_of(&[8, 16, 32]),
        rate_mib: random.chance(0.8).then(|| random.about(150.0, 1200.0) as u64),
    });
    let hogs = Cause::Hogs(random.one_of(&[2, 3]));
    // From far below what the other cause leaves to about as much.
    let rate = set(random.about(1500.0, 30_000.0));
    let throttle = Cause::Throttle(Throttle { below: false, write: false, bytes: false, rate, first: None });
    let (base, causes) = match random.below(8) {
        0 => (Base::LoopInMemory, vec![throttle, hogs]),
        1 => (Base::LoopOnDisk, vec![throttle, neighbour]),
        2 | 3 => (Base::File, vec![hogs, neighbour]),
        4 | 5 => {
            load = Load { durable: Some("sync"), ..Load::new("randwrite", bs_kib, 1) };
            (Base::File, vec![Cause::Durable, neighbour])
        }
        _ => {
            load.iodepth = 1;
            (Base::File, vec![Cause::Shallow(4), neighbour])
        }
    };
    Case { also: &[VerdictKind::VolumeLimit], ..case(base, load, causes) }
}

/// As much as arrives is done.
fn served(random: &mut Random) -> Case {
    let base = random.one_of(&[Base::File, Base::LoopOnDisk, Base::LoopInMemory]);
    let bs_kib = random.one_of(&[4, 16, 64]);
    let rate = set(random.about(100.0, 2500.0));
    let rw = random.one_of(&["randread", "randread", "randwrite"]);
    let load = Load { rate_iops: Some(rate), ..Load::new(rw, bs_kib, random.one_of(&[16, 32, 64])) };
    Case { truth: Truth::Served, ..case(base, load, Vec::new()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_enough_cases_and_the_same_seed_has_the_same() {
        for reporting in [false, true] {
            let cases = all(reporting);
            assert!(cases.len() >= 60, "{}", cases.len());
            assert_eq!(format!("{cases:?}"), format!("{:?}", all(reporting)));
            assert!(cases.iter().all(|case| (case.seed / 100 % 2 == 1) == reporting));
            // What is made can be taken away, and what is not has another truth.
            assert!(cases.iter().all(|case| (case.truth == Truth::Made) != case.causes.is_empty()));
        }
    }

    #[test]
    fn limits_are_round_and_far_below_what_the_devices_do() {
        assert_eq!((set(1234.0), set(56.7e6), set(199.0)), (1200, 57_000_000, 200));
        let mut random = Random::new(7);
        for _ in 0..200 {
            let throttle = rate(&mut random, 64, false, false);
            let most = if throttle.bytes { 61_000_000 } else { 4000 };
            assert!(throttle.rate <= most && throttle.rate >= 100, "{throttle:?}");
        }
    }
}
