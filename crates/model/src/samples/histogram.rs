//! A log-linear (HDR-style) histogram of nanoseconds.
//!
//! Values below 2048 have a bucket each; every further power of two is cut into 1024 equal buckets, so a
//! bucket is never wider than 1/1024 of its values: three significant digits. The top of the range is
//! 2^40 ns (18 minutes); what lies above is counted in the last bucket, while minimum, maximum and sum stay exact.

mod packed;

use serde::{Deserialize, Serialize};
use std::fmt;

/// log2 of the number of buckets in one power of two.
const SUB_BITS: u32 = 10;
/// log2 of the first value that no longer has a bucket of its own.
const RANGE_BITS: u32 = 40;
const BUCKETS: usize = ((RANGE_BITS - SUB_BITS + 1) as usize) << SUB_BITS;
/// Largest value that is told from larger ones.
const LARGEST: u64 = (1 << RANGE_BITS) - 1;

/// Parts of a percent in which percentiles are told apart.
const PERCENT_PARTS: u128 = 1_000_000_000;

/// The rank, from 1, of the value at or below which `p` percent of `count` values lie (nearest rank).
///
/// In whole numbers: 99.9 / 100 * 1000 is above 999 in floating point.
pub fn rank(p: f64, count: u64) -> u64 {
    let parts = (p.clamp(0.0, 100.0) * PERCENT_PARTS as f64).round() as u128;
    ((parts * u128::from(count)).div_ceil(100 * PERCENT_PARTS) as u64).clamp(1, count.max(1))
}

/// Index of the bucket that counts `value`.
#[inline]
fn index_of(value: u64) -> usize {
    let value = value.min(LARGEST);
    let shift = 63 - SUB_BITS - (value | (1 << SUB_BITS)).leading_zeros();
    ((shift as usize) << SUB_BITS) + (value >> shift) as usize
}

/// Smallest and largest value of bucket `index`.
fn bounds_of(index: usize) -> (u64, u64) {
    let shift = (index >> SUB_BITS).saturating_sub(1);
    let low = ((index - (shift << SUB_BITS)) as u64) << shift;
    (low, low + (1 << shift) - 1)
}

/// Values that are kept one by one before the dense form is made: a short simulated trial then touches 2 KiB where it
/// would clear and search 254 KiB.
const FEW: usize = 512;

/// Counts by bucket. Recording many values needs the dense form (254 KiB); results are kept in the sparse one.
#[derive(Clone)]
enum Buckets {
    /// The bucket of each value, in the order in which they came; at most [`FEW`].
    Few(Vec<u32>),
    /// Non-empty buckets in ascending order.
    Sparse(Vec<(u32, u64)>),
    /// One counter for every bucket.
    Dense(Box<[u64; BUCKETS]>),
}

/// A bucket that is not empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bucket {
    /// Smallest value it counts, nanoseconds.
    pub low: u64,
    /// Largest value it counts, nanoseconds, inclusive.
    pub high: u64,
    /// Values counted, at least 1.
    pub count: u64,
}

/// Histogram of nanosecond values: three significant digits, exact count, minimum, maximum and sum.
///
/// `Histogram::default()` is empty and owns no memory; [`record`](Self::record) allocates as it grows. A loop that must
/// not allocate starts from [`with_buckets`](Self::with_buckets). [`compact`](Self::compact) gives the memory back.
#[derive(Clone, Serialize, Deserialize)]
#[serde(try_from = "Stored", into = "Stored")]
pub struct Histogram {
    buckets: Buckets,
    count: u64,
    /// Saturates at 2^64 ns, which is 584 years of added-up latency.
    sum: u64,
    /// `u64::MAX` while empty, so that `record` needs no branch.
    min: u64,
    /// Largest value recorded; 0 while empty.
    max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram { buckets: Buckets::Sparse(Vec::new()), count: 0, sum: 0, min: u64::MAX, max: 0 }
    }
}

impl Histogram {
    /// An empty histogram whose [`record`](Self::record) never allocates.
    pub fn with_buckets() -> Self {
        Histogram { buckets: Buckets::Dense(empty_dense()), ..Default::default() }
    }

