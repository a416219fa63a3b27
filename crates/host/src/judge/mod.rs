//! What may be written: the rules of the door ([`ebbtide_door`]) for this host.
//!
//! A device in use (mounted, swapped on, part of another device, open in a program) is never written, nor is one that
//! shares its blocks with such a one: its partitions, the disk that it is a partition of, what a loop device of it or
//! below it stands on. A device with anything on it is written only when the experiment names that very device by a
//! stable id and the command says `--destroy`; an existing file when the command says `--destroy`. What cannot be found
//! out counts against it.

mod content;
mod file;
mod mounted;
mod programs;
mod stack;
mod stacked;
#[cfg(test)]
mod tests;

pub use mounted::{mounted_over, mounts_that};

use crate::command::{Never, Real};
use crate::graph::dm::Tables;
use crate::graph::{self, Graph};
use crate::probe::{self, BlockDevice, Kind};
use crate::rbd;
use crate::sys::{self, DevNum, Sys};
use ebbtide_door::{Door, Footprint, Identity, Judge, Look, NamedDevice, Opened};
use ebbtide_model::guard::{Permission, Reason, RefusalKind, WriteRequest};
use programs::{Opener, Openers};
use std::cell::OnceCell;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;

/// The door of this host.
pub fn door() -> Door {
    Door::new(Arc::new(HostJudge))
}

/// Who uses the block device at `device`, whatever it stands on: mounts, swap, devices over it and its partitions, a claim,
/// programs that have it open, to read it too. Nothing on a host that is not this one.
pub fn users_of_device(sys: &Sys, device: &str) -> Vec<Reason> {
    look_at(sys, device).map_or_else(Vec::new, |(look, number)| claims_on(&look, device, number))
}

/// Who would lose what they have written to the block device at `device` if it went away: mounts, swap, devices over it and its
/// partitions, programs that have it open to write. It is not opened, so that one that does not answer holds nobody up. Nothing on a host
/// that is not this one.
pub fn losers_of_device(sys: &Sys, device: &str) -> Vec<Reason> {
    look_at(sys, device).map_or_else(Vec::new, |(look, number)| look.uses_above(DevNum::from_raw(number)))
}

/// The host as it is now, and the number of the block device at `device`; nothing on a host that is not this one.
fn look_at(sys: &Sys, device: &str) -> Option<(HostLook, u64)> {
    let found = std::fs::metadata(device).ok()?;
    (sys.is_host() && found.file_type().is_block_device()).then(|| (HostLook::new(sys.clone()), found.rdev()))
}

fn claims_on(look: &HostLook, device: &str, number: u64) -> Vec<Reason> {
    let mut reasons = look.users_above(DevNum::from_raw(number));
    if reasons.is_empty() && ebbtide_door::is_claimed(Path::new(device), number).unwrap_or(false) {
        reasons.push(claimed("the kernel or a program has claimed it for itself".to_owned()));
    }
    reasons
}

/// The same, and who uses what it stands on by another way than through it: a second loop device over its file, a partition.
pub fn sharers_of_device(sys: &Sys, device: &str) -> Vec<Reason> {
    let Some((look, number)) = look_at(sys, device) else { return Vec::new() };
    let mut reasons = claims_on(&look, device, number);
    if reasons.is_empty() {
        look.below_in_use(DevNum::from_raw(number), &mut reasons);
        reasons.retain(|reason| reason.kind != RefusalKind::Untold);
    }
    reasons
}

/// Mounts on the directory `path`, in whatever namespace. Nothing on a host that is not this one.
pub fn mounts_on(sys: &Sys, path: &Path) -> Vec<Reason> {
    let directory = ebbtide_door::Directory::open(path).ok().filter(|_| sys.is_host());
    directory.map_or_else(Vec::new, |directory| HostLook::new(sys.clone()).mounts_on_name(directory.handle()))
}

/// A program that is at work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// Its name, as the kernel has it.
    pub name: String,
    /// Its process ID.
    pub pid: u32,
    /// Its command line, where it is this very program.
    pub own: Option<Vec<String>>,
}

/// Programs but this one that have the file with this device and inode number open, as far as this user may see.
pub fn programs_with(sys: &Sys, file: (u64, u64)) -> Vec<Program> {
    let openers = programs::openers(sys).files.remove(&file).unwrap_or_default();
    let executable = |pid: &str| {
        let found = std::fs::metadata(sys.proc.join(pid).join("exe")).ok()?;
        Some((found.dev(), found.ino()))
    };
    let this = executable("self");
    openers
        .into_iter()
        .map(|opener| {
            let pid = opener.pid.to_string();
            let own = (this.is_some() && executable(&pid) == this).then(|| {
                let line = sys::text(&sys.proc.join(&pid).join("cmdline")).unwrap_or_default();
                line.split('\0').filter(|word| !word.is_empty()).map(str::to_owned).collect()
            });
            Program { name: opener.name, pid: opener.pid, own }
        })
        .collect()
}

struct HostJudge;

