//! NVMe log page 0xD0.
#![no_main]

use ebbtide_model::observe::nvme_log::LogPage;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = LogPage::parse(bytes);
});
