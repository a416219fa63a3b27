//! Encryption on this side: a volume is formatted once, where it is blank, and opened ever after.

use super::Attachments;
use crate::build::{self, BuildError, identity};
use crate::command::Shown as Line;
use crate::made::{Failure, Now, Resource};
use crate::probe::{Content, signature};
use ebbtide_door::{Directory, id_of, own, read};
use ebbtide_model::plan::build::BuildUndo;
use ebbtide_model::shown::Shown;
use ebbtide_provision::attached::{Attachment, Backup, Encrypted, Record};
use std::path::{Path, PathBuf};

/// Longest copy of a header: LUKS2's is 16 MiB, and 4 MiB more where somebody asked for it.
const HEADER_MAX: u64 = 64 << 20;
/// Cipher and authentication of `--integrity`: cryptsetup(8) names this pair.
const INTEGRITY: [&str; 4] = ["--cipher", "aes-xts-plain64", "--integrity", "hmac-sha256"];
/// blkid's word for a LUKS header.
pub(super) const LUKS: &str = "crypto_LUKS";

/// What of LUKS a volume carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Carried {
    /// A header with this uuid.
    Header(String),
    /// Something else, in words.
    Other(String),
    /// Nothing that has a signature.
    Nothing,
}

/// The LUKS header: made on a blank volume, once.
pub(super) struct Header;

impl Resource<Attachment> for Header {
    fn state(&self, on: &Attachments<'_>, record: &mut Record) -> Result<Now, Failure> {
        let (Some(encrypted), Some(device)) = (record.encryption.clone(), record.device.clone()) else {
            return Ok(Now::Stands);
        };
        // One that is open was looked at when it was opened.
        if on.mapping(&record.name)?.is_some() {
            return Ok(Now::Stands);
        }
        let given = encrypted.copy.clone().filter(|path| path.symlink_metadata().is_ok());
        let given = given.map(|path| on.uuid_of(&path).map(|uuid| (path, uuid))).transpose()?;
        match (on.carried(&device), &given) {
            (Carried::Header(uuid), Some((path, other))) if uuid != *other => {
                return Err(Failure::Refused(format!(
                    "{} carries the LUKS header {uuid}, and {} is a copy of another one ({other}): name another file",
                    record.place,
                    path.shown()
                )));
            }
            (Carried::Header(uuid), None) => {
                if record.has_begun("mapping") && uuid != encrypted.uuid {
                    return Err(Failure::Refused(format!(
                        "{} carries the LUKS header {uuid} now, and carried {} before: somebody made it anew",
                        record.place, encrypted.uuid
                    )));
                }
                on.check_header(record, &device)?;
                on.set(record, |encrypted| encrypted.uuid = uuid);
            }
            // The copy here is trusted, and the header there need not be. No file system is ever made in what it opens.
            (carried, Some((path, uuid))) => {
                let (path, uuid) = (path.clone(), uuid.clone());
                if !matches!(carried, Carried::Header(_)) {
                    let place = &record.place;
                    (on.tell)(&format!("the header on {place} is gone: opening it with {}", path.shown()));
                }
                on.set(record, |encrypted| {
                    encrypted.uuid = uuid;
                    encrypted.header = Some(path);
                });
            }
            (Carried::Other(what), None) => {
                return Err(Failure::Refused(format!(
                    "{} carries {what}: only a blank volume is encrypted; look at what is there (`lsblk -f`, `blkid -p DEVICE` on that host), and name another volume or leave --encrypt out",
                    record.place
                )));
            }
            (Carried::Nothing, None) => {
                if let Some(refused) = on.never_again(record) {
                    return Err(refused);
                }
                if record.whole {
                    return Err(Failure::Refused(format!(
                        "{} carried a LUKS header when it was attached, and has none now: it is not formatted a second time; `ebb undo {}`, and attach it with --header-backup and a copy of the header",
                        record.place, record.name
                    )));
                }
                on.host.is_blank(&on.sys.at(Path::new(&device))).map_err(|why| {
                    Failure::Refused(format!(
                        "{} is not encrypted, because it is not blank: {why}",
                        record.place
                    ))
                })?;
                return Ok(Now::Absent);
            }
        }
        Ok(Now::Stands)
    }

