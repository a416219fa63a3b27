//! The machine: what its disks hold and what runs.

mod boot;
mod programs;
mod somebody;

use super::super::*;
use crate::command::{CommandError, Output, Runner};
use crate::made::Host;
use crate::sys::Sys;
use ebbtide_experiment::parse;
use ebbtide_provision::status::ArraySeen;
use ebbtide_provision::{Class, DesignRequest, Desired, Member, Record, System};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// How many disks it has.
const DISKS: usize = 6;
/// Where everything is mounted.
const MOUNTPOINT: &str = "/srv/data";

/// What a panic carries that stands for a kill.
pub struct Killed;

/// What a disk is made to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disk {
    Blank,
    Foreign,
    Absent,
}

/// How a command that is killed leaves what it worked on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Torn {
    Before,
    Within,
    After,
}

/// Facts by kind and name. Those of disks outlive a power cut; `data` and `made` are what a file system holds.
type Facts = BTreeMap<String, String>;

pub struct Machine {
    root: tempfile::TempDir,
    /// What is on disks, by key:
    ///
    /// - `super:DISK`, `table:DISK` (which places of the array its superblock has in use), `copy:DISK` (whose copy it is), `gone:DISK`;
    /// - `pv:DISK`, `in:DISK` (the name and the uuid of its group), `vg:NAME`, `lv:VG/LV`, `uuid:VG/LV`;
    /// - `on:WHAT` (kind, label and uuid of what is on it), `data:WHAT`.
    disks: RefCell<Facts>,
    /// `md:DEVICE`, `stands:UUID` (the disks of that array, where not all that carry it), `lv:VG/LV`, `crypt:NAME`, `mount:PLACE`, `swap:DEVICE`.
    running: RefCell<Facts>,
    /// What the initramfs has of mdadm's configuration.
    initramfs: RefCell<String>,
    /// Changing commands until one fails.
    fails_in: Cell<Option<usize>>,
    /// Changing commands until one is killed, and how it leaves things.
    dies_in: Cell<Option<(usize, Torn)>>,
    /// What took up more of what is below it.
    ran: RefCell<Vec<String>>,
    /// Boundaries until a kill.
    halts_in: Cell<Option<usize>>,
    /// Whether `mount` ends well without mounting anything.
    pub mounts_nothing: Cell<bool>,
    /// Lines of the table of mounts that somebody else made.
    other_mounts: RefCell<String>,
    /// How many uuids LVM has drawn.
    drawn: Cell<u32>,
    /// Whether arrays that are made show bytes that their members had before.
    pub leftovers: Cell<bool>,
}

fn system() -> System {
    System::of("ID=debian\nVERSION_ID=\"12\"\n", |path| {
        ["/usr/sbin/update-initramfs", "/run/systemd/system", "/run/udev"]
            .iter()
            .any(|there| Path::new(there) == path)
    })
}

fn disk(number: usize) -> String {
    format!("/dev/disk/by-id/vol{number}")
}

impl Machine {
    pub fn new() -> Machine {
        // In memory, where that can be had: it syncs some hundred times.
        let root = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a directory");
        for place in [
            "dev/disk/by-id",
            "dev/md",
            "dev/mapper",
            "etc/mdadm",
            "etc/udev/rules.d",
            "etc/systemd/system",
            "etc/lvm",
            "proc/self",
            "sys/block",
            "srv",
            "var/lib",
            "root",
            "run",
        ] {
            fs::create_dir_all(root.path().join(place)).expect("makes");
        }
        for (path, text) in [
            ("etc/fstab", "UUID=1 / ext4 defaults 0 1\n# the last line has no end"),
            ("etc/mdadm/mdadm.conf", "HOMEHOST <system>\n"),
        ] {
            fs::write(root.path().join(path), text).expect("writes");
        }
        let machine = Machine {
            root,
            disks: RefCell::default(),
            running: RefCell::default(),
            initramfs: RefCell::default(),
            fails_in: Cell::new(None),
            dies_in: Cell::new(None),
            halts_in: Cell::new(None),
            mounts_nothing: Cell::new(false),
            other_mounts: RefCell::default(),
            ran: RefCell::default(),
            drawn: Cell::new(0),
            leftovers: Cell::new(false),
        };
        for number in 0..DISKS {
            machine.tunables(&format!("vol{number}"));
        }
        machine.publish();
        machine.make_initramfs();
        machine
    }

