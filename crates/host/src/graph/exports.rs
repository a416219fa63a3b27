//! What this host exports, whoever made it: as the kernel's configfs says. nvmet does not claim what it exports, so nothing else tells.

use super::read::{leads_to, numbered};
use super::{Behind, Node};
use crate::sys::{self, DevNum, Sys};
use ebbtide_model::export::{CONFIG, name_of_target};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// A namespace of nvmet or a backstore of LIO that the kernel has opened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KernelExport {
    /// What is exported, by the path that the kernel was given.
    pub path: PathBuf,
    /// "NVMe" or "SCSI".
    pub protocol: &'static str,
    /// The NQN of the subsystem, or the targets that have the backstore as a unit; the backstore's own name where none has.
    pub target: String,
    /// The export of `ebb`'s that it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it hands out.
    #[serde(skip)]
    pub exposed: Behind,
    /// The object in configfs.
    #[serde(skip)]
    pub object: PathBuf,
}

impl KernelExport {
    /// What to do to end it.
    pub fn remedy(&self) -> String {
        match &self.name {
            Some(name) => format!("`ebb undo {name}` if nobody needs it"),
            None => format!(
                "take it out of the kernel's {} target first ({})",
                self.protocol,
                self.object.to_string_lossy()
            ),
        }
    }
}

/// Everything that the host of `sys` exports.
pub(super) fn seen(sys: &Sys, nodes: &[Node]) -> Vec<KernelExport> {
    let mut found = namespaces(sys, nodes);
    found.extend(backstores(sys, nodes));
    found
}

fn config(sys: &Sys) -> PathBuf {
    sys.at(Path::new(CONFIG))
}

fn is_on(attribute: &Path) -> bool {
    sys::word(attribute).is_some_and(|value| value == "1")
}

fn namespaces(sys: &Sys, nodes: &[Node]) -> Vec<KernelExport> {
    let place = config(sys).join("nvmet/subsystems");
    let mut found = Vec::new();
    for target in sys::names(&place) {
        let namespaces = place.join(&target).join("namespaces");
        for number in sys::names(&namespaces) {
            let object = namespaces.join(&number);
            let Some(path) = sys::text(&object.join("device_path")).filter(|path| !path.is_empty()) else {
                continue;
            };
            if is_on(&object.join("enable")) {
                let (path, name) = (PathBuf::from(path), name_of_target(&target));
                let exposed = leads_to(sys, nodes, &path);
                found.push(KernelExport {
                    path,
                    protocol: "NVMe",
                    target: target.clone(),
                    name,
                    exposed,
                    object,
                });
            }
        }
    }
    found
}

fn backstores(sys: &Sys, nodes: &[Node]) -> Vec<KernelExport> {
    let place = config(sys).join("target/core");
    let mut found = Vec::new();
    for adapter in sys::names(&place) {
        let is_file = adapter.starts_with("fileio_");
        if !is_file && !adapter.starts_with("iblock_") && !adapter.starts_with("pscsi_") {
            continue;
        }
        for store in sys::names(&place.join(&adapter)) {
            let object = place.join(&adapter).join(&store);
            if !is_on(&object.join("enable")) {
                continue;
            }
            let info = sys::text(&object.join("info")).unwrap_or_default();
            let named = sys::text(&object.join("udev_path")).filter(|path| !path.is_empty());
            let path = PathBuf::from(named.or_else(|| file_of(&info)).unwrap_or_default());
            let exposed = match number_of(&info) {
                Some(number) if !is_file => numbered(nodes, number),
                _ => leads_to(sys, nodes, &path),
            };
            let targets = targets(sys, &adapter, &store);
            let name = targets.iter().find_map(|target| name_of_target(target));
            let name = name.or_else(|| store.strip_prefix("ebb_").map(str::to_owned));
            let target = if targets.is_empty() { store } else { targets.join(", ") };
            found.push(KernelExport { path, protocol: "SCSI", target, name, exposed, object });
        }
    }
    found
}

/// The file that fileio says it has: `File: PATH  Size: ...`.
fn file_of(info: &str) -> Option<String> {
    let (_, rest) = info.split_once("File: ")?;
    Some(rest.split_once("  Size: ")?.0.to_owned())
}

/// The device that iblock says it has: `Major: 254 Minor: 16  CLAIMED: IBLOCK`.
fn number_of(info: &str) -> Option<DevNum> {
    let (_, rest) = info.split_once("Major: ")?;
    let mut words = rest.split_whitespace();
    let major = words.next()?.parse().ok().filter(|major| *major != 0)?;
    let minor = words.nth(1)?.parse().ok()?;
    Some(DevNum { major, minor })
}

/// iSCSI targets with a unit that is the backstore `store`.
fn targets(sys: &Sys, adapter: &str, store: &str) -> Vec<String> {
    let place = config(sys).join("target/iscsi");
    let mut found = Vec::new();
    for target in sys::names(&place) {
        let groups = place.join(&target);
        let units = sys::names(&groups).into_iter().map(|group| groups.join(group).join("lun"));
        let mut links = units.flat_map(|units| {
            let units: Vec<PathBuf> = sys::names(&units).iter().map(|unit| units.join(unit)).collect();
            units.into_iter().flat_map(|unit| {
                sys::names(&unit).into_iter().filter_map(move |name| std::fs::read_link(unit.join(name)).ok())
            })
        });
        if links.any(|link| link.ends_with(Path::new(adapter).join(store))) {
            found.push(target);
        }
    }
    found
}