    fn make(&self, on: &Attachments<'_>, record: &mut Record) -> Result<(), Failure> {
        let (Some(encrypted), Some(device)) = (&record.encryption, &record.device) else { return Ok(()) };
        let key = on.host.key(true)?;
        let label = format!("ebb-{}", record.name);
        let mut arguments = vec![
            "luksFormat",
            "--batch-mode",
            "--type",
            "luks2",
            "--uuid",
            &encrypted.uuid,
            "--label",
            &label,
        ];
        if encrypted.integrity {
            arguments.extend(INTEGRITY);
            (on.tell)("authenticating every sector: all of the volume is written once");
        }
        arguments.extend(["--key-file", "-", device]);
        on.with_key("cryptsetup", &arguments, &key)
    }

    fn unmake(&self, on: &Attachments<'_>, record: &Record, left: &mut Vec<String>) -> Result<(), Failure> {
        if record.whole { Ok(()) } else { on.erase(record, left) }
    }
}

/// The copy of the header in a file.
pub(super) struct Copy;

impl Resource<Attachment> for Copy {
    fn state(&self, on: &Attachments<'_>, record: &mut Record) -> Result<Now, Failure> {
        let Some(path) = record.encryption.as_ref().and_then(|encrypted| encrypted.copy.clone()) else {
            return Ok(Now::Stands);
        };
        let is_there = path.symlink_metadata().is_ok();
        on.set(record, |encrypted| {
            if encrypted.backup.as_ref().is_none_or(|backup| backup.path != path) {
                encrypted.backup = Some(Backup { path, made: None });
            }
        });
        Ok(if is_there { Now::Stands } else { Now::Absent })
    }

    fn make(&self, on: &Attachments<'_>, record: &mut Record) -> Result<(), Failure> {
        let copy = record.encryption.as_ref().and_then(|encrypted| encrypted.copy.clone());
        let (Some(path), Some(device)) = (copy.as_deref(), record.device.as_deref()) else { return Ok(()) };
        on.remove_aside(&record.name)?;
        let aside = on.header_aside(&record.name);
        // Without SSH no process has made it.
        let place = on.running(&record.name);
        Directory::make_all(&place).map_err(|error| Failure::file(&place, error))?;
        let text = aside.to_string_lossy().into_owned();
        let arguments = ["luksHeaderBackup", device, "--header-backup-file", &text];
        (on.tell)(&format!("cryptsetup luksHeaderBackup {device} --header-backup-file {}", path.shown()));
        build::run_with(on.runner, "cryptsetup", &arguments, b"")?;
        let content =
            read::bytes(&aside, HEADER_MAX).map_err(|error| Failure::file(&aside, format!("it {error}")));
        let removed = on.remove_aside(&record.name);
        let content = content.and_then(|content| removed.map(|()| content))?;
        let fail = |error: std::io::Error| {
            Failure::file(path, format!("the copy of the header cannot be written there: {error}"))
        };
        own::create(path, 0o600, &content).map_err(fail)?;
        let id = id_of(&path.symlink_metadata().map_err(fail)?);
        let backup = Backup { path: path.to_owned(), made: Some(id) };
        on.set(record, |encrypted| encrypted.backup = Some(backup));
        Ok(())
    }

    fn unmake(&self, on: &Attachments<'_>, record: &Record, _: &mut Vec<String>) -> Result<(), Failure> {
        if record.whole {
            return Ok(());
        }
        on.remove_aside(&record.name)?;
        let Some(encrypted) = &record.encryption else { return Ok(()) };
        let Some(Backup { path, made }) = &encrypted.backup else { return Ok(()) };
        let (directory, name) = Directory::of(path).map_err(|error| Failure::file(path, error))?;
        let id = match (made, directory.look(&name)) {
            (Some(id), _) => *id,
            // Nothing was there before this was begun: what is there now and is a copy of this very header was made by it.
            (None, Ok(Some(found))) if on.uuid_of(path).is_ok_and(|uuid| uuid == encrypted.uuid) => {
                id_of(&found)
            }
            _ => return Ok(()),
        };
        directory.remove(&name, &id).map(drop).map_err(|error| Failure::file(path, error))
    }
}

