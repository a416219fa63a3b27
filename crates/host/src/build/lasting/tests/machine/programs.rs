//! As much of each program as the keeper uses.

use super::*;

/// Commands that change something.
fn changes(program: &str, words: &[&str]) -> bool {
    match program {
        "xfs_io" | "blkid" | "pvs" | "vgs" | "lvs" | "udevadm" => false,
        "mdadm" => !words[0].starts_with("--detail") && !words[0].starts_with("--examine"),
        "cryptsetup" => words[0] != "status" && !words.contains(&"--test-passphrase"),
        "xfs_repair" | "e2fsck" => false,
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
    /// A uuid that LVM draws.
    fn draws(&self) -> String {
        self.drawn.set(self.drawn.get() + 1);
        format!("drawn-{}", self.drawn.get())
    }

    /// What is made at `place` shows what was on its members before, where that is asked for.
    fn has_leftovers(&self, place: &str) {
        if self.leftovers.get() {
            self.disks.borrow_mut().insert(format!("left:{place}"), "x".into());
        }
    }

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
                let disks = self.disks.borrow();
                let named =
                    last.strip_prefix("/dev/vol").map(|number| format!("/dev/disk/by-id/vol{number}"));
                let last = named.as_deref().unwrap_or(last);
                let Some(uuid) = disks.get(&format!("super:{last}")) else { return fail("no superblock") };
                let how = disks.get(&format!("how:{uuid}")).cloned().unwrap_or_default();
                let said = |option: &str, name: &str, before: &str| {
                    let value = how.split(' ').find_map(|word| word.strip_prefix(option));
                    value.map_or_else(String::new, |value| format!("  {name} : {before}{value}\n"))
                };
                let level = said("--level=", "Raid Level", "raid");
                let [devices, chunk] = [("--raid-devices=", "Raid Devices"), ("--chunk=", "Chunk Size")]
                    .map(|(option, name)| said(option, name, ""));
                let version = said("--metadata=", "Version", "");
                let of = disks.get(&format!("copy:{last}")).map_or(last, String::as_str);
                let members = how.split(' ').filter(|word| word.starts_with("/dev/disk"));
                let (place, all) =
                    (members.clone().position(|member| member == of).unwrap_or_default(), members.count());
                let table = disks.get(&format!("table:{of}")).cloned().unwrap_or_else(|| "A".repeat(all));
                let superblock = format!(
                    "  Array UUID : {uuid}\n  Device UUID : of {of}\n  Device Role : Active device {place}\n  Array State : {table} ('A' == active)\n  \
                     Events : 17\n  Update Time : today\n  Checksum : 1 - correct\n"
                );
                (0, format!("MD_UUID={uuid}\n{version}{level}{devices}{chunk}{superblock}"))
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
                self.disks.borrow_mut().insert(format!("how:{uuid}"), words.join(" "));
                self.has_leftovers(&format!("md:{uuid}"));
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
                let select = option("--select");
                let is_wanted = |uuid: &str| {
                    select.as_ref().is_none_or(|select| {
                        *select == format!("pv_uuid={uuid}") || select.starts_with("vg_name")
                    })
                };
                let disks = self.disks.borrow();
                let found = disks.iter().filter_map(|(key, uuid)| Some((key.strip_prefix("pv:")?, uuid)));
                let found = found.filter(|(device, uuid)| exists(device) && is_wanted(uuid));
                rows(
                    "pv",
                    found
                        .map(|(device, uuid)| {
                            let group = disks.get(&format!("in:{device}")).cloned().unwrap_or_default();
                            let (name, of) = group.split_once(' ').unwrap_or_default();
                            format!(
                                "{{\"pv_name\":\"{device}\",\"pv_uuid\":\"{uuid}\",\"pv_pe_count\":\"7\",\"vg_name\":\"{name}\",\"vg_uuid\":\"{of}\"}}"
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
                let members: Vec<&&str> = words.iter().filter(|word| word.starts_with("/dev/")).collect();
                let uuid = self.draws();
                for member in &members {
                    self.disks.borrow_mut().insert(format!("in:{member}"), format!("data {uuid}"));
                }
                self.disks.borrow_mut().insert("pvs:data".into(), members.len().to_string());
                match self.disks.borrow_mut().insert("vg:data".into(), "x".into()) {
                    None => (0, String::new()),
                    Some(_) => fail("exists already"),
                }
            }
            ("vgextend", _) => {
                let mut disks = self.disks.borrow_mut();
                let of = disks.get("in:/dev/disk/by-id/vol0").cloned().unwrap_or_default();
                if disks.insert(format!("in:{last}"), of).is_some() {
                    return fail("is in the group already");
                }
                let count = disks.keys().filter(|key| key.starts_with("in:")).count();
                disks.insert("pvs:data".into(), count.to_string());
                (0, String::new())
            }
            ("vgs", _) => {
                let there = self.disks.borrow().contains_key("vg:data");
                rows("vg", there.then(|| "{\"vg_name\":\"data\"}".to_owned()).into_iter().collect())
            }
            ("vgremove", _) if self.disks.borrow().keys().any(|key| key.starts_with("lv:data/")) => {
                fail("contains volumes")
            }
            ("vgremove", _) => {
                let is_its =
                    |key: &String, value: &String| key.starts_with("in:") && value.starts_with("data ");
                self.disks
                    .borrow_mut()
                    .retain(|key, value| key != "vg:data" && key != "pvs:data" && !is_its(key, value));
                (0, String::new())
            }
            ("lvcreate", _) => {
                let uuid = self.draws();
                let mut disks = self.disks.borrow_mut();
                // It wipes signatures.
                disks.remove("on:/dev/data/data");
                disks.insert("how:/dev/data/data".into(), words.join(" "));
                disks.insert("uuid:data/data".into(), uuid);
                if disks.insert("lv:data/data".into(), "1".into()).is_some() {
                    return fail("exists already");
                }
                drop(disks);
                self.has_leftovers("/dev/data/data");
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
                let disks = self.disks.borrow();
                let there = disks.contains_key("lv:data/data");
                let how = disks.get("how:/dev/data/data").cloned().unwrap_or_default();
                let uuid = disks.get("uuid:data/data").cloned().unwrap_or_default();
                let said = |option: &str| {
                    how.split(' ').skip_while(|word| *word != option).nth(1).unwrap_or("0k").to_owned()
                };
                let cache = disks.get("cache:data/data");
                let row = |name: &str| {
                    let stripes = how.matches("/dev/").count();
                    let (kind, size) = (said("--type"), said("--stripesize").replace('k', ".00k"));
                    let kind = cache.filter(|_| name == "data").cloned().unwrap_or(kind);
                    let mode = if kind == "cache" { "writethrough" } else { "" };
                    format!(
                        "{{\"lv_name\":\"{name}\",\"lv_uuid\":\"{uuid}\",\"segtype\":\"{kind}\",\"stripes\":\"{stripes}\",\"stripe_size\":\"{size}\",\"cache_mode\":\"{mode}\"}}"
                    )
                };
                let select = option("--select").unwrap_or_default();
                let names = [
                    ("data", there),
                    ("[data_corig]", there && cache.is_some() && words.contains(&"--all")),
                    ("data_cache", disks.contains_key("lv:data/data_cache")),
                ];
                let is_asked =
                    |name: &str| select.split("lv_name=").nth(1).is_none_or(|wanted| wanted == name);
                let rows_of = names.into_iter().filter(|(name, there)| *there && is_asked(name));
                rows("lv", rows_of.map(|(name, _)| row(name)).collect())
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
            ("lvconvert", _) if words.contains(&"--uncache") => {
                match self.disks.borrow_mut().remove("cache:data/data") {
                    // What was cut off while it was flushed is still there.
                    Some(kind) if torn => {
                        drop(self.disks.borrow_mut().insert("cache:data/data".into(), kind))
                    }
                    Some(_) => {}
                    None => return fail("has no cache"),
                }
                (0, String::new())
            }
            ("lvconvert", _) => {
                let mut disks = self.disks.borrow_mut();
                let there = ["cache:data/data", "lv:data/data_cache"];
                if there.iter().any(|key| disks.contains_key(*key)) || !disks.contains_key("lv:data/data") {
                    return fail("has a cache, no room for one, or is not there");
                }
                disks.insert(there[usize::from(torn)].into(), option("--type").expect("has a type"));
                (0, String::new())
            }
            ("lvremove", _) if last == "data/data_cache" => {
                self.disks.borrow_mut().remove("lv:data/data_cache");
                (0, String::new())
            }
            ("lvremove", _) => {
                self.running.borrow_mut().remove("lv:data/data");
                self.disks.borrow_mut().retain(|key, _| {
                    key == "lv:data/data_cache" || !key.contains("data/data") && !key.starts_with("taken:")
                });
                (0, String::new())
            }
            ("cryptsetup", "status") => match self.running.borrow().get(&format!("crypt:{last}")) {
                Some(below) => {
                    (0, format!("  device:  {below}\n  offset:  {} sectors\n", boot::HEADER / 512))
                }
                None => (4, String::new()),
            },
            // What was cut off has no label yet.
            ("xfs_repair" | "e2fsck", _) | ("cryptsetup", "open") if !changes(program, &words) => {
                match self.disks.borrow().get(&format!("on:{place}")).is_some_and(|on| on.contains(' ')) {
                    true => (0, String::new()),
                    false => fail("it is not whole"),
                }
            }
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
            ("cryptsetup" | "mkfs.xfs" | "mkfs.ext4" | "mkfs.btrfs" | "mkswap", _) => {
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
                let uuid = option("--uuid").or_else(|| option("-U")).or_else(|| option("uuid"));
                let uuid = uuid.expect("has a uuid");
                let mut disks = self.disks.borrow_mut();
                // What was in it is gone.
                disks.retain(|key, _| {
                    !["data", "left"].iter().any(|kind| *key == format!("{kind}:{place}"))
                        && !key.ends_with(&format!("crypt:{place}"))
                });
                disks.insert(
                    format!("on:{place}"),
                    if torn { kind.to_owned() } else { format!("{kind} {label} {uuid}") },
                );
                (0, String::new())
            }
            ("blkid", _) => match self.disks.borrow().get(&format!("on:{place}")) {
                Some(on) => {
                    let fields = ["TYPE", "LABEL", "UUID"].into_iter().zip(on.split(' '));
                    (0, fields.map(|(field, value)| format!("{field}={value}\n")).collect())
                }
                None => (2, String::new()),
            },
            ("wipefs", _) if is_held(last) => fail("Device or resource busy"),
            ("wipefs", _) => {
                let mut disks = self.disks.borrow_mut();
                disks.retain(|key, _| *key != format!("on:{place}") && *key != format!("data:{place}"));
                // All but the signature stays.
                if !place.starts_with("/dev/disk/") {
                    disks.insert(format!("left:{place}"), "x".into());
                }
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
            ("xfs_io", _) => (0, "reserved blocks = 5120\navailable reserved blocks = 5120\n".to_owned()),
            ("mount", _) if words.iter().any(|word| word.contains("nosuchoption")) => {
                fail("bad option: nosuchoption")
            }
            ("mount", _) if self.mounts_nothing.get() => (0, String::new()),
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
