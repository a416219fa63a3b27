//! From a design to what a machine needs at boot.

use super::{Boot, Brought, Ebb};
use crate::desired::{at_the_end, check_mountpoint};
use crate::{ProvisionError, check_name, files};
use ebbtide_model::experiment::{Design, Experiment, VolumeSource};
use ebbtide_model::layout::LayoutNode;
use ebbtide_model::plan::build::{self, Build, BuildAction, BuildPlanError, BuildStep, Purpose, Site};
use ebbtide_model::stack::Filesystem;
use std::path::{Path, PathBuf};

/// Links of instance store, as udev makes them of an NVMe drive's model and serial number (60-persistent-storage.rules).
const INSTANCE_STORE: &str = "/dev/disk/by-id/nvme-Amazon_EC2_NVMe_Instance_Storage_*";
/// Links of EBS volumes.
const EBS: &str = "/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_vol*";

/// Which disks an array is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Members {
    /// These, by their links below /dev/disk, all of them.
    Links(Vec<String>),
    /// Whatever is there of a kind: patterns of links below /dev/disk.
    Kind(Vec<String>),
}

impl Members {
    /// Reads `instance-store`, `ebs`, or a pattern such as `/dev/disk/by-id/virtio-data*`.
    ///
    /// # Errors
    /// What to write instead.
    pub fn kind(words: &[String]) -> Result<Members, BootError> {
        let pattern = |word: &String| match word.as_str() {
            "instance-store" => Ok(INSTANCE_STORE.to_owned()),
            "ebs" => Ok(EBS.to_owned()),
            pattern if is_link(pattern) => Ok(pattern.to_owned()),
            other => Err(BootError::Pattern { pattern: other.to_owned() }),
        };
        words.iter().map(pattern).collect::<Result<_, _>>().map(Members::Kind)
    }

    /// The links or patterns.
    pub fn links(&self) -> &[String] {
        match self {
            Members::Links(links) | Members::Kind(links) => links,
        }
    }

    /// Whether `link` is one of them.
    pub fn have(&self, link: &str) -> bool {
        match self {
            Members::Links(links) => links.iter().any(|own| own == link),
            Members::Kind(patterns) => {
                patterns.iter().any(|pattern| fits(pattern.as_bytes(), link.as_bytes()))
            }
        }
    }

    /// Whether some of them are instance store by their names, which comes back blank after a stop.
    pub fn has_instance_store(&self) -> bool {
        let model = INSTANCE_STORE.trim_end_matches('*');
        self.links().iter().any(|link| link.starts_with(model))
    }
}

/// Whether `link` is a name or a pattern below /dev/disk that a shell takes for one word and nothing else.
fn is_link(link: &str) -> bool {
    let fine = |c: char| c.is_ascii_alphanumeric() || "-_.:+=@/*?[]".contains(c);
    link.starts_with("/dev/disk/by-") && link.chars().all(fine) && !link.contains("/../")
}

/// What is asked for.
#[derive(Debug, Clone)]
pub struct BootOrder<'a> {
    /// The experiment that the design is of.
    pub experiment: &'a Experiment,
    /// Index of the design.
    pub design: usize,
    /// What to call it.
    pub name: &'a str,
    /// Where its file system is mounted.
    pub mountpoint: &'a Path,
    /// Its disks; those that the design names where nothing is said.
    pub members: Option<Members>,
}

/// Why a machine cannot be told to make it at boot.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the message of a variant says what its fields are")]
pub enum BootError {
    /// A name or a mount point that cannot be one.
    #[error(transparent)]
    Provision(#[from] ProvisionError),
    /// Steps that cannot be made.
    #[error("design {design}: {error}")]
    Build {
        design: String,
        /// Why no steps can be planned for it.
        error: BuildPlanError,
    },
    /// A design of more than an md array with a file system.
    #[error(
        "design {design} {what}; what a machine makes by itself at boot is one md array of disks with ext4, XFS or btrfs on it (`ebb apply` builds the others)"
    )]
    Beyond { design: String, what: String },
    /// A volume of which nothing tells which disk it is.
    #[error(
        "volume {volume} is no disk that another machine could find: say which disks with --members instance-store, --members ebs or a pattern such as '/dev/disk/by-id/virtio-data*', or give the volume `device = \"/dev/disk/by-id/...\"`"
    )]
    Unknown { volume: String },
    /// Something that is no kind of disk.
    #[error(
        "{pattern} is no kind of disk: write instance-store, ebs, or a pattern of links such as '/dev/disk/by-id/virtio-data*'"
    )]
    Pattern { pattern: String },
}

