use super::*;
use proptest::prelude::*;
use std::time::Duration;

fn only(kind: Kind, limit: u64) -> Limits {
    let mut limits = Limits::default();
    limits.0[kind as usize] = Some(limit);
    limits
}

/// A program that moves `speed(t)` in a second while it runs, and whose stops come into effect `late` after they are asked for:
/// what it moved in the end, with the longest stop.
fn paced(
    limits: &Limits,
    seconds: u64,
    late: Duration,
    speed: impl Fn(Duration) -> [f64; 3],
) -> (Counts, Duration, Vec<(Duration, Counts)>) {
    let mut pacer = Pacer::new(limits, Counts::default());
    let (mut at, mut exact, mut longest) = (Duration::ZERO, [0.0; 3], Duration::ZERO);
    let mut stop: Option<Duration> = None;
    let mut course = Vec::new();
    while at < Duration::from_secs(seconds) {
        let moved = Counts(exact.map(|moved: f64| moved as u64));
        course.push((at, moved));
        let step = pacer.next(at, moved);
        let (Step::Run(wait) | Step::Pulse(wait) | Step::Hold(wait)) = step;
        let wait = wait + late;
        let running = match step {
            Step::Run(_) => {
                longest = longest.max(stop.take().map_or(Duration::ZERO, |since| at - since));
                wait
            }
            Step::Pulse(_) => {
                longest = longest.max(stop.map_or(Duration::ZERO, |since| at - since));
                stop = Some(at + wait);
                wait
            }
            Step::Hold(_) if stop.is_none() => {
                stop = Some(at);
                late
            }
            Step::Hold(_) => Duration::ZERO,
        };
        let speed = speed(at);
        for (moved, speed) in exact.iter_mut().zip(speed) {
            *moved += speed * running.as_secs_f64();
        }
        at += wait;
    }
    (Counts(exact.map(|moved| moved as u64)), longest, course)
}

#[test]
fn a_program_that_is_always_faster_has_the_limit() {
    for (limit, speed) in [(1_000_000, 50e6), (5_000_000, 3e9), (50_000_000, 2e9), (500_000_000, 1.5e9)] {
        let late = Duration::from_micros(300);
        let (moved, longest, _) = paced(&only(Kind::Write, limit), 30, late, |_| [0.0, speed, 0.0]);
        let rate = moved[Kind::Write] as f64 / 30.0 / limit as f64;
        assert!((0.98..1.02).contains(&rate), "{limit}: {rate}");
        // What passes in a moment is worth this long a stop, and a tenth of a second.
        let most = Duration::from_secs_f64(speed * 0.002 / limit as f64 + 0.2);
        assert!(longest <= most, "{longest:?}");
    }
}

/// Several writers into the page cache: 8 MB pass whenever they are let run, however short that is, which is eight seconds' worth.
#[test]
fn what_passes_in_a_moment_is_paid_for_by_standing_still() {
    for (kind, limit) in [(Kind::Write, 1_000_000), (Kind::Write, 100_000), (Kind::Read, 300)] {
        let late = Duration::from_millis(2);
        let burst = 8e6 * limit as f64 / 1e6;
        let speed = |_| std::array::from_fn(|of| if of == kind as usize { burst / 0.002 } else { 0.0 });
        let (moved, longest, course) = paced(&only(kind, limit), 300, late, speed);
        let most = |at: Duration| limit as f64 * (at.as_secs_f64() + 0.25) + 2.5 * burst;
        for (at, moved) in course {
            assert!((moved[kind] as f64) <= most(at), "{limit}: {} at {at:?}", moved[kind]);
        }
        let rate = moved[kind] as f64 / 300.0 / limit as f64;
        assert!((0.9..1.1).contains(&rate), "{limit}: {rate}");
        assert!(longest > Duration::from_secs(4), "{longest:?}");
    }
}

/// One call that moves a hundred seconds' worth: it goes on every ten, for as short as can be.
#[test]
fn an_old_debt_is_paid_in_stops_that_end() {
    let mut pacer = Pacer::new(&only(Kind::Write, 1_000_000), Counts::default());
    let moved = Counts([0, 100_000_000, 0]);
    let (mut at, mut runs) = (Duration::from_millis(1), Vec::new());
    // The first stop is for that call.
    while at < Duration::from_secs(300) {
        let step = pacer.next(at, if at > Duration::from_secs(1) { moved } else { Counts::default() });
        let (Step::Run(wait) | Step::Pulse(wait) | Step::Hold(wait)) = step;
        if !matches!(step, Step::Hold(_)) {
            runs.push(at);
        }
        at += wait.min(Duration::from_millis(250));
    }
    let gap = runs.windows(2).map(|pair| pair[1] - pair[0]).max();
    assert!(gap > Some(Duration::from_secs(99)) && gap < Some(Duration::from_secs(101)), "{gap:?}");
}

