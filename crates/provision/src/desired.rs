//! What an array that stays should be: everything that is made for it, known before anything is.

use crate::can_lose;
use crate::files::{self, Part};
use crate::system::System;
use ebbtide_model::experiment::{Experiment, VolumeSource};
use ebbtide_model::layout::LayoutNode;
use ebbtide_model::plan::build::{
    self, Build, BuildAction, BuildPlanError, BuildStep, BuildUndo, Identity, Purpose, Site,
};
use ebbtide_model::rbd::Image;
use ebbtide_model::shown::Shown;
use ebbtide_model::stack::{Cache, Filesystem};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use strum::{AsRefStr, EnumString, VariantNames};

/// What becomes of an array when its members come back empty. Never mixed in one array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, AsRefStr, EnumString, VariantNames)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Class {
    /// Instance store: at boot it is made anew with its file system, if all its members are blank and only then.
    Ephemeral,
    /// Volumes that outlive the instance: what was formatted once is never formatted again.
    Persistent,
}

/// Why members can have no class, or not the one that is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// Some are instance store, and others are not.
    #[error(
        "some of its volumes are instance store, which comes back empty after a stop, and others are not: they are never mixed in what stays"
    )]
    Mixed,
    /// What was written may be on a cache alone that comes back blank.
    #[error(
        "its cache is instance store, which comes back empty after a stop, and with it what was not yet written to the others would be lost: write `kind = \"cache\"` and \
         `mode = \"writethrough\"`"
    )]
    Cache,
    /// They are instance store, which comes back blank after a stop, and are asked to be persistent.
    #[error("its volumes are instance store, which comes back empty after a stop: it cannot be persistent")]
    NotPersistent,
}

impl Class {
    /// The same of an array with a `cache`, of whose volumes `any` and `all` are instance store: one that loses nothing may be in front of what is
    /// persistent.
    ///
    /// # Errors
    /// When they are never together.
    pub fn with_cache(self, cache: &Cache, (any, all): (bool, bool)) -> Result<Class, Unfit> {
        match self {
            Class::Persistent if any && cache.loses() => Err(Unfit::Cache),
            Class::Ephemeral if !all => Err(Unfit::Mixed),
            class => Ok(class),
        }
    }

    /// The one that is asked for, or that of what the members are: whether `any` of them and whether `all` are instance store.
    ///
    /// # Errors
    /// When there is none.
    pub fn of_members(asked: Option<Class>, (any, all): (bool, bool)) -> Result<Class, Unfit> {
        match (asked, any) {
            (_, true) if !all => Err(Unfit::Mixed),
            (Some(Class::Persistent), true) => Err(Unfit::NotPersistent),
            (_, true) => Ok(Class::Ephemeral),
            (asked, false) => Ok(asked.unwrap_or(Class::Persistent)),
        }
    }
}

/// What is asked for.
#[derive(Debug, Clone, Copy)]
pub struct DesignRequest<'a> {
    /// The experiment that the design is of.
    pub experiment: &'a Experiment,
    /// Index of the design.
    pub design: usize,
    /// What it is called on this host, see [`check_name`].
    pub name: &'a str,
    /// What becomes of it when its members come back empty.
    pub class: Class,
    /// Where its file system is mounted; an absolute path.
    pub mountpoint: Option<&'a Path>,
    /// Path of each volume's device by index, below /dev/disk: other names move at a reboot. Empty for volumes of other designs.
    pub devices: &'a [String],
    /// What tells this host from every other (`/etc/machine-id`).
    pub machine: &'a str,
    /// How the host boots.
    pub system: &'a System,
    /// Where `ebb` is, for the unit of an ephemeral array; nothing where that path is not one for a unit.
    pub program: Option<&'a str>,
}

/// What identities are made of: the host, the name, the members.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seed(String);

impl Seed {
    /// The identity of the thing `what` of the array.
    pub fn of(&self, what: &str) -> Identity {
        Identity::new(&self.0, 0, what)
    }
}

