use super::*;
use ebbtide_model::profile::{PROFILES, Profile, ProfileRequest};
use ebbtide_model::units::{ArrayOffset, Nanos};
use ebbtide_model::workload::{Generator, Mix, Stop};
use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

fn wish(size: u64) -> ProfileRequest {
    ProfileRequest {
        direct_unit: Bytes(4096),
        size: Some(Bytes(size)),
        runtime: Some(Nanos::from_millis(10)),
        memory: Bytes(1 << 30),
        seed: 1,
    }
}

fn under_way(name: &str, wish: &ProfileRequest) -> Progress {
    Progress::new(Profile::get(name).expect("is one").course(wish).1)
}

/// Runs a course on an imaginary device.
fn run(course: &mut Progress, answer: impl Fn(&Step) -> (f64, u64)) -> Vec<Point> {
    let mut done = Vec::new();
    while let Some(group) = course.next_group(&done) {
        for step in group {
            let (iops, p50) = answer(&step);
            let (iodepth, span) = (step.workload.iodepth, step.workload.span);
            done.push(Point { name: step.name, iodepth, span, iops, read_p50: Some(p50) });
        }
        assert!(done.len() < 1000, "every course ends");
    }
    done
}

/// Every step of every profile fits the files that the profile asks for, also small ones.
#[test]
fn every_step_fits_its_files() {
    for profile in PROFILES {
        for size in [1 << 20, (64 << 20) + 5000] {
            let (files, course) = profile.course(&wish(size));
            let mut course = Progress::new(course);
            let mut done = Vec::new();
            while let Some(group) = course.next_group(&done) {
                for step in group {
                    let files = files[step.files];
                    assert_eq!(files.size.0 % 4096, 0, "{}", profile.name);
                    let capacity = files.size * u64::from(files.count);
                    let w = &step.workload;
                    assert!(profile.writes || w.mix == Mix::Read, "{}", profile.name);
                    for job in 0..w.numjobs {
                        let mut ops = Generator::new(w, capacity, 1, job).expect(&step.name);
                        for _ in 0..50 {
                            let op = ops.next_op();
                            assert!(
                                op.offset + op.length <= ArrayOffset::START + capacity,
                                "{} {op:?}",
                                step.name
                            );
                            if profile.name == "efs" {
                                assert_eq!(
                                    op.offset,
                                    ArrayOffset::START + files.size * u64::from(job),
                                    "offset 0 of its own file"
                                );
                            }
                        }
                    }
                    let point = Point {
                        name: step.name,
                        iodepth: w.iodepth,
                        span: w.span,
                        iops: 1.0,
                        read_p50: None,
                    };
                    done.push(point);
                }
            }
            assert!(!done.is_empty() && done.len() < 100, "{}", profile.name);
        }
    }
}

#[test]
fn the_knee_is_where_the_device_is_full() {
    let mut course = under_way("ladder", &wish(1 << 30));
    let done = run(&mut course, |step| (1000.0 * f64::from(step.workload.iodepth.min(12)), 1));
    assert!(
        course.conclusions(&done)[0].starts_with("knee at iodepth 16: 12.0 k IOPS"),
        "{:?}",
        course.conclusions(&done)
    );
    assert_eq!(done.last().map(|point| point.iodepth), Some(64), "two doublings without gain are enough");
    let mut course = under_way("ladder", &wish(1 << 30));
    let done = run(&mut course, |step| (1000.0 * f64::from(step.workload.iodepth), 1));
    assert!(course.conclusions(&done)[0].starts_with("no knee"), "{:?}", course.conclusions(&done));
    // Twice the rate of the step before, and less than half of the first.
    let mut course = under_way("ladder", &wish(1 << 30));
    let done = run(&mut course, |step| match step.workload.iodepth {
        1 => (1_120_000.0, 1),
        2 => (209_000.0, 1),
        _ => (425_000.0, 1),
    });
    let found = course.conclusions(&done);
    assert!(found[0].starts_with("knee at iodepth 1: 1.12 M IOPS, 100% of the most"), "{found:?}");
}

