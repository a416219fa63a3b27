//! `aws ec2 describe-volumes`: the volumes that somebody has. Field names: EC2 API reference, Volume.

use super::AwsError;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// Equal volumes that somebody has.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OwnedVolumes {
    /// Id of their type, for example `gp3`.
    pub volume_type: String,
    /// How many volumes of this kind there are.
    pub count: u32,
    /// Size of each in GiB.
    pub size_gib: u64,
    /// Operations per second that are ordered with each (EC2 tells those of gp2 too, which its size gives).
    pub iops: Option<u64>,
    /// MiB/s that are ordered with each.
    pub throughput_mib: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Listed {
    volume_type: String,
    size: u64,
    iops: Option<u64>,
    throughput: Option<u64>,
    state: Option<String>,
}

/// Volumes on their way out.
const GONE: [&str; 3] = ["deleting", "deleted", "error"];

pub(super) fn read(listed: Value) -> Result<Vec<OwnedVolumes>, AwsError> {
    let listed: Vec<Listed> = serde_json::from_value(listed)
        .map_err(|error| AwsError::Shape { command: "aws ec2 describe-volumes", what: error.to_string() })?;
    let mut groups: BTreeMap<_, u32> = BTreeMap::new();
    for volume in listed {
        if volume.state.as_deref().is_some_and(|state| GONE.contains(&state)) {
            continue;
        }
        *groups.entry((volume.volume_type, volume.size, volume.iops, volume.throughput)).or_default() += 1;
    }
    let owned = |((volume_type, size_gib, iops, throughput_mib), count)| OwnedVolumes {
        volume_type,
        count,
        size_gib,
        iops,
        throughput_mib,
    };
    Ok(groups.into_iter().map(owned).collect())
}
