//! The edges of a host: what is asked of its kernel and of other hosts.

use super::Failure;
use crate::attach::RUNNING;
use crate::attach::supervise::{self, SUBCOMMAND, Supervised};
use crate::build::lasting;
use crate::command::{Output, Real as Programs, Within};
use crate::judge;
use crate::program;
use crate::ssh::{RemoteProgram, Ssh, last_lines};
use crate::sys::Sys;
use crate::sys::process::Process;
use ebbtide_door::{Claim, DoorError, Expected, Wanted, config, kernel, read};
use ebbtide_model::guard::{Permission, RefusalKind, WriteRequest};
use ebbtide_provision::Member;
use ebbtide_provision::attached::{Record, Tunnel};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Ports of tunnels: of those that root alone may take (ip(7), `ip_unprivileged_port_start`), so that nobody answers the kernel in the place of
/// an `ssh` that is away; below those from which NFS mounts go out (`sunrpc.min_resvport`, 665).
const PORTS: std::ops::Range<u16> = 600..665;
/// Those of them that have a service: IPMI, IPP, LDAPS, DHCP's failover (services(5)).
const OF_SERVICES: [u16; 4] = [623, 631, 636, 647];

/// Where the secret of an attachment is on the other host, in a directory of the user's own: `$f`, for [`secret_name`] as `$1`.
const SECRET_PLACE: &str = "\
set -e
umask 077
d=${XDG_CACHE_HOME:-$HOME/.cache}/ebbtide
f=$d/attach-$1.secret
";

/// What tells the secret of `record` from those of other attachments of that name, by other hosts: they have other ids.
fn secret_name(record: &Record) -> String {
    format!("{}-{}", record.name, record.id)
}

/// Runs what is asked of another host, which may have to load modules for its answer. A stop does not end it: what was begun there is then
/// taken away there.
const ASKED: Within<'static> = Within { stop: &NEVER, patience: Duration::from_secs(120), most: 1 << 20 };
static NEVER: AtomicBool = AtomicBool::new(false);

/// What is asked of the kernel and of other hosts, beside programs: this host's by itself, which a made-up one answers instead in tests.
pub trait Host {
    /// Makes the object `path` of configfs.
    ///
    /// # Errors
    /// As the kernel says it.
    fn make(&self, path: &Path) -> io::Result<()> {
        config::make(path)
    }

    /// Links the object `path` of configfs to `target`.
    ///
    /// # Errors
    /// As the kernel says it.
    fn link(&self, target: &Path, path: &Path) -> io::Result<()> {
        config::link(target, path)
    }

    /// Writes the attribute `path` of configfs.
    ///
    /// # Errors
    /// As the kernel says it.
    fn set(&self, path: &Path, value: &[u8]) -> io::Result<()> {
        config::write(path, value)
    }

    /// Removes the object or link `path` of configfs.
    ///
    /// # Errors
    /// As the kernel says it.
    fn remove(&self, path: &Path) -> io::Result<()> {
        config::remove(path)
    }

    /// Whether `members` of an array may be overwritten, with whether their content may be lost.
    ///
    /// # Errors
    /// In words why not.
    fn may_build(&self, members: &[&Member], destroy: bool) -> Result<(), String> {
        lasting::may_build(members, destroy)
    }

    /// Finds `ebb` on the other host, or copies it there where it `copies`: how it is run there with root's rights.
    ///
    /// # Errors
    /// When the host cannot be reached, or has no `ebb` that can be run so.
    fn find(&self, destination: &str, copies: bool) -> Result<(String, bool), Failure> {
        let far = |error: &dyn std::fmt::Display| Failure::far(destination, error);
        let ssh = Ssh::new(destination).map_err(|error| far(&error))?;
        let here = program::own_identity(&Programs).map_err(|error| far(&error))?;
        let found = match copies {
            false => ssh.same(&ASKED, &here),
            true => {
                let file =
                    program::own_file().and_then(|path| read::open(&path)).map_err(|error| far(&error))?;
                ssh.same_or_copied(&ASKED, &here, &file)
            }
        };
        let found = found.map_err(|error| far(&error))?;
        let who = ssh.succeed(&ASKED, &["id", "-u"], b"").map_err(|error| far(&error))?;
        let sudo = who.trim() != "0";
        let said = ssh
            .run(&ASKED, &words(&found.program, sudo, &["--version"]), b"")
            .map_err(|error| far(&error))?;
        match said.status {
            Some(0) => Ok((found.program, sudo)),
            _ => {
                let why = last_lines(&said.stderr);
                // What was copied for nothing goes again.
                let _ = ssh.remove_copy(&ASKED, &found);
                Err(far(&format!(
                    "`{}` does not work there ({why}): exporting a device needs root; let that user run ebb with sudo without a password",
                    words(&found.program, sudo, &["--version"]).join(" ")
                )))
            }
        }
    }

