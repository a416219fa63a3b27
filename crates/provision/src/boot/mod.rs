//! An array that a machine makes by itself at its first boot: from user data for cloud-init, or from a script that is run by hand.
//!
//! With `ebb` a script brings it to the machine, with the experiment, and `ebb apply` does the rest ([`Brought`]).
//! Without `ebb` ([`Boot`]) a shell script (`boot.sh`) takes the steps of `ebb apply` ([`ebbtide_model::plan::build`]). Its head has what
//! is wanted, its body is the same for every array. It makes the array once, of blank disks; from then on the system's own files
//! bring it back.

mod order;
#[cfg(test)]
mod tests;
mod text;

pub use order::{BootError, BootOrder, Members};
pub use text::{WAIT, cloud_config};

use ebbtide_model::stack::Filesystem;

/// Most bytes of user data that EC2 takes ("16 KB, in raw form, before it is base64-encoded").
pub const USER_DATA_MAX: usize = 16 << 10;

/// All that a machine needs to make an array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Boot {
    /// What the array and the script are called.
    pub name: String,
    /// What it is made of, for people: experiment and design.
    pub source: String,
    /// How the machine finds the disks of the array.
    pub members: Members,
    /// Of how many disks it is made.
    pub wanted: usize,
    /// Arguments of `mdadm --create DEVICE` beside name and members.
    pub create: Vec<String>,
    /// The file system on it.
    pub filesystem: Filesystem,
    /// Arguments of mkfs before the device.
    pub mkfs: Vec<String>,
    /// Where it is mounted.
    pub mountpoint: String,
    /// fstab's fields after the uuid.
    pub fstab: String,
    /// `array.FILE=VALUE` and `disk.FILE=VALUE`: files of the queues below /sys.
    pub settings: Vec<String>,
}

/// Where a machine gets `ebb` from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ebb {
    /// It is in the image.
    Installed,
    /// It is fetched.
    Fetched {
        /// From there.
        url: String,
        /// What it has to be, in hexadecimal digits.
        sha256: String,
    },
}

/// All that a machine needs to have `ebb apply` make a design.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Brought {
    /// What the design is called on the machine.
    pub name: String,
    /// What is made, for people: experiment and design.
    pub source: String,
    /// How the machine finds the disks.
    pub members: Members,
    /// Where it gets `ebb` from.
    pub ebb: Ebb,
    /// Programs that have to be there.
    pub programs: Vec<String>,
    /// The design that `ebb apply` makes.
    pub design: String,
    /// Its options, with their values.
    pub arguments: Vec<String>,
    /// Text of the experiment file.
    pub experiment: String,
}
