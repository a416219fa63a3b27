//! The machine: what its disks hold, what runs, and as much of each program as the keeper uses.

use super::super::*;
use crate::command::{CommandError, Output};
use ebbtide_experiment::parse;
use ebbtide_provision::status::ArraySeen;
use ebbtide_provision::{Class, Desired, Order, System};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::fd::AsRawFd;

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
    /// `super:DISK`, `pv:DISK`, `vg:NAME`, `lv:VG/LV`, `on:WHAT` (the label of what is on it), `data:WHAT`, `gone:DISK`.
    disks: RefCell<Facts>,
    /// `md:DEVICE`, `lv:VG/LV`, `crypt:NAME`, `mount:PLACE`, `swap:DEVICE`.
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
            ran: RefCell::default(),
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
        let order = Order {
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
        let may_build = |members: &[&Member], destroy: bool| {
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
        };
        let stop = AtomicBool::new(false);
        let done = what(&Keeper {
            sys: self.sys(),
            runner: self,
            may_build: &may_build,
            tell: &|_| {},
            stop: &stop,
            boundary: &boundary,
        });
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
                    && !["vg:data", "pvs:data", "lv:data/data"].contains(&key.as_str())
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

    pub fn edit(&self, path: &str, how: impl Fn(String) -> String) {
        let path = self.at(path);
        if let Ok(text) = fs::read_to_string(&path) {
            fs::write(path, how(text)).expect("writes");
        }
    }

    pub fn power_off(&self) {
        self.running.borrow_mut().clear();
        for number in 0..DISKS {
            self.tunables(&format!("vol{number}"));
        }
        self.publish();
    }

    /// Nothing that a file of the host's names keeps it from booting.
    pub fn must_boot(&self, when: &str) {
        let read = |path: &str| fs::read_to_string(self.at(path)).unwrap_or_default();
        for line in
            read("/etc/fstab").lines().filter(|line| !line.starts_with('#') && !line.contains("UUID=1 /"))
        {
            let fields: Vec<&str> = line.split_whitespace().collect();
            assert!(
                fields.len() == 6 && fields[3].split(',').any(|option| option == "nofail"),
                "{when}: {line}"
            );
            assert!(fields[3].contains("x-systemd.device-timeout="), "{when}: {line}");
            if let Some((_, unit)) = line.split_once("x-systemd.requires=") {
                let unit = unit.split([',', ' ']).next().unwrap_or_default();
                assert!(self.at("/etc/systemd/system").join(unit).is_file(), "{when}: {unit} is not there");
            }
        }
        for line in read("/etc/crypttab").lines().filter(|line| !line.starts_with('#')) {
            assert!(line.split([' ', ',']).any(|option| option == "nofail"), "{when}: {line}");
        }
    }

    /// What udev, cryptsetup, the unit and systemd do.
    pub fn boot(&self) {
        self.must_boot("at boot");
        let read = |path: &str| fs::read_to_string(self.at(path)).unwrap_or_default();
        for line in read("/etc/mdadm/mdadm.conf").lines() {
            if let Some((device, uuid)) =
                line.strip_prefix("ARRAY ").and_then(|rest| rest.split_once(" UUID="))
            {
                self.assemble(device, uuid);
            }
        }
        // Without its line it comes up by its own name.
        let supers: Vec<String> = self
            .disks
            .borrow()
            .iter()
            .filter(|(key, _)| key.starts_with("super:"))
            .map(|(_, uuid)| uuid.clone())
            .collect();
        for uuid in supers {
            self.assemble("/dev/md/data", &uuid);
        }
        let volumes: Vec<String> =
            self.disks.borrow().keys().filter_map(|key| key.strip_prefix("lv:").map(str::to_owned)).collect();
        volumes.into_iter().filter(|_| self.group_is_whole()).for_each(|volume| {
            self.running.borrow_mut().insert(format!("lv:{volume}"), "x".into());
        });
        self.publish();
        if read("/etc/fstab").contains("x-systemd.requires=ebb-data.service") {
            // It may fail; boot goes on.
            let _ = self.keep(|keeper| keeper.at_boot("data", std::time::Duration::ZERO));
        }
        for line in read("/etc/crypttab").lines().filter(|line| !line.starts_with('#')) {
            let (Some(name), Some(below)) = (line.split_whitespace().next(), self.carrying("crypto_LUKS "))
            else {
                continue;
            };
            self.running.borrow_mut().insert(format!("crypt:{name}"), below);
        }
        self.publish();
        for rules in crate::sys::names(&self.at("/etc/udev/rules.d")) {
            for line in read(&format!("/etc/udev/rules.d/{rules}")).lines() {
                let Some((_, rest)) = line.split_once("ATTR{queue/") else { continue };
                let (file, value) = rest.split_once("}=").expect("a rule");
                let name = match line.split_once("SYMLINK==\"disk/by-id/") {
                    Some((_, rest)) => rest.split('"').next().unwrap_or_default().to_owned(),
                    None => "data".to_owned(),
                };
                let place = self.at(&format!("/sys/class/block/{name}/queue/{file}"));
                if place.exists() {
                    fs::write(place, value.trim_matches('"')).expect("writes");
                }
            }
        }
        for line in read("/etc/fstab").lines().filter(|line| !line.starts_with('#')) {
            let fields: Vec<&str> = line.split_whitespace().collect();
            match fields[..] {
                [_, "none", "swap", ..] => {
                    for number in 0..DISKS {
                        if self
                            .disks
                            .borrow()
                            .get(&format!("on:{}", disk(number)))
                            .is_some_and(|on| on.starts_with("swap "))
                        {
                            self.running.borrow_mut().insert(format!("swap:{}", disk(number)), "x".into());
                        }
                    }
                }
                [_, place, kind, ..] if place == MOUNTPOINT => {
                    if let Some(device) = self.carrying(&format!("{kind} ")) {
                        self.running.borrow_mut().insert(format!("mount:{place}"), device);
                    }
                }
                _ => {}
            }
        }
        self.publish();
    }

    fn assemble(&self, device: &str, uuid: &str) -> bool {
        let (members, wanted) = {
            let disks = self.disks.borrow();
            let members =
                disks.iter().filter(|(key, value)| key.starts_with("super:") && **value == uuid).count();
            (members, disks.get(&format!("size:{uuid}")).and_then(|size| size.parse::<usize>().ok()))
        };
        let runs = self.running.borrow().iter().any(|(key, value)| key.starts_with("md:") && value == uuid);
        if runs || wanted != Some(members) || members == 0 {
            return false;
        }
        self.running.borrow_mut().insert(format!("md:{device}"), uuid.to_owned());
        self.publish();
        true
    }

    fn group_is_whole(&self) -> bool {
        let disks = self.disks.borrow();
        disks.keys().filter(|key| key.starts_with("pv:")).count().to_string()
            == disks.get("pvs:data").cloned().unwrap_or_default()
    }

    /// The device that is there and carries something that begins so.
    fn carrying(&self, what: &str) -> Option<String> {
        let running = self.running.borrow();
        let built = running.keys().filter_map(|key| match key.split_once(':')? {
            ("md", device) => Some(device.to_owned()),
            ("lv", volume) => Some(format!("/dev/{volume}")),
            ("crypt", name) => Some(format!("/dev/mapper/{name}")),
            _ => None,
        });
        let all: Vec<String> = built.chain((0..DISKS).map(disk)).collect();
        drop(running);
        all.into_iter().find(|device| {
            let on = format!("on:{}", self.place(device));
            self.disks.borrow().get(&on).is_some_and(|on| on.starts_with(what) && !on.ends_with("SOMEBODY"))
        })
    }

    /// Where what is on `device` is, wherever it is called what.
    fn place(&self, device: &str) -> String {
        let running = self.running.borrow();
        if let Some(uuid) = running.get(&format!("md:{device}")) {
            return format!("md:{uuid}");
        }
        if let Some(name) = device.strip_prefix("/dev/mapper/") {
            let below = running.get(&format!("crypt:{name}")).cloned();
            drop(running);
            return below.map_or_else(|| device.to_owned(), |below| format!("crypt:{}", self.place(&below)));
        }
        device.to_owned()
    }

    /// What /proc, /sys and /dev show.
    fn publish(&self) {
        let (disks, running) = (self.disks.borrow(), self.running.borrow());
        let block = self.at("/sys/block");
        fs::remove_dir_all(&block).expect("removes");
        fs::create_dir_all(&block).expect("makes");
        for place in ["dev/md", "dev/mapper", "dev/data"] {
            let _ = fs::remove_dir_all(self.at(place));
        }
        let node = |path: &str| {
            let path = self.at(path);
            fs::create_dir_all(path.parent().expect("has a parent")).expect("makes");
            fs::write(path, "").expect("writes");
        };
        for number in 0..DISKS {
            let path = disk(number);
            if disks.contains_key(&format!("gone:{path}")) {
                let _ = fs::remove_file(self.at(&path));
            } else {
                node(&path);
            }
        }
        let (mut mounts, mut swaps) = (String::new(), "Filename Type Size Used Priority\n".to_owned());
        let mut built = false;
        for (key, value) in running.iter() {
            match key.split_once(':') {
                Some(("md", device)) => {
                    node(device);
                    let md = block.join("md127/md");
                    fs::create_dir_all(&md).expect("makes");
                    for (member, _) in
                        disks.iter().filter(|(key, uuid)| key.starts_with("super:") && *uuid == value)
                    {
                        let name =
                            Path::new(member).file_name().and_then(|name| name.to_str()).unwrap_or_default();
                        fs::create_dir_all(md.join(format!("dev-{name}"))).expect("makes");
                        fs::write(md.join(format!("dev-{name}/state")), "in_sync").expect("writes");
                    }
                    node("/dev/md127");
                    built = true;
                }
                Some(("lv", volume)) => {
                    node(&format!("/dev/{volume}"));
                    built = true;
                }
                Some(("crypt", name)) => {
                    node(&format!("/dev/mapper/{name}"));
                    built = true;
                }
                Some(("swap", device)) => swaps.push_str(&format!("{device} partition 1000 0 3\n")),
                _ => {}
            }
        }
        if !built {
            let _ = fs::remove_dir_all(self.at("/sys/class/block/data"));
        } else if !self.at("/sys/class/block/data").exists() {
            self.tunables("data");
        }
        for (key, device) in running.iter() {
            if let Some(place) = key.strip_prefix("mount:") {
                let name = Path::new(device).file_name().and_then(|name| name.to_str()).unwrap_or_default();
                let number =
                    fs::read_to_string(self.at(&format!("/sys/class/block/{name}/dev"))).unwrap_or_default();
                mount_line(
                    &mut mounts,
                    number.trim(),
                    place,
                    &self.kind_on(&disks, &running, device),
                    device,
                );
            }
        }
        fs::write(self.at("/proc/self/mountinfo"), mounts).expect("writes");
        fs::write(self.at("/proc/swaps"), swaps).expect("writes");
    }

    fn kind_on(&self, disks: &Facts, running: &Facts, device: &str) -> String {
        fn place(running: &Facts, device: &str) -> String {
            match (running.get(&format!("md:{device}")), device.strip_prefix("/dev/mapper/")) {
                (Some(uuid), _) => format!("md:{uuid}"),
                (None, Some(name)) => running
                    .get(&format!("crypt:{name}"))
                    .map_or_else(String::new, |below| format!("crypt:{}", place(running, below))),
                (None, None) => device.to_owned(),
            }
        }
        let on = disks.get(&format!("on:{}", place(running, device))).cloned().unwrap_or_default();
        on.split(' ').next().unwrap_or_default().to_owned()
    }
}

