//! What a device shares its blocks with, upwards and downwards, as the host's [`graph`](crate::graph) knows it; and who has it open.
//!
//! ```text
//! above    mounts, swap, md, dm, loop devices over it or over its partitions
//! itself   a disk with its partitions
//! below    the disk of a partition; what a loop device stands on, with everything else that stands on that;
//!          the members of an array, and what else stands on them in a way that may share their blocks
//! ```

use super::{HostLook, cannot_tell, claimed, has_open};
use crate::graph::{Behind, Loop, Node, Sharer, Use};
use crate::sys::DevNum;
use ebbtide_door::{Footprint, Identity};
use ebbtide_model::guard::{Reason, RefusalKind};
use ebbtide_model::shown::Shown;

fn raw(dev: DevNum) -> u64 {
    rustix::fs::makedev(dev.major, dev.minor)
}

impl HostLook {
    /// What `dev` stands on.
    pub(super) fn footprint_of(&self, dev: DevNum) -> Footprint {
        let mut footprint = Footprint::alone(Identity::Device(raw(dev)));
        let Some(top) = self.graph.by_dev(dev) else { return footprint };
        let device = |at: usize| Identity::Device(raw(self.graph.nodes[at].dev));
        let file = |at: usize| match self.graph.nodes[at].over()?.behind {
            Behind::File(dev, ino) => Some(Identity::File { dev, ino }),
            Behind::Device(_) | Behind::Unknown => None,
        };
        // A loop device passes everything on to what it stands on, and so does that.
        let mut passes_on = true;
        for at in self.graph.blocks_below(top) {
            let place = if passes_on { &mut footprint.covers } else { &mut footprint.within };
            place.extend((at != top).then(|| device(at)).into_iter().chain(file(at)));
            passes_on &= self.graph.nodes[at].over().is_some();
        }
        footprint
    }

    /// Every use of `dev` and of what shares its blocks.
    pub(super) fn in_use(&self, dev: DevNum) -> Vec<Reason> {
        let mut reasons = self.uses_above(dev);
        self.below_in_use(dev, &mut reasons);
        reasons
    }

    /// Every use of `dev` itself and of its partitions, but for programs that only read it.
    pub(super) fn uses_above(&self, dev: DevNum) -> Vec<Reason> {
        let mut reasons = Vec::new();
        self.whole(dev).for_each(|at| self.use_of(at, None, &mut reasons));
        reasons
    }

    /// Every use of `dev` itself and of its partitions, programs that only read it among them.
    pub(super) fn users_above(&self, dev: DevNum) -> Vec<Reason> {
        let mut reasons = Vec::new();
        for at in self.whole(dev) {
            self.use_of(at, None, &mut reasons);
            let node = &self.graph.nodes[at];
            let open = format!("{} open", node.shown_name());
            reasons.extend(self.staying(node.dev, false).iter().map(|opener| has_open(opener, &open)));
        }
        reasons
    }

    /// A device with its partitions: who writes to a disk writes to those too. Nobody uses one that is not there.
    fn whole(&self, dev: DevNum) -> impl Iterator<Item = usize> {
        let whole = |at| std::iter::once(at).chain(self.graph.partitions(at));
        self.graph.by_dev(dev).into_iter().flat_map(whole)
    }

    /// Every use of what `dev` stands on but through it.
    pub(super) fn below_in_use(&self, dev: DevNum, reasons: &mut Vec<Reason>) {
        for sharer in self.graph.by_dev(dev).map_or_else(Vec::new, |at| self.graph.sharers(at)) {
            match sharer {
                Sharer::Device(at, through) => self.use_of(at, through, reasons),
                Sharer::Behind(loop_device) => {
                    let node = &self.graph.nodes[loop_device];
                    node.over().into_iter().for_each(|over| self.behind(loop_device, node, over, reasons));
                }
            }
        }
    }

