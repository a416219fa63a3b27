//! What a run has built, asked of the kernel while it stands.

use super::devices::describe;
use crate::chain;
use crate::probe::tables;
use crate::sys::Sys;
use ebbtide_model::samples::{AsBuilt, Observation};
use std::path::Path;

/// What `device` is by now, with the file system that is mounted on `mountpoint`, and how all devices below it are set; nothing where
/// there is no such device.
pub fn as_built(sys: &Sys, device: &Path, mountpoint: Option<&Path>) -> Observation {
    let chain = chain::of_path(sys, device).unwrap_or_default();
    let mounts = tables::mounts_of(sys);
    // The last is on top of those before it.
    let mount = mounts.iter().rev().find(|mount| mountpoint == Some(Path::new(&mount.mountpoint)));
    let built = chain.tops().next().map(|top| AsBuilt {
        device: top.name.clone(),
        chunk: chain.links.iter().find_map(|link| link.below.join.chunk()),
        readahead: describe(sys, &top.name, &top.dev.to_string()).readahead,
        filesystem: mount.map(|mount| mount.fstype.clone()),
        mount_options: mount.map(|mount| mount.options.clone()),
    });
    let devices = chain.links.iter().map(|link| describe(sys, &link.name, &link.dev.to_string()));
    Observation { built, devices: devices.collect(), ..Observation::default() }
}