impl Judge for HostJudge {
    fn look(&self) -> Box<dyn Look + '_> {
        Box::new(HostLook::new(Sys::host()))
    }

    fn named(&self, path: &Path) -> Result<Option<NamedDevice>, String> {
        let sys = Sys::host();
        let found = rbd::named_by(&sys, path).map_err(|error| error.to_string())?;
        Ok(found.map(|mapped| NamedDevice {
            node: sys.dev.join(&mapped.device),
            number: rustix::fs::makedev(mapped.dev.major, mapped.dev.minor),
        }))
    }
}

/// The host at one instant.
struct HostLook {
    sys: Sys,
    graph: Graph,
    openers: OnceCell<Openers>,
}

impl HostLook {
    fn new(sys: Sys) -> HostLook {
        // Whose blocks are whose is in sysfs: what mappings do with them is not asked.
        HostLook { graph: graph::read_with(&sys, &Tables::new(&Never)), sys, openers: OnceCell::new() }
    }
}

impl Look for HostLook {
    fn footprint(&self, file: &File) -> io::Result<Footprint> {
        let found = file.metadata()?;
        if found.file_type().is_block_device() {
            Ok(self.footprint_of(DevNum::from_raw(found.rdev())))
        } else {
            let mut footprint = Footprint::alone(Identity::of(&found));
            footprint.covers.extend(self.files_below(file).iter().map(Identity::of));
            Ok(footprint)
        }
    }

    fn reasons(&self, opened: &Opened<'_>) -> Vec<Reason> {
        let Ok(found) = opened.file.metadata() else {
            return vec![cannot_tell("what it is", "try again")];
        };
        if found.is_file() {
            return self.against_file(opened.file, opened.request.permission);
        }
        let dev = DevNum::from_raw(found.rdev());
        let contents = match opened.request.permission {
            Permission::Built => Vec::new(),
            Permission::User { used, .. } => self.contents(&Real, dev, opened.file, used),
            Permission::Exported { .. } => self.contents(&Real, dev, opened.file, false),
        };
        self.against_device(dev, contents, opened.busy, opened.request)
    }

    fn users(&self, file: &File) -> Vec<Reason> {
        let mut reasons = self.mounts_on_name(file);
        if !file.metadata().is_ok_and(|found| found.is_file()) {
            return reasons;
        }
        reasons.extend(self.users_of_file(file));
        if reasons.is_empty() {
            // A name that is taken away leaves the content of a file below to whoever is not seen.
            reasons.extend(self.users_below(file));
            reasons.retain(|reason| reason.kind != RefusalKind::Untold);
        }
        reasons
    }

    fn foreign(&self, file: &File, labels: &[String]) -> Vec<Reason> {
        self.foreign_content(&Real, file, labels)
    }
}

/// Something that could not be found out.
fn cannot_tell(what: &str, remedy: &str) -> Reason {
    Reason { kind: RefusalKind::Untold, what: format!("{what} cannot be told"), remedy: remedy.to_owned() }
}

/// Something that nobody seen has claimed for itself.
fn claimed(what: String) -> Reason {
    let remedy = "end what uses it first: a mount, an array, a program".to_owned();
    Reason { kind: RefusalKind::Held, what, remedy }
}

/// A program that has `what` open.
fn has_open(opener: &Opener, what: &str) -> Reason {
    Reason {
        kind: RefusalKind::Open,
        what: format!("{} (process {}) has {what}", opener.name, opener.pid),
        remedy: "end the program first".to_owned(),
    }
}

/// Something found on a device that would be lost.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Loss {
    kind: RefusalKind,
    what: String,
    /// The UUID that the device itself carries.
    uuid: Option<String>,
}

impl HostLook {
    /// Every reason against writing the device `dev`, on which `contents` were found; `busy` when the kernel refuses an
    /// exclusive claim.
    fn against_device(
        &self,
        dev: DevNum,
        contents: Vec<Loss>,
        busy: bool,
        request: &WriteRequest<'_>,
    ) -> Vec<Reason> {
        let device = self.graph.by_dev(dev).and_then(|at| probe::one(&self.sys, &self.graph, at, &Never));
        let Some(device) = &device else {
            return vec![Reason {
                kind: RefusalKind::NotADevice,
                what: format!("no block device {dev} of non-zero size is in /sys/block"),
                remedy: "`ebb volumes` lists devices".to_owned(),
            }];
        };
        let mut reasons = self.in_use(dev);
        if busy && !reasons.iter().any(|reason| reason.kind.is_absolute()) {
            let name = device.shown_name();
            reasons.push(claimed(format!("the kernel or a program has claimed {name} for itself")));
        }
        if device.read_only {
            let snapshot = device.kind == Kind::Rbd && device.ids.best().is_some_and(|id| id.contains('@'));
            reasons.push(Reason {
                kind: RefusalKind::ReadOnly,
                what: format!(
                    "{} is {}",
                    device.name,
                    if snapshot { "a snapshot, which can be read only" } else { "read-only" }
                ),
                remedy: if snapshot {
                    "name the image without its @SNAPSHOT"
                } else {
                    "choose another device"
                }
                .to_owned(),
            });
        }
        let (id, destroy, carries) = match request.permission {
            Permission::User { id, destroy, .. } => (id, Some(destroy), None),
            Permission::Exported { id, carries } => (id, None, carries),
            Permission::Built => return reasons,
        };
        let in_use = !reasons.is_empty();
        if let Some(id) = id
            && !device.ids.matches(id)
        {
            reasons.push(Reason {
                kind: RefusalKind::WrongId,
                what: format!("its stable id is not `{id}`"),
                remedy: match device.ids.best() {
                    Some(own) if destroy.is_none() => format!("this device is `{own}`"),
                    Some(own) => format!("the experiment may mean another device; this one is `{own}`"),
                    None => "the device has no stable id".to_owned(),
                },
            });
        }
        // How to release what may not be written at all would be bad advice.
        if !in_use {
            reasons.extend(match destroy {
                Some(destroy) => self.not_allowed(device, contents, id, destroy),
                None => self.not_named(device, contents, id, carries),
            });
        }
        reasons
    }

