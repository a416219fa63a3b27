//! What the kernel is told to export a volume, in order (Documentation/target/, drivers/nvme/target/configfs.c): the way in is opened last.

use super::{CONFIG, Export, Transport, names};
use std::fmt;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

/// Numbers of the ports of nvmet that are `ebb`'s.
pub const PORTS: RangeInclusive<u16> = 60_000..=60_999;

/// What is exported, as the kernel is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A block device, by the kernel's own node.
    Device(PathBuf),
    /// A regular file, without links, and whether it has to go through the page cache (no O_DIRECT).
    File {
        /// The file.
        path: PathBuf,
        /// Whether it has to go through the page cache.
        buffered: bool,
    },
}

impl Source {
    /// Where it is on this host, whichever of the two it is.
    pub fn path(&self) -> &Path {
        match self {
            Source::Device(path) | Source::File { path, .. } => path,
        }
    }
}

/// What depends on what is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Placed {
    /// Number of the port of nvmet, or of LIO's adapter.
    pub number: u16,
    /// Whether nvmet has that port already.
    pub has_port: bool,
    /// Whether nvmet knows the initiator already.
    pub has_client: bool,
    /// Whether LIO has its iSCSI part already.
    pub has_iscsi: bool,
}

/// One thing that the kernel is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Makes an object.
    Make(PathBuf),
    /// Links the object at the second path to the first.
    Link(PathBuf, PathBuf),
    /// Writes a value to an attribute.
    Set(PathBuf, String),
    /// Writes the secret to an attribute.
    SetSecret(PathBuf),
    /// Has the kernel open what is exported.
    Open(PathBuf),
}

/// A step with whether others may use what it makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// What is done.
    pub action: Action,
    /// Whether other exports may use what it makes.
    pub shared: bool,
}

impl Step {
    /// What it makes, where it makes something that has to be removed.
    pub fn makes(&self) -> Option<&Path> {
        match &self.action {
            Action::Make(path) | Action::Link(_, path) => Some(path),
            Action::Set(..) | Action::SetSecret(_) | Action::Open(_) => None,
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.action {
            Action::Make(path) => write!(f, "mkdir {}", path.to_string_lossy()),
            Action::Link(target, path) => {
                write!(f, "ln -s {} {}", target.to_string_lossy(), path.to_string_lossy())
            }
            Action::Set(path, value) => write!(f, "echo {value} > {}", path.to_string_lossy()),
            Action::SetSecret(path) => write!(f, "(the secret) > {}", path.to_string_lossy()),
            Action::Open(path) => write!(f, "echo 1 > {}", path.to_string_lossy()),
        }
    }
}

/// Steps as they are collected.
#[derive(Default)]
struct Steps(Vec<Step>);

impl Steps {
    fn make(&mut self, path: &Path) -> PathBuf {
        self.0.push(Step { action: Action::Make(path.to_owned()), shared: false });
        path.to_owned()
    }

    fn make_shared(&mut self, path: &Path, is_there: bool) {
        if !is_there {
            self.0.push(Step { action: Action::Make(path.to_owned()), shared: true });
        }
    }

    fn link(&mut self, target: &Path, path: PathBuf) {
        self.0.push(Step { action: Action::Link(target.to_owned(), path), shared: false });
    }

    fn set(&mut self, path: PathBuf, value: impl Into<String>) {
        self.0.push(Step { action: Action::Set(path, value.into()), shared: false });
    }

    fn secret(&mut self, path: PathBuf) {
        self.0.push(Step { action: Action::SetSecret(path), shared: false });
    }

