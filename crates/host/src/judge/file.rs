//! Regular files: who has them open, and what the kernel's and `ebb`'s own are.

use super::programs::{PATIENCE, STEP};
use super::{HostLook, cannot_tell, has_open, not_destroy};
use crate::graph::{Behind, Loop};
use ebbtide_door::read;
use ebbtide_model::guard::{Permission, Reason, RefusalKind};
use ebbtide_model::shown::Shown;
use ebbtide_sys::lease::{Openers, openers};
use rustix::io::Errno;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::time::Instant;

/// File systems whose regular files are the kernel's own attributes (linux/magic.h).
const KERNELS: &[(u64, &str)] = &[
    (0x9fa0, "procfs"),
    (0x6265_6572, "sysfs"),
    (0x6462_6720, "debugfs"),
    (0x7472_6163, "tracefs"),
    (0x6265_6570, "configfs"),
    (0x7363_6673, "securityfs"),
    (0xde5e_81e4, "efivarfs"),
    (0x0027_e0eb, "cgroup"),
    (0x6367_7270, "cgroup2"),
    (0xcafe_4a11, "bpf"),
    (0x6165_676c, "pstore"),
    (0x1cd1, "devpts"),
    (0xf97c_ff8c, "selinuxfs"),
    (0x6e73_6673, "nsfs"),
    (0x4249_4e4d, "binfmt_misc"),
];

/// File systems that give a lease only where their server has promised to tell of other hosts (a delegation, an oplock; linux/magic.h,
/// fs/smb/common/smb2pdu.h): without that promise they refuse one as if somebody had the file open, whoever has.
const SERVED: [u64; 3] = [0x6969, 0xff53_4d42, 0xfe53_4d42];

/// What `told` says of a file on the file system with this number.
fn on_filesystem(magic: u64, told: Openers) -> Openers {
    match told {
        Openers::Some if SERVED.contains(&magic) => Openers::Untold(Errno::AGAIN),
        told => told,
    }
}

fn magic_of(file: &File) -> u64 {
    rustix::fs::fstatfs(file).map_or(0, |found| found.f_type as u64 & 0xFFFF_FFFF)
}

impl HostLook {
    /// Every reason against writing the regular file that `file` is open on.
    pub(super) fn against_file(&self, file: &File, permission: Permission<'_>) -> Vec<Reason> {
        let magic = magic_of(file);
        let mut reasons = Vec::new();
        let mut push = |kind, what: String, remedy: &str| {
            reasons.push(Reason { kind, what, remedy: remedy.to_owned() });
        };
        if let Some((_, name)) = KERNELS.iter().find(|(number, _)| *number == magic) {
            push(
                RefusalKind::NotADevice,
                format!("it is a file of the kernel's ({name})"),
                "name a file on a disk",
            );
        }
        if let Some(own) = ebbtide_door::own::recognise(file) {
            push(RefusalKind::Own, format!("it is {own} of ebb's"), "name another file");
        }
        reasons.extend(self.users_of_file(file));
        // What may not be destroyed was not opened to be written, and an overlay has not copied it up.
        if reasons.is_empty() && !matches!(permission, Permission::User { destroy: false, .. }) {
            reasons.extend(self.users_below(file));
        }
        let (id, destroy) = match permission {
            Permission::User { id, destroy, .. } => (id, destroy),
            Permission::Exported { id, .. } => (id, true),
            Permission::Built => return reasons,
        };
        let in_use = !reasons.is_empty();
        if let Some(id) = id {
            reasons.push(Reason {
                kind: RefusalKind::WrongId,
                what: format!("it is a file, and `{id}` is the id of a device"),
                remedy: "write `file = ` without an id, or name the device".to_owned(),
            });
        }
        if !destroy && !in_use {
            reasons.push(not_destroy("it is an existing file"));
        }
        reasons
    }