/// A member by what does not move.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Index of the volume in the experiment, as the layout names it.
    pub volume: usize,
    /// Name of the volume in the experiment.
    pub name: String,
    /// Its device, a link below /dev/disk.
    pub path: String,
    /// The id that the experiment gives for it, which allows that what is on it is lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The host that its storage is on, where the experiment says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
}

/// All that is made for an array that stays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Desired {
    /// What it is called on this host.
    pub name: String,
    /// Name of the experiment that it is of.
    pub experiment: String,
    /// Name of the design.
    pub design: String,
    /// What becomes of it when its members come back empty.
    pub class: Class,
    /// What its identities are made of.
    pub seed: Seed,
    /// Where bytes go, by index of the volumes.
    pub layout: LayoutNode,
    /// The volumes that it takes, swap spaces last.
    pub members: Vec<Member>,
    /// The cache in front of it, by index of the volumes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<Cache>,
    /// The file system on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filesystem: Option<Filesystem>,
    /// The steps that make it.
    pub build: Build,
    /// What the host's files say of it, in the order in which they are written.
    pub parts: Vec<Part>,
    /// Commands that follow a change of the files.
    pub after: Vec<Vec<String>>,
    /// What the reader must know.
    pub notes: Vec<String>,
}

impl Desired {
    /// The host of the volume with this index, where the experiment says.
    pub fn host_of(&self, volume: usize) -> Option<&str> {
        self.members.iter().find(|member| member.volume == volume)?.host.as_deref()
    }

    /// How many more volumes may fail, as [`crate::can_lose`]: none where what was written may be on its cache alone.
    pub fn can_lose(&self, works: &impl Fn(usize) -> bool) -> Option<usize> {
        let count = can_lose(&self.layout, works)?;
        match self.cache.as_ref().filter(|cache| cache.loses()) {
            Some(cache) => cache.members.iter().all(|volume| works(*volume)).then_some(0),
            None => Some(count),
        }
    }

    /// Whether the device at `path` is one of its members, and not made of them.
    pub fn is_member(&self, path: &str) -> bool {
        self.members.iter().any(|member| member.path == path)
    }

    /// Whether the array that `step` makes has its members on different hosts, which are lost one by one while it runs.
    pub fn is_across_hosts(&self, step: &BuildStep) -> bool {
        across_hosts(&self.members, step)
    }

    /// What its lines of fstab mount: by what names.
    pub fn mounted_as(&self) -> Vec<&str> {
        let parts = self.parts.iter().filter(|part| part.path == Path::new(files::FSTAB));
        parts.flat_map(|part| part.lines.lines()).filter_map(|line| line.split_whitespace().next()).collect()
    }

    /// Whether any of its arrays has its members on different hosts.
    pub fn has_hosts(&self) -> bool {
        self.build.steps.iter().any(|step| self.is_across_hosts(step))
    }
}

/// See [`Desired::is_across_hosts`].
pub(crate) fn across_hosts(members: &[Member], step: &BuildStep) -> bool {
    let Some(BuildUndo::StopMd { members: paths, .. }) = &step.undo else { return false };
    let mut hosts = members
        .iter()
        .filter(|member| paths.contains(&member.path))
        .filter_map(|member| member.host.as_deref());
    hosts.next().is_some_and(|first| hosts.any(|host| host != first))
}

