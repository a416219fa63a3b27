//! What the kernel backend does to build one design: steps as data, each with its undo.
//!
//! Pure: the same design on the same [`Site`] gives the same steps. The host crate carries them out and undoes
//! them; `--dry-run` prints them. Everything that is made carries an identity (md and PV uuid, label, a name with
//! the run's id), so that an undo after a reboot finds what was made under whatever name, and nothing else.

mod array;
mod content;
mod error;
mod geometry;
mod identity;
mod order;
mod own;
mod queue;
mod show;
mod swap;

pub use array::{LASTING_LVM_CONFIG, LVM_CONFIG, MemberFlags};
pub use error::BuildPlanError;
pub use geometry::Geometry;
pub use identity::Identity;
pub use own::{is_load, named_after};

use crate::experiment::Design;
use crate::file_id::FileId;
use crate::made::Thing;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Where and for whom a design is built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site<'a> {
    /// The run: its session id.
    pub run: &'a str,
    /// Number of the build within the run; every build has identities of its own.
    pub build: u32,
    /// Path of each volume's block device, by index of the experiment's volumes.
    pub devices: &'a [String],
    /// Numbers of md devices that are free, as many as the design has arrays; not asked for what stays.
    pub md_numbers: &'a [u32],
    /// How long it is to stand.
    pub purpose: Purpose<'a>,
}

/// How long what is built is to stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose<'a> {
    /// For a trial: under names of the run's own, without what only matters over months.
    Trial,
    /// For good: under names that people know, found again at boot, synchronised, with a key derivation that guards.
    Lasting {
        /// What arrays, volume groups and mappings are called; a volume group and a mapping take letters, digits and `_`.
        name: &'a str,
        /// Where the file system is mounted; a design with a file system needs it.
        mountpoint: Option<&'a Path>,
    },
}

/// The build of one design.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Build {
    /// Steps in their order; undone in reverse.
    pub steps: Vec<BuildStep>,
    /// How many of the steps, the first ones, make what designs can share ([`Design::shares_build`]): arrays, encryption, the file
    /// system. What follows is set, mounted and put back for each trial.
    #[serde(default)]
    pub shared: usize,
    /// The device that results: what trials use, or what the file system is on.
    pub device: String,
    /// Where the file system is mounted.
    pub mountpoint: Option<PathBuf>,
    /// Programs that the steps and their undoing run, sorted.
    pub programs: Vec<String>,
    /// Things the reader must know.
    pub notes: Vec<String>,
}

/// One change of the system, and what takes it back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuildStep {
    /// The change itself.
    #[serde(rename = "do")]
    pub action: BuildAction,
    /// What puts it back; nothing where it goes away with what it was done to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undo: Option<BuildUndo>,
}

/// What a step does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BuildAction {
    /// Runs a program; it must end with status 0.
    Run {
        /// Its name, to be looked up.
        program: String,
        /// One by one: no shell reads them.
        arguments: Vec<String>,
    },
    /// Runs a program with the key that was asked for on its standard input; it must end with status 0.
    RunWithKey {
        /// Its name, to be looked up.
        program: String,
        /// Its arguments, the key not among them.
        arguments: Vec<String>,
    },
    /// Writes an attribute of a device's queue.
    SetQueue(QueueSetting),
    /// Makes a directory that only root may enter; one that is there already is success.
    MakeDirectory(PathBuf),
    /// Fails unless the physical volumes of a volume group have the same number of extents: LVM puts unequal ones in
    /// the order of their sizes, and uses as much of each as of the smallest.
    EqualPvs {
        /// Name of the volume group.
        group: String,
    },
    /// Waits until a logical volume is in sync.
    WaitLv {
        /// `VG/LV`.
        volume: String,
    },
}

/// An attribute of a block device's queue, or of an md array, below /sys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueueAttribute {
    /// `queue/scheduler` in sysfs.
    Scheduler,
    /// `queue/nr_requests`: requests that the queue holds.
    NrRequests,
    /// `max_sectors_kb`, in KiB.
    MaxSectorsKb,
    /// `read_ahead_kb`, in KiB.
    ReadAheadKb,
    /// md's `stripe_cache_size`, in pages of each member.
    StripeCacheSize,
    /// md's `group_thread_cnt`.
    GroupThreadCnt,
}

