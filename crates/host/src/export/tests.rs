use super::*;
use crate::command::{CommandError, Output, Runner};
use crate::made::tests::{Faults, Tried, Written, every_fault};
use crate::made::{Context, Host as Edges};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::sync::atomic::AtomicBool;

const NQN: &str = "nqn.2014-08.org.nvmexpress:uuid:1";
const IQN: &str = "iqn.1993-08.org.debian:01:a";
/// What configfs has by itself.
const CONFIGFS: [&str; 4] = ["nvmet/subsystems", "nvmet/hosts", "nvmet/ports", "target/core/alua"];

/// A kernel's configfs as directories: objects have their attributes, and are not removed while something is in them or linked to them
/// (as Linux 6.1 had it).
struct Fake {
    config: PathBuf,
    /// Whether it can ask for secrets of NVMe.
    auth: bool,
    made: RefCell<BTreeSet<PathBuf>>,
    links: RefCell<Vec<(PathBuf, PathBuf)>>,
    fails: Cell<Option<&'static str>>,
}

impl Fake {
    /// Attributes and groups of the object at `path`.
    fn parts(&self, path: &Path) -> &'static [&'static str] {
        let parts: Vec<&str> =
            path.strip_prefix(&self.config).expect("below").iter().filter_map(|p| p.to_str()).collect();
        match parts.as_slice() {
            ["nvmet", "subsystems", _] => {
                &["attr_allow_any_host", "attr_serial", "namespaces/", "allowed_hosts/"]
            }
            ["nvmet", "subsystems", _, "namespaces", _] => {
                &["device_path", "device_uuid", "buffered_io", "enable"]
            }
            ["nvmet", "hosts", _] if self.auth => &["dhchap_key"],
            ["nvmet", "ports", _] => {
                &["addr_trtype", "addr_adrfam", "addr_traddr", "addr_trsvcid", "subsystems/"]
            }
            ["target", "core", _, _] => {
                &["control", "udev_path", "wwn/", "wwn/vpd_unit_serial", "info", "enable"]
            }
            ["target", "iscsi", _, "tpgt_1"] => &[
                "attrib/",
                "attrib/generate_node_acls",
                "attrib/demo_mode_discovery",
                "attrib/demo_mode_write_protect",
                "attrib/authentication",
                "lun/",
                "acls/",
                "np/",
                "enable",
            ],
            ["target", "iscsi", _, "tpgt_1", "acls", _] => &["auth/", "auth/userid", "auth/password", "info"],
            _ => &[],
        }
    }
}

impl Edges for Fake {
    fn make(&self, path: &Path) -> io::Result<()> {
        if self.fails.get().is_some_and(|what| path.to_string_lossy().contains(what)) {
            return Err(io::Error::other("refused"));
        }
        std::fs::create_dir(path)?;
        for part in self.parts(path) {
            match part.strip_suffix('/') {
                Some(group) => std::fs::create_dir(path.join(group))?,
                None => std::fs::write(path.join(part), "\n")?,
            }
        }
        self.made.borrow_mut().insert(path.to_owned());
        Ok(())
    }

    fn link(&self, target: &Path, path: &Path) -> io::Result<()> {
        assert!(self.made.borrow().contains(target), "{target:?}");
        std::os::unix::fs::symlink(target, path)?;
        self.links.borrow_mut().push((target.to_owned(), path.to_owned()));
        Ok(())
    }

    fn set(&self, path: &Path, value: &[u8]) -> io::Result<()> {
        if !path.exists() {
            return Err(ErrorKind::NotFound.into());
        }
        std::fs::write(path, value)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        if std::fs::symlink_metadata(path)?.is_symlink() {
            self.links.borrow_mut().retain(|(_, link)| link != path);
            return std::fs::remove_file(path);
        }
        if self.links.borrow().iter().any(|(target, link)| target == path || link.starts_with(path)) {
            return Err(ErrorKind::ResourceBusy.into());
        }
        if self.made.borrow().iter().any(|made| made != path && made.starts_with(path)) {
            return Err(ErrorKind::DirectoryNotEmpty.into());
        }
        assert!(self.made.borrow_mut().remove(path), "the kernel's own: {path:?}");
        std::fs::remove_dir_all(path)
    }
}

/// Remembers what was run.
#[derive(Default)]
struct Programs(RefCell<Vec<String>>, Faults);

