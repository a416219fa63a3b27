//! What is put on the array: encryption and a file system.

use super::identity::tag;
use super::{
    BuildAction, BuildPlanError, BuildStep, BuildUndo, Geometry, MOUNTS, Mounted, Opened, Planner, Purpose,
};
use crate::shown::Shown;
use crate::stack::{Encryption, EncryptionFormat, Filesystem};
use std::path::{Path, PathBuf};

/// Blocks of the ext file systems; said, because small ones would get smaller blocks.
const EXT_BLOCK: u64 = 4096;

/// Iterations of the key derivation. What is encrypted lives for one trial and the derivation takes no part in
/// I/O, so the least that cryptsetup takes will do, instead of seconds for every build.
const PBKDF_ITERATIONS: &str = "1000";

impl Planner<'_> {
    /// Encrypts `device` and returns the device with the plain text.
    pub(super) fn encrypt(
        &mut self,
        device: &str,
        encryption: &Encryption,
    ) -> Result<String, BuildPlanError> {
        let key_file = match &encryption.key_file {
            Some(path) => path.to_str().ok_or_else(|| BuildPlanError::Path { path: path.shown() })?,
            // Standard input.
            None => "-",
        };
        let label = self.identity("crypt").label();
        let EncryptionFormat::Luks2 = encryption.format;
        let undo = BuildUndo::WipeContent { device: device.to_owned(), label: label.clone(), sequence: None };
        let uuid = self.identity("crypt").uuid();
        let mut arguments = vec!["luksFormat", "--batch-mode", "--type", "luks2"];
        match self.site.purpose {
            Purpose::Trial => {
                arguments.extend(["--pbkdf", "pbkdf2", "--pbkdf-force-iterations", PBKDF_ITERATIONS]);
            }
            Purpose::Lasting { .. } => arguments.extend(["--uuid", &uuid]),
        }
        let sector_size = encryption.sector_size.map(|size| size.to_string());
        if let Some(size) = &sector_size {
            arguments.extend(["--sector-size", size]);
        }
        arguments.extend(["--label", &label, "--key-file", key_file, device]);
        self.run_with_key(encryption, &arguments, undo);
        let name = match self.lasting_name(0) {
            Some(name) => name,
            None => format!("ebb_{}_crypt", tag(self.site.run)),
        };
        let of = self.is_lasting().then(|| Opened { device: device.to_owned(), uuid });
        let undo = BuildUndo::CloseCrypt { name: name.clone(), of };
        let mut arguments = vec!["open", "--batch-mode", "--type", "luks2"];
        arguments.extend(encryption.no_read_workqueue.then_some("--perf-no_read_workqueue"));
        arguments.extend(encryption.no_write_workqueue.then_some("--perf-no_write_workqueue"));
        arguments.extend(["--key-file", key_file, device, &name]);
        self.run_with_key(encryption, &arguments, undo);
        if self.is_lasting() {
            return Ok(format!("/dev/mapper/{name}"));
        }
        self.notes.push(
            "the key derivation is the quickest that cryptsetup takes: it guards nothing beyond the trial, and I/O is \
             as fast as with any other"
                .to_owned(),
        );
        Ok(format!("/dev/mapper/{name}"))
    }

    /// Runs cryptsetup, with the key on its standard input unless it is in a file.
    fn run_with_key(&mut self, encryption: &Encryption, arguments: &[&str], undo: BuildUndo) {
        let (program, arguments) =
            ("cryptsetup".to_owned(), arguments.iter().map(|&a| a.to_owned()).collect());
        let action = match encryption.key_file {
            Some(_) => BuildAction::Run { program, arguments },
            None => BuildAction::RunWithKey { program, arguments },
        };
        self.steps.push(BuildStep { action, undo: Some(undo) });
    }

    /// Makes a file system on `device`.
    pub(super) fn make_file_system(&mut self, filesystem: Filesystem, device: &str) {
        let label = self.identity("file system").label();
        let geometry = Geometry::of(&self.design.layout);
        // What stays may be discarded before, and may write its tables while it is used.
        let lasting = self.is_lasting();
        let mut arguments = match filesystem {
            Filesystem::Ext2 | Filesystem::Ext3 | Filesystem::Ext4 => ext(filesystem, geometry, lasting),
            Filesystem::Xfs => xfs(geometry, lasting),
            Filesystem::Btrfs => {
                let keep = (!lasting).then_some("-K");
                ["-q", "-f"].into_iter().chain(keep).map(str::to_owned).collect()
            }
            Filesystem::Jfs => vec!["-q".into()],
        };
        if lasting {
            let uuid = self.identity("file system").uuid();
            match filesystem {
                Filesystem::Ext2 | Filesystem::Ext3 | Filesystem::Ext4 | Filesystem::Btrfs => {
                    arguments.extend(["-U".into(), uuid]);
                }
                Filesystem::Xfs => arguments.extend(["-m".into(), format!("uuid={uuid}")]),
                // mkfs.jfs draws its own: it is found by its label.
                Filesystem::Jfs => {}
            }
        }
        arguments.extend(["-L".into(), label.clone(), device.to_owned()]);
        let undo = BuildUndo::WipeContent { device: device.to_owned(), label, sequence: None };
        self.run(&format!("mkfs.{}", filesystem.as_ref()), &arguments, Some(undo));
    }

    /// Mounts the file system on `device`; where.
    pub(super) fn mount(&mut self, filesystem: Filesystem, device: &str) -> Result<PathBuf, BuildPlanError> {
        let mountpoint = match self.site.purpose {
            Purpose::Trial => {
                let root = PathBuf::from(MOUNTS);
                let mountpoint = root.join(tag(self.site.run));
                for directory in [root, mountpoint.clone()] {
                    let undo = BuildUndo::RemoveDirectory(directory.clone());
                    let action = BuildAction::MakeDirectory(directory);
                    self.steps.push(BuildStep { action, undo: Some(undo) });
                }
                mountpoint
            }
            Purpose::Lasting { mountpoint, .. } => {
                let mountpoint = mountpoint.ok_or(BuildPlanError::NoMountpoint)?;
                self.make_mountpoint(mountpoint)?;
                mountpoint.to_owned()
            }
        };
        let path = mountpoint.to_string_lossy().into_owned();
        let mut arguments: Vec<&str> = vec!["-t", filesystem.as_ref()];
        if let Some(options) = &self.design.stack.mount_options {
            arguments.extend(["-o", options]);
        }
        arguments.extend([device, path.as_str()]);
        let undo = BuildUndo::Unmount {
            mountpoint: mountpoint.clone(),
            from: Some(Mounted {
                device: device.to_owned(),
                fstype: Some(filesystem.as_ref().to_owned()),
                number: None,
            }),
        };
        self.run("mount", &arguments, Some(undo));
        Ok(mountpoint)
    }

    /// Makes the directories of a mount point that stays; those that are there already are left as they are.
    fn make_mountpoint(&mut self, mountpoint: &Path) -> Result<(), BuildPlanError> {
        let mut above: Vec<&Path> =
            mountpoint.ancestors().filter(|directory| directory.parent().is_some()).collect();
        above.reverse();
        for directory in above {
            let path = directory.to_str().ok_or_else(|| BuildPlanError::Path { path: directory.shown() })?;
            let undo = BuildUndo::RemoveDirectory(directory.to_owned());
            self.run("mkdir", &["--mode=755", path], Some(undo));
        }
        Ok(())
    }
}

