//! NVMe over TCP: the kernel's initiator, asked through `/dev/nvme-fabrics` and looked at in sysfs.
//!
//! Options are written to the kernel and not to a program's command line, where everybody could read the secret among them.

use super::{Attachments, waiting};
use crate::build::lasting::machine;
use crate::command::said;
use crate::made::Failure;
use crate::sys::{self, Sys};
use ebbtide_model::observe::diskstats::NvmeName;
use ebbtide_provision::attached::Record;
use std::path::Path;

/// Commands in a queue through SSH: at most 32 of 1 MiB are on their way, which a link of 10 Mbit/s carries in the 30 s after which
/// the kernel gives a command up (`nvme_core.io_timeout`). Its own is 128 for each processor.
const QUEUE_SSH: u64 = 32;

/// A controller of the kernel's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Controller {
    /// `nvme3`.
    pub name: String,
    /// `live`, `connecting`, `resetting`...
    pub state: String,
}

/// The controller that is connected, or connecting, to the target of `record`.
pub(super) fn find(sys: &Sys, record: &Record) -> Option<Controller> {
    let class = sys.sys.join("class/nvme");
    sys::names(&class).into_iter().find_map(|name| {
        let place = class.join(&name);
        let is_it = sys::word(&place.join("subsysnqn")).as_deref() == Some(&record.target)
            && sys::word(&place.join("address"))
                .is_some_and(|address| leads_to(&address, &record.address, record.port));
        is_it.then(|| Controller { state: sys::word(&place.join("state")).unwrap_or_default(), name })
    })
}

/// Whether an `address` of sysfs, `traddr=10.0.0.1,trsvcid=4420,src_addr=...`, is that of `host` and `port`.
fn leads_to(address: &str, host: &str, port: u16) -> bool {
    let value = |key: &str| address.split(',').find_map(|pair| pair.strip_prefix(key)?.strip_prefix('='));
    value("traddr") == Some(host) && value("trsvcid").and_then(|text| text.parse().ok()) == Some(port)
}

/// The name of the block device of the first namespace of the controller `name`; nothing before it is there.
pub(super) fn namespace(sys: &Sys, name: &str) -> Option<String> {
    sys::names(&sys.sys.join("class/nvme").join(name)).into_iter().find_map(|entry| {
        let device = NvmeName::parse(&entry)?.device();
        sys.sys.join("class/block").join(&device).exists().then_some(device)
    })
}

/// The name by which this host logs in: `/etc/nvme/hostnqn`, or one that follows from the machine's id.
///
/// # Errors
/// When the host has neither.
pub(super) fn client(sys: &Sys) -> Result<String, Failure> {
    if let Some(nqn) = sys::word(&sys.root().join("etc/nvme/hostnqn")) {
        return Ok(nqn);
    }
    let id: String =
        machine(sys).chars().filter(char::is_ascii_hexdigit).collect::<String>().to_ascii_lowercase();
    match id.len() {
        32 => Ok(format!(
            "nqn.2014-08.org.nvmexpress:uuid:{}-{}-{}-{}-{}",
            &id[..8],
            &id[8..12],
            &id[12..16],
            &id[16..20],
            &id[20..]
        )),
        _ => Err(Failure::Refused(
            "this host has no name as an NVMe host: `nvme gen-hostnqn > /etc/nvme/hostnqn` (nvme-cli) gives it one".to_owned(),
        )),
    }
}

/// The id that goes with the name `nqn`: the kernel refuses one id under two names. Nothing where the kernel draws one.
fn host_id(sys: &Sys, nqn: &str) -> Option<String> {
    sys::word(&sys.root().join("etc/nvme/hostid")).or_else(|| Some(nqn.split_once("uuid:")?.1.to_owned()))
}

/// What the kernel is told to connect to the target of `record`; the secret last, so that it can be left out.
fn options(sys: &Sys, record: &Record, secret: Option<&str>) -> String {
    let through_ssh = record.tunnel.is_some();
    let mut options = format!(
        "transport=tcp,traddr={},trsvcid={},nqn={},hostnqn={}",
        record.address, record.port, record.target, record.client
    );
    for (key, value) in waiting(record).nvme_tcp() {
        options += &format!(",{key}={value}");
    }
    if let Some(id) = host_id(sys, &record.client) {
        options += &format!(",hostid={id}");
    }
    if through_ssh {
        options += &format!(",nr_io_queues=1,queue_size={QUEUE_SSH}");
    }
    if let Some(secret) = secret {
        options += &format!(",dhchap_secret={secret}");
    }
    options
}

impl Attachments<'_> {
    /// Has the kernel connect to the target of `record`.
    pub(super) fn nvme_connect(&self, record: &Record, secret: Option<&str>) -> Result<(), Failure> {
        if !self.sys.at(Path::new("/dev/nvme-fabrics")).exists()
            || !self.sys.sys.join("module/nvme_tcp").exists()
        {
            let loaded = self.runner.run("modprobe", &["nvme-tcp"])?;
            if loaded.status != Some(0) {
                return Err(Failure::Refused(format!(
                    "this kernel has no NVMe over TCP ({}): install its modules (linux-modules-extra on Ubuntu), or say --transport iscsi",
                    said(&loaded.stderr, "")
                )));
            }
        }
        let shown = options(&self.sys, record, None);
        (self.tell)(&format!("echo {shown} > /dev/nvme-fabrics"));
        self.host.fabrics(&options(&self.sys, record, secret)).map(drop).map_err(|error| {
            // The kernel's log has the reason; the error is a number. EIO and ECONNREFUSED are what is seen.
            Failure::Refused(format!(
                "the kernel cannot connect to {} at {}:{}: {error}; `dmesg` says why: a target that does not know {} (`--client`), another secret, nobody who listens there",
                record.target, record.address, record.port, record.client
            ))
        })
    }

    /// Ends the connection to the target of `record`; whether there was one.
    pub(super) fn nvme_disconnect(&self, record: &Record) -> Result<bool, Failure> {
        let Some(controller) = find(&self.sys, record) else { return Ok(false) };
        (self.tell)(&format!("echo 1 > /sys/class/nvme/{}/delete_controller", controller.name));
        self.host.delete_controller(&self.sys, &controller.name).map_err(|error| {
            Failure::file(
                &self.sys.sys.join("class/nvme").join(&controller.name).join("delete_controller"),
                error,
            )
        })?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_and_addresses_are_told_apart() {
        let head = |name| NvmeName::parse(name).map(|name| name.device());
        assert_eq!(head("nvme0n1"), Some("nvme0n1".to_owned()));
        assert_eq!(head("nvme10c3n12"), Some("nvme10n12".to_owned()));
        for other in ["power", "nvme0", "nvmen1", "nvme0cxn1".trim_end_matches('1'), "hwmon1"] {
            assert_eq!(head(other), None, "{other}");
        }
        let address = "traddr=127.0.0.1,trsvcid=20100,src_addr=127.0.0.1";
        assert!(leads_to(address, "127.0.0.1", 20_100));
        assert!(!leads_to(address, "127.0.0.1", 2010) && !leads_to(address, "127.0.0.11", 20_100));
    }
}
