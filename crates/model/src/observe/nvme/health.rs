//! NVMe log page 0x02: what a drive says of its own health.
//!
//! Layout: NVM Express Base Specification 1.4, 5.14.1.2 "SMART / Health Information". Little-endian.

use super::{LogPage, LogPageError, head, u64_at};
use serde::Serialize;

/// 0 degrees Celsius in kelvin, as drives round it.
const ZERO_CELSIUS: i32 = 273;

/// Bits of the page's first byte, in words.
const WARNINGS: [&str; 6] = [
    "spare blocks are running out",
    "its temperature is out of range",
    "it is no longer reliable",
    "it takes no more writes",
    "its backup of volatile memory has failed",
    "its persistent memory takes no more writes",
];

/// What a drive says of its health.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Health {
    /// What it warns of; empty when all is well.
    pub warnings: Vec<&'static str>,
    /// Temperature in degrees Celsius; absent where it reports none.
    pub temperature_c: Option<i32>,
    /// Share of its endurance that is used, percent; it may go on beyond 100, up to 255.
    pub used_percent: u8,
    /// Spare blocks left, percent.
    pub spare_percent: u8,
    /// It warns below this percentage.
    pub spare_threshold_percent: u8,
    /// Times that it could not give back what was written.
    pub media_errors: u64,
    /// Hours that the drive was powered on.
    pub power_on_hours: u64,
}

impl LogPage for Health {
    const ID: u8 = 0x02;
    /// It stands for the whole drive.
    const NAMESPACE: u32 = 0xFFFF_FFFF;
    const LENGTH: usize = 512;

    fn parse(bytes: &[u8]) -> Result<Health, LogPageError> {
        let page = head::<512>(bytes)?;
        if page.iter().all(|byte| *byte == 0) {
            return Err(LogPageError::Empty);
        }
        // Counters have 16 bytes; no drive counts beyond the lower eight.
        let count = |at: usize| if u64_at(page, at + 8) == 0 { u64_at(page, at) } else { u64::MAX };
        let kelvin = i32::from(u16::from_le_bytes([page[1], page[2]]));
        let warnings = WARNINGS.iter().enumerate().filter(|(bit, _)| page[0] >> bit & 1 == 1);
        Ok(Health {
            warnings: warnings.map(|(_, words)| *words).collect(),
            temperature_c: (kelvin > 0).then_some(kelvin - ZERO_CELSIUS),
            used_percent: page[5],
            spare_percent: page[3],
            spare_threshold_percent: page[4],
            media_errors: count(160),
            power_on_hours: count(128),
        })
    }
}

impl Health {
    /// Spare blocks left, percent, where the drive tells: one that reports 0 of a threshold of 0 (QEMU's) does not.
    pub fn spare(&self) -> Option<u8> {
        (self.spare_percent > 0 || self.spare_threshold_percent > 0).then_some(self.spare_percent)
    }

    /// What is wrong with the drive, in words; empty when nothing is.
    pub fn troubles(&self) -> Vec<String> {
        let mut troubles: Vec<String> = self.warnings.iter().map(|words| (*words).to_owned()).collect();
        if self.used_percent >= 100 {
            troubles.push(format!("{}% of its endurance is used", self.used_percent));
        }
        if self.media_errors > 0 {
            troubles.push(format!("{} media errors", self.media_errors));
        }
        troubles
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn page(bytes: &[(usize, u8)]) -> [u8; Health::LENGTH] {
        let mut page = [0; Health::LENGTH];
        bytes.iter().for_each(|(at, value)| page[*at] = *value);
        page
    }

    #[test]
    fn fields_are_where_the_specification_has_them() {
        let well = page(&[(1, 0x43), (2, 0x01), (3, 100), (4, 10), (5, 3), (128, 0x10), (129, 0x27)]);
        let health = Health::parse(&well).expect("a page");
        assert_eq!(health.temperature_c, Some(50));
        assert_eq!((health.spare_percent, health.spare_threshold_percent, health.used_percent), (100, 10, 3));
        assert_eq!((health.power_on_hours, health.media_errors), (10_000, 0));
        assert_eq!(health.troubles(), Vec::<String>::new());
        let ill = page(&[(0, 0b1101), (3, 4), (4, 10), (5, 101), (160, 7)]);
        let troubles = Health::parse(&ill).expect("a page").troubles();
        assert_eq!(troubles.len(), 5, "{troubles:?}");
        assert!(troubles[0].contains("spare") && troubles[4] == "7 media errors", "{troubles:?}");
        let spare = |page: &[u8]| Health::parse(page).expect("a page").spare();
        assert_eq!(spare(&ill), Some(4));
        assert_eq!(spare(&page(&[(4, 10)])), Some(0), "used up");
        assert_eq!(spare(&page(&[(1, 0x43), (2, 1)])), None, "not told");
        assert_eq!(Health::parse(&page(&[])), Err(LogPageError::Empty), "all zeros is no page");
        assert_eq!(Health::parse(&well[..511]), Err(LogPageError::Short { found: 511, least: 512 }));
        assert_eq!(Health::parse(&page(&[(168, 1)])).map(|h| h.media_errors), Ok(u64::MAX));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            let health = Health::parse(&bytes).ok();
            prop_assert_eq!(health.is_some(), bytes.len() >= Health::LENGTH && bytes[..Health::LENGTH].iter().any(|b| *b != 0));
            prop_assert!(health.is_none_or(|h| h.warnings.len() <= WARNINGS.len()));
        }
    }
}