    /// As Debian's hook does: a configuration that names no array gets those that are on disks.
    fn make_initramfs(&self) {
        let mut text = fs::read_to_string(self.at("/etc/mdadm/mdadm.conf")).expect("reads");
        if !text.contains("ARRAY ") {
            let disks = self.disks.borrow();
            let arrays: BTreeSet<&String> =
                disks.iter().filter(|(key, _)| key.starts_with("super:")).map(|(_, uuid)| uuid).collect();
            arrays.into_iter().for_each(|uuid| text += &format!("ARRAY UUID={uuid}\n"));
        }
        *self.initramfs.borrow_mut() = text;
    }

    /// The process of the test is one of the machine's.
    pub fn shows_own_process(&self) {
        let pid = std::process::id();
        std::os::unix::fs::symlink(format!("/proc/{pid}"), self.at(&format!("/proc/{pid}"))).expect("links");
    }

    pub fn sys(&self) -> Sys {
        Sys::below(self.root.path())
    }

    fn at(&self, path: &str) -> PathBuf {
        self.root.path().join(path.trim_start_matches('/'))
    }

    /// The kernel's own values for the device `name`.
    fn tunables(&self, name: &str) {
        let queue = self.at(&format!("/sys/class/block/{name}/queue"));
        fs::create_dir_all(&queue).expect("makes");
        let number = name.bytes().fold(7_u32, |sum, byte| (sum * 31 + u32::from(byte)) % 100_000);
        fs::write(queue.join("../dev"), format!("9:{number}\n")).expect("writes");
        for (file, value) in [
            ("scheduler", "bfq\n"),
            ("nr_requests", "256\n"),
            ("max_sectors_kb", "1280\n"),
            ("read_ahead_kb", "128\n"),
        ] {
            fs::write(queue.join(file), value).expect("writes");
        }
    }

    pub fn desired(&self, lines: &str, class: Class) -> Desired {
        let volumes: String = (0..DISKS)
            .map(|number| {
                format!("[volumes.v{number}]\ndevice = \"{0}\"\nid = \"vol{number}\"\n", disk(number))
            })
            .collect();
        let text = format!(
            "name = \"n\"\n{volumes}[designs.d]\n{lines}\n[workloads.w]\nrw = \"read\"\nruntime = \"1s\"\n"
        );
        let experiment = parse(&text, "test").unwrap_or_else(|errors| panic!("{errors}"));
        let devices: Vec<String> = (0..DISKS).map(disk).collect();
        let mountpoint = Some(Path::new(MOUNTPOINT));
        let order = DesignRequest {
            experiment: &experiment,
            design: 0,
            name: "data",
            class,
            mountpoint,
            devices: &devices,
            machine: "m",
            system: &system(),
            program: None,
        };
        order.desired().expect("can stay")
    }

