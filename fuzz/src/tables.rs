//! What the kernel, udev and blkid say of devices.
use ebbtide_host::probe::{signature, tables};
use ebbtide_model::observe::diskstats;

pub(crate) fn target(text: &str) {
    for line in diskstats::lines(text) {
        let _ = line.counters.to_use();
    }
    let _ = tables::mountinfo(text);
    let _ = tables::swaps(text);
    let _ = tables::udev(text);
    let _ = signature::parse_blkid(Some(0), text);
}