impl Runner for Programs {
    fn run_with(&self, program: &str, words: &[&str], _: &[u8]) -> Result<Output, CommandError> {
        self.0.borrow_mut().push(format!("{program} {}", words.join(" ")));
        let status = i32::from(self.1.program(program)?);
        Ok(Output { status: Some(status), stdout: Vec::new(), stderr: String::new() })
    }
}

struct Host {
    root: tempfile::TempDir,
    sys: Sys,
    fake: Fake,
    programs: Programs,
    journal: Written,
    transport: Transport,
    /// An object of somebody else's.
    foreign: RefCell<Option<PathBuf>>,
}

impl Host {
    fn new() -> Host {
        // Not in /tmp, where nobody's configuration is.
        let root = tempfile::tempdir_in("/var/tmp").expect("a directory");
        let sys = Sys::below(root.path());
        let config = root.path().join("sys/kernel/config");
        for path in CONFIGFS.map(|path| format!("sys/kernel/config/{path}")) {
            std::fs::create_dir_all(root.path().join(path)).expect("makes");
        }
        for path in ["proc/sys/kernel/random", "run/systemd/system", "etc/systemd/system"] {
            std::fs::create_dir_all(root.path().join(path)).expect("makes");
        }
        for (path, text) in
            [("hostname", "Store.example\n"), ("random/uuid", "0123abcd-1\n"), ("random/boot_id", "1\n")]
        {
            std::fs::write(root.path().join("proc/sys/kernel").join(path), text).expect("writes");
        }
        for (name, size) in
            [("a.img", 4 << 20), ("b.img", 4 << 20), ("odd.img", (4 << 20) + 1), ("small.img", 4096)]
        {
            std::fs::File::create(root.path().join(name)).and_then(|file| file.set_len(size)).expect("makes");
        }
        let fake = Fake {
            config,
            auth: false,
            made: RefCell::default(),
            links: RefCell::default(),
            fails: Cell::new(None),
        };
        Host {
            root,
            sys,
            fake,
            programs: Programs::default(),
            journal: Written::default(),
            transport: Transport::NvmeTcp,
            foreign: RefCell::default(),
        }
    }

    fn wanted(&self, file: &str, transport: Transport) -> Wanted {
        let client = if transport == Transport::NvmeTcp { NQN } else { IQN };
        Wanted {
            source: self.root.path().join(file),
            carries: None,
            name: None,
            client: client.to_owned(),
            secret: None,
            transport,
            listen: Listen::parse(None, transport).expect("loopback"),
            persistent: None,
        }
    }

    fn secret(&self, text: &str, mode: u32) -> PathBuf {
        use std::os::unix::fs::PermissionsExt;
        let path = self.root.path().join("secret");
        std::fs::write(&path, text).expect("writes");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("sets");
        path
    }