    pub fn keep<T>(&self, what: impl FnOnce(&Keeper<'_>) -> T) -> T {
        let boundary = || {
            if let Some(left) = self.halts_in.get() {
                self.halts_in.set(left.checked_sub(1));
                if left == 0 {
                    std::panic::panic_any(Killed);
                }
            }
        };
        let done = what(&Keeper(&Context {
            sys: self.sys(),
            runner: self,
            host: self,
            journal: None,
            tell: &|_| {},
            stop: &AtomicBool::new(false),
            boundary: &boundary,
        }));
        self.live();
        done
    }

    pub fn halt_in(&self, boundaries: usize) {
        self.halts_in.set(Some(boundaries));
    }

    pub fn die_in(&self, commands: usize, torn: Torn) {
        self.dies_in.set(Some((commands, torn)));
    }

    /// After a kill: whoever comes next is not to be killed.
    pub fn live(&self) {
        self.fails_in.set(None);
        self.dies_in.set(None);
        self.halts_in.set(None);
    }

    pub fn fail_at(&self, command: usize) {
        self.fails_in.set(Some(command));
    }

    pub fn record(&self) -> Option<Record> {
        self.keep(|keeper| keeper.record("data")).expect("can be read")
    }

    pub fn status(&self) -> ArraySeen {
        let record = self.record().expect("is there");
        self.keep(|keeper| keeper.look(&record)).expect("looks")
    }

    pub fn must_be_healthy(&self, when: &str) {
        let seen = self.status();
        assert!(
            seen.drift.is_empty() && !seen.missing,
            "{when}: {seen:?}\n{:?}\n{:?}",
            self.disks.borrow(),
            self.running.borrow()
        );
        self.must_boot(when);
    }

    /// Every file of the host's that may be changed.
    pub fn files(&self) -> Vec<(String, String)> {
        let mut files = Vec::new();
        let mut places = vec![self.at("/etc")];
        while let Some(place) = places.pop() {
            for entry in fs::read_dir(place).expect("reads").flatten() {
                if entry.path().is_dir() {
                    places.push(entry.path());
                } else {
                    files.push((
                        entry.path().strip_prefix(self.root.path()).expect("is below").display().to_string(),
                        fs::read_to_string(entry.path()).expect("reads"),
                    ));
                }
            }
        }
        files.sort();
        files
    }

    pub fn disks(&self) -> Facts {
        self.disks.borrow().clone()
    }

    /// All that an apply may change, as it can be compared.
    pub fn everything(&self) -> String {
        let tunables: Vec<String> = (0..DISKS)
            .flat_map(|number| {
                ["scheduler", "nr_requests"].map(|file| {
                    fs::read_to_string(self.at(&format!("/sys/class/block/vol{number}/queue/{file}")))
                        .expect("reads")
                        .trim()
                        .to_owned()
                })
            })
            .collect();
        let records = crate::sys::names(&self.at("/var/lib/ebbtide/apply"));
        let records: Vec<&String> = records.iter().filter(|name| name.ends_with(".json")).collect();
        format!(
            "{:#?}",
            (
                self.files(),
                self.disks(),
                self.running.borrow(),
                self.initramfs.borrow(),
                tunables,
                records,
                crate::sys::names(&self.at("/srv"))
            )
        )
    }

    pub fn set_disk(&self, number: usize, to: Disk) {
        let path = disk(number);
        let mut disks = self.disks.borrow_mut();
        disks.retain(|key, _| !key.ends_with(&format!(":{path}")));
        match to {
            Disk::Blank => None,
            Disk::Foreign => disks.insert(format!("on:{path}"), "ext4 SOMEBODY".into()),
            Disk::Absent => disks.insert(format!("gone:{path}"), "x".into()),
        };
        // What was on an array of it is gone with it.
        let arrays: Vec<String> =
            disks.keys().filter_map(|key| key.strip_prefix("on:md:").map(str::to_owned)).collect();
        for uuid in arrays {
            if !disks.iter().any(|(key, value)| key.starts_with("super:") && *value == uuid) {
                disks.retain(|key, _| !key.ends_with(&format!(":md:{uuid}")));
            }
        }
        if !disks.keys().any(|key| key.starts_with("pv:")) {
            disks.retain(|key, _| {
                !key.contains("/data/data")
                    && !["vg:data", "pvs:data", "lv:data/data", "uuid:data/data"].contains(&key.as_str())
                    && !key.starts_with("taken:")
            });
        }
        drop(disks);
        self.publish();
    }

    /// Every disk has so many MiB.
    pub fn resize(&self, mib: u64) {
        for number in 0..DISKS {
            fs::write(self.at(&format!("/sys/class/block/vol{number}/size")), format!("{}\n", mib << 11))
                .expect("writes");
        }
    }

    /// What took up more of what is below it, by the programs' names.
    pub fn took_up(&self) -> Vec<String> {
        let ran = self.ran.take();
        ran.iter().map(|line| line.split(' ').next().unwrap_or_default().to_owned()).collect()
    }

    /// A program writes to what is mounted.
    pub fn write_data(&self) {
        if let Some(on) = self.mounted_on() {
            self.disks.borrow_mut().insert(format!("data:{on}"), "precious".into());
        }
    }

    fn mounted_on(&self) -> Option<String> {
        let device = self.running.borrow().get(&format!("mount:{MOUNTPOINT}")).cloned()?;
        Some(self.place(&device))
    }

    pub fn has_data(&self) -> bool {
        self.disks.borrow().keys().any(|key| key.starts_with("data:"))
    }

    /// Whether what is mounted is what was written.
    pub fn shows_data(&self) -> bool {
        self.mounted_on().is_some_and(|on| self.disks.borrow().contains_key(&format!("data:{on}")))
    }

    /// Somebody makes a file system on the uppermost device that is there, without a label, and stores data in it.
    pub fn somebody_formats(&self) {
        let place = self.uppermost(false);
        let mut disks = self.disks.borrow_mut();
        disks.insert(format!("on:{place}"), "ext4".into());
        disks.insert(format!("data:{place}"), "precious".into());
    }

    /// Somebody writes data without any signature to the uppermost device that is there, over whatever is on it.
    pub fn somebody_writes(&self) {
        let place = self.uppermost(true);
        let mut disks = self.disks.borrow_mut();
        disks.remove(&format!("on:{place}"));
        disks.insert(format!("data:{place}"), "precious".into());
        drop(disks);
        self.publish();
    }

    fn uppermost(&self, even_encrypted: bool) -> String {
        let built = self.running.borrow().keys().find_map(|key| match key.split_once(':')? {
            ("crypt", name) if even_encrypted => Some(format!("/dev/mapper/{name}")),
            ("md", device) => Some(device.to_owned()),
            ("lv", volume) => Some(format!("/dev/{volume}")),
            _ => None,
        });
        self.place(&built.unwrap_or_else(|| disk(0)))
    }

    /// Copies of the first disks are on the last ones, and somebody's array is made of them under our name.
    pub fn copies_run(&self, of: &[usize]) {
        let mut disks = self.disks.borrow_mut();
        let uuid = disks[&format!("super:{}", disk(of[0]))].clone();
        let mut names = Vec::new();
        for (at, of) in of.iter().rev().enumerate() {
            let copy = DISKS - 1 - at;
            disks.insert(format!("super:{}", disk(copy)), uuid.clone());
            disks.insert(format!("copy:{}", disk(copy)), disk(*of));
            names.push(format!("vol{copy}"));
        }
        drop(disks);
        let mut running = self.running.borrow_mut();
        running.insert(format!("stands:{uuid}"), names.join(" "));
        running.insert("md:/dev/md/data".into(), uuid);
        drop(running);
        self.publish();
    }

    /// The array runs on these disks.
    pub fn stands_on(&self, names: &str) {
        let mut running = self.running.borrow_mut();
        let uuid = running["md:/dev/md/data"].clone();
        running.insert(format!("stands:{uuid}"), names.to_owned());
        drop(running);
        self.publish();
    }

    /// Somebody removes the logical volume and makes another one under its name, with data.
    pub fn makes_volume_again(&self) {
        let mut disks = self.disks.borrow_mut();
        disks.insert("uuid:data/data".into(), "theirs".into());
        disks.insert("on:/dev/data/data".into(), "ext4".into());
        drop(disks);
        self.publish();
    }

    /// Something is mounted there, below what is ours; what an undo says of it.
    pub fn stands_below(&self, place: &str) -> String {
        self.mount_also(("9:99", "ext4"), place, "/dev/sdz");
        format!("something is mounted below it on {place}")
    }

    /// Somebody removes a directory with all that is in it.
    pub fn remove(&self, path: &str) {
        let _ = fs::remove_dir_all(self.at(path));
    }

    /// The member was written to last when only these places were in use.
    pub fn has_table(&self, number: usize, table: &str) {
        self.disks.borrow_mut().insert(format!("table:{}", disk(number)), table.to_owned());
    }

    /// Our group gets another name, and a group of somebody's on the last disk gets ours, with a volume that runs.
    pub fn somebody_takes_the_group(&self) {
        let mut disks = self.disks.borrow_mut();
        disks
            .values_mut()
            .filter(|value| value.starts_with("data "))
            .for_each(|value| *value = value.replace("data ", "old "));
        let last = disk(DISKS - 1);
        disks.insert(format!("pv:{last}"), "theirs".into());
        disks.insert(format!("in:{last}"), "data theirs".into());
        disks.insert("uuid:data/data".into(), "theirs".into());
        drop(disks);
        self.running.borrow_mut().insert("lv:data/data".into(), "x".into());
        self.publish();
    }

    /// What makes the disk a `kind` is erased.
    pub fn forgets(&self, kind: &str, number: usize) {
        self.disks.borrow_mut().remove(&format!("{kind}:{}", disk(number)));
        self.publish();
    }

    /// The disk is in the group with this name and uuid.
    pub fn is_in_group(&self, number: usize, group: &str) {
        self.disks.borrow_mut().insert(format!("in:{}", disk(number)), group.to_owned());
        self.publish();
    }

    pub fn remove_file(&self, path: &str) {
        let _ = fs::remove_file(self.at(path));
    }

    /// What is on it gets another uuid.
    pub fn changes_uuid(&self, kind: &str) {
        self.changes(kind, 2);
    }

    /// What is on it gets another label.
    pub fn changes_label(&self, kind: &str) {
        self.changes(kind, 1);
    }

    fn changes(&self, kind: &str, word: usize) {
        let mut disks = self.disks.borrow_mut();
        let on =
            disks.iter_mut().find(|(key, on)| key.starts_with("on:") && on.starts_with(&format!("{kind} ")));
        let (_, on) = on.expect("has one");
        let mut words: Vec<&str> = on.split(' ').collect();
        words[word] = "another";
        *on = words.join(" ");
    }

    /// Somebody makes it of another level, with its uuid.
    pub fn becomes_level(&self, level: &str) {
        let mut disks = self.disks.borrow_mut();
        let how = disks.iter_mut().find(|(key, _)| key.starts_with("how:")).expect("has one").1;
        let old = how.split(' ').find(|word| word.starts_with("--level=")).expect("has a level").to_owned();
        *how = how.replace(&old, &format!("--level={level}"));
    }

    /// Somebody makes an array anew of its members, under its name.
    pub fn is_made_again(&self) {
        let mut running = self.running.borrow_mut();
        running.insert("md:/dev/md/data".into(), "theirs".into());
        drop(running);
        let mut disks = self.disks.borrow_mut();
        disks
            .iter_mut()
            .filter(|(key, _)| key.starts_with("super:"))
            .for_each(|(_, uuid)| *uuid = "theirs".into());
        drop(disks);
        self.publish();
    }

    /// Somebody mounts what is there.
    pub fn mounts(&self, device: &str) {
        self.running.borrow_mut().insert(format!("mount:{MOUNTPOINT}"), device.to_owned());
        self.publish();
    }

    pub fn count(&self, what: &str) -> usize {
        self.running.borrow().keys().filter(|key| key.starts_with(what)).count()
    }

    pub fn runs(&self, what: &str) -> bool {
        self.count(what) > 0
    }

    pub fn stop(&self, what: &str) {
        self.running.borrow_mut().retain(|key, _| !key.starts_with(what));
        self.publish();
    }

    /// Somebody puts a file there.
    pub fn put(&self, path: &str, text: &str) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().expect("has a parent")).expect("makes");
        fs::write(path, text).expect("writes");
    }

    /// Somebody moves a file elsewhere, and leaves a link to it.
    pub fn becomes_link(&self, path: &str) {
        let (from, to) = (self.at(path), self.at("/root/moved"));
        fs::rename(&from, &to).expect("moves");
        std::os::unix::fs::symlink(&to, &from).expect("links");
    }

    /// Somebody makes a link to `to`.
    pub fn link(&self, path: &str, to: &str) {
        std::os::unix::fs::symlink(self.at(to), self.at(path)).expect("links");
    }

    /// Somebody mounts the device with this number and this file system as well, over all that is there.
    pub fn mount_also(&self, (number, kind): (&str, &str), place: &str, source: &str) {
        *self.other_mounts.borrow_mut() = format!("29 1 {number} / {place} rw - {kind} {source} rw\n");
        self.publish();
    }

    pub fn unmount_also(&self) {
        self.other_mounts.borrow_mut().clear();
        self.publish();
    }

    /// Number and kind of what is mounted.
    pub fn mounted(&self) -> (String, String) {
        let table = fs::read_to_string(self.at("/proc/self/mountinfo")).expect("reads");
        let words: Vec<&str> = table.split(' ').collect();
        (words[2].to_owned(), words[7].to_owned())
    }

    pub fn edit(&self, path: &str, how: impl Fn(String) -> String) {
        let path = self.at(path);
        if let Ok(text) = fs::read_to_string(&path) {
            fs::write(path, how(text)).expect("writes");
        }
    }
}

impl Host for Machine {
    fn may_build(&self, members: &[&Member], destroy: bool) -> Result<(), String> {
        for member in members {
            let on = self
                .disks
                .borrow()
                .iter()
                .find(|(key, _)| key.ends_with(&format!(":{}", member.path)))
                .map(|(key, value)| format!("{key} {value}"));
            match on {
                Some(on) if on.starts_with("gone") => {
                    return Err(format!("{} is not there", member.path));
                }
                Some(on) if !destroy => {
                    return Err(format!("{} carries {on}; say --destroy", member.path));
                }
                _ => {}
            }
        }
        Ok(())
    }
}
