//! `ebb attach`: a volume of another host as a device of this one.

use crate::cli::globals::Globals;
use crate::error::CliError;
use crate::{keeping, key, signals, views};
use clap::Args;
use ebbtide_door::read;
use ebbtide_host::attach::{Attachments, Done, Encrypt, Wanted, supervise as supervising};
use ebbtide_host::build::missing;
use ebbtide_host::made::{Failure, Host, ThisHost};
use ebbtide_host::sys::Sys;
use ebbtide_model::backend::Control;
use ebbtide_model::remote::HOLD_S;
use ebbtide_model::shown::Shown;
use ebbtide_model::stack::Filesystem;
use ebbtide_model::units::{Bytes, Nanos};
use ebbtide_provision::attached::{Place, Transport};
use ebbtide_provision::{check_mountpoint, check_name};
use serde_json::json;
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

/// The hidden subcommand that keeps an SSH connection.
pub const SUPERVISOR: &str = supervising::SUBCOMMAND;
/// `--encrypt` with this asks for the key.
const ASK: &str = "ask";
/// Longest key: cryptsetup's own limit of a key file.
const KEY_MAX: u64 = 8 << 20;
/// Longest time that I/O may wait, in seconds.
const HOLD_MAX_S: u64 = 24 * 3600;

/// Attach a volume of another host
///
/// Through SSH, where nothing but SSH and sudo is needed there, or directly; encrypted here on request.
///
/// `ebb attach ada@store1:/dev/vdb --encrypt key --header-backup header --mount /backup` has `ebb` on store1 export the device to this
/// host alone, on its loopback; carries the blocks through one SSH connection, which is made again whenever it is lost; encrypts what is
/// blank, here, so that the other host never sees a plain byte; makes a file system in it and mounts it. Run again it mends what does not
/// stand. `ebb status` says how it is, `ebb undo` takes it away.
///
/// Exit status: 0 it is attached, 1 failed or refused, 2 wrong usage.
#[derive(Debug, Args)]
pub struct AttachArgs {
    /// [USER@]HOST:DEVICE through SSH; nvme-tcp://HOST[:PORT]/NQN or iscsi://HOST[:PORT]/IQN directly, on a network of your own
    #[arg(value_name = "PLACE")]
    place: String,
    /// UUID of what the volume carries, as `blkid -p` says it there: for one without a name below /dev/disk/by-id that was attached by
    /// another host, or filled there. What was attached here is known
    #[arg(long, value_name = "UUID")]
    carries: Option<String>,
    /// What it is called on both hosts [default: after the device or the target]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Encrypt it on this side with LUKS2: the file with the key, which its owner alone may read, or `ask`. A blank volume is formatted once, and never again
    #[arg(long, value_name = "KEYFILE|ask")]
    encrypt: Option<PathBuf>,
    /// Authenticate every sector, so that what was changed on the other side is an error and not data; for a blank volume, all of which is
    /// written once
    #[arg(long, requires = "encrypt")]
    integrity: bool,
    /// Copy the LUKS header to this file; where it is there already, open the volume with it and trust no header on the other side
    #[arg(long, value_name = "FILE", requires = "encrypt")]
    header_backup: Option<PathBuf>,
    /// Where to mount it; a blank volume gets a file system
    #[arg(long, value_name = "DIRECTORY")]
    mount: Option<PathBuf>,
    /// The file system of a blank volume
    #[arg(long, value_name = "TYPE", default_value = "ext4", requires = "mount", value_parser = clap::builder::PossibleValuesParser::new(["ext4", "xfs", "btrfs"]))]
    filesystem: String,
    /// The protocol, through SSH [default: nvme-tcp]
    #[arg(long, value_name = "PROTOCOL", value_parser = clap::builder::PossibleValuesParser::new(Transport::ALL.map(Transport::name)))]
    transport: Option<String>,
    /// How long reads and writes wait for a lost connection before they fail, such as 10s or 5m; without end is not offered
    #[arg(long, value_name = "TIME", default_value_t = format!("{HOLD_S}s"), value_parser = hold)]
    hold: String,
    /// A file that only its owner may read, with the secret that the target asks for (DH-HMAC-CHAP for NVMe, CHAP for iSCSI)
    #[arg(long, value_name = "FILE")]
    secret: Option<PathBuf>,
    /// Copy this `ebb` to the other host where it has none, or another; the copy goes with the attachment
    #[arg(long)]
    copy_ebb: bool,
    /// Print what would be done, and touch nothing
    #[arg(long)]
    dry_run: bool,
}

/// Arguments of the process that keeps an SSH connection.
#[derive(Debug, Args)]
pub struct SupervisorArgs {
    /// The attachment
    name: String,
}

/// A time of whole seconds.
fn seconds(text: &str) -> Result<u64, String> {
    let time: Nanos = text.parse().map_err(|error: ebbtide_model::units::UnitError| error.to_string())?;
    let seconds = time.0 / Nanos::PER_SECOND;
    match time.0.is_multiple_of(Nanos::PER_SECOND) && (1..=HOLD_MAX_S).contains(&seconds) {
        true => Ok(seconds),
        false => Err("write whole seconds from 1s to 24h, such as 60s".to_owned()),
    }
}