    /// Counts one more value.
    #[inline]
    pub fn record(&mut self, value: u64) {
        match &mut self.buckets {
            Buckets::Dense(counts) => counts[index_of(value)] += 1,
            _ => self.record_one_of_few(index_of(value)),
        }
        self.count += 1;
        self.sum = self.sum.saturating_add(value);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// Keeps a value by its bucket until there are too many. Out of line, so that it costs loops with many values nothing.
    #[inline(never)]
    fn record_one_of_few(&mut self, index: usize) {
        match &mut self.buckets {
            Buckets::Few(values) if values.len() < FEW => values.push(index as u32),
            Buckets::Sparse(pairs) if pairs.is_empty() => self.buckets = Buckets::Few(vec![index as u32]),
            _ => self.dense()[index] += 1,
        }
    }

    /// Number of values recorded.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Exact smallest value in nanoseconds (after [`diff`](Self::diff): within its bucket).
    pub fn min(&self) -> Option<u64> {
        (self.count > 0).then_some(self.min)
    }

    /// Exact largest value in nanoseconds (after [`diff`](Self::diff): within its bucket).
    pub fn max(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max)
    }

    /// Exact sum of the values in nanoseconds.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// Exact mean in nanoseconds.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// Standard deviation (of the population) in nanoseconds, from the middles of the buckets.
    pub fn std_dev(&self) -> Option<f64> {
        let mean = self.mean()?;
        let squares: f64 = self
            .buckets()
            .map(|b| {
                let middle = b.low as f64 + (b.high - b.low) as f64 / 2.0;
                (middle - mean) * (middle - mean) * b.count as f64
            })
            .sum();
        Some((squares / self.count as f64).sqrt())
    }

    /// The value below or at which `p` percent of all values lie (nearest rank), within 1/2048 of it; from the last
    /// bucket, which begins at 2^40 - 2^29 ns, half way to the maximum.
    ///
    /// `p` is clamped to 0..=100; 0 gives the minimum and 100 the maximum, both exact. `None` when empty or `p` is NaN.
    pub fn percentile(&self, p: f64) -> Option<u64> {
        if self.count == 0 || p.is_nan() {
            return None;
        }
        if p <= 0.0 {
            return Some(self.min);
        }
        if p >= 100.0 {
            return Some(self.max);
        }
        let rank = rank(p, self.count);
        let mut seen = 0;
        let mut reaches = |&(_, count): &(u32, u64)| {
            seen += count;
            seen >= rank
        };
        let found = match &self.buckets {
            // Without the general way, which is for every form: the percentiles of thousands of trials are found here.
            Buckets::Sparse(pairs) => pairs.iter().copied().find(&mut reaches),
            Buckets::Few(_) | Buckets::Dense(_) => self.indexed().find(&mut reaches),
        };
        Some(found.map_or(self.max, |(index, _)| {
            let (low, high) = self.bounds(index);
            (low + (high - low) / 2).clamp(self.min, self.max)
        }))
    }

    /// Share of values that are at most `value` (0 to 1), counting the whole bucket that holds it.
    pub fn share_at_most(&self, value: u64) -> Option<f64> {
        let end = index_of(value);
        let below: u64 = self.indexed().take_while(|(i, _)| *i as usize <= end).map(|(_, count)| count).sum();
        (self.count > 0).then(|| below as f64 / self.count as f64)
    }

