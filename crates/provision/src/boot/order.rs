//! From a design to what a machine needs at boot.

use super::Boot;
use crate::desired::{Unfit, check_mountpoint};
use crate::{Class, ProvisionError, check_name};
use ebbtide_model::experiment::{Design, Experiment, VolumeSource};
use ebbtide_model::layout::LayoutNode;
use ebbtide_model::plan::build::{self, Build, BuildAction, BuildPlanError, Purpose, Site};
use ebbtide_model::shown::Shown;
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

    /// Whether some of them, or all, are instance store by their names.
    fn instance_store(&self) -> (bool, bool) {
        let model = INSTANCE_STORE.trim_end_matches('*');
        let is = |link: &String| link.starts_with(model);
        (self.links().iter().any(is), self.links().iter().all(is))
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
    /// What becomes of it when its members come back blank; what their kind says where nothing is said.
    pub class: Option<Class>,
    /// Fewest disks of a kind of which it is made; as many as the design has where nothing is said.
    pub least: Option<usize>,
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
    /// A mount point that hides what mounts it.
    #[error("what is mounted at {} would hide what mounts it (in /usr/local/sbin and /var/lib/ebbtide): choose another place, such as /data", mountpoint.shown())]
    Above { mountpoint: PathBuf },
    /// Disks that lose their content at a stop and others in one array.
    #[error(
        "instance store, which comes back blank after a stop, and other disks are not mixed in one array"
    )]
    Mixed,
    /// Instance store that should last.
    #[error("instance store comes back blank after a stop: it cannot be persistent")]
    NotPersistent,
    /// Fewer disks than the layout needs.
    #[error("{title} takes {needed} disks at least, not {least}")]
    TooFew { title: &'static str, needed: usize, least: usize },
}

impl BootOrder<'_> {
    /// What a machine needs to make it.
    ///
    /// # Errors
    /// Why it cannot be made so, and what to write instead.
    pub fn boot(&self) -> Result<Boot, BootError> {
        check_name(self.name)?;
        check_mountpoint(self.mountpoint)?;
        if SCRIPT_NEEDS.iter().any(|needed| Path::new(needed).starts_with(self.mountpoint)) {
            return Err(BootError::Above { mountpoint: self.mountpoint.to_owned() });
        }
        let design = &self.experiment.designs[self.design];
        let members = self.members.clone().map_or_else(|| self.named(design), Ok)?;
        let class = class(self.class, &members)?;
        let build = self.build(design, &members)?;
        let (uuid, create) = array(design, &build)?;
        let (filesystem, filesystem_uuid, mkfs) = file_system(design, &build, &members)?;
        let LayoutNode::Array { kind, members: places } = &design.layout else {
            return Err(beyond(design, "has no array"));
        };
        let facts = kind.facts();
        let least = match (&members, self.least) {
            (Members::Links(_), _) => places.len(),
            // One of fewer disks than were designed would stay one: the others may only be late.
            (Members::Kind(_), asked) => asked.unwrap_or(places.len()),
        };
        let needed = if facts.is_redundant() { facts.least_members } else { 1 };
        if least < needed {
            return Err(BootError::TooFew { title: facts.title, needed, least });
        }
        let options = design.stack.mount_options.as_deref().filter(|options| !options.is_empty());
        Ok(Boot {
            name: self.name.to_owned(),
            source: format!("design {} of {}", design.name, self.experiment.name),
            class,
            least,
            redundant: facts.is_redundant(),
            uuid,
            create,
            filesystem,
            filesystem_uuid,
            mkfs,
            mountpoint: self.mountpoint.components().collect::<PathBuf>().to_string_lossy().into_owned(),
            mount_options: options.unwrap_or("defaults").to_owned(),
            settings: settings(&build),
            members,
        })
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

    fn build(&self, design: &Design, members: &Members) -> Result<Build, BootError> {
        // The same on every machine that is given it: volumes that move to another one are found there.
        let run =
            format!("{}/{}/{}/{}", self.experiment.name, design.name, self.name, members.links().join(" "));
        let devices: Vec<String> =
            (0..self.experiment.volumes.len()).map(|index| format!("{MEMBER}{index}")).collect();
        let purpose = Purpose::Lasting { name: self.name, mountpoint: Some(self.mountpoint) };
        let site = Site { run: &run, build: 0, devices: &devices, md_numbers: &[], purpose };
        build::build(design, &site).map_err(|error| BootError::Build { design: design.name.clone(), error })
    }
}

