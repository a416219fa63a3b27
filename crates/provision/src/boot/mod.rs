//! An array that a machine makes by itself at its first boot, and again where a stop has given it blank disks: without `ebb`, from what
//! cloud-init or a script puts there.
//!
//! What is made is what `ebb apply` would make of the design: the same steps ([`ebbtide_model::plan::build`]), told to a shell script
//! (`boot.sh`) whose head has what is wanted and whose body is the same for every array. It starts the array by the array's own
//! uuid, and makes it only where every disk that is asked for is blank.

mod order;
#[cfg(test)]
mod tests;
mod text;

pub use order::{BootError, BootOrder, Members};

use crate::Class;
use ebbtide_model::stack::Filesystem;

/// Most bytes of user data that EC2 takes ("16 KB, in raw form, before it is base64-encoded").
pub const USER_DATA_MAX: usize = 16 << 10;

/// All that a machine needs to make an array at boot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Boot {
    /// What the array, its unit and its script are called.
    pub name: String,
    /// What it is made of, for people: experiment and design.
    pub source: String,
    /// What becomes of it when its members come back blank.
    pub class: Class,
    /// How the machine finds the disks of the array.
    pub members: Members,
    /// Fewest disks of which it is made.
    pub least: usize,
    /// Whether it starts with a member missing.
    pub redundant: bool,
    /// Its uuid as mdadm writes it.
    pub uuid: String,
    /// Arguments of `mdadm --create DEVICE` beside uuid, name and members.
    pub create: Vec<String>,
    /// The file system on it.
    pub filesystem: Filesystem,
    /// UUID that the file system is made with.
    pub filesystem_uuid: String,
    /// Arguments of mkfs before the device.
    pub mkfs: Vec<String>,
    /// Where it is mounted.
    pub mountpoint: String,
    /// How, as `mount -o` takes it.
    pub mount_options: String,
    /// `array.FILE=VALUE` and `disk.FILE=VALUE`: files of the queues below /sys.
    pub settings: Vec<String>,
}