fn mount_line(mounts: &mut String, number: &str, place: &str, kind: &str, device: &str) {
    mounts.push_str(&format!("30 1 {number} / {place} rw - {kind} {device} rw\n"));
}

/// Commands that change something.
fn changes(program: &str, words: &[&str]) -> bool {
    match program {
        "blkid" | "pvs" | "vgs" | "lvs" | "udevadm" => false,
        "mdadm" => !words[0].starts_with("--detail") && !words[0].starts_with("--examine"),
        "cryptsetup" => words[0] != "status",
        _ => true,
    }
}

impl Runner for Machine {
    fn run_on(&self, program: &str, words: &[&str], file: &fs::File) -> Result<Output, CommandError> {
        let path = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).expect("is open");
        let path = path.to_str().expect("is text");
        self.run_with(program, &[words, &[path]].concat(), b"")
    }

    fn run_with(&self, program: &str, words: &[&str], _: &[u8]) -> Result<Output, CommandError> {
        let mut torn = None;
        if changes(program, words) {
            match self.fails_in.get() {
                Some(0) => {
                    self.fails_in.set(None);
                    return Ok(Output { status: Some(1), stdout: Vec::new(), stderr: "made to fail".into() });
                }
                Some(left) => self.fails_in.set(Some(left - 1)),
                None => {}
            }
            match self.dies_in.get() {
                Some((0, how)) => torn = Some(how),
                Some((left, how)) => self.dies_in.set(Some((left - 1, how))),
                None => {}
            }
        }
        if torn == Some(Torn::Before) {
            std::panic::panic_any(Killed);
        }
        let (status, text) = self.answer(program, words, torn == Some(Torn::Within));
        if changes(program, words) {
            self.publish();
        }
        if torn.is_some() {
            std::panic::panic_any(Killed);
        }
        let said = if status == 0 { String::new() } else { text.clone() };
        Ok(Output { status: Some(status), stdout: text.into_bytes(), stderr: said })
    }
}