    /// Non-empty buckets in ascending order.
    pub fn buckets(&self) -> impl Iterator<Item = Bucket> + '_ {
        self.indexed().map(|(index, count)| {
            let (low, high) = self.bounds(index);
            Bucket { low, high, count }
        })
    }

    /// Lowest and highest value of a bucket; the last one also counts everything above the range.
    fn bounds(&self, index: u32) -> (u64, u64) {
        let (low, high) = bounds_of(index as usize);
        (low, if index as usize + 1 == BUCKETS { high.max(self.max) } else { high })
    }

    /// Adds everything that `other` counted.
    pub fn merge(&mut self, other: &Histogram) {
        if other.count == 0 {
            return;
        }
        match &mut self.buckets {
            Buckets::Dense(counts) => match &other.buckets {
                Buckets::Sparse(pairs) => {
                    pairs.iter().for_each(|(index, count)| counts[*index as usize] += count);
                }
                _ => other.indexed().for_each(|(index, count)| counts[index as usize] += count),
            },
            Buckets::Few(_) | Buckets::Sparse(_) => {
                self.buckets = Buckets::Sparse(join(self.indexed(), other.indexed()));
            }
        }
        self.count += other.count;
        self.sum = self.sum.saturating_add(other.sum);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// What all of `histograms` counted, in one.
    pub fn sum_of<'a>(histograms: impl IntoIterator<Item = &'a Histogram>) -> Histogram {
        let mut filled = histograms.into_iter().filter(|histogram| histogram.count > 0);
        let Some(first) = filled.next() else { return Histogram::default() };
        let Some(second) = filled.next() else { return first.clone().compacted() };
        // Merging sparse ones one by one would copy the sum each time.
        let mut all = Histogram::with_buckets();
        [first, second].into_iter().chain(filled).for_each(|histogram| all.merge(histogram));
        all.compacted()
    }

    /// Everything `n` times over: what `n` calls of [`merge`](Self::merge) add to an empty histogram.
    pub fn times(&self, n: u64) -> Histogram {
        if self.count == 0 || n == 0 {
            return Histogram::default();
        }
        Histogram {
            buckets: Buckets::Sparse(self.indexed().map(|(index, count)| (index, count * n)).collect()),
            count: self.count * n,
            sum: self.sum.saturating_mul(n),
            min: self.min,
            max: self.max,
        }
    }

    /// The same shape in `count` values, each `factor` times as large: where `count` differs, values are left out or repeated
    /// evenly over their order.
    pub fn scaled(&self, count: u64, factor: f64) -> Histogram {
        let mut scaled = Histogram::default();
        if self.count == 0 {
            return scaled;
        }
        let times = |value: u64| (value as f64 * factor).round() as u64;
        let upto = |seen: u64| {
            let product = u128::from(seen) * u128::from(count);
            ((product + u128::from(self.count / 2)) / u128::from(self.count)) as u64
        };
        let (mut seen, mut done) = (0, 0);
        let mut pairs: Vec<(u32, u64)> = Vec::new();
        for bucket in self.buckets() {
            seen += bucket.count;
            let due = upto(seen);
            let middle = (bucket.low + (bucket.high - bucket.low) / 2).clamp(self.min, self.max);
            let index = index_of(times(middle)) as u32;
            match pairs.last_mut().filter(|(last, _)| *last == index) {
                Some((_, count)) => *count += due - done,
                None if due > done => pairs.push((index, due - done)),
                None => {}
            }
            done = due;
        }
        let (Some((first, _)), Some((last, _))) = (pairs.first().copied(), pairs.last().copied()) else {
            return scaled;
        };
        let sum = self.sum as f64 * factor * (count as f64 / self.count as f64);
        let end = |index: u32| bounds_of(index as usize);
        scaled.min = times(self.min).clamp(end(first).0, end(first).1);
        scaled.max = if last as usize + 1 == BUCKETS {
            times(self.max)
        } else {
            times(self.max).clamp(end(last).0, end(last).1)
        };
        scaled.sum = sum.round() as u64;
        scaled.count = done;
        scaled.buckets = Buckets::Sparse(pairs);
        scaled
    }

    /// What was recorded between `earlier` (a former state of this histogram) and now. Count and sum are exact,
    /// minimum and maximum are those of the outermost buckets.
    pub fn diff(&self, earlier: &Histogram) -> Histogram {
        let mut before = earlier.indexed().peekable();
        let mut kept = Vec::new();
        for (index, count) in self.indexed() {
            while before.peek().is_some_and(|(i, _)| *i < index) {
                before.next();
            }
            let old = before.next_if(|(i, _)| *i == index).map_or(0, |(_, count)| count);
            if count > old {
                kept.push((index, count - old));
            }
        }
        let count = kept.iter().map(|(_, count)| count).sum();
        let min = kept.first().map_or(u64::MAX, |(i, _)| bounds_of(*i as usize).0.max(self.min));
        let max = kept.last().map_or(0, |(i, _)| {
            if *i as usize + 1 == BUCKETS { self.max } else { bounds_of(*i as usize).1.min(self.max) }
        });
        Histogram {
            buckets: Buckets::Sparse(kept),
            count,
            sum: if count == 0 { 0 } else { self.sum.saturating_sub(earlier.sum) },
            min,
            max,
        }
    }

    /// Empties it and keeps its memory.
    pub fn clear(&mut self) {
        match &mut self.buckets {
            Buckets::Few(values) => values.clear(),
            Buckets::Sparse(pairs) => pairs.clear(),
            // Only what was touched: a histogram of one interval spans a few octaves.
            Buckets::Dense(counts) if self.count > 0 => {
                counts[index_of(self.min)..=index_of(self.max)].fill(0);
            }
            Buckets::Dense(_) => {}
        }
        (self.count, self.sum, self.min, self.max) = (0, 0, u64::MAX, 0);
    }

    /// Gives back the memory that only recording needs.
    pub fn compact(&mut self) {
        if !matches!(self.buckets, Buckets::Sparse(_)) {
            self.buckets = self.pairs();
        }
    }

    /// The same without the memory that only recording needs.
    pub fn compacted(mut self) -> Histogram {
        self.compact();
        self
    }

    /// A compact copy of what was recorded; empties `self` and keeps its memory.
    pub fn take(&mut self) -> Histogram {
        let taken = Histogram {
            buckets: self.pairs(),
            count: self.count,
            sum: self.sum,
            min: self.min,
            max: self.max,
        };
        self.clear();
        taken
    }

    /// Its buckets in sparse form.
    fn pairs(&self) -> Buckets {
        let Buckets::Dense(counts) = &self.buckets else { return Buckets::Sparse(self.indexed().collect()) };
        let mut pairs = Vec::new();
        if self.count > 0 {
            let first = index_of(self.min);
            // Faster than the general way, where a sum of many is all there is to do.
            for (place, count) in counts[first..=index_of(self.max)].iter().enumerate() {
                if *count > 0 {
                    pairs.push(((first + place) as u32, *count));
                }
            }
        }
        Buckets::Sparse(pairs)
    }

    /// Non-empty buckets as (index, count), in ascending order.
    fn indexed(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        let (few, sparse, dense) = match &self.buckets {
            Buckets::Few(values) => (counted(values), &[][..], None),
            Buckets::Sparse(pairs) => (Vec::new(), pairs.as_slice(), None),
            Buckets::Dense(counts) if self.count > 0 => {
                let first = index_of(self.min);
                (Vec::new(), &[][..], Some((first, &counts[first..=index_of(self.max)])))
            }
            Buckets::Dense(_) => (Vec::new(), &[][..], None),
        };
        let dense = dense
            .into_iter()
            .flat_map(|(first, counts)| (first..).zip(counts).map(|(index, count)| (index as u32, *count)));
        few.into_iter().chain(sparse.iter().copied()).chain(dense).filter(|(_, count)| *count > 0)
    }

    /// Its counts in dense form, converted where they are not.
    #[cold]
    fn dense(&mut self) -> &mut [u64; BUCKETS] {
        if !matches!(self.buckets, Buckets::Dense(_)) {
            let mut counts = empty_dense();
            for (index, count) in self.indexed() {
                counts[index as usize] += count;
            }
            self.buckets = Buckets::Dense(counts);
        }
        match &mut self.buckets {
            Buckets::Dense(counts) => counts,
            Buckets::Few(_) | Buckets::Sparse(_) => unreachable!("just made dense"),
        }
    }
}

