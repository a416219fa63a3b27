//! Why a design has no build.

/// Why the kernel cannot build a design.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BuildPlanError {
    /// A volume without a block device.
    #[error("volume number {volume} has no block device")]
    NoDevice {
        /// Index of the volume.
        volume: usize,
    },
    /// Fewer free md numbers than arrays.
    #[error("no free md device for array number {array}; stop arrays that nobody needs")]
    NoMdNumber {
        /// Which array, from 0.
        array: usize,
    },
    /// A logical volume as a physical volume.
    #[error(
        "an LVM array is a member of another LVM array, and LVM does not look for members on its own volumes; write \
         `backing = \"md\"` for one of them"
    )]
    LvmOnLvm,
    /// A file system that stays, and no place for it.
    #[error("the design has a file system, and nothing says where it is mounted")]
    NoMountpoint,
    /// A path that cannot be an argument.
    #[error("the path {path} is not UTF-8 text, and the programs that build arrays are given text")]
    Path {
        /// The path, with replacements.
        path: String,
    },
}