    /// What is on the device, where neither its name nor what it is said to carry means this very one: another host could overwrite
    /// what nobody meant.
    fn not_named(
        &self,
        device: &BlockDevice,
        contents: Vec<Loss>,
        id: Option<&str>,
        carries: Option<&str>,
    ) -> Vec<Reason> {
        if let Some(said) = carries {
            let others = contents.into_iter().filter(|loss| loss.uuid.as_deref() != Some(said));
            let reason = |Loss { what, uuid, .. }: Loss| {
                let (what, remedy) = match uuid {
                    Some(uuid) => (
                        format!("{what} with the UUID {uuid}, and not {said}"),
                        format!(", and if that is to be exported say `--carries {uuid}`"),
                    ),
                    None => (format!("{what}, and not what has the UUID {said}"), String::new()),
                };
                let remedy = format!("another device may be meant: {}{remedy}", look(device));
                Reason { kind: RefusalKind::WrongId, what, remedy }
            };
            return others.map(reason).collect();
        }
        if id.is_some() {
            return Vec::new();
        }
        let remedy = |uuid: Option<String>| match (device.ids.by_id.first(), uuid) {
            (Some(id), _) => format!(
                "if that is to be exported, name it so that no other device is meant: /dev/disk/by-id/{id}"
            ),
            (None, Some(uuid)) => {
                format!("{NAMELESS}: {}, and if that is to be exported say `--carries {uuid}`", look(device))
            }
            (None, None) => format!("{NAMELESS}: {}; {RULE}", look(device)),
        };
        let found =
            contents.into_iter().map(|Loss { kind, what, uuid }| Reason { kind, what, remedy: remedy(uuid) });
        found.chain(self.untold_openers()).collect()
    }

    /// What is on the device, and what lacks to be allowed to destroy it.
    fn not_allowed(
        &self,
        device: &BlockDevice,
        contents: Vec<Loss>,
        id: Option<&str>,
        destroy: bool,
    ) -> Vec<Reason> {
        if destroy && id.is_some() {
            return Vec::new();
        }
        let untold = self.untold_openers();
        if contents.is_empty() && untold.is_none() {
            return if destroy { Vec::new() } else { vec![not_destroy("its content would be lost")] };
        }
        let remedy = match device.ids.best() {
            _ if id.is_some() => "if it may be lost, say `--destroy`".to_owned(),
            Some(id) => format!("if it may be lost, give `id = \"{id}\"` in the experiment and `--destroy`"),
            None => format!("{NAMELESS}: {}; name a blank device, or {RULE}", look(device)),
        };
        let mut reasons: Vec<Reason> = contents
            .into_iter()
            .map(|Loss { kind, what, .. }| Reason { kind, what, remedy: remedy.clone() })
            .collect();
        reasons.extend(untold);
        if destroy {
            reasons.push(Reason {
                kind: RefusalKind::NoId,
                what: "it is not named by its stable id".to_owned(),
                remedy: "names like /dev/sdb move at a reboot; an id does not".to_owned(),
            });
        } else if id.is_some() {
            reasons.push(not_destroy("its content would be lost"));
        }
        reasons
    }
}

/// That nothing but the kernel's name of this boot leads to a device.
const NAMELESS: &str = "it has no name below /dev/disk/by-id that would mean this very device";
/// How it gets one.
const RULE: &str =
    "a rule of udev's can give it such a name (`SYMLINK+=\"disk/by-id/NAME\"`, by its ID_PATH)";

/// How to see what is on `device`.
fn look(device: &BlockDevice) -> String {
    format!("look at what is there (`lsblk -f /dev/{0}`, `blkid -p /dev/{0}`)", device.name)
}

fn not_destroy(what: &str) -> Reason {
    Reason {
        kind: RefusalKind::NotDestroy,
        what: what.to_owned(),
        remedy: "say `--destroy` if it may be overwritten".to_owned(),
    }
}