#[test]
fn caches_are_found_by_their_latency() {
    let mut course = under_way("seek", &wish(1 << 30));
    let done = run(&mut course, |step| {
        let set = step.workload.span.expect("has one").0;
        (
            1.0,
            if set <= 20 << 20 {
                20_000
            } else if set <= 300 << 20 {
                100_000
            } else {
                5_000_000
            },
        )
    });
    let found = course.conclusions(&done);
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(found[0].starts_with("a cache of between 16MiB and 64MiB"), "{found:?}");
    assert!(found[1].starts_with("a cache of between 256MiB and 1GiB"), "{found:?}");
    let mut course = under_way("seek", &wish(1 << 30));
    let done = run(&mut course, |_| (1.0, 80_000));
    assert!(course.conclusions(&done)[0].starts_with("no cache is seen up to 1GiB"));
    assert_eq!(done.len(), 36, "six sets in six passes");
    let order = |pass: usize| done[pass * 6..][..6].iter().map(|point| point.span).collect::<Vec<_>>();
    assert!((1..6).any(|pass| order(pass) != order(0)), "in random order");
}

/// What a uniform device and one with a cache look like on a host that is busy now and then: most reads 20 us, 160 us
/// beyond the cache, and every third step up to three times as slow.
fn seek_on_a_busy_host(seed: u64, cache: Option<u64>) -> Vec<String> {
    let mut course = under_way("seek", &ProfileRequest { seed, ..wish(1 << 30) });
    let rng = std::cell::RefCell::new(Xoshiro256PlusPlus::seed_from_u64(seed));
    let done = run(&mut course, |step| {
        let draw = || rng.borrow_mut().next_u64() % 1000;
        let busy = if draw() < 333 { 1.0 + draw() as f64 / 500.0 } else { 1.0 + draw() as f64 / 5000.0 };
        let set = step.workload.span.expect("has one").0;
        (1.0, (if cache.is_some_and(|cache| set > cache) { 160e3 } else { 20e3 } * busy) as u64)
    });
    course.conclusions(&done)
}

#[test]
fn a_busy_host_is_not_a_cache() {
    let named = |found: &[String]| found.iter().filter(|said| said.starts_with("a cache")).count();
    let (mut invented, mut found) = (0, 0);
    for seed in 0..200 {
        invented += usize::from(named(&seek_on_a_busy_host(seed, None)) > 0);
        let with = seek_on_a_busy_host(seed, Some(20 << 20));
        found += usize::from(named(&with) == 1 && with[0].starts_with("a cache of between 16MiB and 64MiB"));
    }
    assert!(invented <= 2, "{invented} of 200 uniform devices have a cache");
    assert!(found >= 180, "only {found} of 200 caches are found");
}

/// A small set that is always slower contradicts a cache, however much the larger ones differ.
#[test]
fn smaller_sets_must_be_faster() {
    let mut course = under_way("seek", &wish(1 << 30));
    let done = run(&mut course, |step| match step.workload.span.expect("has one").0 >> 20 {
        1 => (1.0, 60_000),
        4 => (1.0, 20_000),
        _ => (1.0, 40_000),
    });
    let found = course.conclusions(&done);
    assert!(found[0].starts_with("no cache is seen"), "{found:?}");
    assert!(found[1].contains("not every smaller set is faster"), "{found:?}");
}

#[test]
fn snia_ends_when_the_writes_are_steady() {
    let mut course = under_way("snia", &wish(1 << 20));
    let number = std::cell::Cell::new(0);
    let done = run(&mut course, |step| {
        number.set(number.get() + usize::from(step.name.ends_with("mix-0")));
        // Slower for three rounds, then steady.
        (if number.get() <= 3 { 9000.0 - 2000.0 * number.get() as f64 } else { 1000.0 }, 1)
    });
    assert_eq!(course.conclusions(&done), ["steady after 8 rounds"]);
    let mut course = under_way("snia", &wish(1 << 20));
    let number = std::cell::Cell::new(0);
    let done = run(&mut course, |_| {
        number.set(number.get() + 1);
        (f64::from(number.get()), 1)
    });
    assert_eq!(course.conclusions(&done), ["steady state was not attained in 25 rounds"]);
}

#[test]
fn bonnie_is_sized_from_memory() {
    let memory = ProfileRequest {
        size: None,
        runtime: None,
        memory: Bytes(1 << 30),
        seed: 1,
        direct_unit: Bytes(4096),
    };
    let (files, course) = Profile::get("bonnie").expect("is one").course(&memory);
    let mut course = Progress::new(course);
    assert_eq!(files[0].size, Bytes(2 << 30));
    let first = course.next_group(&[]).expect("a step").remove(0).workload;
    assert_eq!((first.stop, first.direct, first.end_fsync), (Stop::Size(Bytes(2 << 30)), false, true));
}
