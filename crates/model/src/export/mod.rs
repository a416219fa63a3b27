//! Volumes that are given to other hosts: who may reach them and how ([`Export`]), and what the kernel is told for that ([`steps`]).

mod names;
mod steps;
#[cfg(test)]
mod tests;

pub use names::{
    ExportNameError, SecretError, check_client, check_name, check_secret, default_name, name_of_target,
    target,
};
pub use steps::{Action, PORTS, Placed, Source, Step, steps};

use crate::made::{Content, Kind, Record};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;

/// Where the kernel's targets are made.
pub const CONFIG: &str = "/sys/kernel/config";

/// The protocol that a volume is reached by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// NVMe over TCP.
    NvmeTcp,
    /// iSCSI.
    Iscsi,
}

impl Transport {
    /// Both, in the order in which they are offered.
    pub const ALL: [Transport; 2] = [Transport::NvmeTcp, Transport::Iscsi];

    /// As options, records and addresses call it.
    pub const fn name(self) -> &'static str {
        match self {
            Transport::NvmeTcp => "nvme-tcp",
            Transport::Iscsi => "iscsi",
        }
    }

    /// The TCP port that IANA gives it.
    pub const fn port(self) -> u16 {
        match self {
            Transport::NvmeTcp => 4420,
            Transport::Iscsi => 3260,
        }
    }

    /// What its names are called, and what they look like.
    pub const fn words(self) -> (&'static str, &'static str) {
        match self {
            Transport::NvmeTcp => ("NQN", "nqn.2026-11.ebbtide:NAME"),
            Transport::Iscsi => ("IQN", "iqn.2026-11.ebbtide:NAME"),
        }
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Transport {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Transport::ALL.into_iter().find(|transport| transport.name() == text);
        found.ok_or_else(|| format!("`{text}` is no transport: write nvme-tcp or iscsi"))
    }
}

/// Where an export listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listen {
    /// Address of this host; the unspecified one for all of them.
    pub address: IpAddr,
    /// TCP port.
    pub port: u16,
}

impl Listen {
    /// As `text` says, `ADDRESS` or `ADDRESS:PORT`; loopback where it says nothing.
    ///
    /// # Errors
    /// What to write instead.
    pub fn parse(text: Option<&str>, transport: Transport) -> Result<Listen, String> {
        let Some(text) = text else {
            return Ok(Listen { address: Ipv4Addr::LOCALHOST.into(), port: transport.port() });
        };
        let alone = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
        if let Ok(address) = alone.parse::<IpAddr>() {
            return Ok(Listen { address, port: transport.port() });
        }
        match text.parse::<SocketAddr>() {
            Ok(place) if place.port() != 0 => Ok(Listen { address: place.ip(), port: place.port() }),
            _ => Err(format!(
                "`{text}` is no address of this host: write 127.0.0.1, 10.0.0.5:4420 or [::1]:4420; names are not looked up"
            )),
        }
    }

    /// Address and port as iSCSI and URLs write them.
    pub fn shown(self) -> String {
        SocketAddr::new(self.address, self.port).to_string()
    }
}

/// The record of an export.
pub type Export = Record<Exporting>;

/// What is exported, to whom and how.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exporting {
    /// The boot of the host in which it was made: after another the kernel knows nothing of it.
    pub boot: String,
    /// Protocol.
    pub transport: Transport,
    /// Address that it listens on.
    pub address: IpAddr,
    /// TCP port.
    pub port: u16,
    /// Its NQN or IQN.
    pub target: String,
    /// NQN or IQN of the one initiator that may log in.
    pub client: String,
    /// The file with the secret that the initiator has to know.
    pub secret: Option<PathBuf>,
    /// The device by a link that stays, or the file, without links.
    pub device: PathBuf,
    /// The stable id that the device was named by; nothing for a file, and for a device that was blank.
    pub stable_id: Option<String>,
    /// Its size when it was exported.
    pub bytes: u64,
    /// Whether it comes back at boot.
    pub persistent: bool,
    /// The program that its unit starts; records of earlier versions do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<PathBuf>,
    /// What is to be opened, as somebody names it now.
    #[serde(skip)]
    pub source: PathBuf,
    /// UUID of what the device has to carry, where somebody says so now.
    #[serde(skip)]
    pub carries: Option<String>,
    /// What initiators know the volume by: the uuid of the namespace, the serial number of the unit.
    pub uuid: String,
    /// What was made in the kernel for it, in this order.
    pub paths: Vec<PathBuf>,
    /// Of these, what other exports use too.
    pub shared: Vec<PathBuf>,
}

impl Content for Exporting {
    const KIND: Kind = Kind::Export;
}

impl Export {
    /// Where it listens.
    pub fn listen(&self) -> Listen {
        Listen { address: self.address, port: self.port }
    }

    /// How `other`, wanted of the same device, differs from it, in words; nothing where it does not.
    pub fn differences(&self, other: &Export) -> Vec<String> {
        let secret = |export: &Export| match &export.secret {
            Some(file) => file.to_string_lossy().into_owned(),
            None => "none".to_owned(),
        };
        let yes = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
        let all = [
            ("name", self.name.clone(), other.name.clone()),
            (
                "device",
                self.device.to_string_lossy().into_owned(),
                other.device.to_string_lossy().into_owned(),
            ),
            ("client", self.client.clone(), other.client.clone()),
            ("secret", secret(self), secret(other)),
            ("transport", self.transport.to_string(), other.transport.to_string()),
            ("listen", self.listen().shown(), other.listen().shown()),
            ("persistent", yes(self.persistent), yes(other.persistent)),
        ];
        let differs = all.into_iter().filter(|(_, now, wanted)| now != wanted);
        differs.map(|(what, now, wanted)| format!("{what} is {now} and not {wanted}")).collect()
    }

    /// Whether everything that it says was made in the kernel is called as exports of its name are.
    pub fn is_its_own(&self) -> bool {
        self.paths.iter().chain(&self.shared).all(|path| self.is_own(path))
    }

    fn is_own(&self, path: &Path) -> bool {
        let plain = path.components().skip(1).all(|part| matches!(part, Component::Normal(_)));
        let Some(parts) = path.strip_prefix(CONFIG).ok().filter(|_| plain).and_then(Path::to_str) else {
            return false;
        };
        let parts: Vec<&str> = parts.split('/').collect();
        let own = |target: &str| names::is_target(target, &self.name);
        let store = |hba: &str| hba.starts_with("iblock_") || hba.starts_with("fileio_");
        match parts.as_slice() {
            ["nvmet", "hosts", _] | ["target", "iscsi"] => true,
            ["nvmet", "subsystems", target, ..] | ["target", "iscsi", target, ..] => own(target),
            ["nvmet", "ports", number] => number.parse().is_ok_and(|number| PORTS.contains(&number)),
            ["nvmet", "ports", _, "subsystems", target] => own(target),
            ["target", "core", hba] => store(hba),
            ["target", "core", hba, name] => store(hba) && *name == names::backstore(&self.name),
            _ => false,
        }
    }
}
