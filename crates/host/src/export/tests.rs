use super::*;
use crate::build::Outcome;
use crate::command::{CommandError, Output};
use crate::sys;
use ebbtide_model::journal::{JournalError, Leftover, leftovers};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

const NQN: &str = "nqn.2014-08.org.nvmexpress:uuid:1";
const IQN: &str = "iqn.1993-08.org.debian:01:a";
const NEVER: usize = usize::MAX;

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

impl ConfigFs for Fake {
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
struct Programs(RefCell<Vec<String>>);

impl Runner for Programs {
    fn run_with(&self, program: &str, words: &[&str], _: &[u8]) -> Result<Output, CommandError> {
        self.0.borrow_mut().push(format!("{program} {}", words.join(" ")));
        Ok(Output { status: Some(0), stdout: Vec::new(), stderr: String::new() })
    }
}

#[derive(Default)]
struct Entries(Mutex<Vec<Entry>>);

impl Journal for Entries {
    fn write(&self, entry: &Entry) -> Result<(), JournalError> {
        self.0.lock().expect("not poisoned").push(entry.clone());
        Ok(())
    }
}

struct Host {
    root: tempfile::TempDir,
    sys: Sys,
    fake: Fake,
    programs: Programs,
}

impl Host {
    fn new() -> Host {
        // Not in /tmp, where nobody's configuration is.
        let root = tempfile::tempdir_in("/var/tmp").expect("a directory");
        let sys = Sys::below(root.path());
        let config = root.path().join("sys/kernel/config");
        for path in [
            "sys/kernel/config/nvmet/subsystems",
            "sys/kernel/config/nvmet/hosts",
            "sys/kernel/config/nvmet/ports",
            "sys/kernel/config/target/core/alua",
            "proc/sys/kernel/random",
            "run/systemd/system",
            "etc/systemd/system",
        ] {
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
        Host { root, sys, fake, programs: Programs::default() }
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

    /// What `what` does with the exporter of the run `run`, ended at the boundary of number `halt`; with what the journal has.
    fn with<T>(
        &self,
        run: &str,
        halt: usize,
        what: impl FnOnce(&Exporter<'_>) -> T,
    ) -> (Option<T>, Vec<Entry>) {
        let left = Cell::new(halt);
        let boundary = || match left.get() {
            0 => std::panic::panic_any(()),
            more => left.set(more - 1),
        };
        let (stop, journal) = (AtomicBool::new(false), Entries::default());
        let exporter = Exporter {
            sys: self.sys.clone(),
            config: &self.fake,
            runner: &self.programs,
            journal: &journal,
            run,
            tell: &|_| {},
            stop: &stop,
            boundary: &boundary,
        };
        let ended = catch_unwind(AssertUnwindSafe(|| what(&exporter))).ok();
        (ended, journal.0.into_inner().unwrap_or_default())
    }

    fn export(&self, wanted: &Wanted) -> Result<Done, ExportError> {
        let (done, journal) = self.with("r", NEVER, |exporter| exporter.export(wanted));
        assert_eq!(leftovers(&journal), [], "{done:?}");
        done.expect("ends")
    }

    fn remove(&self, name: &str) -> Result<Export, ExportError> {
        self.with("s", NEVER, |exporter| exporter.remove(name, false)).0.expect("ends")
    }

    fn list(&self) -> Vec<Exported> {
        self.with("t", NEVER, |exporter| exporter.list()).0.expect("ends").expect("reads")
    }

    /// What `ebb cleanup` does with what the journal of `run` leaves.
    fn clean_up(&self, run: &str, journal: &[Entry]) -> Vec<Outcome> {
        let back = |leftover: Leftover| match leftover {
            Leftover::Step { undo: BuildUndo::RemoveExport(undo), .. } => {
                assert!(undo.is_of(run), "{undo:?}");
                taking::put_back_with(&self.sys, &self.fake, &self.programs, &undo).expect("puts back")
            }
            other => panic!("{other:?}"),
        };
        leftovers(journal).into_iter().map(back).collect()
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
        assert_eq!(again.export, done.export);
        let other = Wanted { client: format!("{}.b", wanted.client), ..wanted.clone() };
        let refused = host.export(&other).expect_err("another client").to_string();
        assert!(refused.contains("client is ") && refused.contains("ebb undo a_img"), "{refused}");
        let listed = host.list();
        assert_eq!((listed.len(), listed[0].running, listed[0].connected), (1, true, Some(false)));
        host.remove("a_img").expect("removes");
        assert!(host.is_clean() && host.list().is_empty());
        let refused = host.remove("a_img").expect_err("gone").to_string();
        assert_eq!(refused, "there is no export a_img: nothing is exported");
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
    let (planned, _) = host.with("p", NEVER, |exporter| exporter.plan(&wanted));
    let steps: String = planned.expect("ends").expect("plans").1.iter().map(ToString::to_string).collect();
    assert!(!steps.contains(SECRET) && host.is_clean(), "{steps}");
    let (done, journal) = host.with("r", NEVER, |exporter| exporter.export(&wanted));
    let done = done.expect("ends").expect("exports");
    assert!(!format!("{done:?}{journal:?}").contains(SECRET));
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
        targets.push(host.export(&wanted).expect("exports").export.target);
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
fn a_kill_anywhere_leaves_what_a_clean_up_takes_away() {
    for transport in Transport::ALL {
        for persistent in [false, true] {
            let mut whole = 0;
            for halt in 0.. {
                let host = Host::new();
                let wanted = Wanted {
                    persistent: persistent.then(|| "/usr/bin/ebb".into()),
                    ..host.wanted("a.img", transport)
                };
                let (done, journal) = host.with("r", halt, |exporter| exporter.export(&wanted));
                if done.is_some() {
                    assert!(halt > 15, "{halt}");
                    break;
                }
                let outcomes = host.clean_up("r", &journal);
                match host.list().as_slice() {
                    [] => assert!(host.is_clean(), "{transport} {halt}: {outcomes:?}"),
                    [now] => {
                        whole += 1;
                        assert!(
                            now.running && matches!(outcomes.as_slice(), [Outcome::Left(_)]),
                            "{outcomes:?}"
                        );
                    }
                    more => panic!("{more:?}"),
                }
                // A later clean-up of the same journal takes nothing of another run's.
                if host.list().is_empty() {
                    host.export(&wanted).expect("exports");
                    host.clean_up("r", &journal);
                }
                assert!(host.list()[0].running);
            }
            assert_eq!(whole, 1, "only the last boundary is after the whole was made");
        }
    }
}

#[test]
fn a_kill_while_it_is_taken_away_is_ended_by_a_clean_up() {
    for transport in Transport::ALL {
        for halt in 0.. {
            let host = Host::new();
            let wanted =
                Wanted { persistent: Some("/usr/bin/ebb".into()), ..host.wanted("a.img", transport) };
            host.export(&wanted).expect("exports");
            let (gone, journal) = host.with("s", halt, |exporter| exporter.remove("a_img", false));
            if gone.is_some() {
                assert!(halt > 8 && host.is_clean(), "{halt}");
                break;
            }
            host.clean_up("s", &journal);
            // At the first boundary nothing but the journal says so.
            assert!(host.is_clean() || halt == 0 && host.list()[0].running, "{transport} {halt}");
        }
    }
}

#[test]
fn a_boot_takes_the_kernel_s_part_and_a_unit_brings_it_back() {
    let host = Host::new();
    let boot = |number: &str| {
        std::fs::write(host.root.path().join("proc/sys/kernel/random/boot_id"), number).expect("writes");
        for path in ["nvmet/subsystems", "nvmet/hosts", "nvmet/ports"] {
            std::fs::remove_dir_all(host.fake.config.join(path)).expect("removes");
            std::fs::create_dir(host.fake.config.join(path)).expect("makes");
        }
        host.fake.made.borrow_mut().clear();
        host.fake.links.borrow_mut().clear();
    };
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
    boot("2");
    assert!(host.list().iter().all(|now| !now.running));
    let started = host.with("u", NEVER, |exporter| exporter.start("a_img")).0.expect("ends").expect("starts");
    assert!(started.made);
    assert_eq!((&started.export.target, &started.export.uuid), (&first.target, &first.uuid));
    // What does not come back by itself is no reason against another of its name.
    let other = Wanted { client: format!("{NQN}.b"), ..passing };
    host.export(&other).expect("exports");
    boot("3");
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
