//! Log pages of NVMe drives.
#![no_main]

use ebbtide_model::observe::nvme::{EbsPage, Health, LogPage};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = EbsPage::parse(bytes);
    let _ = Health::parse(bytes);
});
