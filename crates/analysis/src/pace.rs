//! How fast operations complete, where they may come in lots.
//!
//! What holds operations back often lets them pass in lots: the kernel's own limits every 100 ms, a cloud volume as its
//! tokens come. Counted from the start of a run to its end, a second of that is off by a lot: by a tenth. From the end of one
//! lot to the end of another it is exact: so many lots in so many periods. A lot may go on from one interval to the next; where
//! nothing is done between them, each is over before the next begins. Without lots it is what was counted by the time
//! between the first interval and the last.

use ebbtide_model::per_op::PerOp;
use ebbtide_model::samples::{Count, Interval, TrialSamples};
use ebbtide_model::units::Nanos;

/// Stretches of time that are compared to tell how much a rate varies.
const STRETCHES: usize = 6;

/// Points that a rate needs: the first only begins it.
const LEAST: usize = 3;

/// How fast something came, and how evenly.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    /// How much of it came per second.
    pub rate: f64,
    /// Standard error of the rate, relative to it: from how much it varied meanwhile.
    pub error: f64,
    /// Largest distance of what was done by some time from what an even rate would have done, relative to all.
    pub unevenness: f64,
    /// An interval of the series by the time between the first and the last that count: a rate is no finer than that where
    /// operations come in lots.
    pub grain: f64,
    /// Seconds between the first interval and the last that count.
    pub span: f64,
}

/// Operations of both kinds.
pub fn ops(count: &PerOp<Count>) -> u64 {
    count.read.ops.saturating_add(count.write.ops)
}

/// The pace of the array in `samples` from `from` on; nothing where less than three intervals had anything done.
pub fn of(samples: &TrialSamples, from: Nanos) -> Option<Pace> {
    over(&samples.series, from)
}

fn over(series: &[Interval], from: Nanos) -> Option<Pace> {
    let mut done = 0.0;
    let mut points: Vec<(f64, f64)> = Vec::new();
    let mut lots: Vec<(f64, f64)> = Vec::new();
    let mut in_lot = false;
    for interval in series.iter().filter(|interval| interval.end > from) {
        let more = ops(&interval.array) as f64;
        if more > 0.0 {
            done += more;
            let point = (interval.end.as_secs_f64(), done);
            points.push(point);
            match lots.last_mut().filter(|_| in_lot) {
                Some(lot) => *lot = point,
                None => lots.push(point),
            }
        }
        in_lot = more > 0.0;
    }
    // One that is not over yet may be a part of a lot.
    if in_lot && lots.len() > LEAST {
        lots.pop();
    }
    if lots.len() >= LEAST {
        points = lots;
    }
    let ((begin, none), (end, all)) = (*points.first()?, *points.last()?);
    let (span, done) = (end - begin, all - none);
    if points.len() < LEAST || span <= 0.0 || done <= 0.0 {
        return None;
    }
    let rate = done / span;
    let unevenness = points
        .iter()
        .map(|(at, count)| (count - none - rate * (at - begin)).abs() / done)
        .fold(0.0, f64::max);
    let grain = series.first().map_or(0.0, |first| first.end.as_secs_f64() / span);
    Some(Pace { rate, error: error(&points, rate), unevenness, grain, span })
}

/// Standard error of the mean of the rates between points that are about as far apart.
fn error(points: &[(f64, f64)], rate: f64) -> f64 {
    let ((begin, _), (end, _)) = (points[0], points[points.len() - 1]);
    let stretches = STRETCHES.min(points.len() - 1);
    let mut at = points[0];
    let mut rates: Vec<f64> = Vec::new();
    for stretch in 1..=stretches {
        let wanted = begin + (end - begin) * stretch as f64 / stretches as f64;
        let next = points.iter().copied().find(|(time, _)| *time >= wanted - 1e-9);
        if let Some(next) = next.filter(|next| next.0 > at.0) {
            rates.push((next.1 - at.1) / (next.0 - at.0));
            at = next;
        }
    }
    let number = rates.len() as f64;
    if number < 2.0 {
        return 1.0;
    }
    let variance = rates.iter().map(|r| (r - rate).powi(2)).sum::<f64>() / (number - 1.0);
    (variance / number).sqrt() / rate
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::series;

    fn pace(counts: &[u64]) -> Pace {
        over(&series(counts), Nanos(0)).expect("a pace")
    }

    #[test]
    fn lots_are_counted_from_end_to_end() {
        // A hundred every half second, in intervals of 100 ms, from somewhere to somewhere: 200 a second.
        let lots = [0, 0, 100, 0, 0, 0, 0, 100, 0, 0, 0, 0, 100, 0, 0, 0, 0, 100, 0, 0, 0];
        let found = pace(&lots);
        assert!(
            (found.rate - 200.0).abs() < 1e-9 && found.error < 1e-9 && found.unevenness < 1e-9,
            "{found:?}"
        );
        // What is late comes with the next.
        let mut late = [100; 30];
        (late[0], late[7], late[8]) = (168, 0, 200);
        let found = pace(&late);
        assert!((found.rate - 1000.0).abs() < 1e-9 && found.unevenness < 1e-9, "{found:?}");
    }

    #[test]
    fn a_lot_in_two_intervals_is_one() {
        // 110 every 100 ms in intervals of 10 ms times ten: the first goes on into the next interval, the last is cut off.
        let mut lots = [0; 41];
        (lots[3], lots[4], lots[13], lots[23], lots[33], lots[40]) = (10, 100, 110, 110, 110, 5);
        let found = pace(&lots);
        assert!((found.rate / (330.0 / 2.9) - 1.0).abs() < 1e-9, "{found:?}");
        // Where something is done all the time there are no lots.
        let mut even = [100; 20];
        even[7] = 0;
        assert!((pace(&even).rate - 1800.0 / 1.9).abs() < 1e-9);
    }

    #[test]
    fn what_varies_is_told() {
        let even = pace(&[100; 20]);
        assert!((even.rate - 1000.0).abs() < 1e-9 && even.error < 1e-9);
        let mut slower = [100; 20];
        slower[10..].fill(50);
        let found = pace(&slower);
        assert!(
            (found.rate - 7400.0 / 9.9).abs() < 30.0 && found.error > 0.1 && found.unevenness > 0.1,
            "{found:?}"
        );
        // From the step on it is even again.
        let after = over(&series(&slower), Nanos::from_secs(1)).expect("a pace");
        assert!((after.rate - 500.0).abs() < 1e-9 && after.error < 1e-9, "{after:?}");
    }

    #[test]
    fn too_little_has_no_pace() {
        let none = |counts: &[u64]| over(&series(counts), Nanos(0)).is_none();
        assert!(none(&[]) && none(&[0; 5]) && none(&[100, 100]) && none(&[0, 100, 0, 100]));
    }
}
