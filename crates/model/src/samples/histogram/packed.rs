//! A histogram in fewer buckets, and as bytes.

use super::{BadHistogram, Buckets, Histogram, SUB_BITS};
use crate::samples::bytes::{Malformed, Reader, put};

/// Up to this many buckets are worth keeping as fine as they are.
const FEW_BUCKETS: usize = 64;

impl Histogram {
    /// The same to `1 / 2^bits` of a value instead of 1/1024: neighbouring buckets are put together at the mean of their
    /// places. Count, sum, minimum and maximum stay exact; a percentile moves by at most `1 / 2^bits` of itself. Where there
    /// are few buckets nothing is changed.
    #[must_use]
    pub fn coarsened(&self, bits: u32) -> Histogram {
        let fine: Vec<(u32, u64)> = self.indexed().collect();
        // The outermost buckets hold minimum and maximum.
        let [first, inner @ .., last] = fine.as_slice() else { return self.clone().compacted() };
        let mut kept = Vec::new();
        if fine.len() <= FEW_BUCKETS {
            kept.clone_from(&fine);
        } else {
            // Below 2^10 the indices are the values, which have fewer than ten bits.
            let group = |index: u32| {
                let drop = index.max(1).ilog2().min(SUB_BITS).saturating_sub(bits);
                (drop, index >> drop)
            };
            kept.push(*first);
            for together in inner.chunk_by(|a, b| group(a.0) == group(b.0)) {
                let count: u64 = together.iter().map(|(_, count)| count).sum();
                let places: u128 = together.iter().map(|(i, n)| u128::from(*i) * u128::from(*n)).sum();
                let mean = (places + u128::from(count) / 2) / u128::from(count.max(1));
                kept.push((mean as u32, count));
            }
            kept.push(*last);
        }
        Histogram { buckets: Buckets::Sparse(kept), ..*self }
    }

    /// Appends it to `to`.
    pub(in crate::samples) fn pack(&self, to: &mut Vec<u8>) {
        let pairs: Vec<(u32, u64)> = self.indexed().collect();
        put(to, pairs.len() as u64);
        if pairs.is_empty() {
            return;
        }
        [self.min, self.max - self.min, self.sum].into_iter().for_each(|figure| put(to, figure));
        let mut former = 0;
        for (index, count) in pairs {
            put(to, u64::from(index - former));
            put(to, count);
            former = index;
        }
    }

    /// Reads what [`pack`](Self::pack) wrote.
    pub(in crate::samples) fn unpack(from: &mut Reader<'_>) -> Result<Histogram, Malformed> {
        let length = from.length(2)?;
        if length == 0 {
            return Ok(Histogram::default());
        }
        let (min, range, sum) = (from.number()?, from.number()?, from.number()?);
        let max = min.checked_add(range).ok_or(Malformed("a histogram that ends beyond 2^64"))?;
        let mut failed = None;
        let pairs = (0..length).map_while(|_| match (from.number(), from.number()) {
            (Ok(step), Ok(count)) => Some([step, count]),
            (Err(error), _) | (_, Err(error)) => {
                failed = Some(error);
                None
            }
        });
        let read = Histogram::checked((min, max, sum), length, pairs);
        failed.map_or_else(|| read.map_err(|BadHistogram(why)| Malformed(why)), Err)
    }
}
