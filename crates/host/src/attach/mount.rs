//! A file system in what was attached: made where that is new, and mounted.

use super::{Attachments, Wanted};
use crate::build::{self, Outcome};
use crate::made::{Failure, Now, Resource};
use crate::mounting;
use crate::probe::Content;
use ebbtide_model::experiment::Design;
use ebbtide_model::layout::LayoutNode;
use ebbtide_model::plan::build::{self as plan, BuildAction, BuildUndo, Purpose, Site};
use ebbtide_model::shown::Shown;
use ebbtide_model::stack::Stack;
use ebbtide_provision::attached::{Attachment, MountedAt, Record};
use std::path::{Path, PathBuf};

/// What a mount is told, beside its file system's own: that it goes before the network does.
const MOUNT_OPTIONS: &str = "_netdev";

/// The file system, made in what is blank.
pub(super) struct FileSystem;

impl Resource<Attachment> for FileSystem {
    fn state(&self, on: &Attachments<'_>, record: &mut Record) -> Result<Now, Failure> {
        let (Some(mount), Some(path)) = (record.mount.clone(), record.path.clone()) else {
            return Ok(Now::Stands);
        };
        if on.is_mounted(record, &mount.directory) {
            return Ok(Now::Stands);
        }
        let what = match on.content(&path) {
            Content::Signature(found) if found.usage.as_deref() == Some("filesystem") => {
                on.note_file_system(record, &found.kind);
                return Ok(Now::Stands);
            }
            Content::Nothing => return on.may_format(record, &path).map(|()| Now::Absent),
            Content::Signature(found) => found.kind,
            Content::PartitionTable(kind) => format!("a partition table ({kind})"),
            Content::Unknown(why) => format!("what cannot be told ({why})"),
        };
        Err(Failure::Refused(format!(
            "{} carries {what}, which is no file system that can be mounted: attach it without --mount, and mount what is in it",
            record.place
        )))
    }

    fn make(&self, on: &Attachments<'_>, record: &mut Record) -> Result<(), Failure> {
        let (Some(MountedAt { wanted: filesystem, .. }), Some(path)) =
            (record.mount.clone(), record.path.clone())
        else {
            return Ok(());
        };
        let design = Design {
            name: record.name.clone(),
            layout: LayoutNode::Volume(0),
            stack: Stack { filesystem: Some(filesystem), ..Stack::default() },
        };
        let directory = record.mount.as_ref().map(|mount| mount.directory.clone());
        let site = Site {
            run: &record.id.clone(),
            build: 0,
            devices: &[path.to_owned()],
            md_numbers: &[],
            purpose: Purpose::Lasting { name: &record.name.clone(), mountpoint: directory.as_deref() },
        };
        let steps = plan::build(&design, &site).map_err(|error| Failure::Refused(error.to_string()))?;
        for step in steps.steps {
            let (BuildAction::Run { program, arguments }, Some(BuildUndo::WipeContent { label, .. })) =
                (&step.action, &step.undo)
            else {
                continue;
            };
            if let Some(mount) = &mut record.mount {
                mount.label = Some(label.clone());
            }
            on.write(record)?;
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            on.run(program, &arguments)?;
        }
        on.note_file_system(record, filesystem.as_ref());
        Ok(())
    }

    fn unmake(&self, on: &Attachments<'_>, record: &Record, left: &mut Vec<String>) -> Result<(), Failure> {
        // What is in a mapping goes with the header.
        if record.whole || record.encryption.is_some() { Ok(()) } else { on.erase(record, left) }
    }
}

/// Directories of the mount point, and the mount.
pub(super) struct Mount;

impl Resource<Attachment> for Mount {
    fn state(&self, on: &Attachments<'_>, record: &mut Record) -> Result<Now, Failure> {
        let Some(directory) = record.mount.as_ref().map(|mount| mount.directory.clone()) else {
            return Ok(Now::Stands);
        };
        if on.is_mounted(record, &directory) {
            return Ok(Now::Stands);
        }
        let is_new = |directory: &&Path| directory.parent().is_some() && !on.sys.at(directory).exists();
        let new: Vec<PathBuf> = directory.ancestors().filter(is_new).map(Path::to_owned).collect();
        if let Some(mount) = &mut record.mount {
            for new in new.into_iter().rev() {
                if !mount.made.contains(&new) {
                    mount.made.push(new);
                }
            }
        }
        Ok(Now::Absent)
    }