    /// Removes the copy of `ebb` on the other host that [`find`](Self::find) made, if it made one.
    ///
    /// # Errors
    /// When the host cannot be reached.
    fn remove_copy(&self, sys: &Sys, record: &Record, tunnel: &Tunnel) -> Result<(), Failure> {
        let far = |error| Failure::far(&tunnel.destination, error);
        if !tunnel.ebb.starts_with('/') {
            return Ok(());
        }
        let found = RemoteProgram { program: tunnel.ebb.clone(), version: String::new(), sha256: None };
        ssh(sys, record, tunnel)?.remove_copy(&ASKED, &found).map_err(far)
    }

    /// Runs `ebb` with `words` on the other host.
    ///
    /// # Errors
    /// When the host cannot be reached; a status other than 0 is not an error here.
    fn far(&self, sys: &Sys, record: &Record, tunnel: &Tunnel, command: &[&str]) -> Result<Output, Failure> {
        let far = |error| Failure::far(&tunnel.destination, error);
        ssh(sys, record, tunnel)?.run(&ASKED, &words(&tunnel.ebb, tunnel.sudo, command), b"").map_err(far)
    }

    /// Puts the secret into a file of the user's own on the other host; where.
    ///
    /// # Errors
    /// When the host cannot be reached.
    fn put_secret(
        &self,
        sys: &Sys,
        record: &Record,
        tunnel: &Tunnel,
        secret: &str,
    ) -> Result<String, Failure> {
        let far = |error| Failure::far(&tunnel.destination, error);
        let input = format!("{secret}\n");
        let script = format!("{SECRET_PLACE}mkdir -p \"$d\"\ncat >\"$f\"\nprintf %s \"$f\"");
        let ssh = ssh(sys, record, tunnel)?;
        let path = ssh
            .succeed(&ASKED, &["sh", "-c", &script, "sh", &secret_name(record)], input.as_bytes())
            .map_err(far)?;
        match path.starts_with('/') && !path.contains(char::is_control) {
            true => Ok(path),
            false => Err(Failure::far(
                &tunnel.destination,
                format!("it answered with a path that is none: {path}"),
            )),
        }
    }

    /// Removes that file.
    ///
    /// # Errors
    /// When the host cannot be reached.
    fn drop_secret(&self, sys: &Sys, record: &Record, tunnel: &Tunnel) -> Result<(), Failure> {
        let far = |error| Failure::far(&tunnel.destination, error);
        let script = format!("{SECRET_PLACE}rm -f -- \"$f\"");
        ssh(sys, record, tunnel)?
            .succeed(&ASKED, &["sh", "-c", &script, "sh", &secret_name(record)], b"")
            .map(drop)
            .map_err(far)
    }

    /// Starts the supervising process of the attachment `name`.
    ///
    /// # Errors
    /// When it cannot be started.
    fn supervise(&self, name: &str) -> io::Result<()> {
        // It keeps no directory, and nobody's pipe open.
        let (program, first) = program::again()?;
        Command::new(program)
            .arg0("ebb")
            .args(first)
            .args([SUBCOMMAND, name])
            .env_remove("EBB_TEST_HALT")
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .map(drop)
    }

    /// Ends the supervising process, which ends its `ssh`.
    fn end(&self, sys: &Sys, process: &Supervised) {
        let Some(pid) = i32::try_from(process.pid).ok().and_then(Pid::from_raw) else { return };
        let Ok(fd) = pidfd_open(pid, PidfdFlags::empty()) else { return };
        if Process::look(sys, process.pid).is_some_and(|now| now.start == process.start) {
            let _ = pidfd_send_signal(fd, Signal::TERM);
        }
    }