/// Why something is not made to stay.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the message of a variant says what its fields are")]
pub enum ProvisionError {
    /// A name that volume groups, mappings or labels cannot have.
    #[error(
        "the name `{name}` {what}: give it another with --name, 1 to {NAME_MAX} of a-z, 0-9 and _, a letter first"
    )]
    Name { name: String, what: &'static str },
    /// A volume that is no device.
    #[error(
        "volume {volume} is a file, and what stays is built on devices: give it `device = \"/dev/disk/by-id/...\"`"
    )]
    NoDevice { volume: String },
    /// A path that another device may have after a reboot.
    #[error(
        "volume {volume}: {path} may be another device after a reboot, or beside a copy of this one, and no link in /dev/disk/by-id says which it is; give the volume its link there or in /dev/disk/by-path (`ebb volumes` shows it)"
    )]
    Unstable { volume: String, path: String },
    /// An image of Ceph, which `ebb` does not map.
    #[error(
        "volume {volume}: {image} is there at boot only once something has mapped it, which `ebb` does not do: put a file system on the image itself, have rbdmap(8) \
         map it (/etc/ceph/rbdmap) and mount it with `_netdev`; Ceph keeps copies and stripes already. `ebb run --on kernel` builds on it for a session"
    )]
    Image { volume: String, image: Image },
    /// A mount point that cannot be one.
    #[error("the mount point {} {what}", path.shown())]
    Mountpoint {
        path: PathBuf,
        /// What is wrong, and what to write.
        what: &'static str,
    },
    /// Nothing says where to mount.
    #[error(
        "design {design} has a file system: say where it is mounted with --mount, for example `--mount /data`"
    )]
    NoMountpoint { design: String },
    /// A key that is asked for.
    #[error(
        "design {design} asks for its key at the terminal, where nobody is at boot: give it a `key_file`"
    )]
    Prompt { design: String },
    /// A key file that crypttab cannot name.
    #[error(
        "crypttab cannot name the key file {}: give it an absolute path of letters, digits and . _ - /",
        path.shown()
    )]
    Key { path: PathBuf },
    /// An ephemeral array that nothing would make at boot.
    #[error("{name} is ephemeral, and {what}")]
    Ephemeral { name: String, what: &'static str },
    /// What tells members from others would be lost.
    #[error(
        "design {design}: metadata {metadata} is at the end of a volume, and not there any more after a reboot once the volume has grown. Each member of a \
         mirror then looks like the file system itself, and is mounted without the others. Leave `metadata` out (1.2)"
    )]
    AtTheEnd { design: String, metadata: String },
    /// The steps cannot be made.
    #[error("design {design}: {error}")]
    Build {
        design: String,
        /// Why no steps can be planned for it.
        error: BuildPlanError,
    },
}

/// The version of md's metadata that an array is built with, where that is at the end of its members.
pub(crate) fn at_the_end(build: &Build) -> Option<String> {
    let arguments = build.steps.iter().filter_map(|step| match &step.action {
        BuildAction::Run { program, arguments } if program == "mdadm" => Some(arguments),
        _ => None,
    });
    let mut versions = arguments.flatten().filter_map(|argument| argument.strip_prefix("--metadata="));
    versions.find(|version| ["1.0", "0.90"].contains(version)).map(str::to_owned)
}

/// Longest name: volume groups and md take more, but nobody reads more.
pub(crate) const NAME_MAX: usize = 24;

/// What a design called so is called on a host where nobody says it.
pub fn default_name(design: &str) -> String {
    design.to_ascii_lowercase().replace(['-', '.', ' '], "_")
}

/// Whether `name` can be that of an array, a volume group, a mapping, a unit and a file.
///
/// # Errors
/// What is wrong with it, and what to write.
pub fn check_name(name: &str) -> Result<(), ProvisionError> {
    let fail = |what| Err(ProvisionError::Name { name: name.to_owned(), what });
    if name.is_empty() || name.len() > NAME_MAX {
        return fail("is too short or too long");
    }
    if !name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_') {
        return fail("has signs that not all of md, LVM and systemd take");
    }
    if !name.starts_with(|first: char| first.is_ascii_lowercase()) {
        return fail("does not begin with a letter");
    }
    // md reads `mdN` as a number, and `control` is the device mapper's own (/dev/mapper/control).
    let number = name.strip_prefix("md").is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()));
    if number || OF_DEV.contains(&name) {
        return fail("is one of the kernel's own in /dev: choose another, such as data");
    }
    Ok(())
}