    fn make(&self, on: &Attachments<'_>, record: &mut Record) -> Result<(), Failure> {
        let (Some(mount), Some(path)) = (&record.mount, &record.path) else { return Ok(()) };
        for new in mount.made.iter().filter(|new| !on.sys.at(new).exists()) {
            on.run("mkdir", &["--mode=755", &new.to_string_lossy()])?;
            (on.boundary)();
        }
        let (kind, directory) =
            (mount.filesystem.as_deref().unwrap_or_default(), mount.directory.to_string_lossy());
        on.run("mount", &["-t", kind, "-o", MOUNT_OPTIONS, path, &directory]).map(drop)
    }

    fn unmake(&self, on: &Attachments<'_>, record: &Record, left: &mut Vec<String>) -> Result<(), Failure> {
        let Some(mount) = &record.mount else { return Ok(()) };
        let undo = BuildUndo::Unmount { mountpoint: mount.directory.clone(), from: on.mounted(record) };
        match build::undo(&on.sys, on.runner, &undo)? {
            Outcome::Done => (on.tell)(&undo.to_string()),
            Outcome::Before => {}
            Outcome::Left(what) => left.push(what),
        }
        for directory in mount.made.iter().rev() {
            match build::undo(&on.sys, on.runner, &BuildUndo::RemoveDirectory(directory.clone())) {
                Ok(_) => {}
                // Somebody uses it for something of their own by now.
                Err(error) => {
                    left.push(format!("the directory {} stays: {error}", directory.to_string_lossy()))
                }
            }
        }
        Ok(())
    }

    fn unmaking(&self, on: &Attachments<'_>, record: &Record) -> Vec<String> {
        let mounted = record.mount.as_ref().filter(|mount| on.is_mounted(record, &mount.directory));
        mounted.map(|mount| format!("umount {}", mount.directory.shown())).into_iter().collect()
    }
}

impl Attachments<'_> {
    /// Asks whether what is `wanted` can be mounted where it is wanted, before anything else is done; touches nothing.
    ///
    /// # Errors
    /// Why not, and what to write instead.
    pub fn may_mount(&self, wanted: &Wanted) -> Result<(), Failure> {
        let Some((directory, _)) = &wanted.mount else { return Ok(()) };
        // Who may not read the record is no reason against a look.
        let known = self.record(&wanted.name).ok().flatten();
        if known.as_ref().is_some_and(|record| self.is_mounted(record, directory)) {
            return Ok(());
        }
        // A line of fstab for it may be its user's.
        let carried = known.as_ref().and_then(|record| record.carries.clone());
        let carried = carried.or_else(|| self.remembered(&wanted.place)?.0.carries());
        let (mapping, carried) =
            (format!("/dev/mapper/{}", wanted.name), carried.map(|uuid| format!("UUID={uuid}")));
        let device = known.as_ref().and_then(|record| record.device.as_deref());
        let own: Vec<&str> =
            [Some(mapping.as_str()), carried.as_deref(), device].into_iter().flatten().collect();
        mounting::check(&self.sys, directory, &own).map_err(|unfit| Failure::Refused(unfit.to_string()))
    }

    fn note_file_system(&self, record: &mut Record, kind: &str) {
        if let Some(mount) = &mut record.mount {
            mount.filesystem = Some(kind.to_owned());
        }
    }

    /// Whether a file system may be made on `path`: on a volume that was blank when this attachment began, or in one that it has just
    /// encrypted.
    fn may_format(&self, record: &Record, path: &str) -> Result<(), Failure> {
        if record.whole {
            return Err(Failure::Refused(format!(
                "{} had a file system when it was attached, and has none now: none is made a second time; `ebb undo {}` takes away what is left here",
                record.place, record.name
            )));
        }
        if record.made.contains("header") {
            return Ok(());
        }
        if record.encryption.is_some() {
            return Err(Failure::Refused(format!(
                "what {} decrypts to carries no file system, and it was not encrypted by this attach: nothing is made in it; attach it without --mount, and look at what is there (`blkid -p {path}`, `hexdump -C {path} | head`)",
                record.place
            )));
        }
        self.host.is_blank(&self.sys.at(Path::new(path))).map_err(|why| {
            Failure::Refused(format!(
                "no file system is made on {}, because it is not blank: {why}",
                record.place
            ))
        })
    }
}
