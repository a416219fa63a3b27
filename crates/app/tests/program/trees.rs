//! What lies below a target is a tree: real loop devices, over each other and under a btrfs.
//! Requires root: `cargo test -p ebbtide --test trees -- --ignored`

use crate::common::{Home, Loop, tool};
use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};

const MIB: usize = 1 << 20;

/// A file of so many MiB that has been written in all places, and is on its disk.
fn file(home: &Home, name: &str, mebibytes: usize) -> PathBuf {
    let path = home.path(name);
    let mut file = std::fs::File::create(&path).unwrap();
    for n in 0..mebibytes {
        file.write_all(&vec![n as u8 | 1; MIB]).unwrap();
    }
    file.sync_all().unwrap();
    path
}

/// A loop device past the page cache of its file.
fn direct(over: &Path) -> Loop {
    Loop::from(&["--direct-io=on", over.to_str().unwrap()])
}

/// A file system that is unmounted at the end, whatever happens.
struct Mounted(PathBuf);

impl Mounted {
    fn new(home: &Home, device: &str) -> Mounted {
        let place = home.path("mounted");
        std::fs::create_dir(&place).unwrap();
        tool("mount", &[device, place.to_str().unwrap()]);
        Mounted(place)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Completions of direct reads may hold it for a moment after the program has ended.
        for _ in 0..100 {
            let done = std::process::Command::new("umount").arg(&self.0).output();
            if done.is_ok_and(|output| output.status.success()) {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        eprintln!("{} stays mounted", self.0.display());
    }
}

/// What `ebb bench` says of reading `target` for a second.
fn read(home: &Home, target: &str) -> Value {
    let line = format!("bench {target} --rw read --bs 256k --iodepth 8 --runtime 1");
    home.json(&line, &[0])["jobs"][0]["ebbtide"].clone()
}

fn kinds(run: &Value) -> Vec<&str> {
    run["verdicts"].as_array().unwrap().iter().map(|verdict| verdict["kind"].as_str().unwrap()).collect()
}

#[test]
#[ignore = "requires root and two free loop devices"]
fn a_btrfs_over_two_devices_is_not_a_cache_and_shows_both() {
    let home = Home::new();
    let (one, two) = (direct(&file(&home, "one", 256)), direct(&file(&home, "two", 256)));
    tool("mkfs.btrfs", &["-q", "-f", "-d", "raid0", "-m", "raid1", &one.device, &two.device]);
    let mounted = Mounted::new(&home, &one.device);
    let target = mounted.0.join("volume");
    std::fs::write(&target, vec![7; 128 * MIB]).unwrap();
    tool("sync", &["--file-system", target.to_str().unwrap()]);
    let run = read(&home, target.to_str().unwrap());
    assert!(!kinds(&run).contains(&"cache"), "{}", run["verdicts"]);
    let array = &run["below"][0];
    assert_eq!(array["join"]["kind"], "stripe", "{run}");
    let mut devices: Vec<&str> =
        array["devices"].as_array().unwrap().iter().map(|device| device["name"].as_str().unwrap()).collect();
    devices.sort_unstable();
    let mut expected = [one.name(), two.name()];
    expected.sort_unstable();
    assert_eq!(devices, expected);
    assert!(
        array["devices"][0]["share"].as_f64().is_some_and(|share| (0.3..0.7).contains(&share)),
        "{array}"
    );
    let told = run["target"].as_str().unwrap();
    assert!(told.contains("on btrfs (stripe of 2, chunk 64KiB, over loop"), "{told}");
}

#[test]
#[ignore = "requires root and two free loop devices"]
fn a_loop_device_over_another_leads_down_to_the_disk() {
    let home = Home::new();
    let path = file(&home, "volume", 128);
    let lower = direct(&path);
    let upper = direct(Path::new(&lower.device));
    let run = read(&home, &upper.device);
    assert!(!kinds(&run).contains(&"cache"), "{}", run["verdicts"]);
    let told = run["target"].as_str().unwrap();
    assert!(told.contains(&format!("a loop device over {} on {}", lower.device, lower.name())), "{told}");
    assert!(told.contains(&format!("over {} on ", path.display())), "{told}");
}

/// What a bench would not write to is not called free.
#[test]
#[ignore = "requires root and two free loop devices"]
fn a_device_with_data_of_an_unknown_kind_is_not_free() {
    let home = Home::new();
    let (full, empty) = (direct(&file(&home, "full", 64)), home.path("empty"));
    std::fs::File::create(&empty).unwrap().set_len(64 << 20).unwrap();
    let empty = direct(&empty);
    let seen = home.json(&format!("volumes {} {}", full.device, empty.device), &[0]);
    let content = |loop_device: &Loop| {
        let devices = seen["devices"].as_array().unwrap();
        let of = devices.iter().find(|device| device["name"] == loop_device.name());
        of.unwrap()["content"].clone()
    };
    assert_eq!(content(&full)["signature"]["kind"], "data of an unknown kind");
    assert_eq!(content(&empty), "nothing");
    let text = home.ebb(&format!("volumes {} {}", full.device, empty.device)).output().unwrap();
    let text = String::from_utf8(text.stdout).unwrap();
    let (free, used) = text.split_once("In use or with data").unwrap();
    assert!(free.contains(empty.name()) && !free.contains(full.name()), "{text}");
    assert!(used.contains(full.name()), "{text}");
}

#[test]
#[ignore = "requires root and a free loop device"]
fn a_loop_device_that_caches_its_file_is_told_how_to_stop() {
    let home = Home::new();
    let path = file(&home, "volume", 64);
    let volume = Loop::over(&path);
    // The second time all of it is in memory.
    read(&home, &volume.device);
    let run = read(&home, &volume.device);
    let cache = &run["verdicts"][0];
    assert_eq!(cache["kind"], "cache", "{}", run["verdicts"]);
    let remedy = format!("`losetup --direct-io=on {}`", volume.device);
    assert!(cache["sentence"].as_str().unwrap().contains(&remedy), "{cache}");
}

/// A file in memory without a name: its loop device rests on no disk, and not on the one that holds the root.
#[test]
#[ignore = "requires root and a free loop device"]
fn a_loop_device_over_a_nameless_file_in_memory_is_on_no_disk() {
    let home = Home::new();
    let path = PathBuf::from(format!("/dev/shm/ebb-test-{}", std::process::id()));
    std::fs::write(&path, vec![7; 64 * MIB]).unwrap();
    let volume = Loop::over(&path);
    std::fs::remove_file(&path).unwrap();
    let run = read(&home, &volume.device);
    assert!(!kinds(&run).contains(&"cache"), "{}", run["verdicts"]);
    let told = run["target"].as_str().unwrap();
    assert!(told.contains("a loop device over /dev/shm/") && !told.contains(" on "), "{told}");
}