/// The buckets of single values, sorted and counted.
fn counted(values: &[u32]) -> Vec<(u32, u64)> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    sorted.chunk_by(|a, b| a == b).map(|equal| (equal[0], equal.len() as u64)).collect()
}

/// All buckets, empty, without a copy on the stack.
fn empty_dense() -> Box<[u64; BUCKETS]> {
    match vec![0; BUCKETS].into_boxed_slice().try_into() {
        Ok(counts) => counts,
        Err(_) => unreachable!("the vector has {BUCKETS} elements"),
    }
}

/// Two sorted lists of (index, count) as one.
fn join(a: impl Iterator<Item = (u32, u64)>, b: impl Iterator<Item = (u32, u64)>) -> Vec<(u32, u64)> {
    let mut joined = Vec::new();
    let (mut a, mut b) = (a.peekable(), b.peekable());
    loop {
        match (a.peek().copied(), b.peek().copied()) {
            (Some(x), Some(y)) if x.0 == y.0 => {
                joined.push((x.0, x.1 + y.1));
                a.next();
                b.next();
            }
            (Some(x), y) if y.is_none_or(|y| x.0 < y.0) => {
                joined.push(x);
                a.next();
            }
            (_, Some(y)) => {
                joined.push(y);
                b.next();
            }
            (_, None) => return joined,
        }
    }
}

