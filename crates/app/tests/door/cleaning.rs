//! What cleaning up removes, unmounts and detaches: what runs and guests of `ebb` made, and nothing of anybody's that is in
//! its place.

use super::common::{Home, Loop, status, stderr, tool};
use super::states::{Mount, blank};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Output;

fn lab(home: &Home, line: &str) -> Output {
    home.ebb(line).env("XDG_CACHE_HOME", home.path("cache")).output().unwrap()
}

/// A directory as ebb makes and marks it, `ebbtide_door::MARK`.
fn marked(directory: &Path) {
    std::fs::create_dir_all(directory).unwrap();
    ebbtide_door::Directory::open(directory).unwrap().mark().unwrap();
}

/// Somebody's directory, or file, mounted in what an ended guest, or an image, left.
#[test]
#[ignore = "requires root"]
fn what_is_mounted_in_a_directory_of_the_lab_s_stays() {
    for (inside, line) in [("guests/g1/in", "lab clean"), ("images/0123/in", "lab clean --all")] {
        for is_file in [false, true] {
            let home = Home::new();
            let own = home.path("cache/ebbtide/lab").join(inside);
            marked(own.parent().unwrap());
            std::fs::create_dir_all(home.path("v")).unwrap();
            std::fs::write(home.path("v/p"), "a user's own").unwrap();
            std::fs::write(own.parent().unwrap().join("disk0.disk"), "x").unwrap();
            let from = if is_file {
                std::fs::write(&own, "").unwrap();
                home.path("v/p")
            } else {
                std::fs::create_dir(&own).unwrap();
                home.path("v")
            };
            tool("mount", &["--bind", from.to_str().unwrap(), own.to_str().unwrap()]);
            let output = lab(&home, line);
            tool("umount", &[own.to_str().unwrap()]);
            assert_eq!(std::fs::read(home.path("v/p")).unwrap(), b"a user's own");
            assert_eq!(status(&output), 1, "{output:?}");
            assert_eq!(status(&output), 1, "{output:?}");
            assert!(stderr(&output).contains("something is mounted at"), "{output:?}");
            assert!(own.parent().unwrap().join("disk0.disk").exists(), "all of it or nothing");
            assert_eq!(status(&lab(&home, line)), 0);
            assert!(!own.parent().unwrap().exists(), "it goes once nothing is mounted");
        }
    }
}

/// A run that ended.
pub const RUN: &str = "20261122-123909-a070";
/// As names of mounts and volume groups have it.
pub const TAG: &str = "20261122_123909_a070";

/// Puts `steps`, each an undo, into the journal of [`RUN`].
pub fn journal(home: &Home, steps: &[Value]) -> PathBuf {
    let path = home.path("state/ebbtide/journals").join(format!("{RUN}.jsonl"));
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let entry = |(number, undo): (usize, &Value)| {
        let paths = ["making_directory", "making_file", "made"];
        let entry = if paths.iter().any(|path| undo.get(path).is_some()) {
            undo.clone()
        } else {
            json!({ "step": { "number": number, "undo": undo } })
        };
        format!("{entry}\n")
    };
    std::fs::write(&path, steps.iter().enumerate().map(entry).collect::<String>()).unwrap();
    path
}

/// What is somebody's: a mounted file system, one that is not mounted, a loop device over a file, an empty directory, a
/// file.
struct Somebody {
    // Unmounted before its device is detached, and its file removed.
    mounted: Mount,
    disk: Loop,
    idle: Loop,
    place: tempfile::TempDir,
}

impl Somebody {
    fn new() -> Somebody {
        let place = tempfile::tempdir_in("/var/tmp").unwrap();
        let formatted = |name: &str| {
            let file = blank(place.path(), name);
            tool("mkfs.ext4", &["-q", "-F", "-L", "MYDATA", file.to_str().unwrap()]);
            Loop::over(&file)
        };
        let (disk, idle) = (formatted("disk"), formatted("idle"));
        let mounted = Mount::new(&disk.device, &place.path().join("mounted"), &[]);
        std::fs::create_dir(place.path().join("empty")).unwrap();
        std::fs::write(place.path().join("file"), "a user's own").unwrap();
        Somebody { place, disk, idle, mounted }
    }

    fn at(&self, name: &str) -> String {
        self.place.path().join(name).to_str().unwrap().to_owned()
    }

    /// Undoes that would take each of it.
    fn steps(&self) -> Vec<Value> {
        let found = std::fs::metadata(self.at("file")).unwrap();
        let id = ebbtide_door::id_of(&found);
        vec![
            json!({ "unmount": { "mountpoint": self.at("mounted") } }),
            json!({ "wipe_content": { "device": self.idle.device, "label": "MYDATA" } }),
            json!({ "remove_directory": self.at("empty") }),
            json!({ "making_file": self.at("file") }),
            json!({ "made": [self.at("file"), id] }),
        ]
    }

    fn detach(&self) -> Value {
        json!({ "detach_loop": { "device": self.idle.device, "file": self.at("idle") } })
    }

    fn assert_untouched(&self, said: &Output) {
        self.mounted.settle();
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
        assert!(mounts.contains(&format!("{} {}", self.disk.device, self.at("mounted"))), "{said:?}");
        let label = tool("blkid", &["-p", "-s", "LABEL", "-o", "value", &self.idle.device]);
        assert_eq!(label.trim(), "MYDATA", "{said:?}");
        assert!(Path::new(&self.at("empty")).exists() && Path::new(&self.at("file")).exists(), "{said:?}");
        let behind = format!("/sys/block/{}/loop/backing_file", self.idle.name());
        assert_eq!(std::fs::read_to_string(behind).unwrap().trim(), self.at("idle"), "{said:?}");
    }
}