/// The mapping that decrypts it.
pub(super) struct Mapping;

impl Resource<Attachment> for Mapping {
    fn state(&self, on: &Attachments<'_>, record: &mut Record) -> Result<Now, Failure> {
        let Some(encrypted) = &record.encryption else { return Ok(Now::Stands) };
        let name = &record.name;
        match on.mapping(name)? {
            None => Ok(Now::Absent),
            Some(open) if open == encrypted.uuid.replace('-', "") => {
                record.of.path = Some(format!("/dev/mapper/{name}"));
                Ok(Now::Stands)
            }
            Some(open) => Ok(Now::Others(format!(
                "/dev/mapper/{name} is the mapping of another LUKS header ({open}): attach it under another --name"
            ))),
        }
    }

    fn make(&self, on: &Attachments<'_>, record: &mut Record) -> Result<(), Failure> {
        let (Some(encrypted), Some(device)) = (record.encryption.clone(), record.device.clone()) else {
            return Ok(());
        };
        // A key that was asked for a moment ago is known.
        let key = on.host.key(false)?;
        let new = !record.whole && record.made.contains("header");
        let header = encrypted.header.as_ref().map(|path| path.to_string_lossy().into_owned());
        let mut arguments = vec!["open", "--batch-mode", "--type", "luks2", "--key-file", "-"];
        if let Some(header) = &header {
            arguments.extend(["--header", header]);
        }
        arguments.extend([device.as_str(), &record.name]);
        on.with_key("cryptsetup", &arguments, &key).map_err(|error| match error {
            // Status 2: no key of its fits (cryptsetup(8), return codes).
            Failure::Build(BuildError::Command { status: Some(2), .. }) if !new => Failure::Refused(format!(
                "the key does not open {}: give the one that it was encrypted with",
                record.place
            )),
            other => other,
        })?;
        record.path = Some(format!("/dev/mapper/{}", record.name));
        Ok(())
    }

    fn unmake(&self, on: &Attachments<'_>, record: &Record, _: &mut Vec<String>) -> Result<(), Failure> {
        let Some(open) = on.mapping(&record.name).unwrap_or(None) else { return Ok(()) };
        if record.encryption.as_ref().is_none_or(|encrypted| open != encrypted.uuid.replace('-', "")) {
            return Ok(());
        }
        let undo = BuildUndo::CloseCrypt { name: record.name.clone(), of: None };
        (on.tell)(&undo.to_string());
        build::undo(&on.sys, on.runner, &undo)?;
        Ok(())
    }

    fn unmaking(&self, on: &Attachments<'_>, record: &Record) -> Vec<String> {
        let close = format!("cryptsetup close {}", record.name);
        matches!(on.mapping(&record.name), Ok(Some(_))).then_some(close).into_iter().collect()
    }
}