impl BootOrder<'_> {
    /// What a machine needs to make it.
    ///
    /// # Errors
    /// Why it cannot be made so, and what to write instead.
    pub fn boot(&self) -> Result<Boot, BootError> {
        let (design, members) = self.checked()?;
        let build = self.build(design)?;
        let (filesystem, mkfs) = file_system(design, &build)?;
        let LayoutNode::Array { members: places, .. } = &design.layout else {
            return Err(beyond(design, "has no array"));
        };
        let mountpoint: PathBuf = self.mountpoint.components().collect();
        Ok(Boot {
            name: self.name.to_owned(),
            source: self.source(design),
            wanted: places.len(),
            create: array(design, &build)?,
            filesystem,
            mkfs,
            fstab: files::started_by_the_kernel(design, &mountpoint, filesystem),
            mountpoint: mountpoint.to_string_lossy().into_owned(),
            settings: settings(&build),
            members,
        })
    }

    /// What the machine is given that has `ebb`, where `text` is the experiment's: all that `ebb apply` can make can be made.
    ///
    /// # Errors
    /// Why the machine could not make it, and what to write instead.
    pub fn brought(&self, text: &str, ebb: Ebb, class: Option<&str>) -> Result<Brought, BootError> {
        let (design, members) = self.checked()?;
        let mut arguments = vec!["--name".to_owned(), self.name.to_owned()];
        let mut give = |option: &str, value: String| arguments.extend([option.to_owned(), value]);
        if design.stack.filesystem.is_some() {
            give("--mount", self.mountpoint.to_string_lossy().into_owned());
        }
        if let Members::Kind(kinds) = &members {
            give("--members", kinds.join(","));
        }
        if let Some(class) = class {
            give("--class", class.to_owned());
        }
        Ok(Brought {
            name: self.name.to_owned(),
            source: self.source(design),
            members,
            ebb,
            programs: self.build(design)?.programs,
            design: design.name.clone(),
            arguments,
            experiment: text.to_owned(),
        })
    }

    /// The design and its disks, where it can be called so and mounted there.
    fn checked(&self) -> Result<(&Design, Members), BootError> {
        check_name(self.name)?;
        check_mountpoint(self.mountpoint)?;
        let design = &self.experiment.designs[self.design];
        let members = self.members.clone().map_or_else(|| self.named(design), Ok)?;
        Ok((design, members))
    }

    fn source(&self, design: &Design) -> String {
        format!("design {} of {}", design.name, self.experiment.name)
    }

    /// The disks that the design's volumes are.
    fn named(&self, design: &Design) -> Result<Members, BootError> {
        let volumes: Vec<_> =
            design.volumes().into_iter().map(|index| &self.experiment.volumes[index]).collect();
        let ordered = |volume: &&ebbtide_model::experiment::Volume| {
            let ordered =
                volume.ordered.as_ref().is_some_and(|ordered| ordered.volume_type.starts_with("aws:"));
            ordered && !matches!(volume.source, VolumeSource::Device { .. })
        };
        if volumes.iter().all(ordered) {
            return Ok(Members::Kind(vec![EBS.to_owned()]));
        }
        let link = |volume: &&ebbtide_model::experiment::Volume| {
            let link = match &volume.source {
                VolumeSource::Device { id: Some(id), .. } => Some(format!("/dev/disk/by-id/{id}")),
                VolumeSource::Device { path, .. } => path.to_str().map(str::to_owned),
                VolumeSource::NewFile { .. } | VolumeSource::ExistingFile { .. } => None,
            };
            let link = link.filter(|link| is_link(link) && !link.contains(['*', '?', '[']));
            link.ok_or_else(|| BootError::Unknown { volume: volume.name.clone() })
        };
        volumes.iter().map(link).collect::<Result<_, _>>().map(Members::Links)
    }

    fn build(&self, design: &Design) -> Result<Build, BootError> {
        let devices: Vec<String> =
            (0..self.experiment.volumes.len()).map(|index| format!("{MEMBER}{index}")).collect();
        let purpose = Purpose::Lasting { name: self.name, mountpoint: Some(self.mountpoint) };
        let site = Site { run: self.name, build: 0, devices: &devices, md_numbers: &[], purpose };
        build::build(design, &site).map_err(|error| BootError::Build { design: design.name.clone(), error })
    }
}

/// What stands for a member in steps until the machine knows them.
const MEMBER: &str = "/dev/member/";

fn beyond(design: &Design, what: impl Into<String>) -> BootError {
    BootError::Beyond { design: design.name.clone(), what: what.into() }
}

/// The programs that the steps run, with their arguments.
fn runs(build: &Build) -> impl Iterator<Item = (&str, &[String])> {
    build.steps.iter().filter_map(|step| match &step.action {
        BuildAction::Run { program, arguments } => Some((program.as_str(), arguments.as_slice())),
        _ => None,
    })
}