/// Names of files and directories of /dev and /dev/mapper: a volume group is a directory of /dev.
const OF_DEV: [&str; 38] = [
    "block",
    "bsg",
    "btrfs",
    "bus",
    "char",
    "console",
    "control",
    "core",
    "cpu",
    "disk",
    "dri",
    "fd",
    "full",
    "fuse",
    "hugepages",
    "hwrng",
    "initctl",
    "input",
    "kmsg",
    "kvm",
    "log",
    "loop",
    "mapper",
    "mem",
    "mqueue",
    "net",
    "null",
    "ptmx",
    "pts",
    "random",
    "shm",
    "snd",
    "stderr",
    "stdin",
    "stdout",
    "tty",
    "urandom",
    "zero",
];

/// Places that a mount would hide or break.
const NO_MOUNTPOINTS: [&str; 6] = ["/", "/bin", "/boot", "/etc", "/lib", "/usr"];
/// Places whose directories are the kernel's, or gone after a reboot.
const NOT_KEPT: [&str; 5] = ["/dev", "/proc", "/run", "/sys", "/tmp"];

/// Whether a file system can be mounted at `path` for good.
///
/// # Errors
/// What is wrong with it, and what to write.
pub fn check_mountpoint(path: &Path) -> Result<(), ProvisionError> {
    let fail = |what| Err(ProvisionError::Mountpoint { path: path.to_owned(), what });
    if !path.is_absolute() {
        return fail("is not absolute: begin it with /");
    }
    if path.components().any(|part| matches!(part, std::path::Component::ParentDir)) {
        return fail("has .. in it: write it without");
    }
    let text = path.to_str().unwrap_or("\u{fffd}");
    if text.contains(|sign: char| sign.is_control() || sign == '\u{fffd}') {
        return fail("has signs that fstab cannot hold");
    }
    if NO_MOUNTPOINTS.iter().any(|place| Path::new(place) == path) {
        return fail("is the system's own: choose another, such as /data");
    }
    if NOT_KEPT.iter().any(|place| path.starts_with(place)) {
        return fail("is the system's own, or gone after a reboot: choose another, such as /data");
    }
    Ok(())
}

/// Whether crypttab can name the file: it has no way to write blanks, and a colon begins a device (crypttab(5)).
fn in_crypttab(path: &Path) -> bool {
    let plain = |sign: char| sign.is_ascii_alphanumeric() || "._-/".contains(sign);
    path.is_absolute() && path.to_str().is_some_and(|text| text.chars().all(plain))
}