/// A connection is never silent for longer, and what passed too much meanwhile is held back later.
#[test]
fn the_network_is_held_in_short_stops() {
    let late = Duration::from_micros(500);
    // In each moment that it runs, 0.3 s worth passes; in each of the first three seconds ten times as much.
    let speed = |at: Duration| [0.0, 0.0, if at < Duration::from_secs(3) { 3e10 } else { 3e9 }];
    let (moved, longest, _) = paced(&only(Kind::Net, 10_000_000), 600, late, speed);
    let rate = moved[Kind::Net] as f64 / 600.0 / 10e6;
    assert!((0.95..1.05).contains(&rate), "{rate}");
    assert!(longest <= LONGEST_SILENCE + late * 4, "{longest:?}");
}

/// Somebody else stops both for an hour, while the program stands still for its limit: it has no hour's worth afterwards.
#[test]
fn a_stop_of_somebody_else_s_gives_nothing() {
    let mut pacer = Pacer::new(&only(Kind::Write, 1_000_000), Counts::default());
    let at = Duration::from_secs(1);
    assert!(matches!(pacer.next(at, Counts([0, 5_000_000, 0])), Step::Hold(_)));
    let at = Duration::from_secs(3600);
    assert!(matches!(pacer.next(at, Counts([0, 5_000_000, 0])), Step::Run(_)));
    let at = at + Duration::from_millis(1);
    assert!(matches!(pacer.next(at, Counts([0, 6_500_000, 0])), Step::Hold(_)));
}

#[test]
fn an_idle_program_is_seldom_looked_at() {
    let mut pacer = Pacer::new(&only(Kind::Write, 1_000_000), Counts::default());
    let (mut at, mut looks) = (Duration::ZERO, 0);
    while at < Duration::from_secs(10) {
        let Step::Run(wait) = pacer.next(at, Counts::default()) else { panic!("stopped at {at:?}") };
        (at, looks) = (at + wait, looks + 1);
    }
    assert!(looks < 5_000, "{looks}");
}

#[test]
fn a_program_that_is_slower_is_never_stopped() {
    let mut pacer = Pacer::new(&only(Kind::Net, 1_000_000), Counts::default());
    let mut at = Duration::ZERO;
    for _ in 0..10_000 {
        let moved = Counts([0, 0, (at.as_secs_f64() * 0.95e6) as u64]);
        let Step::Run(wait) = pacer.next(at, moved) else { panic!("stopped at {at:?}") };
        at += wait;
    }
}

#[test]
fn one_limit_of_several_holds_the_program_for_all() {
    let limits = Limits([Some(100_000_000), Some(10_000_000), None]);
    let speed = |_| [40e6, 20e6, 1e9];
    let (moved, ..) = paced(&limits, 30, Duration::ZERO, speed);
    // Writes may be half as fast as they are, so everything is.
    let share = moved[Kind::Write] as f64 / 30.0 / 10e6;
    assert!((0.98..1.02).contains(&share), "{share}");
    assert!((19e6..21e6).contains(&(moved[Kind::Read] as f64 / 30.0)));
}

proptest! {
    /// Whatever the program does, at each look it has moved no more than the limit since the beginning, what the bucket holds
    /// and what passed before the last stop took effect: with the fastest speed, a run of that length and being late.
    #[test]
    fn never_more_than_the_limit_and_what_passes_before_a_stop(
        limit in 1_000_000u64..1_000_000_000,
        speeds in prop::collection::vec(0.0f64..3e9, 1..20),
        late_us in 0u64..2_000,
    ) {
        let late = Duration::from_micros(late_us);
        let at = |t: Duration| speeds[(t.as_millis() / 37) as usize % speeds.len()];
        let (_, longest, course) = paced(&only(Kind::Read, limit), 5, late, |t| [at(t), 0.0, 0.0]);
        // A program is presumed to move 1 GB/s: faster ones empty the bucket before the next look.
        let fastest = speeds.iter().copied().fold(0.0, f64::max);
        let overshoot = fastest * (0.001 + 3.0 * late.as_secs_f64()) + fastest / 1e9 * 0.25 * limit as f64;
        let rest = Duration::from_secs_f64(overshoot / limit as f64 + 0.1).max(LONGEST_REST);
        prop_assert!(longest <= rest + late * 3, "{longest:?}");
        for (at, moved) in course {
            let most = limit as f64 * (at.as_secs_f64() + 0.25) + overshoot;
            prop_assert!((moved[Kind::Read] as f64) <= most, "{} at {at:?}, not {most}", moved[Kind::Read]);
        }
    }
}
