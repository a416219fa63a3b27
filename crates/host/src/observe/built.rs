//! What a run has built, asked of the kernel while it stands.

use super::devices::describe;
use crate::graph;
use crate::sys::Sys;
use ebbtide_model::graph::Layers;
use ebbtide_model::samples::{AsBuilt, Observation};
use std::path::Path;

/// What `device` is by now, with the file system that is mounted on `mountpoint`, and how all devices below it are set; nothing where
/// there is no such device.
pub fn as_built(sys: &Sys, device: &Path, mountpoint: Option<&Path>) -> Observation {
    let (graph, place) = graph::below_path(sys, device).unwrap_or_default();
    let all: Vec<_> = graph.all_below(&place.below.devices).into_iter().map(|at| &graph.nodes[at]).collect();
    // The last is on top of those before it.
    let mount = graph.own_mounts().filter(|mount| mountpoint == Some(Path::new(&mount.mountpoint))).last();
    let built = all.first().map(|top| AsBuilt {
        device: top.name.clone(),
        chunk: all.iter().find_map(|node| node.made.join.chunk()),
        readahead: describe(sys, &top.name, &top.dev.to_string()).readahead,
        filesystem: mount.map(|mount| mount.fstype.clone()),
        mount_options: mount.map(|mount| mount.options.clone()),
    });
    let devices = all.iter().map(|node| describe(sys, &node.name, &node.dev.to_string()));
    Observation { built, devices: devices.collect(), ..Observation::default() }
}
