//! The machine loses its power and boots, and what its kernel publishes.

use super::*;

/// Bytes of what a device that was made begins with, and of the data after that.
pub(super) const HEADER: usize = 4096;

/// The first bytes of a member that shows what is in its array.
const SHOWN: [u8; 2048] = {
    let mut bytes = [0; 2048];
    bytes[1024] = 1;
    bytes
};

impl Machine {
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

    pub(super) fn assemble(&self, device: &str, uuid: &str) -> bool {
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

    pub(super) fn group_is_whole(&self) -> bool {
        let disks = self.disks.borrow();
        disks.keys().filter(|key| key.starts_with("pv:")).count().to_string()
            == disks.get("pvs:data").cloned().unwrap_or_default()
    }

    /// The device that is there and carries something that begins so.
    pub(super) fn carrying(&self, what: &str) -> Option<String> {
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
    pub(super) fn place(&self, device: &str) -> String {
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
    pub(super) fn publish(&self) {
        let (disks, running) = (self.disks.borrow(), self.running.borrow());
        let block = self.at("/sys/block");
        fs::remove_dir_all(&block).expect("removes");
        fs::create_dir_all(&block).expect("makes");
        for place in ["dev/md", "dev/mapper", "dev/data"] {
            let _ = fs::remove_dir_all(self.at(place));
        }
        let write = |path: &str, bytes: &[u8]| {
            let path = self.at(path);
            fs::create_dir_all(path.parent().expect("has a parent")).expect("makes");
            fs::write(path, bytes).expect("writes");
        };
        // What a device that was made reads as: a header's place, which blkid is asked about, and data.
        let is_written =
            |place: &str| ["data", "left"].iter().any(|kind| disks.contains_key(&format!("{kind}:{place}")));
        let built_node = |path: &str, place: &str| {
            let on = |place: &str| disks.get(&format!("on:{place}")).map_or("", String::as_str);
            let inner = format!("crypt:{place}");
            let header = u8::from(!on(place).is_empty() || is_written(place));
            let is_used = !on(&inner).is_empty() || is_written(&inner);
            let data = u8::from(is_written(place) || is_used);
            if place.starts_with("crypt:") {
                // What was never written reads as noise.
                write(path, &[1; HEADER]);
            } else {
                write(path, &[[header; HEADER], [data; HEADER]].concat());
            }
        };
        for number in 0..DISKS {
            let path = disk(number);
            if disks.contains_key(&format!("gone:{path}")) {
                let _ = fs::remove_file(self.at(&path));
            } else {
                // In these formats what is in the array begins at byte 0; a file system leaves the first of them alone.
                let is_shown = disks.get(&format!("super:{path}")).is_some_and(|uuid| {
                    let how = disks.get(&format!("how:{uuid}")).map_or("", String::as_str);
                    let of_it = format!(":md:{uuid}");
                    ["--metadata=1.0 ", "--metadata=0.90 "].iter().any(|option| how.contains(option))
                        && disks.keys().any(|key| key.ends_with(&of_it))
                });
                write(&path, if is_shown { &SHOWN } else { b"" });
            }
        }
        let (mut mounts, mut swaps) = (String::new(), "Filename Type Size Used Priority\n".to_owned());
        let mut built = false;
        for (key, value) in running.iter() {
            match key.split_once(':') {
                Some(("md", device)) => {
                    built_node(device, &format!("md:{value}"));
                    let md = block.join("md127/md");
                    fs::create_dir_all(&md).expect("makes");
                    let carriers =
                        disks.iter().filter(|(key, uuid)| key.starts_with("super:") && *uuid == value);
                    let carriers = carriers.filter_map(|(key, _)| key.rsplit('/').next());
                    let stands = running.get(&format!("stands:{value}"));
                    let names: Vec<&str> =
                        stands.map_or_else(|| carriers.collect(), |names| names.split(' ').collect());
                    for name in names {
                        fs::create_dir_all(md.join(format!("dev-{name}"))).expect("makes");
                        fs::write(md.join(format!("dev-{name}/state")), "in_sync").expect("writes");
                    }
                    built_node("/dev/md127", &format!("md:{value}"));
                    built = true;
                }
                Some(("lv", volume)) => {
                    built_node(&format!("/dev/{volume}"), &format!("/dev/{volume}"));
                    built = true;
                }
                Some(("crypt", name)) => {
                    let path = format!("/dev/mapper/{name}");
                    built_node(&path, &self.place(&path));
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
        mounts.push_str(&self.other_mounts.borrow());
        fs::write(self.at("/proc/self/mountinfo"), mounts).expect("writes");
        fs::write(self.at("/proc/swaps"), swaps).expect("writes");
    }

    pub(super) fn kind_on(&self, disks: &Facts, running: &Facts, device: &str) -> String {
        pub(super) fn place(running: &Facts, device: &str) -> String {
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
