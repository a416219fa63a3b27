//! What is around on a real host.

use super::supervise::{self, SUBCOMMAND};
use super::{Around, Attacher, Failure, RUNNING, Said, Supervised};
use crate::command::{Real as Programs, Runner, Within};
use crate::judge;
use crate::program;
use crate::ssh::{RemoteProgram, Ssh, last_lines};
use crate::sys::Sys;
use crate::sys::process::Process;
use ebbtide_door::{DoorError, Expected, Wanted, kernel, read};
use ebbtide_model::guard::{Permission, RefusalKind, WriteRequest};
use ebbtide_model::shown::Shown;
use ebbtide_model::units::UnixTime;
use ebbtide_provision::attached::{Record, Tunnel};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

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

/// Asks for a key; a new one twice.
pub type AskKey<'a> = dyn Fn(bool) -> Result<Vec<u8>, Failure> + 'a;

/// This host, and those that OpenSSH leads to.
pub struct Real<'a> {
    /// Where `/proc`, `/sys` and `/dev` of this host are read.
    pub sys: Sys,
    /// Where the key comes from.
    pub ask_key: &'a AskKey<'a>,
    /// Whether `ebb` is copied to a host that has another one, or none.
    pub copy_ebb: bool,
}

/// Runs what is asked of another host, which may have to load modules for its answer. A stop does not end it: what was begun there is then
/// taken away there.
const ASKED: Within<'static> = Within { stop: &NEVER, patience: Duration::from_secs(120), most: 1 << 20 };
static NEVER: AtomicBool = AtomicBool::new(false);

fn no_key(_: bool) -> Result<Vec<u8>, Failure> {
    Err(Failure::Refused("a key is needed, and nobody is there to give one".to_owned()))
}

impl Real<'_> {
    /// The host of `sys`, without keys.
    pub fn at(sys: &Sys) -> Real<'static> {
        Real { sys: sys.clone(), ask_key: &no_key, copy_ebb: false }
    }

    /// Does `what` with a keeper that says nothing and writes no journal.
    pub(crate) fn keeper<T>(
        &self,
        runner: &dyn Runner,
        what: impl FnOnce(&Attacher<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        what(&Attacher {
            sys: self.sys.clone(),
            runner,
            around: self,
            tell: &|_| {},
            stop: &AtomicBool::new(false),
            boundary: &|| {},
            journal: None,
        })
    }

    /// The way to the other host of `record`: through the connection that stands, where one does.
    pub(super) fn ssh(&self, record: &Record, tunnel: &Tunnel) -> Result<Ssh, Failure> {
        let far = |error| Failure::far(&tunnel.destination, error);
        let ssh = Ssh::new(&tunnel.destination).map_err(far)?;
        let control = supervise::control(&self.sys.run.join(RUNNING).join(&record.name));
        match control.exists() {
            true => ssh.through(&control).map_err(far),
            false => Ok(ssh),
        }
    }

    fn claim(&self, path: &Path, permission: Permission<'_>) -> Result<ebbtide_door::Claim, String> {
        let request = WriteRequest { path, permission };
        let wanted = [Wanted { request, expected: Expected::Device, write: true }];
        let claims = judge::door().claim(&wanted).map_err(|(_, error)| match error {
            // How an experiment releases it is no advice here.
            DoorError::Refused(refusal) => {
                let kinds = |kind| !matches!(kind, RefusalKind::NoId | RefusalKind::NotDestroy);
                let what = refusal
                    .reasons
                    .iter()
                    .filter(|reason| kinds(reason.kind))
                    .map(|reason| reason.what.clone());
                what.collect::<Vec<_>>().join("; ")
            }
            other => other.to_string(),
        })?;
        claims.into_iter().next().ok_or_else(|| "it cannot be claimed".to_owned())
    }
}

