//! A made-up machine, the host whose volume it attaches, and as much of each program as attaching uses.

use super::super::*;
use crate::command::{CommandError, Output, Runner};
use crate::made::tests::{Faults, Tried, Written};
use crate::made::{Context, Host};
use crate::sys::Sys;
use ebbtide_door::own::{self, Locked};
use ebbtide_provision::attached::Tunnel;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::atomic::AtomicBool;

pub const KEY: &[u8] = b"the-key-of-the-volume";
pub const SECRET: &str = "DHHC-1:00:the-secret-of-the-target:";
/// The kernel's name of the device that is attached.
const DISK: &str = "nvme7n1";

/// What is on the volume of the other host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum On {
    Blank,
    /// A LUKS header, and whether there is a file system in what it encrypts.
    Luks {
        uuid: String,
        filesystem: bool,
    },
    /// Its header was destroyed.
    Torn {
        uuid: String,
        filesystem: bool,
    },
    Filesystem,
    Foreign,
}

pub struct Machine {
    root: tempfile::TempDir,
    pub volume: RefCell<On>,
    /// Exports of the other host, by name.
    pub exports: RefCell<BTreeMap<String, String>>,
    /// Whether the other host has the file with the secret.
    pub far_secret: Cell<bool>,
    /// Whether the other host answers.
    pub reachable: Cell<bool>,
    /// Whether somebody is connected to its exports.
    pub connected: Cell<bool>,
    /// Whether somebody has a file in what is mounted open.
    pub busy: Cell<bool>,
    /// Who else uses the device.
    pub users: RefCell<Vec<String>>,
    /// Label of the file system that was made.
    label: RefCell<String>,
    /// The lock of the supervising process, while it lives.
    supervisor: RefCell<Option<Locked>>,
    /// uuid of the open mapping.
    pub mapping: RefCell<Option<String>>,
    /// Copies of headers that the volume can be opened with, by path.
    pub journal: Written,
    /// Every command of this host and the other with its arguments.
    pub ran: RefCell<Vec<String>>,
    pub faults: Faults,
}

impl Machine {
    pub fn new() -> Machine {
        let root = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a directory");
        for place in [
            "dev/disk/by-path",
            "dev/mapper",
            "etc/iscsi",
            "proc/self",
            "proc/sys/kernel/random",
            "sys/class/block",
            "sys/class/nvme",
            "sys/module/nvme_tcp",
            "var/lib",
            "run",
            "srv",
            "root",
        ] {
            fs::create_dir_all(root.path().join(place)).expect("makes");
        }
        for (path, text) in [
            ("etc/machine-id", "00112233445566778899aabbccddeeff\n"),
            ("etc/iscsi/initiatorname.iscsi", "## a comment\nInitiatorName=iqn.1993-08.org.debian:01:abc\n"),
            ("proc/self/mountinfo", ""),
            ("dev/nvme-fabrics", ""),
            ("root/secret", SECRET),
        ] {
            fs::write(root.path().join(path), text).expect("writes");
        }
        fs::set_permissions(root.path().join("root/secret"), fs::Permissions::from_mode(0o600))
            .expect("sets");
        Machine {
            root,
            volume: RefCell::new(On::Blank),
            exports: RefCell::default(),
            far_secret: Cell::new(false),
            reachable: Cell::new(true),
            connected: Cell::new(false),
            busy: Cell::new(false),
            users: RefCell::default(),
            label: RefCell::default(),
            supervisor: RefCell::default(),
            mapping: RefCell::default(),
            journal: Written::default(),
            ran: RefCell::default(),
            faults: Faults::default(),
        }
    }

    pub fn at(&self, path: &str) -> PathBuf {
        self.root.path().join(path.trim_start_matches('/'))
    }

    /// What is asked for: everything.
    pub fn wanted(&self) -> Wanted {
        Wanted {
            place: "ada@store1:/dev/vdb".parse().expect("a place"),
            carries: None,
            name: "data".to_owned(),
            transport: Transport::NvmeTcp,
            hold_s: 30,
            secret_file: Some(self.at("root/secret")),
            encrypt: Some(Encrypt { key_file: None, integrity: true, backup: Some(self.at("root/header")) }),
            copies: false,
            mount: Some(("/srv/deep/data".into(), Filesystem::Ext4)),
        }
    }