impl Attachments<'_> {
    /// What is on the device at `path` now.
    pub(super) fn content(&self, path: &str) -> Content {
        signature::read(self.runner, &self.sys.at(Path::new(path)))
    }

    /// What of LUKS the device at `path` carries.
    pub(super) fn carried(&self, path: &str) -> Carried {
        match self.content(path) {
            Content::Signature(found) if found.kind == LUKS => {
                Carried::Header(found.uuid.unwrap_or_default())
            }
            Content::Signature(found) => Carried::Other(found.kind),
            Content::PartitionTable(kind) => Carried::Other(format!("a partition table ({kind})")),
            Content::Unknown(why) => Carried::Other(format!("what cannot be told ({why})")),
            Content::Nothing => Carried::Nothing,
        }
    }

    /// The uuid of the LUKS mapping `name`, without hyphens as the device mapper has it; nothing where there is no mapping, an error where
    /// the name is that of another kind of mapping.
    pub(super) fn mapping(&self, name: &str) -> Result<Option<String>, Failure> {
        let Some(found) = identity::mapping(&self.sys, name) else { return Ok(None) };
        match found.luks() {
            Some(uuid) => Ok(Some(uuid.to_owned())),
            None => Err(Failure::Refused(format!(
                "/dev/mapper/{name} is something else already ({}): attach it under another --name",
                found.uuid
            ))),
        }
    }

    fn set(&self, record: &mut Record, change: impl FnOnce(&mut Encrypted)) {
        if let Some(encrypted) = &mut record.encryption {
            change(encrypted);
        }
    }

    /// The uuid of the LUKS header in the file `path`.
    pub(super) fn uuid_of(&self, path: &Path) -> Result<String, Failure> {
        let text = path.to_string_lossy().into_owned();
        let said = self.runner.run("cryptsetup", &["luksUUID", &text])?;
        match said.status {
            Some(0) => Ok(said.text().trim().to_owned()),
            _ => Err(Failure::Refused(format!(
                "{} is there and is no copy of a LUKS header: name a file that is not there yet, or the copy",
                path.shown()
            ))),
        }
    }

    /// Refuses a header that would have data written as they are: who has the other host can write any header there, and cryptsetup takes
    /// one whose key slots are "encrypted" with nothing for any key.
    fn check_header(&self, record: &Record, device: &str) -> Result<(), Failure> {
        let said = build::run(self.runner, "cryptsetup", &["luksDump", "--dump-json-metadata", device])?;
        match said.contains("cipher_null") {
            false => Ok(()),
            true => Err(Failure::Refused(format!(
                "the LUKS header on {} encrypts nothing (cipher_null): it is not what was made here; attach it with --header-backup and the copy of its own header",
                record.place
            ))),
        }
    }

    fn with_key(&self, program: &str, arguments: &[&str], key: &[u8]) -> Result<(), Failure> {
        (self.tell)(&Line(program, arguments).to_string());
        build::run_with(self.runner, program, arguments, key)?;
        Ok(())
    }

    /// Where cryptsetup writes a copy of a header first: in memory, root's alone.
    pub(super) fn header_aside(&self, name: &str) -> PathBuf {
        self.running(name).join("header")
    }

    /// Removes that copy, and its directory where nothing else is there.
    fn remove_aside(&self, name: &str) -> Result<(), Failure> {
        let aside = self.header_aside(name);
        own::remove(&aside).map_err(|error| Failure::file(&aside, error))?;
        self.remove_running(name);
        Ok(())
    }

    /// Makes what a new attachment has begun to write look blank again, where it can be reached, and where it is what was written: after a
    /// kill somebody may have used the volume.
    pub(super) fn erase(&self, record: &Record, left: &mut Vec<String>) -> Result<(), Failure> {
        let device = record.device.as_deref().filter(|_| self.session_state(record) == Some(true));
        let Some(device) = device else {
            left.push(format!(
                "what this attach has written to {} stays there, because it is not connected: look at it there before it is used (`blkid -p DEVICE`)",
                record.place
            ));
            return Ok(());
        };
        if let Some(what) = self.foreign(record, device) {
            left.push(format!("{device} carries {what}, which this attach has not put there: it stays"));
            return Ok(());
        }
        (self.tell)(&format!("erasing what was begun on {device}"));
        self.host
            .erase(&self.sys.at(Path::new(device)))
            .map_err(|why| Failure::Refused(format!("what was begun on {device} cannot be erased: {why}")))?;
        (self.boundary)();
        Ok(())
    }

    /// What `device` carries that `record` has not put there; nothing where it carries nothing, or that.
    fn foreign(&self, record: &Record, device: &str) -> Option<String> {
        let header = record.encryption.as_ref().map(|encrypted| encrypted.uuid.as_str());
        let label = record.mount.as_ref().and_then(|mount| mount.label.as_deref());
        match self.content(device) {
            Content::Nothing => None,
            Content::Signature(found) if found.kind == LUKS && found.uuid.as_deref() == header => None,
            Content::Signature(found) if label.is_some() && found.label.as_deref() == label => None,
            Content::Signature(found) => Some(found.kind),
            Content::PartitionTable(kind) => Some(format!("a partition table ({kind})")),
            Content::Unknown(why) => Some(format!("what cannot be told ({why})")),
        }
    }

    /// How the header is put back from its copy, as one types it.
    pub fn restore_command(record: &Record) -> Option<String> {
        let backup = record.encryption.as_ref()?.backup.as_ref()?;
        Some(format!(
            "cryptsetup luksHeaderRestore {} --header-backup-file {}",
            record.device.as_deref()?,
            backup.path.shown()
        ))
    }
}