impl QueueAttribute {
    /// The directory of its file, in that of the device below /sys.
    pub const fn directory(self) -> &'static str {
        match self {
            QueueAttribute::StripeCacheSize | QueueAttribute::GroupThreadCnt => "md",
            _ => "queue",
        }
    }

    /// Name of its file.
    pub const fn file(self) -> &'static str {
        match self {
            QueueAttribute::StripeCacheSize => "stripe_cache_size",
            QueueAttribute::GroupThreadCnt => "group_thread_cnt",
            QueueAttribute::Scheduler => "scheduler",
            QueueAttribute::NrRequests => "nr_requests",
            QueueAttribute::MaxSectorsKb => "max_sectors_kb",
            QueueAttribute::ReadAheadKb => "read_ahead_kb",
        }
    }
}

/// A value for a queue's attribute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueSetting {
    /// The device whose queue it is.
    pub device: String,
    /// Which of the queue's files below sysfs.
    pub attribute: QueueAttribute,
    /// As it is written into the file.
    pub value: String,
}

/// What puts a step back. Each finds by identity what was made, and already gone is success.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BuildUndo {
    /// Detaches a loop device, if it is still on this file.
    DetachLoop {
        /// Its node, such as `/dev/loop3`.
        device: String,
        /// The file behind it.
        file: PathBuf,
        /// Which file that was; filled in when the step is journaled.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<FileId>,
        /// The kernel's number of this use of the device (`diskseq`), where it tells; filled in when it is attached.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sequence: Option<u64>,
    },
    /// Gives a queue's attribute its old value, if it still has the new one.
    RestoreQueue {
        /// The attribute and the value that it was given.
        set: QueueSetting,
        /// The value before; filled in when the step is journaled.
        old: Option<String>,
    },
    /// Removes a directory, if it is empty.
    RemoveDirectory(PathBuf),
    /// Stops the md array with this uuid under whatever name, and erases its metadata from its members.
    StopMd {
        /// The device as which it was made.
        device: String,
        /// Its uuid as mdadm writes it: four groups of eight hexadecimal digits.
        uuid: String,
        /// Nodes of the members.
        members: Vec<String>,
    },
    /// Removes the physical volume with this uuid, whatever its device is called now.
    RemovePv {
        /// The device as which it was made.
        device: String,
        /// Its uuid as LVM writes it.
        uuid: String,
    },
    /// Removes a volume group.
    RemoveVg {
        /// Its name, which holds the run's id.
        name: String,
    },
    /// Removes a logical volume.
    RemoveLv {
        /// `VG/LV`.
        volume: String,
    },
    /// Writes what only the cache of a logical volume has to the volume, and removes the cache.
    Uncache {
        /// `VG/LV`.
        volume: String,
    },
    /// Erases the signatures of the content with this label, if that is what the device carries.
    WipeContent {
        /// Its node, or a link to it.
        device: String,
        /// What the content must carry to be erased.
        label: String,
        /// The kernel's number of this use of a loop device.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sequence: Option<u64>,
    },
    /// Closes an encrypted device.
    CloseCrypt {
        /// Its name below /dev/mapper; that of a trial holds the run's id.
        name: String,
        /// What was opened, where the name may be another's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        of: Option<Opened>,
    },
    /// Switches off the swap space with this label, whatever its device is called now.
    SwapOff {
        /// The device as which it was switched on.
        device: String,
        /// What the swap space must carry to be switched off.
        label: String,
    },
    /// Takes away what did not come to be whole of something that was to stay, or what is left of it; journals of earlier versions had a step
    /// for each kind.
    #[serde(alias = "detach", alias = "remove_export")]
    Unmake(Thing),
    /// Removes a control group that programs are held to a rate in; who is still in it goes on in the one above.
    RemoveGroup(PathBuf),
    /// Ends the processes of a load of `run`, and removes the directory that it has on what is measured.
    EndLoad {
        /// The run, which marks them.
        run: String,
        /// The directory, called [`LOAD`].
        directory: PathBuf,
    },
    /// Unmounts, if what is mounted there is what was.
    Unmount {
        /// The mount point, a directory of the run's own.
        mountpoint: PathBuf,
        /// What was mounted; journals of earlier versions do not say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<Mounted>,
    },
}

/// An encrypted device that is opened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opened {
    /// The device's node, or a link to it.
    pub device: String,
    /// The UUID in its header.
    pub uuid: String,
}

/// A device that is mounted, by what it was at the time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mounted {
    /// The device's node, or a link to it.
    pub device: String,
    /// The file system's type, as the kernel calls it; unknown in what earlier versions left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fstype: Option<String>,
    /// The device's number, `major:minor`; filled in when the step is journaled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<String>,
}