#[test]
#[ignore = "requires root and loop devices"]
fn a_journal_that_somebody_else_may_have_written_is_not_obeyed() {
    const NOBODY: u32 = 65534;
    let (home, somebody) = (Home::new(), Somebody::new());
    let path = journal(&home, &[somebody.steps(), vec![somebody.detach()]].concat());
    let directory = path.parent().unwrap();
    let mode = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let refused = |said: &str| {
        let output = home.ebb("cleanup").output().unwrap();
        somebody.assert_untouched(&output);
        assert_eq!(status(&output), 1, "{output:?}");
        assert!(stderr(&output).contains(said), "{output:?}");
        assert!(path.exists());
    };
    std::os::unix::fs::chown(&path, Some(NOBODY), None).unwrap();
    refused("belongs to user 65534");
    std::os::unix::fs::chown(&path, Some(0), None).unwrap();
    mode(&path, 0o622);
    refused("others may write to it");
    mode(&path, 0o600);
    std::os::unix::fs::chown(directory, Some(NOBODY), None).unwrap();
    refused("its directory belongs to user 65534");
    std::os::unix::fs::chown(directory, Some(0), None).unwrap();
    mode(directory, 0o777);
    refused("others may write to its directory");
}

#[test]
#[ignore = "requires root and loop devices"]
fn what_a_journal_names_unlike_a_run_stays() {
    let (home, somebody) = (Home::new(), Somebody::new());
    let path = journal(&home, &somebody.steps());
    let output = home.ebb("cleanup").output().unwrap();
    somebody.assert_untouched(&output);
    assert_eq!(status(&output), 1, "{output:?}");
    assert!(path.exists(), "{output:?}");
}

/// Somebody's mount in the place of the run's, which is gone: of the device of the run's journal nothing is there.
#[test]
#[ignore = "requires root and loop devices"]
fn what_somebody_mounts_where_a_run_had_mounted_stays_mounted() {
    let (home, somebody) = (Home::new(), Somebody::new());
    let point = PathBuf::from("/run/ebbtide").join(TAG);
    std::fs::create_dir_all(&point).unwrap();
    tool("mount", &["--bind", &somebody.at("mounted"), point.to_str().unwrap()]);
    let ours = json!({ "device": somebody.idle.device, "fstype": "ext4" });
    let wipe = json!({ "wipe_content": { "device": somebody.idle.device, "label": "ebb00000000" } });
    let said = [
        // As earlier versions wrote it, without and with a device, and as this one does.
        vec![json!({ "unmount": { "mountpoint": point } })],
        vec![wipe, json!({ "unmount": { "mountpoint": point } })],
        vec![json!({ "unmount": { "mountpoint": point, "from": ours } })],
    ]
    .map(|steps| {
        journal(&home, &steps);
        let output = home.ebb("cleanup").output().unwrap();
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
        (mounts.contains(point.to_str().unwrap()), output)
    });
    tool("umount", &[point.to_str().unwrap()]);
    for (stays, output) in &said {
        assert!(stays, "{output:?}");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("left alone step umount") && text.contains("is mounted there"), "{output:?}");
        assert_eq!(status(output), 0, "{output:?}");
    }
    // And its own goes.
    tool("mount", &[&somebody.idle.device, point.to_str().unwrap()]);
    let ours = json!({ "device": somebody.idle.device, "fstype": "ext4" });
    let directory = json!({ "remove_directory": point });
    let path = journal(&home, &[directory, json!({ "unmount": { "mountpoint": point, "from": ours } })]);
    let output = home.ebb("cleanup").output().unwrap();
    assert_eq!(status(&output), 0, "{output:?}");
    assert!(!point.exists() && !path.exists(), "{output:?}");
    let _ = std::fs::remove_dir("/run/ebbtide");
}

/// A loop device over the run's file, but attached by somebody after the run's was detached, or over another file that
/// has the name now.
#[test]
#[ignore = "requires root and loop devices"]
fn a_loop_device_that_somebody_attached_anew_stays() {
    let (home, somebody) = (Home::new(), Somebody::new());
    let (device, file) = (somebody.idle.device.clone(), somebody.at("idle"));
    let sequence: u64 = std::fs::read_to_string(format!("/sys/block/{}/diskseq", somebody.idle.name()))
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    let other = ebbtide_door::id_of(&std::fs::metadata(somebody.at("file")).unwrap());
    for (id, sequence, why) in
        [(None, Some(sequence - 1), "again since"), (Some(other), None, "another file of that name")]
    {
        let step = json!({ "device": device, "file": file, "id": id, "sequence": sequence });
        journal(&home, &[json!({ "detach_loop": step })]);
        let output = home.ebb("cleanup").output().unwrap();
        somebody.assert_untouched(&output);
        assert!(String::from_utf8_lossy(&output.stdout).contains(why), "{output:?}");
        assert_eq!(status(&output), 0, "{output:?}");
    }
    let id = ebbtide_door::id_of(&std::fs::metadata(&file).unwrap());
    let step = json!({ "device": device, "file": file, "id": id, "sequence": sequence });
    journal(&home, &[json!({ "detach_loop": step })]);
    let output = home.ebb("cleanup").output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("put back step losetup"), "{output:?}");
    let Somebody { idle, .. } = somebody;
    // It is detached: by now its name may be another's.
    let name = idle.name().to_owned();
    std::mem::forget(idle);
    let behind = std::fs::read_to_string(format!("/sys/block/{name}/loop/backing_file"));
    assert!(behind.is_err() || behind.is_ok_and(|behind| behind.trim() != file), "{output:?}");
}