/// Where the script and what it remembers are: it cannot be below what it mounts.
const SCRIPT_NEEDS: [&str; 2] = ["/usr/local/sbin", "/var/lib/ebbtide"];

/// What stands for a member in steps until the machine knows them.
const MEMBER: &str = "/dev/member/";

fn beyond(design: &Design, what: impl Into<String>) -> BootError {
    BootError::Beyond { design: design.name.clone(), what: what.into() }
}

/// The class that is asked for, or that of what the members are.
fn class(asked: Option<Class>, members: &Members) -> Result<Class, BootError> {
    Class::of_members(asked, members.instance_store()).map_err(|unfit| match unfit {
        Unfit::Mixed => BootError::Mixed,
        Unfit::NotPersistent => BootError::NotPersistent,
    })
}

/// The programs that the steps run, with their arguments.
fn runs(build: &Build) -> impl Iterator<Item = (&str, &[String])> {
    build.steps.iter().filter_map(|step| match &step.action {
        BuildAction::Run { program, arguments } => Some((program.as_str(), arguments.as_slice())),
        _ => None,
    })
}

/// The array's uuid, and how it is made.
fn array(design: &Design, build: &Build) -> Result<(String, Vec<String>), BootError> {
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
    let uuid = arguments.iter().find_map(|word| word.strip_prefix("--uuid="));
    let uuid = uuid.ok_or_else(|| beyond(design, "has an array without a uuid"))?.to_owned();
    if arguments.iter().any(|word| word == "--metadata=0.90") {
        return Err(beyond(design, "has md's metadata 0.90, which knows no names"));
    }
    // What the script says itself: the device, what identifies it, and the members.
    let own = ["--uuid=", "--name=", "--raid-devices="];
    let rest = arguments.iter().skip(2).filter(|word| !own.iter().any(|own| word.starts_with(own)));
    Ok((uuid, rest.filter(|word| !word.starts_with(MEMBER)).cloned().collect()))
}

/// The file system, its uuid, and how it is made.
fn file_system(
    design: &Design,
    build: &Build,
    members: &Members,
) -> Result<(Filesystem, String, Vec<String>), BootError> {
    let filesystem = match design.stack.filesystem {
        None => return Err(beyond(design, "has no file system to mount")),
        Some(Filesystem::Jfs) => return Err(beyond(design, "has JFS")),
        Some(filesystem) => filesystem,
    };
    let program = format!("mkfs.{}", filesystem.as_ref());
    let made = runs(build).find(|(name, _)| *name == program);
    let (_, arguments) = made.ok_or_else(|| beyond(design, "has no file system to mount"))?;
    let mut words = Vec::new();
    let mut uuid = None;
    // All but the last, which is the device.
    let mut rest = arguments[..arguments.len().saturating_sub(1)].iter();
    while let Some(word) = rest.next() {
        match word.as_str() {
            "-U" | "-m" => {
                let value = rest.next().cloned().unwrap_or_default();
                uuid = Some(value.strip_prefix("uuid=").unwrap_or(&value).to_owned());
                words.extend([word.clone(), value]);
            }
            // The geometry of as many members as the design has; of another number mkfs finds it out from md.
            "-d" | "-E" if matches!(members, Members::Kind(_)) => {
                rest.next();
            }
            _ => words.push(word.clone()),
        }
    }
    let uuid = uuid.ok_or_else(|| beyond(design, "has a file system without a uuid"))?;
    Ok((filesystem, uuid, words))
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