    /// A TCP port of the loopback that nobody listens at.
    ///
    /// # Errors
    /// When there is none.
    fn free_port(&self, name: &str) -> io::Result<u16> {
        // The same name tends to have the same port, so that the device's link by path is the same, too.
        let hash = name.bytes().fold(0_u16, |hash, byte| hash.wrapping_mul(31).wrapping_add(u16::from(byte)));
        let count = PORTS.end - PORTS.start;
        let mut ports = (0..count)
            .map(|offset| PORTS.start + (hash % count + offset) % count)
            .filter(|port| !OF_SERVICES.contains(port));
        let free = ports.find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok());
        free.ok_or_else(|| io::ErrorKind::AddrInUse.into())
    }

    /// Has the kernel connect to an NVMe target (`/dev/nvme-fabrics`).
    ///
    /// # Errors
    /// As the kernel says it.
    fn fabrics(&self, options: &str) -> io::Result<String> {
        let mut port = kernel::port(Path::new("/dev/nvme-fabrics"))?;
        port.write_all(options.as_bytes())?;
        let mut said = [0; 256];
        let length = port.read(&mut said)?;
        Ok(String::from_utf8_lossy(&said[..length]).into_owned())
    }

    /// Has the kernel end the NVMe controller `name`.
    ///
    /// # Errors
    /// As the kernel says it.
    fn delete_controller(&self, sys: &Sys, name: &str) -> io::Result<()> {
        let path = sys.sys.join("class/nvme").join(name).join("delete_controller");
        kernel::write_attribute(&path, "1", false)
    }

    /// Whether the device at `path` is blank and nobody uses it: why not.
    ///
    /// # Errors
    /// In words.
    fn is_blank(&self, path: &Path) -> Result<(), String> {
        claim(path, Permission::User { id: None, destroy: true, used: false }).map(drop)
    }

    /// Who would lose what they have written to the device at `path` if it went away, with what to do.
    fn users(&self, sys: &Sys, path: &Path) -> Vec<String> {
        let reasons = judge::losers_of_device(sys, &path.to_string_lossy());
        reasons.into_iter().map(|reason| format!("{} ({})", reason.what, reason.remedy)).collect()
    }

    /// Makes the device at `path`, on which this attachment put something, look blank.
    ///
    /// # Errors
    /// Why it may not be written, or cannot be.
    fn erase(&self, path: &Path) -> Result<(), String> {
        let lent = claim(path, Permission::Built)?.lend().map_err(|error| error.to_string())?;
        let request = WriteRequest { path, permission: Permission::Built };
        judge::door().erase(&lent, &request).map_err(|error| error.to_string())
    }

    /// The key; a `new` one is asked for twice where it is asked for at all.
    ///
    /// # Errors
    /// When there is none.
    fn key(&self, _new: bool) -> Result<Vec<u8>, Failure> {
        Err(Failure::Refused("a key is needed, and nobody is there to give one".to_owned()))
    }
}

/// The host that this program runs on.
#[derive(Debug, Clone, Copy, Default)]
pub struct ThisHost;

impl Host for ThisHost {}

/// The way to the other host of `record`: through the connection that stands, where one does.
pub(crate) fn ssh(sys: &Sys, record: &Record, tunnel: &Tunnel) -> Result<Ssh, Failure> {
    let far = |error| Failure::far(&tunnel.destination, error);
    let ssh = Ssh::new(&tunnel.destination).map_err(far)?;
    let control = supervise::control(&sys.run.join(RUNNING).join(&record.name));
    match control.exists() {
        true => ssh.through(&control).map_err(far),
        false => Ok(ssh),
    }
}

fn claim(path: &Path, permission: Permission<'_>) -> Result<Claim, String> {
    let request = WriteRequest { path, permission };
    let wanted = [Wanted { request, expected: Expected::Device, write: true }];
    let claims = judge::door().claim(&wanted).map_err(|(_, error)| match error {
        // How an experiment releases it is no advice here.
        DoorError::Refused(refusal) => {
            let kinds = |kind| !matches!(kind, RefusalKind::NoId | RefusalKind::NotDestroy);
            let what =
                refusal.reasons.iter().filter(|reason| kinds(reason.kind)).map(|reason| reason.what.clone());
            what.collect::<Vec<_>>().join("; ")
        }
        other => other.to_string(),
    })?;
    claims.into_iter().next().ok_or_else(|| "it cannot be claimed".to_owned())
}

/// The words of a remote command that runs `ebb` there with root's rights.
fn words<'a>(ebb: &'a str, sudo: bool, words: &[&'a str]) -> Vec<&'a str> {
    let front: &[&str] = if sudo { &["sudo", "-n", "--"] } else { &[] };
    front.iter().copied().chain([ebb]).chain(words.iter().copied()).collect()
}
