//! What can only be seen on real devices. Requires root and a free loop device:
//! `cargo test -p ebbtide-host --test root -- --ignored`
#![allow(clippy::disallowed_methods)]

use ebbtide_door::{DoorError, Expected, Wanted};
use ebbtide_host::graph;
use ebbtide_host::judge;
use ebbtide_host::sys::Sys;
use ebbtide_model::graph::Layers;
use ebbtide_model::guard::{Permission, RefusalKind, WriteRequest};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A loop device over a new file of 64 MiB, detached at the end whatever happens.
struct Loop {
    device: PathBuf,
    _directory: tempfile::TempDir,
    _alone: MutexGuard<'static, ()>,
}

/// A program that one test starts holds for a moment what another has claimed: until it runs, as every fork.
static ALONE: Mutex<()> = Mutex::new(());

impl Loop {
    fn new() -> Loop {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("volume");
        std::fs::File::create(&file).and_then(|f| f.set_len(64 << 20)).expect("a file");
        // Partitions go with the device.
        let path = run("losetup", &["--find", "--show", "--partscan", file.to_str().expect("UTF-8")]);
        Loop { device: PathBuf::from(path.trim()), _directory: directory, _alone: alone }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.device).status();
    }
}

fn run(program: &str, arguments: &[&str]) -> String {
    let done = Command::new(program).args(arguments).output().expect("the program runs");
    assert!(done.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8_lossy(&done.stdout).into_owned()
}

/// Why it is not claimed: whoever only asks is told the same.
fn refused(path: &Path, destroy: bool) -> Vec<RefusalKind> {
    let request = WriteRequest { path, permission: Permission::User { id: None, destroy, used: false } };
    let wanted = [Wanted { request, expected: Expected::Any, write: true }];
    let kinds = |answer: Result<(), (usize, DoorError)>| match answer {
        Ok(()) => Vec::new(),
        Err((_, DoorError::Refused(refusal))) => refusal.reasons.iter().map(|r| r.kind).collect(),
        Err((_, error)) => panic!("{error}"),
    };
    let asked = kinds(judge::door().may_claim(&wanted));
    let claimed = kinds(judge::door().claim(&wanted).map(drop));
    assert_eq!(asked, claimed);
    claimed
}

#[test]
#[ignore = "requires root and a free loop device"]
fn a_device_is_refused_once_it_has_a_file_system_and_when_it_is_mounted() {
    let volume = Loop::new();
    let device = volume.device.as_path();
    assert_eq!(refused(device, false), [RefusalKind::NotDestroy]);
    assert_eq!(refused(device, true), []);
    run("mkfs.ext4", &["-q", device.to_str().expect("UTF-8")]);
    assert_eq!(refused(device, false), [RefusalKind::Signature]);
    assert_eq!(refused(device, true), [RefusalKind::Signature, RefusalKind::NoId]);
    let mountpoint = tempfile::tempdir().expect("a directory");
    run("mount", &[device.to_str().expect("UTF-8"), mountpoint.path().to_str().expect("UTF-8")]);
    let kinds = refused(device, true);
    let below = graph::below_path(&Sys::host(), mountpoint.path());
    run("umount", &[mountpoint.path().to_str().expect("UTF-8")]);
    assert_eq!(kinds, [RefusalKind::Mounted]);
    let (graph, place) = below.expect("a place");
    assert_eq!(place.fstype.as_deref(), Some("ext4"));
    let below = graph.all_below(&place.below.devices);
    let first = below.first().map(|at| format!("/dev/{}", graph.nodes[*at].name));
    assert_eq!(first.as_deref(), device.to_str(), "{place:?}");
    assert!(below.len() > 1, "the file's own disk is below the loop device: {below:?}");
}

#[test]
#[ignore = "requires root and a free loop device"]
fn a_disk_is_refused_while_its_partition_is_mounted() {
    let disk = Loop::new();
    // 16 MiB behind 1 MiB; not every kernel reads every kind of partition table.
    run("addpart", &[disk.device.to_str().expect("UTF-8"), "1", "2048", "32768"]);
    let part = PathBuf::from(format!("{}p1", disk.device.display()));
    assert_eq!(refused(&disk.device, false), [RefusalKind::PartitionTable]);
    assert_eq!(refused(&part, true), []);
    let name = part.to_str().expect("UTF-8");
    run("mkfs.ext4", &["-q", name]);
    let mountpoint = tempfile::tempdir().expect("a directory");
    run("mount", &[name, mountpoint.path().to_str().expect("UTF-8")]);
    let (of_disk, of_part) = (refused(&disk.device, true), refused(&part, true));
    run("umount", &[mountpoint.path().to_str().expect("UTF-8")]);
    assert_eq!(of_disk, [RefusalKind::Mounted]);
    assert_eq!(of_part, [RefusalKind::Mounted]);
}