/// Name of the directory that a program, as the load, has on what is measured.
pub const LOAD: &str = "ebbtide-load";

/// Directory in which runs mount file systems.
pub const MOUNTS: &str = "/run/ebbtide";

/// The steps that build `design` on `site`.
///
/// # Errors
/// When a volume has no device, or the kernel has nothing that computes this layout.
pub fn build(design: &Design, site: &Site<'_>) -> Result<Build, BuildPlanError> {
    if let Some(directory) = &design.stack.directory {
        let (mountpoint, device) = (Some(directory.clone()), String::new());
        return Ok(Build {
            steps: Vec::new(),
            shared: 0,
            device,
            mountpoint,
            programs: Vec::new(),
            notes: Vec::new(),
        });
    }
    let mut plan = Planner {
        design,
        site,
        steps: Vec::new(),
        notes: Vec::new(),
        arrays: 0,
        mds: 0,
        on_arrays: Vec::new(),
    };
    plan.limit_members()?;
    let mut device = plan.node(&design.layout, true)?;
    if let Some(encryption) = &design.stack.encryption {
        device = plan.encrypt(&device, encryption)?;
    }
    if let Some(filesystem) = design.stack.filesystem {
        plan.make_file_system(filesystem, &device);
    }
    // Swap is the host's: nothing outlasts a trial that has some.
    let shared = if design.stack.swap.is_empty() { plan.steps.len() } else { 0 };
    plan.tune_members()?;
    plan.tune_arrays(&device);
    let mountpoint = design.stack.filesystem.map(|filesystem| plan.mount(filesystem, &device)).transpose()?;
    plan.swap()?;
    let Planner { steps, notes, .. } = plan;
    let programs = show::programs(&steps);
    Ok(Build { steps, shared, device, mountpoint, programs, notes })
}

/// The step that puts `file` behind the loop device `device`. Direct I/O, so that nothing is cached twice.
pub fn attach_loop(device: &str, file: &str) -> BuildStep {
    let arguments = ["--direct-io=on", device, file];
    BuildStep {
        action: BuildAction::Run {
            program: "losetup".to_owned(),
            arguments: arguments.map(str::to_owned).to_vec(),
        },
        undo: Some(BuildUndo::DetachLoop {
            device: device.to_owned(),
            file: file.into(),
            id: None,
            sequence: None,
        }),
    }
}

/// How many md devices `design` takes.
pub fn md_devices(design: &Design) -> usize {
    let swap = design.stack.swap.iter().flat_map(|swap| &swap.members);
    array::md_devices(std::iter::once(&design.layout).chain(swap), &design.stack)
}

/// The steps in the making.
struct Planner<'a> {
    design: &'a Design,
    site: &'a Site<'a>,
    steps: Vec<BuildStep>,
    notes: Vec<String>,
    /// Arrays begun so far: the position in `Stack::arrays`.
    arrays: usize,
    /// md numbers taken so far.
    mds: usize,
    /// What is set on arrays once all is built.
    on_arrays: Vec<(String, QueueAttribute, u32)>,
}

impl Planner<'_> {
    /// Adds a step that runs `program` with the words of `arguments`.
    fn run<S: AsRef<str>>(&mut self, program: &str, arguments: &[S], undo: Option<BuildUndo>) {
        let arguments = arguments.iter().map(|argument| argument.as_ref().to_owned()).collect();
        let action = BuildAction::Run { program: program.to_owned(), arguments };
        self.steps.push(BuildStep { action, undo });
    }

    /// What an array, a volume group or a mapping is called that stays: the outermost by the name alone.
    fn lasting_name(&self, number: usize) -> Option<String> {
        match self.site.purpose {
            Purpose::Trial => None,
            Purpose::Lasting { name, .. } if number == 0 => Some(name.to_owned()),
            Purpose::Lasting { name, .. } => Some(format!("{name}_{number}")),
        }
    }

    fn is_lasting(&self) -> bool {
        self.site.purpose != Purpose::Trial
    }

    fn identity(&self, what: &str) -> Identity {
        Identity::new(self.site.run, self.site.build, what)
    }

    fn device_of(&self, volume: usize) -> Result<String, BuildPlanError> {
        let device = self.site.devices.get(volume).filter(|device| !device.is_empty());
        device.cloned().ok_or(BuildPlanError::NoDevice { volume })
    }
}