/// For a trial without discards, which would throw away what fills the members; with all tables written now, so that no
/// thread writes them during it.
fn ext(filesystem: Filesystem, geometry: Option<Geometry>, lasting: bool) -> Vec<String> {
    let mut extended = Vec::new();
    if !lasting {
        extended.extend(["nodiscard".to_owned(), "lazy_itable_init=0".to_owned()]);
        if filesystem != Filesystem::Ext2 {
            extended.push("lazy_journal_init=0".to_owned());
        }
    }
    // A stride counts blocks; a chunk that is no whole number of them has none.
    let strides = geometry.filter(|geometry| geometry.chunk.0.is_multiple_of(EXT_BLOCK));
    if let Some(Geometry { chunk, width }) = strides {
        let stride = chunk.0 / EXT_BLOCK;
        extended.push(format!("stride={stride}"));
        extended.push(format!("stripe_width={}", stride.saturating_mul(width)));
    }
    let mut arguments = vec!["-q".into(), "-F".into(), "-b".into(), EXT_BLOCK.to_string()];
    if !extended.is_empty() {
        arguments.extend(["-E".into(), extended.join(",")]);
    }
    arguments
}

/// For a trial without discards, see [`ext`]. XFS has nothing lazy that writes later.
fn xfs(geometry: Option<Geometry>, lasting: bool) -> Vec<String> {
    let keep = (!lasting).then_some("-K");
    let mut arguments: Vec<String> = ["-q", "-f"].into_iter().chain(keep).map(str::to_owned).collect();
    // XFS takes units of whole blocks.
    let data = match geometry.filter(|geometry| geometry.chunk.0.is_multiple_of(4096)) {
        Some(Geometry { chunk, width }) => format!("su={},sw={width}", chunk.0),
        None => "noalign".to_owned(),
    };
    arguments.extend(["-d".into(), data]);
    arguments
}
