//! Log pages of NVMe drives.
use ebbtide_model::observe::nvme::{EbsPage, Health, LogPage};

pub(crate) fn target(bytes: &[u8]) {
    let _ = EbsPage::parse(bytes);
    let _ = Health::parse(bytes);
}