    /// What `what` does with the exports of this host.
    fn with<T>(&self, what: impl FnOnce(&Exports<'_>) -> T) -> T {
        self.within(|context| what(&Exports::new(context)))
    }

    fn within<T>(&self, what: impl FnOnce(&Context<'_>) -> T) -> T {
        let number = self.programs.0.borrow().len();
        let random = self.root.path().join("proc/sys/kernel/random/uuid");
        std::fs::write(random, format!("0123abcd-{number}\n")).expect("writes");
        what(&Context {
            sys: self.sys.clone(),
            runner: &self.programs,
            host: &self.fake,
            journal: Some(&self.journal),
            tell: &|_| {},
            stop: &AtomicBool::new(false),
            boundary: &|| {
                self.programs.1.boundary(&self.root.path().join(Exporting::RECORDS), || self.vanish())
            },
        })
    }

    /// A boot: the kernel has nothing of it.
    fn boot(&self) {
        let number = self.root.path().join("proc/sys/kernel/random/boot_id");
        let before: u32 = sys::number(&number).expect("a number");
        std::fs::write(number, (before + 1).to_string()).expect("writes");
        std::fs::remove_dir_all(&self.fake.config).expect("removes");
        for path in CONFIGFS {
            std::fs::create_dir_all(self.fake.config.join(path)).expect("makes");
        }
        self.fake.made.borrow_mut().clear();
        self.fake.links.borrow_mut().clear();
    }

    fn export(&self, wanted: &Wanted) -> Result<Done, Failure> {
        let done = self.with(|exports| exports.export(wanted));
        assert!(!self.journal.has_left(), "{done:?}");
        done
    }

    fn remove(&self, name: &str) -> Result<Export, Failure> {
        self.with(|exports| exports.undo(name, false)).map(|(gone, _)| gone)
    }

    fn list(&self) -> Vec<Exported> {
        self.with(|exports| exports.list()).expect("reads")
    }

    fn is_clean(&self) -> bool {
        let records = sys::names(&self.root.path().join("var/lib/ebbtide/exports"));
        let units = sys::names(&self.root.path().join("etc/systemd/system"));
        self.fake.made.borrow().is_empty()
            && units.is_empty()
            && records.iter().all(|name| !name.ends_with(".json"))
    }

    fn attribute(&self, path: &str) -> String {
        sys::text(&self.fake.config.join(path)).expect(path)
    }
}

#[test]
fn an_export_is_made_once_listed_and_taken_away() {
    for transport in Transport::ALL {
        let host = Host::new();
        let wanted = host.wanted("a.img", transport);
        let done = host.export(&wanted).expect("exports");
        assert!(done.made && done.export.name == "a_img" && done.export.bytes == 4 << 20);
        assert!(
            done.export.target.contains(".2026-11.ebbtide:store-0123abcd-")
                && done.export.target.ends_with(":a-img"),
            "{}",
            done.export.target
        );
        let again = host.export(&wanted).expect("exports");
        assert!(!again.made);
        assert_eq!(again.export.id, done.export.id);
        let other = Wanted { client: format!("{}.b", wanted.client), ..wanted.clone() };
        let refused = host.export(&other).expect_err("another client").to_string();
        assert!(refused.contains("client is ") && refused.contains("ebb undo a_img"), "{refused}");
        let listed = host.list();
        assert_eq!((listed.len(), listed[0].running, listed[0].connected), (1, true, Some(false)));
        host.remove("a_img").expect("removes");
        assert!(host.is_clean() && host.list().is_empty());
        let refused = host.remove("a_img").expect_err("gone").to_string();
        assert!(refused.starts_with("there is no a_img that `ebb export` made on this host"), "{refused}");
    }
}

#[test]
fn exports_share_a_port_and_a_client_until_the_last_goes() {
    for transport in Transport::ALL {
        let host = Host::new();
        for file in ["a.img", "b.img"] {
            host.export(&host.wanted(file, transport)).expect("exports");
        }
        // The first made what both use.
        host.remove("a_img").expect("removes");
        assert!(host.list()[0].running);
        host.remove("b_img").expect("removes");
        assert!(host.is_clean(), "{transport}: {:?}", host.fake.made.borrow());
    }
}

#[test]
fn a_port_and_a_client_of_somebody_else_s_are_left_alone() {
    let host = Host::new();
    let nvmet = host.fake.config.join("nvmet");
    host.fake.make(&nvmet.join("hosts").join(NQN)).expect("makes");
    let port = nvmet.join("ports/1");
    host.fake.make(&port).expect("makes");
    for (attribute, value) in [("addr_trtype", "tcp"), ("addr_traddr", "127.0.0.1"), ("addr_trsvcid", "4420")]
    {
        std::fs::write(port.join(attribute), format!("{value}\n")).expect("writes");
    }
    let wanted = host.wanted("a.img", Transport::NvmeTcp);
    let refused = host.export(&wanted).expect_err("a port of somebody else's").to_string();
    assert!(refused.contains("nvmet/ports/1") && refused.contains("127.0.0.1:4421"), "{refused}");
    let listen = Listen::parse(Some("127.0.0.1:4421"), Transport::NvmeTcp).expect("an address");
    host.export(&Wanted { listen, ..wanted }).expect("exports");
    host.remove("a_img").expect("removes");
    assert_eq!(host.fake.made.borrow().len(), 2, "{:?}", host.fake.made.borrow());
}

#[test]
fn a_secret_is_asked_for_and_written_nowhere_else() {
    let mut host = Host::new();
    const SECRET: &str = "abcdefghijkl-secret";
    let wanted =
        Wanted { secret: Some(host.secret(SECRET, 0o644)), ..host.wanted("a.img", Transport::Iscsi) };
    let refused = host.export(&wanted).expect_err("others may read it").to_string();
    assert!(refused.contains("chmod 600"), "{refused}");
    host.secret(SECRET, 0o600);
    let planned = host.with(|exports| exports.plan(&wanted));
    let steps: String = planned.expect("plans").1.iter().map(ToString::to_string).collect();
    assert!(!steps.contains(SECRET) && host.is_clean(), "{steps}");
    let done = host.export(&wanted).expect("exports");
    assert!(!format!("{done:?}{:?}", host.journal.0).contains(SECRET));
    let record =
        std::fs::read_to_string(host.root.path().join("var/lib/ebbtide/exports/a_img.json")).expect("reads");
    assert!(!record.contains(SECRET) && record.contains("/secret"), "{record}");
    let group = format!("target/iscsi/{}/tpgt_1", done.export.target);
    assert_eq!(host.attribute(&format!("{group}/acls/{IQN}/auth/password")), SECRET);
    assert_eq!(host.attribute(&format!("{group}/acls/{IQN}/auth/userid")), IQN);
    assert_eq!(host.attribute(&format!("{group}/attrib/authentication")), "1");
    assert_eq!(host.attribute(&format!("{group}/attrib/generate_node_acls")), "0");
    // Another one in its file is not what is asked for.
    host.secret("another-secret", 0o600);
    let refused = host.export(&wanted).expect_err("another secret").to_string();
    assert!(refused.contains("the secret in its file is not the one"), "{refused}");
    host.remove("a_img").expect("removes");

    let key = format!("DHHC-1:00:{}:\n", "A".repeat(48));
    let wanted =
        Wanted { secret: Some(host.secret(&key, 0o600)), ..host.wanted("a.img", Transport::NvmeTcp) };
    let refused = host.export(&wanted).expect_err("the kernel cannot").to_string();
    assert!(
        refused.contains("CONFIG_NVME_TARGET_AUTH") && refused.contains("--transport iscsi"),
        "{refused}"
    );
    assert!(host.is_clean());
    host.fake.auth = true;
    host.export(&wanted).expect("exports");
    assert_eq!(host.attribute(&format!("nvmet/hosts/{NQN}/dhchap_key")), key.trim_end());
    // A client has one secret for all its exports.
    host.secret(&key.replace('A', "B"), 0o600);
    let other = Wanted { source: host.root.path().join("b.img"), ..wanted.clone() };
    let refused = host.export(&other).expect_err("another secret").to_string();
    assert!(refused.contains("another secret already"), "{refused}");
    assert_eq!(host.attribute(&format!("nvmet/hosts/{NQN}/dhchap_key")), key.trim_end());
    host.secret(&key, 0o600);
    host.export(&other).expect("the same secret");
}

#[test]
fn another_volume_under_the_same_name_is_another_target() {
    let host = Host::new();
    let mut targets = Vec::new();
    for file in ["a.img", "b.img", "a.img"] {
        let wanted = Wanted { name: Some("data".to_owned()), ..host.wanted(file, Transport::Iscsi) };
        targets.push(host.export(&wanted).expect("exports").export.target.clone());
        host.remove("data").expect("removes");
    }
    assert!(targets[0] == targets[2] && targets[0] != targets[1], "{targets:?}");
}

#[test]
fn what_fails_half_way_leaves_nothing() {
    for (transport, fails) in
        [(Transport::NvmeTcp, "ports"), (Transport::Iscsi, "/np/"), (Transport::Iscsi, "acls")]
    {
        let host = Host::new();
        host.fake.fails.set(Some(fails));
        let error = host.export(&host.wanted("a.img", transport)).expect_err("fails").to_string();
        assert!(error.contains(fails) && error.ends_with("refused"), "{error}");
        assert!(host.is_clean());
    }
}

#[test]
fn what_cannot_be_a_volume_is_refused() {
    let host = Host::new();
    for (file, why) in
        [("odd.img", "multiple of 4 KiB"), ("small.img", "less than 1 MiB"), ("none", "No such file")]
    {
        let refused = host.export(&host.wanted(file, Transport::NvmeTcp)).expect_err(why).to_string();
        assert!(refused.contains(why), "{refused}");
    }
    let held = std::fs::File::open(host.root.path().join("a.img")).expect("opens");
    let refused = host.export(&host.wanted("a.img", Transport::NvmeTcp)).expect_err("open").to_string();
    assert!(refused.contains("is not exported; ") && refused.contains("open"), "{refused}");
    drop(held);
    let comma = host.root.path().join("a,b");
    std::fs::rename(host.root.path().join("a.img"), comma).expect("renames");
    let refused = host.export(&host.wanted("a,b", Transport::Iscsi)).expect_err("a comma").to_string();
    assert!(refused.contains("--transport nvme-tcp"), "{refused}");
    assert!(host.is_clean());
}

#[test]
fn a_boot_takes_the_kernel_s_part_and_a_unit_brings_it_back() {
    let host = Host::new();
    let lasting =
        Wanted { persistent: Some("/usr/bin/ebb".into()), ..host.wanted("a.img", Transport::NvmeTcp) };
    let passing = host.wanted("b.img", Transport::NvmeTcp);
    let first = host.export(&lasting).expect("exports").export;
    host.export(&passing).expect("exports");
    let unit = host.root.path().join("etc/systemd/system/ebb-export-a_img.service");
    let text = std::fs::read_to_string(&unit).expect("a unit");
    assert!(text.contains("ExecStart=/usr/bin/ebb export --start a_img"), "{text}");
    assert!(text.contains(&format!("RequiresMountsFor={}", lasting.source.display())), "{text}");
    assert!(host.programs.0.borrow().contains(&"systemctl enable ebb-export-a_img.service".to_owned()));
    host.boot();
    assert!(host.list().iter().all(|now| !now.running));
    let started = host.with(|exports| exports.start("a_img")).expect("starts");
    assert!(started.made);
    assert_eq!((&started.export.target, &started.export.uuid), (&first.target, &first.uuid));
    // What does not come back by itself is no reason against another of its name.
    let other = Wanted { client: format!("{NQN}.b"), ..passing };
    host.export(&other).expect("exports");
    host.boot();
    // By another name it is forgotten under the old one.
    host.export(&Wanted { name: Some("other".to_owned()), ..other }).expect("exports");
    let names: Vec<String> = host.list().into_iter().map(|now| now.name).collect();
    assert_eq!(names, ["a_img", "other"]);
    for name in ["a_img", "other"] {
        host.remove(name).expect("removes");
    }
    assert!(host.is_clean() && !unit.exists());
    // A unit of somebody else's is neither replaced nor removed.
    std::fs::write(&unit, "[Unit]\n").expect("writes");
    let refused = host.export(&lasting).expect_err("a unit of somebody else's").to_string();
    assert!(refused.contains("not ebb's"), "{refused}");
    assert!(unit.exists() && host.fake.made.borrow().is_empty());
}

impl Tried for Host {
    fn faults(&self) -> &Faults {
        &self.programs.1
    }

    fn journal(&self) -> &Written {
        &self.journal
    }

    fn within(&self, what: &mut dyn FnMut(&Context<'_>)) {
        Host::within(self, what);
    }

    fn make(&self, context: &Context<'_>) -> Result<(), Failure> {
        let persistent = Some("/usr/bin/ebb".into());
        let wanted = Wanted { persistent, ..self.wanted("a.img", self.transport) };
        Exports::new(context).export(&wanted).map(drop)
    }

    fn undo(&self, context: &Context<'_>) -> Result<(), Failure> {
        Exports::new(context).undo("a_img", false).map(drop)
    }

    fn boot(&self) {
        Host::boot(self);
    }

    fn vanish(&self) {
        if let Some((_, link)) = self.fake.links.borrow_mut().pop() {
            std::fs::remove_file(link).expect("removes");
        }
    }

    /// After a boot somebody has an object of the name that the first of it had.
    fn replace(&self) {
        let record = self.with(|exports| exports.record("a_img").expect("reads"));
        self.boot();
        if let Some(path) = record.and_then(|record| record.paths.first().cloned()) {
            let path = self.sys.at(&path);
            self.fake.make(&path).expect("makes");
            *self.foreign.borrow_mut() = Some(path);
        }
    }

    fn is_intact(&self, _: bool, _: bool) -> bool {
        self.foreign.borrow().as_ref().is_none_or(|path| self.fake.made.borrow().contains(path))
    }

    fn traces(&self, _: bool) -> Vec<String> {
        let made = self.fake.made.borrow();
        let foreign = self.foreign.borrow();
        let made = made.iter().filter(|path| foreign.as_ref() != Some(path));
        let made = made.map(|path| path.to_string_lossy().into_owned());
        let names =
            ["etc/systemd/system", Exporting::RECORDS].map(|place| sys::names(&self.root.path().join(place)));
        let is_own = |name: &String| name.ends_with(".json") || name.ends_with(".service");
        made.chain(names.into_iter().flatten().filter(is_own)).collect()
    }
}

#[test]
fn no_fault_leaves_what_nobody_can_take_away() {
    for transport in Transport::ALL {
        let came = every_fault(|| Host { transport, ..Host::new() });
        assert!(came > 30, "{came}");
    }
}
