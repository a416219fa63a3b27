//! What is put on the array: encryption and a file system.

use super::identity::tag;
use super::{BuildAction, BuildPlanError, BuildStep, BuildUndo, Geometry, MOUNTS, Mounted, Planner};
use crate::shown::Shown;
use crate::stack::{Encryption, EncryptionFormat, Filesystem};
use std::path::PathBuf;

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
        let undo = BuildUndo::WipeContent { device: device.to_owned(), label: label.clone() };
        self.run_with_key(
            encryption,
            &[
                "luksFormat",
                "--batch-mode",
                "--type",
                "luks2",
                "--pbkdf",
                "pbkdf2",
                "--pbkdf-force-iterations",
                PBKDF_ITERATIONS,
                "--label",
                &label,
                "--key-file",
                key_file,
                device,
            ],
            undo,
        );
        let name = format!("ebb_{}_crypt", tag(self.site.run));
        let undo = BuildUndo::CloseCrypt { name: name.clone() };
        let arguments = ["open", "--batch-mode", "--type", "luks2", "--key-file", key_file, device, &name];
        self.run_with_key(encryption, &arguments, undo);
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

    /// Makes a file system on `device` and mounts it.
    pub(super) fn file_system(&mut self, filesystem: Filesystem, device: &str) -> PathBuf {
        let label = self.identity("file system").label();
        let geometry = Geometry::of(&self.design.layout);
        let mut arguments = match filesystem {
            Filesystem::Ext2 | Filesystem::Ext3 | Filesystem::Ext4 => ext(filesystem, geometry),
            Filesystem::Xfs => xfs(geometry),
            Filesystem::Btrfs => vec!["-q".into(), "-f".into(), "-K".into()],
            Filesystem::Jfs => vec!["-q".into()],
        };
        arguments.extend(["-L".into(), label.clone(), device.to_owned()]);
        let undo = BuildUndo::WipeContent { device: device.to_owned(), label };
        self.run(&format!("mkfs.{}", filesystem.as_ref()), &arguments, Some(undo));

        let root = PathBuf::from(MOUNTS);
        let mountpoint = root.join(tag(self.site.run));
        for directory in [root, mountpoint.clone()] {
            let undo = BuildUndo::RemoveDirectory(directory.clone());
            self.steps.push(BuildStep { action: BuildAction::MakeDirectory(directory), undo: Some(undo) });
        }
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
        mountpoint
    }
}

/// Without discards, which would throw away what fills the members; with all tables written now, so that no
/// thread writes them during a trial.
fn ext(filesystem: Filesystem, geometry: Option<Geometry>) -> Vec<String> {
    let mut extended = vec!["nodiscard".to_owned(), "lazy_itable_init=0".to_owned()];
    if filesystem != Filesystem::Ext2 {
        extended.push("lazy_journal_init=0".to_owned());
    }
    // A stride counts blocks; a chunk that is no whole number of them has none.
    let strides = geometry.filter(|geometry| geometry.chunk.0.is_multiple_of(EXT_BLOCK));
    if let Some(Geometry { chunk, width }) = strides {
        let stride = chunk.0 / EXT_BLOCK;
        extended.push(format!("stride={stride}"));
        extended.push(format!("stripe_width={}", stride.saturating_mul(width)));
    }
    vec!["-q".into(), "-F".into(), "-b".into(), EXT_BLOCK.to_string(), "-E".into(), extended.join(",")]
}

/// Without discards, see [`ext`]. XFS has nothing lazy that writes later.
fn xfs(geometry: Option<Geometry>) -> Vec<String> {
    let mut arguments: Vec<String> = ["-q", "-f", "-K"].map(str::to_owned).to_vec();
    // XFS takes units of whole blocks.
    let data = match geometry.filter(|geometry| geometry.chunk.0.is_multiple_of(4096)) {
        Some(Geometry { chunk, width }) => format!("su={},sw={width}", chunk.0),
        None => "noalign".to_owned(),
    };
    arguments.extend(["-d".into(), data]);
    arguments
}
