//! NVMe log page 0xD0 of Amazon EBS volumes: time spent above the limits of the volume and of the instance.
//!
//! Layout: amazon-ec2-utils' `ebsnvme` and nvme-cli's amzn plugin (catalog, device_identity.json). Little-endian;
//! counters only grow, so what happened in a span is the difference of two pages.

use super::{LogPage, LogPageError, head, u64_at};
use crate::samples::LimitsExceeded;
use crate::units::Nanos;

const EBS_MAGIC: u32 = 0x3C23_B510;
const INSTANCE_STORE_MAGIC: u32 = 0xEC2C_0D7E;

/// The counters of one page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EbsPage {
    /// Reads completed.
    pub read_ops: u64,
    /// Writes completed.
    pub write_ops: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Time above limits; nothing for instance store, which has none.
    pub exceeded: Option<LimitsExceeded>,
    /// Operations queued at the volume at this moment.
    pub queue_length: u64,
}

impl LogPage for EbsPage {
    const ID: u8 = 0xD0;
    /// That of an EBS volume (catalog, device_identity.json).
    const NAMESPACE: u32 = 1;
    const LENGTH: usize = 4096;

    fn parse(bytes: &[u8]) -> Result<EbsPage, LogPageError> {
        let head = head::<96>(bytes)?;
        let magic = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
        if magic != EBS_MAGIC && magic != INSTANCE_STORE_MAGIC {
            return Err(LogPageError::Magic(magic));
        }
        let count = |at| u64_at(head, at);
        let microseconds = |at| Nanos(count(at).saturating_mul(1000));
        Ok(EbsPage {
            read_ops: count(8),
            write_ops: count(16),
            read_bytes: count(24),
            write_bytes: count(32),
            exceeded: (magic == EBS_MAGIC).then(|| LimitsExceeded {
                volume_iops: microseconds(56),
                volume_throughput: microseconds(64),
                instance_iops: microseconds(72),
                instance_throughput: microseconds(80),
            }),
            queue_length: count(88),
        })
    }
}

impl EbsPage {
    /// Time above limits since `before`; nothing when either page has none, or the counters fell (another volume).
    pub fn exceeded_since(&self, before: &EbsPage) -> Option<LimitsExceeded> {
        let (now, before) = (self.exceeded?, before.exceeded?);
        let grown = now.zip_with(&before, Nanos::since);
        // `since` is nothing where a counter fell.
        (before.plus(&grown) == now).then_some(grown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Made up after the layout in the catalog.
    fn page(magic: u32, counters: &[(usize, u64)]) -> Vec<u8> {
        let mut page = vec![0; EbsPage::LENGTH];
        page[..4].copy_from_slice(&magic.to_le_bytes());
        for (at, value) in counters {
            page[*at..*at + 8].copy_from_slice(&value.to_le_bytes());
        }
        page
    }

    #[test]
    fn counters_are_where_the_layout_says() {
        let before = EbsPage::parse(&page(EBS_MAGIC, &[(8, 5), (56, 1_000), (80, 7)])).expect("a page");
        let now = EbsPage::parse(&page(EBS_MAGIC, &[(8, 9), (24, 4096), (56, 251_000), (80, 7), (88, 3)]))
            .expect("a page");
        assert_eq!((now.read_ops, now.read_bytes, now.queue_length), (9, 4096, 3));
        let exceeded = now.exceeded_since(&before).expect("both are EBS");
        assert_eq!(exceeded.volume_iops, Nanos::from_millis(250));
        assert_eq!((exceeded.volume_throughput, exceeded.instance_throughput), (Nanos(0), Nanos(0)));
        assert_eq!(before.exceeded_since(&now), None, "counters never fall on one volume");
    }

    #[test]
    fn instance_store_has_no_limits_and_others_are_refused() {
        let page = EbsPage::parse(&page(INSTANCE_STORE_MAGIC, &[(56, 9)])).expect("a page");
        assert_eq!(page.exceeded, None);
        assert_eq!(EbsPage::parse(&[0; 4096]), Err(LogPageError::Magic(0)));
        assert_eq!(EbsPage::parse(&[1; 20]), Err(LogPageError::Short { found: 20, least: 96 }));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = EbsPage::parse(&bytes);
        }
    }
}
