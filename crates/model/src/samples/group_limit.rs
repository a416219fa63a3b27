//! Limits of I/O that a control group sets.

use super::{Count, PerOp};
use crate::units::Bytes;
use serde::{Deserialize, Serialize};

/// What a control group that the load is in lets pass to a device, and what of it was used over the measurement
/// (`io.max` of Documentation/admin-guide/cgroup-v2.rst, `blkio.throttle.*` of cgroup-v1/blkio-controller.rst).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct GroupLimit {
    /// Where it is set: `/sys/fs/cgroup/db.slice/io.max`.
    pub file: String,
    /// Operations per second.
    #[serde(skip_serializing_if = "is_none")]
    pub iops: PerOp<Option<u64>>,
    /// Bytes per second.
    #[serde(skip_serializing_if = "is_none")]
    pub bytes: PerOp<Option<Bytes>>,
    /// What all processes of the group did on the device, where it was counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used: Option<PerOp<Count>>,
}

fn is_none<T>(limits: &PerOp<Option<T>>) -> bool {
    limits.read.is_none() && limits.write.is_none()
}