fn hold(text: &str) -> Result<String, String> {
    seconds(text).map(|_| text.to_owned())
}

/// Runs `ebb attach`.
///
/// # Errors
/// See the exit statuses in the help.
pub fn run(args: &AttachArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let wanted = wanted(args, globals.quiet)?;
    if args.dry_run {
        keeping::on_host(globals, &ThisHost, &AtomicBool::new(false), false, |context| {
            Attachments::new(context).may_mount(&wanted)
        })?;
        let steps = steps(&wanted);
        let value = json!({ "schema": "ebbtide.attach-plan/1", "name": wanted.name, "steps": steps });
        let text = format!("{} as {}:\n{}", wanted.place, wanted.name, keeping::numbered(&steps));
        return views::answer(globals.json(), &value, &text);
    }
    keeping::needs_root("ebb attach")?;
    let given = key_of(args)?;
    let control = signals::stoppable(globals.quiet)?;
    let lacks = missing(programs(&wanted));
    lacks.map_err(|what| CliError::Failed(format!("this host cannot attach it: {what}")))?;
    let asked = RefCell::new(given);
    let ask_key = |new: bool| ask(&asked, &wanted.name, new, &control);
    let done = keeping::on_host(globals, &Asking(&ask_key), &control.stop, true, |context| {
        Attachments::new(context).attach(&wanted)
    })?;
    answer(&done, globals)
}

/// This host, where somebody is asked for keys.
struct Asking<'a>(&'a dyn Fn(bool) -> Result<Vec<u8>, Failure>);

impl Host for Asking<'_> {
    fn key(&self, new: bool) -> Result<Vec<u8>, Failure> {
        self.0(new)
    }
}

/// The key: the file's, or what is typed, asked for once.
fn ask(
    known: &RefCell<Option<Vec<u8>>>,
    name: &str,
    new: bool,
    control: &Control,
) -> Result<Vec<u8>, Failure> {
    if let Some(key) = known.borrow().as_ref() {
        return Ok(key.clone());
    }
    let key = key::ask_for(name, new, control).map_err(|error| match error {
        CliError::Interrupted(_) => Failure::Stopped,
        other => Failure::Refused(other.to_string()),
    })?;
    *known.borrow_mut() = Some(key.clone());
    Ok(key)
}

/// The key in the file of `--encrypt`; nothing where it is asked for.
fn key_of(args: &AttachArgs) -> Result<Option<Vec<u8>>, CliError> {
    let Some(path) = args.encrypt.as_ref().filter(|path| path.as_os_str() != ASK) else { return Ok(None) };
    let key = read::secret(path, KEY_MAX)
        .map_err(|error| CliError::Usage(format!("the key file {} {error}", path.shown())))?;
    match key.is_empty() {
        true => Err(CliError::Usage(format!(
            "the key file {} is empty: `(umask 077; head -c 64 /dev/urandom > {})` makes a key",
            path.shown(),
            path.shown()
        ))),
        false => Ok(Some(key)),
    }
}

/// What the arguments ask for.
fn wanted(args: &AttachArgs, quiet: bool) -> Result<Wanted, CliError> {
    let place: Place = args.place.parse().map_err(CliError::usage)?;
    let asked: Option<Transport> = args.transport.as_deref().and_then(|name| name.parse().ok());
    let transport = match &place {
        Place::Ssh { .. } => asked.unwrap_or(Transport::NvmeTcp),
        Place::Direct { transport, .. } if asked.is_some_and(|asked| asked != *transport) => {
            return Err(CliError::Usage(format!("{place} says its protocol itself: leave --transport out")));
        }
        Place::Direct { transport, .. } => *transport,
    };
    if args.carries.is_some() && matches!(place, Place::Direct { .. }) {
        return Err(CliError::Usage(format!(
            "nothing is exported on the host of {place}: leave --carries out"
        )));
    }
    if args.copy_ebb && matches!(place, Place::Direct { .. }) {
        return Err(CliError::Usage(format!("nothing is run on the host of {place}: leave --copy-ebb out")));
    }
    let name = args.name.clone().unwrap_or_else(|| place.default_name());
    check_name(&name).map_err(CliError::usage)?;
    let mount = args.mount.as_deref().map(|path| keeping::mount_point(path, quiet)).transpose()?;
    if let Some(directory) = &mount {
        check_mountpoint(directory).map_err(CliError::usage)?;
    }
    let absolute = |path: &Path| {
        std::path::absolute(path).map_err(|error| CliError::Usage(format!("{}: {error}", path.shown())))
    };
    let encrypt = match &args.encrypt {
        None => None,
        Some(key) => Some(Encrypt {
            key_file: Some(key).filter(|key| key.as_os_str() != ASK).map(|key| absolute(key)).transpose()?,
            integrity: args.integrity,
            backup: args.header_backup.as_deref().map(absolute).transpose()?,
        }),
    };
    Ok(Wanted {
        place,
        carries: args.carries.clone(),
        name,
        transport,
        hold_s: seconds(&args.hold).map_err(CliError::Usage)?,
        secret_file: args.secret.as_deref().map(absolute).transpose()?,
        encrypt,
        copies: args.copy_ebb,
        mount: mount.map(|directory| (directory, args.filesystem.parse().unwrap_or(Filesystem::Ext4))),
    })
}

