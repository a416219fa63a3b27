//! Instance types side by side: what one volume and an array of several read and write behind each, and each instance's own disks.

use crate::array::Array;
use crate::bounds::{Bottleneck, Bound, Load, bounds};
use ebbtide_model::catalog::{Instance, OrderError, VolumeOrder, VolumeType};
use ebbtide_model::layout::ArrayKind;
use ebbtide_model::units::Bytes;
use ebbtide_model::volume::{LinkShape, Shape};
use serde::Serialize;

/// Chunk of the arrays.
const CHUNK: Bytes = Bytes(256 << 10);

/// A rate and what limits it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Rate {
    /// Per second, for ever.
    pub sustained: f64,
    /// Per second while credits last, where that is more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<f64>,
    /// What limits what is sustained.
    pub limited_by: Bottleneck,
}

/// What one array does in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Direction {
    /// Sequential bytes; absent where no source has them.
    pub throughput: Option<Rate>,
    /// Random operations of 4 KiB; absent where no source has them.
    pub iops: Option<Rate>,
}

/// One array on one instance.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cells {
    /// `single`, or `raid0` of several.
    pub layout: &'static str,
    /// Volumes of the design.
    pub count: u32,
    /// Figures of the design's reads.
    pub read: Direction,
    /// Figures of the design's writes.
    pub write: Direction,
}

/// What the planner says of one instance type.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Name of the instance type.
    pub instance: String,
    /// Its limits towards its volumes; absent where none are known.
    pub link: Option<LinkShape>,
    /// Network volumes: one, and several in RAID0.
    pub volumes: Vec<Cells>,
    /// Its own disks: one, and all of them in RAID0; empty where it has none, or where their speed is not known.
    pub disks: Vec<Cells>,
}

/// The rows of `instances` with `count` volumes of this type, each ordered so.
///
/// # Errors
/// An order that cannot be had.
pub fn table(
    instances: &[&Instance],
    record: &VolumeType,
    order: &VolumeOrder,
    count: u32,
) -> Result<Vec<Row>, OrderError> {
    let shape = record.shape(order)?;
    let row = |instance: &&Instance| {
        let link = instance.link();
        let own = instance.disk_shape().zip(instance.disks.as_ref());
        Row {
            instance: instance.id.clone(),
            volumes: both(&shape, count, link.as_ref()),
            disks: own.map_or(Vec::new(), |(shape, disks)| both(&shape, disks.count, None)),
            link: link.filter(|_| instance.volumes.is_some()),
        }
    };
    Ok(instances.iter().map(row).collect())
}

/// One volume, and `count` of them where that is more.
fn both(shape: &Shape, count: u32, link: Option<&LinkShape>) -> Vec<Cells> {
    let single = ("single", Array { kind: ArrayKind::Linear, members: 1, hosts: 1 });
    let raid0 = ("raid0", Array { kind: ArrayKind::Stripe { chunk: CHUNK }, members: count, hosts: 1 });
    [single, raid0]
        .into_iter()
        .filter(|(_, array)| array.kind == ArrayKind::Linear || count > 1)
        .map(|(layout, array)| {
            let direction = |reads| Direction {
                throughput: rate(&bounds(&array, shape, link, &Load::Sequential { reads }))
                    .filter(|_| shape.throughput.is_some()),
                iops: rate(&bounds(&array, shape, link, &Load::Random { bs: Bytes(4096), reads })),
            };
            Cells { layout, count: array.members, read: direction(1.0), write: direction(0.0) }
        })
        .collect()
}

fn rate(bounds: &[Bound]) -> Option<Rate> {
    let least = bounds.iter().min_by(|a, b| a.sustained.total_cmp(&b.sustained))?;
    let burst =
        bounds.iter().map(|bound| bound.burst.unwrap_or(bound.sustained)).fold(f64::INFINITY, f64::min);
    Some(Rate {
        sustained: least.sustained,
        burst: Some(burst).filter(|burst| *burst > least.sustained),
        limited_by: least.what,
    })
}
