//! Exports: how one is, as `ebb status` tells it, and the unit that brings one back at boot.

use crate::files::Part;
use ebbtide_model::export::{Export, Transport};
use ebbtide_model::shown::Shown;
use serde::Serialize;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// How an export is.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Exported {
    /// What it is called.
    pub name: String,
    /// Protocol.
    pub transport: Transport,
    /// Address of this host that it listens on.
    pub address: IpAddr,
    /// TCP port.
    pub port: u16,
    /// Its NQN or IQN.
    pub target: String,
    /// NQN or IQN of the one initiator that may log in.
    pub client: String,
    /// The device or file.
    pub device: PathBuf,
    /// Its size when it was exported.
    pub bytes: u64,
    /// Whether it comes back at boot.
    pub persistent: bool,
    /// The file with the secret that the initiator has to know.
    pub secret_file: Option<PathBuf>,
    /// Whether the kernel has it.
    pub running: bool,
    /// Whether an initiator is connected; nothing where that cannot be told from those of other exports.
    pub connected: Option<bool>,
}

impl Exported {
    /// Of the record `export`.
    pub fn of(export: &Export, running: bool, connected: Option<bool>) -> Exported {
        Exported {
            name: export.name.clone(),
            transport: export.transport,
            address: export.address,
            port: export.port,
            target: export.target.clone(),
            client: export.client.clone(),
            device: export.device.clone(),
            bytes: export.bytes,
            persistent: export.persistent,
            secret_file: export.secret.clone(),
            running,
            connected,
        }
    }

    /// Whether nobody need look after it: it runs, or was to last until a boot only.
    pub fn is_well(&self) -> bool {
        self.running || !self.persistent
    }

    /// How it is, for people.
    pub fn text(&self) -> String {
        let state = match (self.running, self.connected) {
            (false, _) => "not running",
            (true, Some(true)) => "connected",
            (true, Some(false)) => "nobody is connected",
            (true, None) => "somebody is connected to its port",
        };
        let lasts = if self.persistent { "persistent" } else { "until a boot" };
        let listen = std::net::SocketAddr::new(self.address, self.port);
        let mut text = format!(
            "{}: exported, {state} ({} over {} at {listen} to {}; {lasts})\n",
            self.name,
            self.device.shown(),
            self.transport,
            self.client
        );
        if !self.is_well() {
            let unit = unit_name(&self.name);
            text += &format!("  to do: `systemctl restart {unit}`, or `ebb undo {}`\n", self.name);
        }
        text
    }
}

/// Where units of the host's own are.
const UNITS: &str = "/etc/systemd/system";

/// What the unit of the export `name` is called.
pub fn unit_name(name: &str) -> String {
    format!("ebb-export-{name}.service")
}

/// Where the unit of the export `name` is.
pub fn unit_path(name: &str) -> PathBuf {
    Path::new(UNITS).join(unit_name(name))
}

/// First line of the unit of the export `name`.
fn mark(name: &str) -> String {
    format!("# ebb: export {name} (written by `ebb export --persistent`; `ebb undo {name}` removes it)\n")
}

/// What the unit needs to know.
#[derive(Debug, Clone, Copy)]
pub struct ExportUnit<'a> {
    /// The export.
    pub name: &'a str,
    /// Where `ebb` is.
    pub program: &'a Path,
    /// The file that is exported; nothing for a device, which is waited for.
    pub file: Option<&'a Path>,
    /// Whether clients reach it on loopback only.
    pub is_local: bool,
}

impl ExportUnit<'_> {
    /// The unit, a file of `ebb`'s own.
    pub fn part(&self) -> Part {
        let name = self.name;
        let after =
            if self.is_local { "" } else { "Wants=network-online.target\nAfter=network-online.target\n" };
        let mounts = self.file.map_or_else(String::new, |file| {
            format!("RequiresMountsFor={}\n", crate::monitor::word(&file.to_string_lossy()))
        });
        let program = self.program.to_string_lossy();
        let lines = format!(
            "{}[Unit]\n\
             Description=Ebbtide: the export {name} to other hosts\n\
             After=local-fs.target systemd-modules-load.service systemd-udevd.service\n\
             {after}{mounts}\
             \n\
             [Service]\n\
             Type=oneshot\n\
             RemainAfterExit=yes\n\
             Environment=HOME=/root\n\
             ExecStart={program} export --start {name} --quiet\n\
             TimeoutStartSec=300\n\
             \n\
             [Install]\n\
             WantedBy=multi-user.target\n",
            mark(name)
        );
        Part { path: unit_path(name), whole: true, executable: false, lines }
    }
}

/// The program that the unit in `text` starts.
pub fn program_of(text: &str) -> Option<PathBuf> {
    let line = text.lines().find_map(|line| line.strip_prefix("ExecStart="))?;
    line.split(" export --start ").next().map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_is_this() {
        let unit = ExportUnit { name: "a", program: Path::new("/usr/bin/ebb"), file: None, is_local: true };
        let part = unit.part();
        assert_eq!(part.path, Path::new("/etc/systemd/system/ebb-export-a.service"));
        assert!(part.lines.contains("ExecStart=/usr/bin/ebb export --start a --quiet\n"), "{}", part.lines);
        assert!(!part.lines.contains("network") && !part.lines.contains("RequiresMountsFor"));
        assert!(part.lines.starts_with(&mark("a")));
        assert_eq!(program_of(&part.lines), Some("/usr/bin/ebb".into()));
        let file = Some(Path::new("/v/back up"));
        let text = ExportUnit { file, is_local: false, ..unit }.part().lines;
        assert!(text.contains("After=network-online.target\nRequiresMountsFor=\"/v/back up\"\n"), "{text}");
    }
}