/// Programs of this host that it takes.
fn programs(wanted: &Wanted) -> Vec<&'static str> {
    let mut programs = vec!["blkid"];
    if matches!(wanted.place, Place::Ssh { .. }) {
        programs.extend(["setpriv", "ssh"]);
    }
    if wanted.transport == Transport::Iscsi {
        programs.push("iscsiadm");
    }
    if wanted.encrypt.is_some() {
        programs.push("cryptsetup");
    }
    if let Some((_, filesystem)) = &wanted.mount {
        programs.extend(["mount", "umount"]);
        programs.push(match filesystem {
            Filesystem::Xfs => "mkfs.xfs",
            Filesystem::Btrfs => "mkfs.btrfs",
            _ => "mkfs.ext4",
        });
    }
    programs
}

/// What an attach does, in words.
fn steps(wanted: &Wanted) -> Vec<String> {
    let mut steps = Vec::new();
    let (name, transport) = (&wanted.name, wanted.transport.name());
    if let Place::Ssh { destination, device } = &wanted.place {
        let carries = wanted.carries.as_ref().map_or_else(String::new, |uuid| format!(" --carries {uuid}"));
        steps.push(format!(
            "on {destination}: ebb export {device}{carries} --client (this host) --name {name} --transport {transport} --json"
        ));
        steps.push(format!(
            "ssh -N -M -L 127.0.0.1:PORT:127.0.0.1:{} {destination}, kept by a process of its own",
            wanted.transport.port()
        ));
    }
    steps.push(match wanted.transport {
        Transport::NvmeTcp => {
            format!("connect over NVMe/TCP (/dev/nvme-fabrics), fast_io_fail_tmo={} s", wanted.hold_s)
        }
        Transport::Iscsi => format!("log in over iSCSI (iscsiadm), replacement_timeout={} s", wanted.hold_s),
    });
    if let Some(encrypt) = &wanted.encrypt {
        let integrity = if encrypt.integrity { " --integrity hmac-sha256" } else { "" };
        steps.push(format!("where the volume is blank: cryptsetup luksFormat --type luks2{integrity}"));
        if let Some(backup) = &encrypt.backup {
            steps.push(format!("where {} is not there: cryptsetup luksHeaderBackup", backup.shown()));
        }
        steps.push(format!("cryptsetup open --type luks2 (as /dev/mapper/{name})"));
    }
    if let Some((directory, filesystem)) = &wanted.mount {
        steps.push(format!("where it is new: mkfs.{}", filesystem.as_ref()));
        steps.push(format!("mount on {}", directory.shown()));
    }
    steps
}

fn answer(done: &Done, globals: &Globals) -> Result<ExitCode, CliError> {
    let record = &done.record;
    let restore = Attachments::restore_command(record);
    let value = json!({
        "schema": "ebbtide.attach/1",
        "changed": done.changed,
        "encrypted_now": done.encrypted,
        "formatted_now": done.formatted,
        "restore_header": restore,
        "attached": record,
    });
    let path = record.shown_path();
    let size = record.bytes.map_or_else(String::new, |bytes| format!(", {}", Bytes(bytes)));
    let mounted =
        record.mount.as_ref().map_or_else(String::new, |mount| format!(" on {}", mount.directory.shown()));
    let mut text = match done.changed {
        true => format!("{}: attached as {path}{mounted}{size}\n", record.name),
        false => format!("{}: nothing to do, it is attached as {path}{mounted}{size}\n", record.name),
    };
    if done.encrypted {
        text += "it was blank and is encrypted now; without the key nobody can read it: keep the key on another host, too\n";
        if restore.is_none() {
            text += "a damaged header costs all data, whatever the key: `ebb attach` with --header-backup FILE copies it\n";
        }
    }
    if let Some(restore) = restore {
        let backup = record.encryption.as_ref().and_then(|encrypted| encrypted.backup.as_ref());
        let file = backup.map_or_else(String::new, |backup| backup.path.shown());
        text += &format!(
            "the copy of its header is {file}: with it and the key any host can open the volume (`ebb attach {} --encrypt KEYFILE --header-backup {file}`); to put it back: {restore}\n",
            record.place
        );
    }
    views::answer(globals.json(), &value, &text)
}

/// Keeps an SSH connection, as all that this process does.
///
/// # Errors
/// When there is nothing to keep.
pub fn supervise(args: &SupervisorArgs) -> Result<ExitCode, CliError> {
    let control = signals::stoppable(true)?;
    supervising::serve(&Sys::host(), &args.name, &control.stop).map_err(keeping::failed)?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hold_time_has_an_end() {
        assert_eq!(seconds("90s"), Ok(90));
        assert_eq!(seconds("2m"), Ok(120));
        for text in ["0s", "1500ms", "25h", "forever", "-1"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }
}
