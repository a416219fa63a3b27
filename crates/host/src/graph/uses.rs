//! Whose a device is: who uses it, and who else has its blocks.

use super::{Behind, Graph, KernelExport, Loop, Node, Stands};
use ebbtide_model::graph::Layers;

/// A use of a device or file by somebody.
#[derive(Debug, Clone, PartialEq)]
pub enum Use<'a> {
    /// It is mounted there, in whatever namespace.
    Mounted(Vec<&'a str>),
    /// It is swapped on, under this path.
    Swap(&'a str),
    /// It is a part of these devices.
    Part(Vec<&'a Node>),
    /// It is behind these loop devices.
    Behind(Vec<&'a Node>),
    /// These devices are the same.
    Same(Vec<&'a Node>),
    /// It is given to other hosts.
    Exported(&'a KernelExport),
}

/// Who may have blocks of a device that is to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharer {
    /// A device below it, or beside it on the same disk: whoever uses it but through this one has its blocks.
    Device(usize, Option<usize>),
    /// What is behind this loop device.
    Behind(usize),
}

impl Graph {
    /// Where a device is mounted, in whatever namespace, each place once.
    pub fn mounts_of(&self, device: usize) -> Vec<&str> {
        let on = self.mounts.iter().filter(|seen| seen.on.contains(&device));
        sorted(on.map(|seen| seen.mount.mountpoint.as_str()))
    }

    /// Who uses a device, but for the device `through`, which stands on it.
    pub fn uses(&self, device: usize, through: Option<usize>) -> Vec<Use<'_>> {
        let Some(node) = self.nodes.get(device) else { return Vec::new() };
        let nodes = |places: &mut dyn Iterator<Item = usize>| -> Option<Vec<&Node>> {
            Some(places.map(|at| &self.nodes[at]).collect()).filter(|nodes: &Vec<&Node>| !nodes.is_empty())
        };
        let mounts = self.mounts_of(device);
        let mut uses: Vec<Use<'_>> = Vec::new();
        uses.extend((!mounts.is_empty()).then_some(Use::Mounted(mounts)));
        uses.extend(self.swapped(Behind::Device(device)));
        uses.extend(nodes(&mut self.other_holders(device, through)).map(Use::Part));
        uses.extend(nodes(&mut self.loops(device).filter(|over| Some(*over) != through)).map(Use::Behind));
        uses.extend(nodes(&mut node.same.iter().copied()).map(Use::Same));
        uses.extend(self.exported(Behind::Device(device)));
        uses
    }

    /// Who uses the file with this device and inode number, but for the loop device `through`.
    pub fn uses_of_file(&self, (dev, ino): (u64, u64), through: Option<usize>) -> Vec<Use<'_>> {
        let file = Behind::File(dev, ino);
        let is_behind = |node: &Node| node.over().is_some_and(|over| over.behind == file);
        let loops = (0..self.count()).filter(|at| Some(*at) != through && is_behind(&self.nodes[*at]));
        let mut uses: Vec<Use<'_>> = loops.map(|over| Use::Behind(vec![&self.nodes[over]])).collect();
        uses.extend(self.exported(file));
        uses.extend(self.swapped(file));
        uses
    }

    fn exported(&self, what: Behind) -> impl Iterator<Item = Use<'_>> {
        self.exports.iter().filter(move |seen| seen.exposed == what).map(Use::Exported)
    }

    fn swapped(&self, what: Behind) -> impl Iterator<Item = Use<'_>> {
        self.swaps.iter().filter(move |seen| seen.on == what).map(|seen| Use::Swap(&seen.path))
    }

    /// Devices that are made of this one, without `through` and without those that share a member with it by design: logical
    /// volumes and mapped partitions, each with blocks of its own.
    fn other_holders(&self, device: usize, through: Option<usize>) -> impl Iterator<Item = usize> {
        let apart = move |uuid: &str| uuid.starts_with("LVM-") || uuid.starts_with("part");
        let own = through.and_then(|through| self.nodes.get(through)).map_or("", |node| &node.dm_uuid);
        // LVM names the origin of a snapshot after the volume that everybody sees: writing to that one uses up the snapshots'
        // space, and one that is full is lost.
        let origin = !own.is_empty() && self.nodes[device].dm_uuid == format!("{own}-real");
        let is_other = move |holder: &usize| {
            Some(*holder) != through && (origin || !(apart(own) && apart(&self.nodes[*holder].dm_uuid)))
        };
        self.holders(device).filter(is_other)
    }

    /// Who may have blocks of a device without standing on it: all that is below, and what else is on that in a way that may share
    /// them. The nearest first.
    pub fn sharers(&self, device: usize) -> Vec<Sharer> {
        let mut found = Vec::new();
        for at in self.blocks_below(device) {
            match &self.nodes[at].stands {
                Stands::Alone => {}
                Stands::Partition { of, .. } => {
                    found.push(Sharer::Device(*of, None));
                    found.extend(self.overlapping(at, *of).map(|other| Sharer::Device(other, None)));
                }
                Stands::Members(members) => {
                    found.extend(members.iter().map(|one| Sharer::Device(*one, Some(at))))
                }
                Stands::Loop(Loop { behind, .. }) => {
                    if let Behind::Device(below) = *behind {
                        let parts = std::iter::once(below).chain(self.partitions(below));
                        found.extend(parts.map(|part| Sharer::Device(part, Some(at))));
                    }
                    found.push(Sharer::Behind(at));
                }
            }
        }
        found
    }

    /// Partitions of `disk` that share blocks with its partition `part`, as an extended one does with the logical ones.
    fn overlapping(&self, part: usize, disk: usize) -> impl Iterator<Item = usize> {
        let shares = move |other: usize| match (self.nodes[part].extent(), self.nodes[other].extent()) {
            (Some((start, size)), Some((other_start, other_size))) => {
                other_start < start.saturating_add(size) && start < other_start.saturating_add(other_size)
            }
            _ => true,
        };
        self.partitions(disk).filter(move |other| *other != part && shares(*other))
    }
}

/// In order, each once.
fn sorted<'a>(places: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut places: Vec<&str> = places.collect();
    places.sort_unstable();
    places.dedup();
    places
}
