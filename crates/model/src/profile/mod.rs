//! Profiles: the field's own workloads by name. A profile is data: which files it needs, and a course of jobs, the next
//! of which may depend on what the earlier ones showed, which `ebbtide-analysis` judges.

mod catalogue;
mod course;
mod seek;

pub use catalogue::{BONNIE_CHUNK, BONNIE_SEEKERS, BONNIE_SEEKS, PROFILES, Profile};
pub use course::Course;
pub use seek::{PASSES, Seek};

use crate::units::{Bytes, Nanos};
use crate::workload::Workload;

/// What the user said, and what the host is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProfileRequest {
    /// Bytes of the file, or of the device that is used.
    pub size: Option<Bytes>,
    /// Measured time of a step.
    pub runtime: Option<Nanos>,
    /// Memory of the host.
    pub memory: Bytes,
    /// What the order of steps is drawn from, where it is random.
    pub seed: u64,
    /// Sizes with O_DIRECT are multiples of this, where the steps run.
    pub direct_unit: Bytes,
}

/// What any disk and file system takes with O_DIRECT.
pub const DIRECT_UNIT: Bytes = Bytes(4096);

/// One job of a course.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// As results call it.
    pub name: String,
    /// Index of the set of files that it runs on.
    pub files: usize,
    /// What the job runs.
    pub workload: Workload,
    /// What the reader of its results must know.
    pub note: Option<String>,
}

impl Step {
    /// A job on the first set of files.
    fn named(name: String, workload: Workload) -> Step {
        Step { workload: Workload { name: name.clone(), ..workload }, name, files: 0, note: None }
    }
}

/// Files that a profile runs on, one after the other as one target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Files {
    /// How many; 1 may also be a device or an existing file.
    pub count: u32,
    /// Size of each file.
    pub size: Bytes,
    /// Whether they have to be filled before, because they are read before they are written.
    pub fill: bool,
}

impl Files {
    /// Bytes of all of them.
    pub fn all(&self) -> Bytes {
        Bytes(self.size.0.saturating_mul(self.count.into()))
    }
}