    pub fn with<T>(&self, what: impl FnOnce(&Attachments<'_>) -> T) -> T {
        self.within(|context| what(&Attachments::new(context)))
    }

    fn within<T>(&self, what: impl FnOnce(&Context<'_>) -> T) -> T {
        let number = self.ran.borrow().len();
        let id = format!("00000000-0000-4000-8000-{number:012}\n");
        fs::write(self.at("proc/sys/kernel/random/uuid"), id).expect("writes");
        what(&Context {
            sys: Sys::below(self.root.path()),
            runner: self,
            host: self,
            journal: Some(&self.journal),
            tell: &|_| {},
            stop: &AtomicBool::new(false),
            boundary: &|| self.faults.boundary(&self.at(Attachment::RECORDS), || self.gone()),
        })
    }

    /// Whether the journal has something to clean up.
    pub fn has_left(&self) -> bool {
        self.journal.has_left()
    }

    /// A boot of this host: what ran is gone.
    pub fn boot(&self) {
        self.supervisor.borrow_mut().take();
        *self.mapping.borrow_mut() = None;
        let _ = fs::remove_dir_all(self.at("run"));
        fs::create_dir_all(self.at("run")).expect("makes");
        fs::write(self.at("proc/self/mountinfo"), "").expect("writes");
        self.publish();
        self.gone();
    }

    /// All that is attached, mounted or kept here or there; empty where there is nothing.
    pub fn traces(&self) -> Vec<String> {
        let mut traces: Vec<String> =
            self.exports.borrow().keys().map(|name| format!("export {name}")).collect();
        traces.extend(self.supervisor.borrow().as_ref().map(|_| "supervisor".to_owned()));
        traces.extend(self.mapping.borrow().as_ref().map(|_| "mapping".to_owned()));
        traces.extend(self.at("sys/class/nvme/nvme7").exists().then(|| "controller".to_owned()));
        traces.extend(self.far_secret.get().then(|| "secret there".to_owned()));
        let mounts = fs::read_to_string(self.at("proc/self/mountinfo")).expect("reads");
        traces.extend((!mounts.is_empty()).then(|| format!("mount {mounts}")));
        for place in ["srv/deep", "run/ebbtide-attached", "root/header", "var/lib/ebbtide/attached/data.json"]
        {
            traces.extend(self.at(place).exists().then(|| place.to_owned()));
        }
        traces
    }

    /// Everything that was written down on this host, but for what the key and the secret are in.
    pub fn written_down(&self) -> String {
        let mut all = self.ran.borrow().join("\n");
        for entry in self.journal.0.lock().expect("locks").iter() {
            all += &serde_json::to_string(entry).expect("writes");
        }
        for place in ["var/lib/ebbtide/attached", "run/ebbtide-attached/data"] {
            for entry in fs::read_dir(self.at(place)).into_iter().flatten().flatten() {
                all += &fs::read_to_string(entry.path()).unwrap_or_default();
            }
        }
        all
    }

    fn device(&self, name: &str, number: &str) {
        let place = self.at("sys/class/block").join(name);
        fs::create_dir_all(&place).expect("makes");
        fs::write(place.join("dev"), number).expect("writes");
        fs::write(place.join("size"), "2048").expect("writes");
    }

    /// sysfs and /dev of the mapping.
    fn publish(&self) {
        let (block, node) = (self.at("sys/class/block/data"), self.at("dev/mapper/data"));
        match &*self.mapping.borrow() {
            Some(uuid) => {
                self.device("data", "253:0");
                fs::create_dir_all(block.join("dm")).expect("makes");
                fs::write(block.join("dm/name"), "data").expect("writes");
                fs::write(block.join("dm/uuid"), format!("CRYPT-LUKS2-{}-data", uuid.replace('-', "")))
                    .expect("writes");
                fs::write(node, "").expect("writes");
            }
            None => {
                let _ = fs::remove_dir_all(block);
                let _ = fs::remove_file(node);
            }
        }
    }

    /// sysfs of a connection of the kernel's.
    pub fn controller(&self, target: &str, address: &str) {
        let place = self.at("sys/class/nvme/nvme7");
        fs::create_dir_all(place.join("nvme7c7n1")).expect("makes");
        for (file, text) in [("subsysnqn", target), ("address", address), ("state", "live")] {
            fs::write(place.join(file), text).expect("writes");
        }
    }

    fn gone(&self) {
        let _ = fs::remove_dir_all(self.at("sys/class/nvme/nvme7"));
        let _ = fs::remove_dir_all(self.at("sys/class/block").join(DISK));
        let _ = fs::remove_file(self.at("dev").join(DISK));
        let _ = fs::remove_file(self.at("dev/disk/by-path/far"));
    }

    fn blkid(&self, file: &std::fs::File) -> (i32, String) {
        let found = file.metadata().expect("is there").ino();
        let is = |path: &str| fs::metadata(self.at(path)).is_ok_and(|node| node.ino() == found);
        let volume = self.volume.borrow();
        let content = if is("dev/mapper/data") {
            matches!(&*volume, On::Luks { filesystem: true, .. } | On::Torn { filesystem: true, .. })
                .then_some("ext4")
        } else {
            match &*volume {
                On::Blank | On::Torn { .. } => None,
                On::Luks { uuid, .. } => {
                    return (0, format!("UUID={uuid}\nTYPE=crypto_LUKS\nUSAGE=crypto\n"));
                }
                On::Filesystem => Some("ext4"),
                On::Foreign => Some("xfs"),
            }
        };
        let label = self.label.borrow();
        content.map_or((2, String::new()), |kind| {
            let label = if kind == "ext4" { format!("LABEL={label}\n") } else { String::new() };
            (0, format!("{label}TYPE={kind}\nUSAGE=filesystem\n"))
        })
    }

    fn cryptsetup(&self, arguments: &[&str], input: &[u8]) -> i32 {
        let volume = self.volume.borrow().clone();
        let uuid = match &volume {
            On::Luks { uuid, .. } | On::Torn { uuid, .. } => Some(uuid.clone()),
            _ => None,
        };
        match arguments[0] {
            "luksFormat" => {
                assert_eq!(volume, On::Blank, "only what is blank is formatted");
                assert_eq!(input, KEY);
                let at = arguments.iter().position(|word| *word == "--uuid").expect("a uuid");
                *self.volume.borrow_mut() =
                    On::Luks { uuid: arguments[at + 1].to_owned(), filesystem: false };
                0
            }
            "open" => {
                assert_eq!(input, KEY);
                let by_file = arguments.contains(&"--header");
                if matches!(volume, On::Torn { .. }) && !by_file || uuid.is_none() {
                    return 1;
                }
                *self.mapping.borrow_mut() = uuid;
                self.publish();
                0
            }
            "close" => {
                *self.mapping.borrow_mut() = None;
                self.publish();
                0
            }
            "status" => {
                if self.mapping.borrow().is_some() {
                    0
                } else {
                    4
                }
            }
            "luksHeaderBackup" => {
                let path = arguments.last().expect("a path");
                fs::write(path, uuid.expect("a header")).expect("writes");
                0
            }
            "luksDump" => 0,
            other => panic!("cryptsetup {other}"),
        }
    }

    fn answer(&self, program: &str, arguments: &[&str], input: &[u8]) -> (i32, String) {
        let done = match program {
            "cryptsetup" if arguments[0] == "luksUUID" => {
                let text = fs::read_to_string(arguments[1]).expect("reads");
                return (i32::from(!text.contains('-')), text);
            }
            "cryptsetup" => self.cryptsetup(arguments, input),
            "udevadm" | "modprobe" => 0,
            "mkfs.ext4" => {
                let at = arguments.iter().position(|word| *word == "-L").expect("a label");
                arguments[at + 1].clone_into(&mut self.label.borrow_mut());
                let mut volume = self.volume.borrow_mut();
                match &mut *volume {
                    On::Luks { filesystem, .. } if !*filesystem => *filesystem = true,
                    On::Blank => *volume = On::Filesystem,
                    other => panic!("a file system is made over {other:?}"),
                }
                0
            }
            "mkdir" => i32::from(fs::create_dir(self.at(arguments[1])).is_err()),
            "mount" => {
                let (number, device) =
                    if arguments[4].contains("mapper") { ("253:0", "data") } else { ("259:7", DISK) };
                assert!(self.at("sys/class/block").join(device).exists());
                let line = format!("1 1 {number} / {} rw - ext4 {} rw\n", arguments[5], arguments[4]);
                fs::write(self.at("proc/self/mountinfo"), line).expect("writes");
                0
            }
            "umount" if self.busy.get() => 32,
            "umount" => {
                fs::write(self.at("proc/self/mountinfo"), "").expect("writes");
                0
            }
            other => panic!("{other}"),
        };
        (done, String::new())
    }
}

impl Runner for Machine {
    fn run_with(&self, program: &str, arguments: &[&str], input: &[u8]) -> Result<Output, CommandError> {
        self.ran.borrow_mut().push(format!("{program} {}", arguments.join(" ")));
        let fails = self.faults.program(program)?;
        let (status, text) = if fails { (1, String::new()) } else { self.answer(program, arguments, input) };
        Ok(Output { status: Some(status), stdout: text.into_bytes(), stderr: String::new() })
    }

    fn run_on(&self, program: &str, _: &[&str], file: &std::fs::File) -> Result<Output, CommandError> {
        assert_eq!(program, "blkid");
        let (status, text) = self.blkid(file);
        Ok(Output { status: Some(status), stdout: text.into_bytes(), stderr: String::new() })
    }
}

impl Host for Machine {
    fn find(&self, destination: &str, _: bool) -> Result<(String, bool), Failure> {
        match self.reachable.get() {
            true => Ok(("ebb".to_owned(), true)),
            false => Err(Failure::far(destination, "cannot be reached")),
        }
    }

    fn remove_copy(&self, _: &Sys, _: &Record, _: &Tunnel) -> Result<(), Failure> {
        Ok(())
    }

    fn far(&self, _: &Sys, record: &Record, tunnel: &Tunnel, words: &[&str]) -> Result<Output, Failure> {
        self.ran.borrow_mut().push(format!("ebb {}", words.join(" ")));
        if !self.reachable.get() {
            return Err(Failure::far(&tunnel.destination, "cannot be reached"));
        }
        let mut exports = self.exports.borrow_mut();
        let (status, text) = match words {
            ["status", "--kind", "export", "--json"] => {
                let list: Vec<String> = exports
                    .keys()
                    .map(|name| format!("{{\"name\":\"{name}\",\"connected\":{}}}", self.connected.get()))
                    .collect();
                (0, format!("{{\"schema\":\"ebbtide.status/1\",\"exports\":[{}]}}", list.join(",")))
            }
            ["undo", name, "--kind", "export", "--force"] => {
                (i32::from(exports.remove(*name).is_none()), String::new())
            }
            ["export", device, "--client", client, "--name", name, ..] => {
                assert!(client.starts_with("nqn.2014-08.org.nvmexpress:uuid:00112233-4455"));
                assert_eq!(
                    record.secret_file.is_some(),
                    words.contains(&"--secret") && self.far_secret.get()
                );
                exports.insert((*name).to_owned(), (*device).to_owned());
                let said = format!(
                    "{{\"schema\":\"ebbtide.export/1\",\"name\":\"{name}\",\"transport\":\"nvme-tcp\",\"address\":\"127.0.0.1\",\"port\":4420,\
                     \"target\":\"nqn.2026-11.ebbtide:store1:{name}\",\"client\":\"{client}\",\"device\":\"{device}\",\"bytes\":1048576,\"persistent\":false}}"
                );
                (0, said)
            }
            other => panic!("{other:?}"),
        };
        let stderr =
            if status == 0 { "" } else { "ebb: there is no data that `ebb export` made on this host" };
        Ok(Output { status: Some(status), stdout: text.into_bytes(), stderr: stderr.to_owned() })
    }

    fn put_secret(&self, _: &Sys, _: &Record, _: &Tunnel, secret: &str) -> Result<String, Failure> {
        assert_eq!(secret, SECRET);
        self.far_secret.set(true);
        Ok("/home/ada/.cache/ebbtide/attach-data.secret".to_owned())
    }

    fn drop_secret(&self, _: &Sys, _: &Record, tunnel: &Tunnel) -> Result<(), Failure> {
        if !self.reachable.get() {
            return Err(Failure::far(&tunnel.destination, "cannot be reached"));
        }
        self.far_secret.set(false);
        Ok(())
    }

    fn supervise(&self, name: &str) -> io::Result<()> {
        let place = self.at("run/ebbtide-attached").join(name);
        fs::create_dir_all(&place)?;
        *self.supervisor.borrow_mut() = own::try_lock(&place.join("lock"))?;
        let connected = self.reachable.get();
        let state = Supervised {
            pid: 1,
            start: 1,
            connected,
            since: UnixTime::from_secs(1),
            lost: 0,
            tries: 2,
            error: (!connected).then(|| "no route".to_owned()),
        };
        fs::write(place.join("state.json"), serde_json::to_vec(&state)?)
    }

    fn end(&self, _: &Sys, _: &Supervised) {
        self.supervisor.borrow_mut().take();
    }

    fn free_port(&self, _: &str) -> io::Result<u16> {
        Ok(20_007)
    }

    fn fabrics(&self, options: &str) -> io::Result<String> {
        assert!(
            options.ends_with(&format!(",dhchap_secret={SECRET}")) || !options.contains("dhchap"),
            "{options}"
        );
        assert!(options.contains("fast_io_fail_tmo=30,") && self.supervisor.borrow().is_some());
        let target = options.split(',').find_map(|option| option.strip_prefix("nqn=")).expect("a target");
        self.controller(target, "traddr=127.0.0.1,trsvcid=20007,src_addr=127.0.0.1");
        self.device(DISK, "259:7");
        fs::write(self.at("dev").join(DISK), "")?;
        std::os::unix::fs::symlink(format!("../../{DISK}"), self.at("dev/disk/by-path/far"))?;
        Ok("instance=7,cntlid=1".to_owned())
    }

    fn delete_controller(&self, _: &Sys, name: &str) -> io::Result<()> {
        assert_eq!(name, "nvme7");
        self.gone();
        Ok(())
    }

    fn is_blank(&self, _: &Path) -> Result<(), String> {
        match &*self.volume.borrow() {
            On::Blank => Ok(()),
            other => Err(format!("it carries {other:?}")),
        }
    }

    fn users(&self, _: &Sys, path: &Path) -> Vec<String> {
        assert_eq!(path, Path::new("/dev").join(DISK));
        self.users.borrow().clone()
    }

    fn erase(&self, _: &Path) -> Result<(), String> {
        assert!(self.mapping.borrow().is_none(), "it is in use");
        *self.volume.borrow_mut() = On::Blank;
        Ok(())
    }

    fn key(&self, _: bool) -> Result<Vec<u8>, Failure> {
        Ok(KEY.to_vec())
    }
}

impl Tried for Machine {
    fn faults(&self) -> &Faults {
        &self.faults
    }

    fn journal(&self) -> &Written {
        &self.journal
    }

    fn within(&self, what: &mut dyn FnMut(&Context<'_>)) {
        Machine::within(self, what);
    }

    fn make(&self, context: &Context<'_>) -> Result<(), Failure> {
        Attachments::new(context).attach(&self.wanted()).map(drop)
    }

    fn undo(&self, context: &Context<'_>) -> Result<(), Failure> {
        Attachments::new(context).undo("data", false).map(drop)
    }

    fn boot(&self) {
        Machine::boot(self);
    }

    fn vanish(&self) {
        self.gone();
    }

    fn replace(&self) {
        *self.volume.borrow_mut() = On::Foreign;
    }

    fn is_intact(&self, replaced: bool, was_whole: bool) -> bool {
        match &*self.volume.borrow() {
            On::Foreign => replaced,
            On::Luks { filesystem, .. } => *filesystem || !was_whole && !replaced,
            _ => !replaced && !was_whole,
        }
    }

    fn is_out_of_reach(&self) -> bool {
        self.mapping.borrow().is_none()
            && matches!(&*self.volume.borrow(), On::Luks { filesystem: false, .. })
    }

    fn traces(&self, was_whole: bool) -> Vec<String> {
        let mut traces = Machine::traces(self);
        traces.retain(|trace| trace != "root/header" || !was_whole);
        traces
    }
}
