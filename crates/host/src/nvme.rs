//! Log pages of NVMe devices: how any of them is asked for.

use ebbtide_model::observe::nvme::LogPage;
use std::fs::File;
use std::io;

/// Reads the beginning of log page `id` of `namespace` of an NVMe device into a buffer; needs root, changes nothing.
pub type Fetch = fn(device: &File, namespace: u32, id: u8, page: &mut [u8]) -> io::Result<()>;

/// The page of `device`; nothing where it has none or may not be asked.
pub(crate) fn page<P: LogPage>(fetch: Fetch, device: &File) -> Option<P> {
    let mut bytes = vec![0; P::LENGTH];
    fetch(device, P::NAMESPACE, P::ID, &mut bytes)
        .and_then(|()| P::parse(&bytes).map_err(io::Error::other))
        .map_err(|error| tracing::debug!("log page {:#x}: {error}", P::ID))
        .ok()
}