impl PartialEq for Histogram {
    fn eq(&self, other: &Self) -> bool {
        (self.count, self.sum, self.min, self.max) == (other.count, other.sum, other.min, other.max)
            && self.indexed().eq(other.indexed())
    }
}

impl Eq for Histogram {}

impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Histogram")
            .field("count", &self.count)
            .field("min", &self.min())
            .field("p50", &self.percentile(50.0))
            .field("p99", &self.percentile(99.0))
            .field("max", &self.max())
            .finish()
    }
}

impl FromIterator<u64> for Histogram {
    fn from_iter<I: IntoIterator<Item = u64>>(values: I) -> Self {
        let mut histogram = Histogram::with_buckets();
        values.into_iter().for_each(|value| histogram.record(value));
        histogram.compact();
        histogram
    }
}

/// The form in which a histogram is stored.
#[derive(Serialize, Deserialize)]
struct Stored {
    /// Exact minimum, maximum, sum; absent when empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    range: Option<(u64, u64, u64)>,
    /// For each non-empty bucket: the distance of its index from the former one's, its count.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    buckets: Vec<u64>,
}

impl From<Histogram> for Stored {
    fn from(histogram: Histogram) -> Self {
        let mut former = 0;
        let mut buckets = Vec::new();
        for (index, count) in histogram.indexed() {
            buckets.extend([u64::from(index - former), count]);
            former = index;
        }
        let range = (histogram.count > 0).then_some((histogram.min, histogram.max, histogram.sum));
        Stored { range, buckets }
    }
}

/// Why stored text is not a histogram.
#[derive(Debug, thiserror::Error)]
#[error("not a histogram: {0}")]
struct BadHistogram(&'static str);

impl TryFrom<Stored> for Histogram {
    type Error = BadHistogram;

    fn try_from(stored: Stored) -> Result<Self, BadHistogram> {
        let (pairs, rest) = stored.buckets.as_chunks::<2>();
        if !rest.is_empty() {
            return Err(BadHistogram("an index without a count"));
        }
        match stored.range {
            Some(range) => Histogram::checked(range, pairs.len(), pairs.iter().copied()),
            None if pairs.is_empty() => Ok(Histogram::default()),
            None => Err(BadHistogram("buckets without a range")),
        }
    }
}

impl Histogram {
    /// From (minimum, maximum, sum) and `length` buckets as the distance of the index from the former one's, and the count.
    fn checked(
        (min, max, sum): (u64, u64, u64),
        length: usize,
        pairs: impl Iterator<Item = [u64; 2]>,
    ) -> Result<Histogram, BadHistogram> {
        let mut index = 0u64;
        let mut count = 0u64;
        let mut kept = Vec::with_capacity(length);
        for (position, [step, n]) in pairs.enumerate() {
            index = index.saturating_add(step);
            if (position > 0 && step == 0) || n == 0 || index >= BUCKETS as u64 {
                return Err(BadHistogram(
                    "bucket indices must ascend within the range and counts be positive",
                ));
            }
            count = count.checked_add(n).ok_or(BadHistogram("more than 2^64 values"))?;
            kept.push((index as u32, n));
        }
        let ends = (kept.first().map(|b| b.0 as usize), kept.last().map(|b| b.0 as usize));
        if min > max || ends != (Some(index_of(min)), Some(index_of(max))) {
            return Err(BadHistogram("minimum and maximum are not in the first and last bucket"));
        }
        Ok(Histogram { buckets: Buckets::Sparse(kept), count, sum, min, max })
    }
}

#[cfg(test)]
mod tests;