    /// Who else has the file open: loop devices, swap, programs.
    pub(super) fn users_of_file(&self, file: &File) -> Vec<Reason> {
        let Ok(found) = file.metadata() else { return vec![cannot_tell("what it is", "try again")] };
        let (begin, magic) = (Instant::now(), magic_of(file));
        let told = loop {
            match on_filesystem(magic, openers(file)) {
                Openers::None => return Vec::new(),
                // One that has just been started still holds what its parent has.
                Openers::Some if begin.elapsed() < PATIENCE => std::thread::sleep(STEP),
                told => break told,
            }
        };
        let mut reasons = self.named_users((found.dev(), found.ino()), None);
        if !reasons.is_empty() {
            return reasons;
        }
        match told {
            Openers::Some => reasons.push(Reason {
                kind: RefusalKind::Open,
                what: "a program has it open, which this user may not see".to_owned(),
                remedy: "`fuser -v FILE` as root names it; end it first".to_owned(),
            }),
            // Its owner is not told by this file system; who may see everybody's open files has seen nobody.
            _ => reasons.extend(self.untold_openers()),
        }
        reasons
    }

    /// That not all programs' open files can be seen.
    pub(super) fn untold_openers(&self) -> Option<Reason> {
        let openers = self.openers();
        if let Some(why) = openers.unlisted {
            let what = format!("{why}: whether one of them has it open");
            return Some(cannot_tell(&what, "run it as root, outside of the container"));
        }
        (openers.hidden > 0).then(|| {
            let what = format!("whether one of {} programs of other users has it open", openers.hidden);
            cannot_tell(&what, "run it as root, or as the owner of the file")
        })
    }

    /// Users of the file with this device and inode number that can be named, but for the loop device `through`.
    pub(super) fn named_users(&self, file: (u64, u64), through: Option<usize>) -> Vec<Reason> {
        let uses = self.graph.uses_of_file(file, through);
        let mut reasons: Vec<Reason> = uses.into_iter().map(|one| self.against("it", one)).collect();
        let openers = self.openers().files.get(&file).into_iter().flatten();
        reasons.extend(openers.map(|opener| has_open(opener, "it open")));
        reasons.dedup();
        reasons
    }

    /// Uses of the file behind the loop device `over`, which is at this place, by others than that.
    pub(super) fn file_below(&self, at: usize, over: &Loop, file: (u64, u64), reasons: &mut Vec<Reason>) {
        let (shown, name) = (over.path.shown(), &self.graph.nodes[at].name);
        let below =
            open_backing(over, self.sys.root()).map(|file| self.users_below(&file)).unwrap_or_default();
        for mut reason in self.named_users(file, Some(at)).into_iter().chain(below) {
            reason.what = format!("{shown}, the file behind {name}: {}", reason.what);
            reasons.push(reason);
        }
        let hidden = |over: &Loop| over.behind == Behind::Unknown;
        let unknown = self.graph.nodes.iter().filter(|node| node.over().is_some_and(hidden));
        let unknown: Vec<&str> = unknown.map(|node| node.name.as_str()).collect();
        if !unknown.is_empty() {
            let what = format!("whether {} has the same file", unknown.join(", "));
            reasons.push(cannot_tell(&what, "run it as root"));
        }
    }
}

/// Where the content of the loop device `over`'s file can be read: only where its name still leads to it.
pub(super) fn open_backing(over: &Loop, root: &std::path::Path) -> Option<File> {
    let path = root.join(over.path.strip_prefix("/").unwrap_or(&over.path));
    let Behind::File(dev, ino) = over.behind else { return None };
    let found = std::fs::metadata(&path).ok()?;
    if (found.dev(), found.ino()) != (dev, ino) {
        return None;
    }
    let file = read::open(&path).ok()?;
    let found = file.metadata().ok()?;
    ((found.dev(), found.ino()) == (dev, ino)).then_some(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_file_server_did_not_promise_says_nothing_of_who_has_a_file_open() {
        let told = |magic| on_filesystem(magic, Openers::Some);
        // NFS and SMB; ext4.
        assert_eq!(
            (told(0x6969), told(0xfe53_4d42)),
            (Openers::Untold(Errno::AGAIN), Openers::Untold(Errno::AGAIN))
        );
        assert_eq!(told(0xef53), Openers::Some);
        assert_eq!(on_filesystem(0x6969, Openers::None), Openers::None);
    }
}
