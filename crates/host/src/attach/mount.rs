//! A file system in what was attached: made where that is new, and mounted.

use super::{Attacher, Failure, Wanted};
use crate::mounting;
use crate::probe::Content;
use ebbtide_model::experiment::Design;
use ebbtide_model::layout::LayoutNode;
use ebbtide_model::plan::build::{self, BuildAction, BuildUndo, Purpose, Site};
use ebbtide_model::stack::{Filesystem, Stack};
use ebbtide_provision::attached::{Phase, Record, Step};
use std::path::Path;

/// What a mount is told, beside its file system's own: that it goes before the network does.
const MOUNT_OPTIONS: &str = "_netdev";

impl Attacher<'_> {
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
        let carried = carried.or_else(|| self.known(&wanted.place)?.0.carries());
        let (mapping, carried) =
            (format!("/dev/mapper/{}", wanted.name), carried.map(|uuid| format!("UUID={uuid}")));
        let device = known.as_ref().and_then(|record| record.device.as_deref());
        let own: Vec<&str> =
            [Some(mapping.as_str()), carried.as_deref(), device].into_iter().flatten().collect();
        mounting::check(&self.sys, directory, &own).map_err(|unfit| Failure::Refused(unfit.to_string()))
    }

    /// Mounts what was attached, after making a file system where that is new.
    pub(super) fn mount(&self, record: &mut Record) -> Result<(), Failure> {
        let (Some(mount), Some(path)) = (record.mount.clone(), record.path.clone()) else { return Ok(()) };
        if self.is_mounted(record, &mount.directory) {
            return Ok(());
        }
        let kind = match self.content(&path) {
            Content::Signature(found) if found.usage.as_deref() == Some("filesystem") => found.kind,
            Content::Nothing => {
                self.may_format(record, &path)?;
                self.make_file_system(record, &path, mount.wanted)?;
                mount.wanted.as_ref().to_owned()
            }
            Content::Signature(found) => return Err(self.no_file_system(record, &found.kind)),
            Content::PartitionTable(kind) => {
                return Err(self.no_file_system(record, &format!("a partition table ({kind})")));
            }
            Content::Unknown(why) => {
                return Err(self.no_file_system(record, &format!("what cannot be told ({why})")));
            }
        };
        let made: Vec<_> = mount
            .directory
            .ancestors()
            .filter(|directory| directory.parent().is_some() && !self.sys.at(directory).exists())
            .map(Path::to_owned)
            .collect();
        if let Some(mount) = &mut record.mount {
            mount.filesystem = Some(kind.clone());
            let known = std::mem::take(&mut mount.made);
            mount.made = made.into_iter().rev().filter(|new| !known.contains(new)).collect();
            mount.made.splice(0..0, known);
        }
        self.begin(record, Step::Mount)?;
        let directory = mount.directory.to_string_lossy().into_owned();
        for new in record.mount.iter().flat_map(|mount| &mount.made) {
            if !self.sys.at(new).exists() {
                self.run("mkdir", &["--mode=755", &new.to_string_lossy()])?;
                (self.boundary)();
            }
        }
        self.run("mount", &["-t", &kind, "-o", MOUNT_OPTIONS, &path, &directory])?;
        (self.boundary)();
        Ok(())
    }

    fn no_file_system(&self, record: &Record, what: &str) -> Failure {
        Failure::Refused(format!(
            "{} carries {what}, which is no file system that can be mounted: attach it without --mount, and mount what is in it",
            record.place
        ))
    }

    /// Whether a file system may be made on `path`: on a volume that was blank when this attachment began, or in one that it has just
    /// encrypted.
    fn may_format(&self, record: &Record, path: &str) -> Result<(), Failure> {
        if record.phase != Phase::Attaching {
            return Err(Failure::Refused(format!(
                "{} had a file system when it was attached, and has none now: none is made a second time; `ebb undo {}` takes away what is left here",
                record.place, record.name
            )));
        }
        if record.made.contains(&Step::Format) || record.begun.contains(&Step::Filesystem) {
            return Ok(());
        }
        if record.encryption.is_some() {
            return Err(Failure::Refused(format!(
                "what {} decrypts to carries no file system, and it was not encrypted by this attach: nothing is made in it; attach it without --mount, and look at what is there (`blkid -p {path}`, `hexdump -C {path} | head`)",
                record.place
            )));
        }
        self.around.is_blank(&self.sys.at(Path::new(path))).map_err(|why| {
            Failure::Refused(format!(
                "no file system is made on {}, because it is not blank: {why}",
                record.place
            ))
        })
    }

    fn make_file_system(
        &self,
        record: &mut Record,
        path: &str,
        filesystem: Filesystem,
    ) -> Result<(), Failure> {
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
        let plan = build::build(&design, &site).map_err(|error| Failure::Refused(error.to_string()))?;
        for step in plan.steps {
            let (BuildAction::Run { program, arguments }, Some(BuildUndo::WipeContent { label, .. })) =
                (&step.action, &step.undo)
            else {
                continue;
            };
            if let Some(mount) = &mut record.mount {
                mount.label = Some(label.clone());
            }
            self.begin(record, Step::Filesystem)?;
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            self.run(program, &arguments)?;
            (self.boundary)();
            record.made.insert(Step::Filesystem);
            self.write(record)?;
        }
        Ok(())
    }
}