impl DesignRequest<'_> {
    /// All that is made for it.
    ///
    /// # Errors
    /// Why it cannot be made to stay, and what to write instead.
    pub fn desired(&self) -> Result<Desired, ProvisionError> {
        check_name(self.name)?;
        let design = &self.experiment.designs[self.design];
        let members = self.members()?;
        if let Some(mountpoint) = self.mountpoint {
            check_mountpoint(mountpoint)?;
        } else if design.stack.filesystem.is_some() {
            return Err(ProvisionError::NoMountpoint { design: design.name.clone() });
        }
        if design.stack.encryption.as_ref().is_some_and(|encryption| encryption.key_file.is_none()) {
            return Err(ProvisionError::Prompt { design: design.name.clone() });
        }
        let key = design.stack.encryption.as_ref().and_then(|encryption| encryption.key_file.as_ref());
        if let Some(key) = key.filter(|key| !in_crypttab(key)) {
            return Err(ProvisionError::Key { path: key.clone() });
        }
        if self.class == Class::Ephemeral {
            let fail = |what| Err(ProvisionError::Ephemeral { name: self.name.to_owned(), what });
            if !self.system.systemd {
                return fail("this host does not run systemd, which would make it anew at boot");
            }
            if design.stack.filesystem.is_none() && design.stack.swap.is_empty() {
                return fail(
                    "nothing is mounted or swapped to, for which it would be made at boot: give the design a `filesystem`",
                );
            }
        }
        let paths: Vec<&str> = members.iter().map(|member| member.path.as_str()).collect();
        let seed = Seed(format!("{}/{}/{}", self.machine, self.name, paths.join(" ")));
        let purpose = Purpose::Lasting { name: self.name, mountpoint: self.mountpoint };
        let site = Site { run: &seed.0, build: 0, devices: self.devices, md_numbers: &[], purpose };
        let build = build::build(design, &site)
            .map_err(|error| ProvisionError::Build { design: design.name.clone(), error })?;
        if let Some(metadata) = at_the_end(&build) {
            return Err(ProvisionError::AtTheEnd { design: design.name.clone(), metadata });
        }
        let parts = files::parts(
            self.name,
            self.class,
            &seed,
            design,
            &build,
            &members,
            (self.system, self.program()),
        );
        let (after, notes) = self.after(&build);
        Ok(Desired {
            name: self.name.to_owned(),
            experiment: self.experiment.name.clone(),
            design: design.name.clone(),
            class: self.class,
            seed,
            layout: design.layout.clone(),
            members,
            cache: design.stack.cache.clone(),
            filesystem: design.stack.filesystem,
            notes: build.notes.iter().cloned().chain(notes).collect(),
            build,
            parts,
            after,
        })
    }

    fn members(&self) -> Result<Vec<Member>, ProvisionError> {
        let design = &self.experiment.designs[self.design];
        let member = |index: usize| {
            let volume = &self.experiment.volumes[index];
            let VolumeSource::Device { path, id } = &volume.source else {
                return Err(ProvisionError::NoDevice { volume: volume.name.clone() });
            };
            if let Ok(Some(image)) = Image::named_by(path) {
                return Err(ProvisionError::Image { volume: volume.name.clone(), image });
            }
            let device = self.devices.get(index).map_or("", String::as_str);
            if device.is_empty() {
                return Err(ProvisionError::Unstable { volume: volume.name.clone(), path: path.shown() });
            }
            Ok(Member {
                volume: index,
                name: volume.name.clone(),
                path: device.to_owned(),
                id: id.clone(),
                host: volume.host.clone(),
            })
        };
        design.volumes().into_iter().map(member).collect()
    }

    /// `ebb` as a unit can call it: a path without what systemd would read in it (systemd.service(5)), or by name.
    fn program(&self) -> &str {
        let plain = |path: &&str| {
            path.starts_with('/')
                && path.chars().all(|sign| sign.is_ascii_alphanumeric() || "._-/+".contains(sign))
        };
        self.program.filter(plain).unwrap_or("/usr/bin/ebb")
    }

    /// What is run after the files changed, and what the host lacks for that.
    fn after(&self, build: &Build) -> (Vec<Vec<String>>, Vec<String>) {
        let (mut after, mut notes) = (Vec::new(), Vec::new());
        let mut run = |words: &[&str]| after.push(words.iter().map(|&word| word.to_owned()).collect());
        if self.system.udev {
            run(&["udevadm", "control", "--reload"]);
        }
        if self.system.systemd {
            run(&["systemctl", "daemon-reload"]);
        } else {
            let what = "systemd does not run here: the line in /etc/fstab stays, and this host's own init mounts it at boot or not";
            notes.push(what.to_owned());
        }
        let has_md = build.steps.iter().any(|step| matches!(step.undo, Some(BuildUndo::StopMd { .. })));
        if has_md {
            match self.system.refresh_initramfs() {
                Some(words) => after.push(words),
                None => notes.push(
                    "neither update-initramfs nor dracut is installed: the arrays are assembled by what they say of themselves, under their names all the same"
                        .to_owned(),
                ),
            }
        }
        (after, notes)
    }
}