/// The words of a remote command that runs `ebb` there with root's rights.
fn words<'a>(ebb: &'a str, sudo: bool, words: &[&'a str]) -> Vec<&'a str> {
    let front: &[&str] = if sudo { &["sudo", "-n", "--"] } else { &[] };
    front.iter().copied().chain([ebb]).chain(words.iter().copied()).collect()
}

impl Around for Real<'_> {
    fn find(&self, destination: &str) -> Result<(String, bool), Failure> {
        let far = |error: &dyn std::fmt::Display| Failure::far(destination, error);
        let ssh = Ssh::new(destination).map_err(|error| far(&error))?;
        let here = program::own_identity(&Programs).map_err(|error| far(&error))?;
        let found = match self.copy_ebb {
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

    fn remove_copy(&self, record: &Record, tunnel: &Tunnel) -> Result<(), Failure> {
        let far = |error| Failure::far(&tunnel.destination, error);
        if !tunnel.ebb.starts_with('/') {
            return Ok(());
        }
        let found = RemoteProgram { program: tunnel.ebb.clone(), version: String::new(), sha256: None };
        self.ssh(record, tunnel)?.remove_copy(&ASKED, &found).map_err(far)
    }

    fn far(&self, record: &Record, tunnel: &Tunnel, command: &[&str]) -> Said {
        let far = |error| Failure::far(&tunnel.destination, error);
        self.ssh(record, tunnel)?.run(&ASKED, &words(&tunnel.ebb, tunnel.sudo, command), b"").map_err(far)
    }

    fn put_secret(&self, record: &Record, tunnel: &Tunnel, secret: &str) -> Result<String, Failure> {
        let far = |error| Failure::far(&tunnel.destination, error);
        let input = format!("{secret}\n");
        let script = format!("{SECRET_PLACE}mkdir -p \"$d\"\ncat >\"$f\"\nprintf %s \"$f\"");
        let ssh = self.ssh(record, tunnel)?;
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

    fn drop_secret(&self, record: &Record, tunnel: &Tunnel) -> Result<(), Failure> {
        let far = |error| Failure::far(&tunnel.destination, error);
        let script = format!("{SECRET_PLACE}rm -f -- \"$f\"");
        self.ssh(record, tunnel)?
            .succeed(&ASKED, &["sh", "-c", &script, "sh", &secret_name(record)], b"")
            .map(drop)
            .map_err(far)
    }

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

    fn end(&self, process: &Supervised) {
        let Some(pid) = i32::try_from(process.pid).ok().and_then(Pid::from_raw) else { return };
        let Ok(fd) = pidfd_open(pid, PidfdFlags::empty()) else { return };
        if Process::look(&self.sys, process.pid).is_some_and(|now| now.start == process.start) {
            let _ = pidfd_send_signal(fd, Signal::TERM);
        }
    }

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

    fn fabrics(&self, options: &str) -> io::Result<String> {
        let mut port = kernel::port(Path::new("/dev/nvme-fabrics"))?;
        port.write_all(options.as_bytes())?;
        let mut said = [0; 256];
        let length = port.read(&mut said)?;
        Ok(String::from_utf8_lossy(&said[..length]).into_owned())
    }

    fn delete_controller(&self, name: &str) -> io::Result<()> {
        let path = self.sys.sys.join("class/nvme").join(name).join("delete_controller");
        kernel::write_attribute(&path, "1", false)
    }

    fn is_blank(&self, path: &Path) -> Result<(), String> {
        self.claim(path, Permission::User { id: None, destroy: true, used: false }).map(drop)
    }

    fn users(&self, path: &Path) -> Vec<String> {
        let reasons = judge::losers_of_device(&self.sys, &path.to_string_lossy());
        reasons.into_iter().map(|reason| format!("{} ({})", reason.what, reason.remedy)).collect()
    }

    fn erase(&self, path: &Path) -> Result<(), String> {
        let lent = self.claim(path, Permission::Built)?.lend().map_err(|error| error.to_string())?;
        let request = WriteRequest { path, permission: Permission::Built };
        judge::door().erase(&lent, &request).map_err(|error| error.to_string())
    }

    fn secret(&self, path: &Path) -> Result<String, Failure> {
        let text =
            read::secret_text(path).map_err(|error| Failure::file(path, format!("the secret {error}")))?;
        let line = text.trim();
        match !line.is_empty() && line.chars().all(|sign| sign.is_ascii_graphic() && sign != ',') {
            true => Ok(line.to_owned()),
            false => Err(Failure::Refused(format!(
                "{} is to hold the secret as one line of letters, digits and signs but a comma",
                path.shown()
            ))),
        }
    }

    fn key(&self, new: bool) -> Result<Vec<u8>, Failure> {
        (self.ask_key)(new)
    }

    fn now(&self) -> UnixTime {
        UnixTime::from(SystemTime::now())
    }

    fn draw(&self) -> String {
        // Of version 4, drawn by the kernel (random(4)).
        let uuid = PathBuf::from("/proc/sys/kernel/random/uuid");
        read::text(&uuid, 64).map(|text| text.trim().to_owned()).unwrap_or_default()
    }

    fn pause(&self) {
        std::thread::sleep(Duration::from_millis(100));
    }
}