    /// Uses of what is behind a loop device.
    fn behind(&self, at: usize, node: &Node, over: &Loop, reasons: &mut Vec<Reason>) {
        match over.behind {
            Behind::Device(device) => self.claimed(&self.graph.nodes[device], node, reasons),
            Behind::File(dev, ino) => self.file_below(at, over, (dev, ino), reasons),
            Behind::Unknown => {
                let what = format!("what else uses {}, the file behind {},", over.path.shown(), node.name);
                reasons.push(cannot_tell(&what, "run it as root, or where the file can be seen"));
            }
        }
    }

    /// Uses of the device at this place but by `through`, which stands on it and is what is to be written.
    fn use_of(&self, at: usize, through: Option<usize>, reasons: &mut Vec<Reason>) {
        let node = &self.graph.nodes[at];
        let uses = self.graph.uses(at, through);
        let openers = self.staying(node.dev, true);
        let open = format!("{} open to write", node.shown_name());
        let openers = openers.iter().map(|opener| has_open(opener, &open));
        for reason in uses.into_iter().map(|one| self.against(node.shown_name(), one)).chain(openers) {
            if !reasons.contains(&reason) {
                reasons.push(reason);
            }
        }
    }

    /// What stands against writing a device or a file, and how it goes.
    pub(super) fn against(&self, name: &str, used: Use<'_>) -> Reason {
        let shown =
            |nodes: &[&Node]| nodes.iter().map(|node| node.shown_name()).collect::<Vec<_>>().join(", ");
        let (kind, what, remedy) = match used {
            Use::Mounted(places) => {
                let more = match places.len() - 1 {
                    0 => String::new(),
                    more => format!(" and {more} more"),
                };
                (
                    RefusalKind::Mounted,
                    format!("{name} is mounted on {}{more}", places[0]),
                    format!("unmount it (`umount {}`) if nothing needs it", places[0]),
                )
            }
            Use::Swap(path) => (
                RefusalKind::Swap,
                format!("{name} is swap in use"),
                format!("`swapoff {path}` if the memory suffices without it"),
            ),
            Use::Part(of) => (
                RefusalKind::Held,
                format!("{name} is part of {}", shown(&of)),
                "stop what is built on it first (mdadm --stop, vgchange -an, cryptsetup close)".to_owned(),
            ),
            Use::Behind(loops) => {
                let detach = format!("`losetup -d /dev/{}`", loops[0].name);
                let mounts =
                    self.graph.by_dev(loops[0].dev).map_or_else(Vec::new, |at| self.graph.mounts_of(at));
                let (mounted, remedy) = match mounts.first() {
                    Some(place) => (
                        format!(", which is mounted on {place}"),
                        format!("unmount it (`umount {place}`) and detach it ({detach})"),
                    ),
                    None => (String::new(), format!("detach it first ({detach})")),
                };
                let what = format!("{name} is behind {}{mounted}", shown(&loops));
                (RefusalKind::Held, what, format!("{remedy} if nothing needs it"))
            }
            Use::Same(others) => (
                RefusalKind::Held,
                format!("{name} is the same image of Ceph as {}", others[0].name),
                format!("unmap one of them (`rbd device unmap /dev/{}`)", others[0].name),
            ),
            Use::Exported(seen) => (
                RefusalKind::Held,
                format!("{name} is exported to other hosts over {} as {}", seen.protocol, seen.target),
                seen.remedy(),
            ),
        };
        Reason { kind, what, remedy }
    }

    /// A loop device does not claim the device that it stands on: whether somebody has, in whatever namespace, the kernel
    /// tells by refusing a claim.
    fn claimed(&self, node: &Node, over: &Node, reasons: &mut Vec<Reason>) {
        if !self.sys.is_host() || reasons.iter().any(|reason| reason.kind.is_absolute()) {
            return;
        }
        let what = format!("{}, behind {},", node.name, over.name);
        match ebbtide_door::is_claimed(&self.sys.dev.join(&node.name), raw(node.dev)) {
            Ok(false) => {}
            Ok(true) => {
                reasons.push(claimed(format!("{what} is claimed by the kernel or a program")));
            }
            Err(_) => reasons.push(cannot_tell(&format!("who uses {what}"), "run it as root")),
        }
    }
}