/// How the array is made.
fn array(design: &Design, build: &Build) -> Result<Vec<String>, BootError> {
    if !design.stack.swap.is_empty() {
        return Err(beyond(design, "has swap"));
    }
    if design.stack.encryption.is_some() {
        return Err(beyond(design, "is encrypted, with a key that the machine would have to be given"));
    }
    let mut made = runs(build).filter(|(program, arguments)| {
        *program == "mdadm" && arguments.first().is_some_and(|first| first == "--create")
    });
    let (Some((_, arguments)), None) = (made.next(), made.next()) else {
        return Err(beyond(design, "is not one md array"));
    };
    if runs(build).any(|(program, _)| matches!(program, "lvcreate" | "vgcreate" | "pvcreate" | "lvm")) {
        return Err(beyond(design, "has LVM"));
    }
    if let Some(metadata) = at_the_end(build) {
        return Err(ProvisionError::AtTheEnd { design: design.name.clone(), metadata }.into());
    }
    let of_md = |step: &BuildStep| matches!(&step.action, BuildAction::SetQueue(set) if set.attribute.directory() == "md");
    if build.steps.iter().any(of_md) {
        return Err(beyond(design, "sets `stripe_cache_size` or `group_thread_cnt`"));
    }
    if arguments.iter().any(|word| word == "--write-mostly") {
        return Err(beyond(design, "has members that are read only where no other can be"));
    }
    // What the script says itself: the device, what identifies it, and the members.
    let own = |word: &str| {
        ["--uuid=", "--name=", "--raid-devices=", MEMBER].iter().any(|own| word.starts_with(own))
    };
    Ok(arguments.iter().skip(2).filter(|word| !own(word)).cloned().collect())
}

/// The file system, and how it is made: where nothing is yet, and with identities that each machine draws.
fn file_system(design: &Design, build: &Build) -> Result<(Filesystem, Vec<String>), BootError> {
    let filesystem = match design.stack.filesystem {
        None => return Err(beyond(design, "has no file system to mount")),
        Some(Filesystem::Jfs) => return Err(beyond(design, "has JFS")),
        Some(filesystem) => filesystem,
    };
    let program = format!("mkfs.{}", filesystem.as_ref());
    let made = runs(build).find(|(name, _)| *name == program);
    let (_, arguments) = made.ok_or_else(|| beyond(design, "has no file system to mount"))?;
    let mut words = Vec::new();
    // All but the last, which is the device.
    let mut rest = arguments[..arguments.len().saturating_sub(1)].iter();
    while let Some(word) = rest.next() {
        match word.as_str() {
            "-U" | "-L" => drop(rest.next()),
            "-m" if filesystem == Filesystem::Xfs => drop(rest.next()),
            "-f" | "-F" => {}
            _ => words.push(word.clone()),
        }
    }
    Ok((filesystem, words))
}

/// What is set on queues.
fn settings(build: &Build) -> Vec<String> {
    let mut settings: Vec<String> = Vec::new();
    for step in &build.steps {
        if let BuildAction::SetQueue(set) = &step.action {
            let thing = if set.device == build.device { "array" } else { "disk" };
            let word = format!("{thing}.{}={}", set.attribute.file(), set.value);
            if !settings.contains(&word) {
                settings.push(word);
            }
        }
    }
    settings
}

/// Whether `text` is one that the shell's `pattern` stands for: `*`, `?`, and `[a-c]`.
fn fits(pattern: &[u8], text: &[u8]) -> bool {
    match (pattern, text) {
        ([], []) => true,
        ([b'*', rest @ ..], _) => (0..=text.len()).any(|skipped| fits(rest, &text[skipped..])),
        ([b'?', rest @ ..], [_, after @ ..]) => fits(rest, after),
        ([b'[', rest @ ..], [sign, after @ ..]) => {
            let end = rest.iter().skip(1).position(|sign| *sign == b']');
            // Without an end it is a sign as any other.
            let Some(end) = end else { return *sign == b'[' && fits(rest, after) };
            let (set, rest) = (&rest[..=end], &rest[end + 2..]);
            let mut found = false;
            let mut at = 0;
            while let Some(from) = set.get(at) {
                let to = set.get(at + 2).filter(|_| set.get(at + 1) == Some(&b'-'));
                found |= (*from..=*to.unwrap_or(from)).contains(sign);
                at += if to.is_some() { 3 } else { 1 };
            }
            found && fits(rest, after)
        }
        ([wanted, rest @ ..], [sign, after @ ..]) => wanted == sign && fits(rest, after),
        ([], _) | (_, []) => false,
    }
}
