//! NVMe log page 0xD0 of Amazon EBS volumes: time spent above the limits of the volume and of the instance.
//!
//! Layout: amazon-ec2-utils' `ebsnvme` and nvme-cli's amzn plugin (catalog, device_identity.json). Little-endian;
//! counters only grow, so what happened in a span is the difference of two pages.

use crate::samples::LimitsExceeded;
use crate::units::Nanos;

/// Log identifier.
pub const LOG_ID: u8 = 0xD0;
/// Bytes to read for an EBS volume.
pub const EBS_LENGTH: usize = 4096;
const EBS_MAGIC: u32 = 0x3C23_B510;
const INSTANCE_STORE_MAGIC: u32 = 0xEC2C_0D7E;

/// The counters of one page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LogPage {
    /// Operations completed.
    pub read_ops: u64,
    /// Operations completed.
    pub write_ops: u64,
    /// Bytes moved.
    pub read_bytes: u64,
    /// Bytes moved.
    pub write_bytes: u64,
    /// Time above limits; nothing for instance store, which has none.
    pub exceeded: Option<LimitsExceeded>,
    /// Operations queued at the volume at this moment.
    pub queue_length: u64,
}

/// Why bytes are not a log page 0xD0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LogPageError {
    /// Too short.
    #[error("the page has {0} bytes, at least 96 are needed")]
    Short(usize),
    /// Not the magic number of EBS or instance store.
    #[error("the page begins with {0:#010x}, which is neither EBS nor instance store")]
    Magic(u32),
}

impl LogPage {
    /// Reads the counters of a page.
    ///
    /// # Errors
    /// When the bytes are not such a page.
    pub fn parse(bytes: &[u8]) -> Result<LogPage, LogPageError> {
        let head: &[u8; 96] = bytes.first_chunk().ok_or(LogPageError::Short(bytes.len()))?;
        let u64_at = |at: usize| {
            head.get(at..).and_then(|b| b.first_chunk::<8>()).map_or(0, |b| u64::from_le_bytes(*b))
        };
        let magic = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
        if magic != EBS_MAGIC && magic != INSTANCE_STORE_MAGIC {
            return Err(LogPageError::Magic(magic));
        }
        let microseconds = |at| Nanos(u64_at(at).saturating_mul(1000));
        Ok(LogPage {
            read_ops: u64_at(8),
            write_ops: u64_at(16),
            read_bytes: u64_at(24),
            write_bytes: u64_at(32),
            exceeded: (magic == EBS_MAGIC).then(|| LimitsExceeded {
                volume_iops: microseconds(56),
                volume_throughput: microseconds(64),
                instance_iops: microseconds(72),
                instance_throughput: microseconds(80),
            }),
            queue_length: u64_at(88),
        })
    }

    /// Time above limits since `before`; nothing when either page has none, or the counters fell (another volume).
    pub fn exceeded_since(&self, before: &LogPage) -> Option<LimitsExceeded> {
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
        let mut page = vec![0; EBS_LENGTH];
        page[..4].copy_from_slice(&magic.to_le_bytes());
        for (at, value) in counters {
            page[*at..*at + 8].copy_from_slice(&value.to_le_bytes());
        }
        page
    }

    #[test]
    fn counters_are_where_the_layout_says() {
        let before = LogPage::parse(&page(EBS_MAGIC, &[(8, 5), (56, 1_000), (80, 7)])).expect("a page");
        let now = LogPage::parse(&page(EBS_MAGIC, &[(8, 9), (24, 4096), (56, 251_000), (80, 7), (88, 3)]))
            .expect("a page");
        assert_eq!((now.read_ops, now.read_bytes, now.queue_length), (9, 4096, 3));
        let exceeded = now.exceeded_since(&before).expect("both are EBS");
        assert_eq!(exceeded.volume_iops, Nanos::from_millis(250));
        assert_eq!((exceeded.volume_throughput, exceeded.instance_throughput), (Nanos(0), Nanos(0)));
        assert_eq!(before.exceeded_since(&now), None, "counters never fall on one volume");
    }

    #[test]
    fn instance_store_has_no_limits_and_others_are_refused() {
        let page = LogPage::parse(&page(INSTANCE_STORE_MAGIC, &[(56, 9)])).expect("a page");
        assert_eq!(page.exceeded, None);
        assert_eq!(LogPage::parse(&[0; 4096]), Err(LogPageError::Magic(0)));
        assert_eq!(LogPage::parse(&[1; 20]), Err(LogPageError::Short(20)));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = LogPage::parse(&bytes);
        }
    }
}