impl Machine {
    fn answer(&self, program: &str, words: &[&str], torn: bool) -> (i32, String) {
        let root = self.root.path().display().to_string();
        let words: Vec<String> = words.iter().map(|word| word.replace(&root, "")).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let last = words.last().copied().unwrap_or_default();
        let option = |name: &str| {
            words.iter().enumerate().find_map(|(index, word)| {
                let after = word.strip_prefix(name).and_then(|rest| rest.strip_prefix('='));
                after.or_else(|| words.get(index + 1).copied().filter(|_| *word == name)).map(str::to_owned)
            })
        };
        let fail = |text: &str| (1, text.to_owned());
        let is_held = |device: &str| {
            let running = self.running.borrow();
            running.contains_key(&format!("swap:{device}")) || running.values().any(|below| below == device)
        };
        let exists = |device: &str| self.at(device).exists();
        let place = self.place(last);
        let rows = |kind: &str, rows: Vec<String>| {
            (0, format!("{{\"report\":[{{\"{kind}\":[{}]}}]}}", rows.join(",")))
        };
        match (program, words.first().copied().unwrap_or_default()) {
            ("update-initramfs", _) => {
                self.make_initramfs();
                (0, String::new())
            }
            ("udevadm" | "systemctl", _) => (0, String::new()),
            ("mkdir", _) => match fs::create_dir(self.at(last)) {
                Ok(()) => (0, String::new()),
                Err(error) => fail(&error.to_string()),
            },
            ("mdadm", "--detail") => {
                let running = self.running.borrow();
                let uuid = match last {
                    "/dev/md127" => {
                        running.iter().find(|(key, _)| key.starts_with("md:")).map(|(_, uuid)| uuid.clone())
                    }
                    _ => running.get(&format!("md:{last}")).cloned(),
                };
                uuid.map_or_else(|| fail("no such array"), |uuid| (0, format!("MD_UUID={uuid}\n")))
            }
            ("mdadm", "--examine") => {
                let found = self.disks.borrow().get(&format!("super:{last}")).cloned();
                found.map_or_else(|| fail("no superblock"), |uuid| (0, format!("MD_UUID={uuid}\n")))
            }
            ("mdadm", "--create") => {
                let (device, uuid) = (words[1].to_owned(), option("--uuid").expect("has a uuid"));
                let members: Vec<&str> =
                    words.iter().copied().filter(|word| word.starts_with("/dev/disk")).collect();
                if self.runs("md:") || members.iter().any(|member| is_held(member) || !exists(member)) {
                    return fail("busy");
                }
                let made = if torn { 1 } else { members.len() };
                for member in &members[..made] {
                    self.disks.borrow_mut().retain(|key, _| *key != format!("on:{member}"));
                    self.disks.borrow_mut().insert(format!("super:{member}"), uuid.clone());
                }
                self.disks.borrow_mut().insert(format!("size:{uuid}"), members.len().to_string());
                if !torn {
                    self.running.borrow_mut().insert(format!("md:{device}"), uuid);
                }
                (0, String::new())
            }
            ("mdadm", "--assemble") => {
                let uuid = option("--uuid").expect("has a uuid");
                if !torn && self.assemble(words[1], &uuid) {
                    (0, String::new())
                } else {
                    fail("no array assembled")
                }
            }
            ("mdadm", "--stop") => {
                let running = self.running.borrow();
                let device =
                    running.keys().find_map(|key| key.strip_prefix("md:")).unwrap_or_default().to_owned();
                drop(running);
                if is_held(&device) {
                    return fail("Device or resource busy");
                }
                self.running.borrow_mut().remove(&format!("md:{device}"));
                (0, String::new())
            }
            ("mdadm", "--zero-superblock") => {
                let mut disks = self.disks.borrow_mut();
                let uuid = disks.remove(&format!("super:{last}")).unwrap_or_default();
                if !disks.values().any(|other| *other == uuid) {
                    disks.retain(|key, _| !key.contains(&uuid));
                }
                (0, String::new())
            }
            ("pvcreate", _) if torn => (0, String::new()),
            ("pvcreate", _) => {
                let uuid = option("--uuid").expect("has a uuid");
                self.disks.borrow_mut().retain(|key, _| *key != format!("on:{last}"));
                match self.disks.borrow_mut().insert(format!("pv:{last}"), uuid) {
                    None => (0, String::new()),
                    Some(_) => fail("is a physical volume already"),
                }
            }
            ("pvs", _) => {
                let select = option("--select").unwrap_or_default();
                let disks = self.disks.borrow();
                let found = disks.iter().filter_map(|(key, uuid)| Some((key.strip_prefix("pv:")?, uuid)));
                let found = found.filter(|(device, uuid)| {
                    exists(device) && (select == format!("pv_uuid={uuid}") || select.starts_with("vg_name"))
                });
                rows(
                    "pv",
                    found
                        .map(|(device, uuid)| {
                            format!(
                                "{{\"pv_name\":\"{device}\",\"pv_uuid\":\"{uuid}\",\"pv_pe_count\":\"7\"}}"
                            )
                        })
                        .collect(),
                )
            }
            ("pvremove", _) if self.disks.borrow().contains_key("vg:data") => fail("used by a VG"),
            ("pvremove", _) => {
                self.disks.borrow_mut().remove(&format!("pv:{last}"));
                (0, String::new())
            }
            ("vgcreate", _) if torn => (0, String::new()),
            ("vgcreate", _) => {
                let members = words.iter().filter(|word| word.starts_with("/dev/")).count();
                self.disks.borrow_mut().insert("pvs:data".into(), members.to_string());
                match self.disks.borrow_mut().insert("vg:data".into(), "x".into()) {
                    None => (0, String::new()),
                    Some(_) => fail("exists already"),
                }
            }
            ("vgs", _) => {
                let there = self.disks.borrow().contains_key("vg:data");
                rows("vg", there.then(|| "{\"vg_name\":\"data\"}".to_owned()).into_iter().collect())
            }
            ("vgremove", _) if self.disks.borrow().contains_key("lv:data/data") => fail("contains volumes"),
            ("vgremove", _) => {
                self.disks.borrow_mut().retain(|key, _| key != "vg:data" && key != "pvs:data");
                (0, String::new())
            }
            ("lvcreate", _) => {
                let mut disks = self.disks.borrow_mut();
                // It wipes signatures.
                disks.remove("on:/dev/data/data");
                if disks.insert("lv:data/data".into(), "1".into()).is_some() {
                    return fail("exists already");
                }
                if !torn {
                    self.running.borrow_mut().insert("lv:data/data".into(), "x".into());
                }
                (0, String::new())
            }
            ("pvresize" | "resize2fs" | "xfs_growfs", _) | ("mdadm", "--grow") | ("cryptsetup", "resize") => {
                self.ran.borrow_mut().push(
                    std::iter::once(program).chain(words.iter().copied()).collect::<Vec<_>>().join(" "),
                );
                (0, String::new())
            }
            ("lvextend", _) if words.contains(&"+100%FREE") => {
                fail("New size given (9 extents) not larger than existing size (9 extents)")
            }
            ("lvextend", _) => {
                let mut disks = self.disks.borrow_mut();
                let size =
                    disks.get("lv:data/data").and_then(|size| size.parse::<usize>().ok()).unwrap_or_default();
                // Each member once: LVM refuses to take what is taken.
                let key = format!("taken:data:{last}");
                if disks.contains_key(&key) {
                    return fail("no free extents");
                }
                disks.insert(key, "x".into());
                disks.insert("lv:data/data".into(), (size + 1).to_string());
                (0, String::new())
            }
            ("lvs", _) => {
                let there = self.disks.borrow().contains_key("lv:data/data");
                rows("lv", there.then(|| "{\"lv_name\":\"data\"}".to_owned()).into_iter().collect())
            }
            ("lvchange", _) if option("--activate").as_deref() == Some("y") => {
                self.running.borrow_mut().insert("lv:data/data".into(), "x".into());
                (0, String::new())
            }
            ("lvchange" | "lvremove", _) if is_held("/dev/data/data") => fail("in use"),
            ("lvchange", _) => {
                self.running.borrow_mut().remove("lv:data/data");
                (0, String::new())
            }
            ("lvremove", _) => {
                self.running.borrow_mut().remove("lv:data/data");
                self.disks
                    .borrow_mut()
                    .retain(|key, _| !key.contains("data/data") && !key.starts_with("taken:"));
                (0, String::new())
            }
            ("cryptsetup", "status") => (
                if self.running.borrow().contains_key(&format!("crypt:{last}")) { 0 } else { 4 },
                String::new(),
            ),
            ("cryptsetup", "open") => {
                let below = words[words.len() - 2];
                let on = self
                    .disks
                    .borrow()
                    .get(&format!("on:{}", self.place(below)))
                    .cloned()
                    .unwrap_or_default();
                if !on.starts_with("crypto_LUKS ") {
                    return fail("no LUKS header");
                }
                self.running.borrow_mut().insert(format!("crypt:{last}"), below.to_owned());
                (0, String::new())
            }
            ("cryptsetup", "close") if is_held(&format!("/dev/mapper/{last}")) => fail("in use"),
            ("cryptsetup", "close") => {
                self.running.borrow_mut().remove(&format!("crypt:{last}"));
                (0, String::new())
            }
            ("cryptsetup" | "mkfs.xfs" | "mkfs.ext4" | "mkswap", _) => {
                if !exists(last) || is_held(last) {
                    return fail("in use, or not there");
                }
                let label =
                    option(if program.starts_with("mkfs") { "-L" } else { "--label" }).expect("has a label");
                let kind = match program {
                    "cryptsetup" => "crypto_LUKS",
                    "mkswap" => "swap",
                    other => other.trim_start_matches("mkfs."),
                };
                let mut disks = self.disks.borrow_mut();
                // What was in it is gone.
                disks.retain(|key, _| {
                    *key != format!("data:{place}") && !key.ends_with(&format!("crypt:{place}"))
                });
                disks.insert(
                    format!("on:{place}"),
                    if torn { kind.to_owned() } else { format!("{kind} {label}") },
                );
                (0, String::new())
            }
            ("blkid", _) => match self.disks.borrow().get(&format!("on:{place}")).map(|on| {
                on.split_once(' ').map(|(kind, label)| (kind.to_owned(), label.to_owned())).ok_or(on.clone())
            }) {
                Some(Ok((kind, label))) => (0, format!("TYPE={kind}\nLABEL={label}\n")),
                Some(Err(kind)) => (0, format!("TYPE={kind}\n")),
                None => (2, String::new()),
            },
            ("wipefs", _) if is_held(last) => fail("Device or resource busy"),
            ("wipefs", _) => {
                self.disks
                    .borrow_mut()
                    .retain(|key, _| *key != format!("on:{place}") && *key != format!("data:{place}"));
                (0, String::new())
            }
            ("swapon", _) => {
                self.running.borrow_mut().insert(format!("swap:{last}"), "x".into());
                (0, String::new())
            }
            ("swapoff", _) => {
                self.running.borrow_mut().remove(&format!("swap:{last}"));
                (0, String::new())
            }
            ("mount", _) => {
                let device = words[words.len() - 2];
                let on = self.disks.borrow().contains_key(&format!("on:{}", self.place(device)));
                if !on
                    || self.running.borrow().contains_key(&format!("mount:{last}"))
                    || !self.at(last).is_dir()
                {
                    return fail("wrong fs type, or busy");
                }
                self.running.borrow_mut().insert(format!("mount:{last}"), device.to_owned());
                (0, String::new())
            }
            ("umount", _) => {
                self.running.borrow_mut().remove(&format!("mount:{last}"));
                (0, String::new())
            }
            (other, _) => panic!("the machine does not know {other} {words:?}"),
        }
    }
}
