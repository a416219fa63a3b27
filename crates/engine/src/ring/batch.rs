//! How many operations go to the kernel in one call.

/// Largest batch where everything completes within the call. More saves nothing that can be measured (16 and 32 cost the
/// same CPU per read of a cached file) and makes every operation wait for the whole batch.
const INLINE_MAX: u32 = 16;

/// Adapts the size of a submission to what the target does with it.
///
/// Where every operation completes within the call (page cache, `/dev/null`) a larger batch only saves calls, so it
/// grows to 16. Where operations stay with a device, one call that submits everything that is free makes the
/// device wait for the call's end and then for the next batch: measured on ext4 with O_DIRECT at iodepth 32, submitting
/// all free slots in one call cost 10% of the IOPS against batches of up to 4, an eighth of the depth.
#[derive(Debug)]
pub(super) struct Batch {
    size: u32,
    least: u32,
    most: u32,
}

impl Batch {
    pub(super) fn new(iodepth: u32) -> Self {
        let least = (iodepth / 8).max(1);
        Batch { size: least, least, most: iodepth.clamp(1, INLINE_MAX).max(least) }
    }

    /// Operations to submit with the next call.
    #[inline]
    pub(super) fn size(&self) -> u32 {
        self.size
    }

    /// Learns from a call: whether everything submitted was complete when it came back.
    #[inline]
    pub(super) fn learn(&mut self, all_complete: bool) {
        if all_complete {
            self.size = (self.size * 2).min(self.most);
        } else if self.size > self.least {
            // Slower down than up, so that a single miss of a cache does not end batching.
            self.size -= (self.size - self.least).div_ceil(4);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_while_all_is_inline_and_falls_back_to_an_eighth_of_the_depth() {
        let mut batch = Batch::new(32);
        assert_eq!(batch.size(), 4);
        (0..4).for_each(|_| batch.learn(true));
        assert_eq!(batch.size(), 16);
        batch.learn(false);
        assert_eq!(batch.size(), 13);
        (0..20).for_each(|_| batch.learn(false));
        assert_eq!(batch.size(), 4);
    }

    #[test]
    fn a_depth_of_one_stays_one() {
        let mut batch = Batch::new(1);
        batch.learn(true);
        assert_eq!(batch.size(), 1);
        batch.learn(false);
        assert_eq!(batch.size(), 1);
    }
}