    fn open(&mut self, path: PathBuf) {
        self.0.push(Step { action: Action::Open(path), shared: false });
    }
}

/// What the kernel is told to export `source` as `export` says.
pub fn steps(export: &Export, source: &Source, placed: &Placed) -> Vec<Step> {
    let mut steps = Steps::default();
    match export.transport {
        Transport::NvmeTcp => nvme(export, source, placed, &mut steps),
        Transport::Iscsi => iscsi(export, source, placed, &mut steps),
    }
    steps.0
}

/// A path as an attribute takes it.
fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn nvme(export: &Export, source: &Source, placed: &Placed, steps: &mut Steps) {
    let nvmet = Path::new(CONFIG).join("nvmet");
    let subsystem = steps.make(&nvmet.join("subsystems").join(&export.target));
    steps.set(subsystem.join("attr_allow_any_host"), "0");
    // A serial number has 20 signs (NVMe base specification, "Identify Controller").
    let serial: String = export.uuid.chars().filter(|c| *c != '-').take(20).collect();
    steps.set(subsystem.join("attr_serial"), serial);
    let namespace = steps.make(&subsystem.join("namespaces/1"));
    steps.set(namespace.join("device_path"), text(source.path()));
    steps.set(namespace.join("device_uuid"), export.uuid.as_str());
    if let Source::File { buffered: true, .. } = source {
        steps.set(namespace.join("buffered_io"), "1");
    }
    steps.open(namespace.join("enable"));
    let client = nvmet.join("hosts").join(&export.client);
    steps.make_shared(&client, placed.has_client);
    if export.secret.is_some() {
        steps.secret(client.join("dhchap_key"));
    }
    steps.link(&client, subsystem.join("allowed_hosts").join(&export.client));
    let port = nvmet.join("ports").join(placed.number.to_string());
    steps.make_shared(&port, placed.has_port);
    if !placed.has_port {
        steps.set(port.join("addr_trtype"), "tcp");
        steps.set(port.join("addr_adrfam"), if export.address.is_ipv4() { "ipv4" } else { "ipv6" });
        steps.set(port.join("addr_traddr"), export.address.to_string());
        steps.set(port.join("addr_trsvcid"), export.port.to_string());
    }
    steps.link(&subsystem, port.join("subsystems").join(&export.target));
}

fn iscsi(export: &Export, source: &Source, placed: &Placed, steps: &mut Steps) {
    let lio = Path::new(CONFIG).join("target");
    let path = text(source.path());
    let (plugin, control) = match source {
        Source::Device(_) => ("iblock", format!("udev_path={path}")),
        Source::File { .. } => ("fileio", format!("fd_dev_name={path},fd_dev_size={}", export.bytes)),
    };
    let adapter = steps.make(&lio.join("core").join(format!("{plugin}_{}", placed.number)));
    let store = steps.make(&adapter.join(names::backstore(&export.name)));
    steps.set(store.join("control"), control);
    steps.set(store.join("udev_path"), path);
    steps.set(store.join("wwn/vpd_unit_serial"), export.uuid.replace('-', ""));
    steps.open(store.join("enable"));
    let iscsi = lio.join("iscsi");
    steps.make_shared(&iscsi, placed.has_iscsi);
    let target = steps.make(&iscsi.join(&export.target));
    let group = steps.make(&target.join("tpgt_1"));
    for (attribute, value) in [
        ("generate_node_acls", "0"),
        ("demo_mode_discovery", "0"),
        ("demo_mode_write_protect", "1"),
        ("authentication", if export.secret.is_some() { "1" } else { "0" }),
    ] {
        steps.set(group.join("attrib").join(attribute), value);
    }
    let unit = steps.make(&group.join("lun/lun_0"));
    steps.link(&store, unit.join("ebb"));
    let client = steps.make(&group.join("acls").join(&export.client));
    if export.secret.is_some() {
        steps.set(client.join("auth/userid"), export.client.as_str());
        steps.secret(client.join("auth/password"));
    }
    let mapped = steps.make(&client.join("lun_0"));
    steps.link(&unit, mapped.join("ebb"));
    steps.make(&group.join("np").join(export.listen().shown()));
    steps.set(group.join("enable"), "1");
}
