//! Working sets of several sizes in passes, and the caches that they show.
//!
//! One pass cannot tell a cache from a host that was busy for a second: a median rises by half now and then on the most
//! uniform of devices. So every pass reads all sets in a random order of its own, and a cache is named only where the
//! passes agree and every set within it is faster than every set beyond.

use super::Point;
use crate::Estimate;
use crate::estimate::estimate;
use ebbtide_model::profile::{PASSES, Seek};
use ebbtide_model::units::{Bytes, format_latency};

const LEVEL: f64 = 0.95;
/// A median this many times the one of the set before has left a cache. Smaller steps are within the noise of a
/// shared host.
const JUMP: f64 = 1.5;
/// The least of the rise's interval: passes that hardly show it do not agree on it.
const RISE_MIN: f64 = 1.2;

/// A working set, as its passes found it.
struct Set {
    size: Bytes,
    /// Median of its reads in each pass.
    p50: Vec<f64>,
    over: Estimate,
}

/// The caches that `done` shows, what looks like one and is none, and each set's median.
pub(super) fn conclusions(seek: &Seek, done: &[Point]) -> Vec<String> {
    let sets: Vec<Set> = seek.sizes().iter().filter_map(|size| Set::new(*size, done)).collect();
    let mut said: Vec<String> = (1..sets.len()).filter_map(|at| boundary(&sets, at)).collect();
    let largest = sets.last().map(|set| set.size).unwrap_or_default();
    if !said.iter().any(|said| said.starts_with("a cache")) && sets.len() > 1 {
        let none = format!(
            "no cache is seen up to {largest}: over {PASSES} passes in random order no median rises reliably by half from \
             one set to the next"
        );
        said.insert(0, none);
    }
    let medians: Vec<String> = sets.iter().map(Set::words).collect();
    if !medians.is_empty() {
        said.push(format!("median read of {PASSES} passes: {}", medians.join("; ")));
    }
    said
}

impl Set {
    /// `None` where nothing was read of it.
    fn new(size: Bytes, done: &[Point]) -> Option<Set> {
        let of_it = done.iter().filter(|point| point.span == Some(size));
        let p50: Vec<f64> = of_it.filter_map(|point| Some(point.read_p50? as f64)).collect();
        let over = estimate(&p50, LEVEL)?;
        Some(Set { size, p50, over })
    }

    fn words(&self) -> String {
        let median = format_latency(self.over.median);
        match self.over.interval {
            Some((low, high)) => {
                format!("{} {median} ({} to {})", self.size, format_latency(low), format_latency(high))
            }
            None => format!("{} {median}", self.size),
        }
    }
}

/// What lies between set number `at` and the one before it, where anything seems to.
fn boundary(sets: &[Set], at: usize) -> Option<String> {
    let (within, beyond) = sets.split_at(at);
    let (small, large) = (within.last()?, beyond.first()?);
    // Both of the same pass: what drifts from pass to pass has no part in it.
    let rises: Vec<f64> = small.p50.iter().zip(&large.p50).map(|(small, large)| large / small).collect();
    let rise = estimate(&rises, LEVEL)?;
    let (low, high) = rise.interval?;
    if rise.median < JUMP {
        return None;
    }
    let medians = |sets: &[Set]| sets.iter().map(|set| set.over.median).collect::<Vec<f64>>();
    let slowest_within = medians(within).into_iter().fold(0.0, f64::max);
    let fastest_beyond = medians(beyond).into_iter().fold(f64::INFINITY, f64::min);
    let (smaller, larger) = (small.size, large.size);
    let times = format!("{:.1} ({low:.1} to {high:.1}) times", rise.median);
    Some(if low < RISE_MIN {
        format!(
            "between {smaller} and {larger} the median read rises {times}: the passes do not agree, so it is called no cache"
        )
    } else if fastest_beyond < slowest_within * RISE_MIN {
        format!(
            "between {smaller} and {larger} the median read rises {times}, but not every smaller set is faster than every \
             larger one, as a cache would have it"
        )
    } else {
        format!(
            "a cache of between {smaller} and {larger}: the median read takes {} within it and {} beyond, {times} as long",
            format_latency(small.over.median),
            format_latency(large.over.median)
        )
    })
}
