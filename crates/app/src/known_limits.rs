//! The known limits of a host's volumes: what the catalogue has for their kind, size and instance.
//!
//! A device does not tell which type it is of or what was ordered with it, so that nothing narrower than the types
//! that have its size is said of it.

use ebbtide_host::probe::{BlockDevice, Cloud, Kind};
use ebbtide_model::catalog::{Candidate, Catalog, DiskSpeed};
use ebbtide_model::units::Bytes;
use ebbtide_model::volume::LinkShape;
use serde::Serialize;

/// What is known of the limits of the volumes shown.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct KnownLimits {
    /// Volumes of the same kind and size.
    pub volumes: Vec<VolumeLimits>,
    /// What the instance grants all its network volumes together.
    pub instance: Option<InstanceLink>,
}

/// Limits of volumes of one kind and size.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct VolumeLimits {
    /// Kernel names.
    pub devices: Vec<String>,
    pub kind: Kind,
    /// Size of each.
    pub size: Bytes,
    pub known: Known,
}

/// What is known of a volume's limits.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Known {
    /// It is of one of these types, or of one that the catalogue does not have.
    OneOf(Vec<Candidate>),
    /// One of the instance's own disks.
    Disk {
        instance: String,
        /// Speed of one disk.
        speed: DiskSpeed,
    },
    /// Nothing is known of it, for this reason.
    Nothing(String),
}

/// What an instance grants all its network volumes together.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct InstanceLink {
    /// Instance type, as the firmware tells it.
    pub instance: String,
    pub link: LinkShape,
    /// Where the figures come from.
    pub sources: Vec<String>,
}

/// The limits of those of `devices` whose kind the catalogue may know.
pub fn known<'a>(
    catalog: &Catalog,
    cloud: Option<&Cloud>,
    devices: impl Iterator<Item = &'a BlockDevice>,
) -> KnownLimits {
    let mut found = KnownLimits::default();
    for device in devices.filter(|d| d.partition_of.is_none()) {
        if device.kind.provider().is_none() && device.kind != Kind::InstanceStore {
            continue;
        }
        match found.volumes.iter_mut().find(|v| (v.kind, v.size) == (device.kind, device.size)) {
            Some(same) => same.devices.push(device.name.clone()),
            None => found.volumes.push(VolumeLimits {
                devices: vec![device.name.clone()],
                kind: device.kind,
                size: device.size,
                known: of_volume(catalog, cloud, device),
            }),
        }
    }
    if found.volumes.iter().any(|v| v.kind == Kind::Ebs) {
        found.instance = link(catalog, cloud);
    }
    found
}

fn of_volume(catalog: &Catalog, cloud: Option<&Cloud>, device: &BlockDevice) -> Known {
    if let Some(provider) = device.kind.provider() {
        let candidates = catalog.candidates(provider, device.size);
        return match candidates.is_empty() {
            true => Known::Nothing("the catalogue has no type of this size".to_owned()),
            false => Known::OneOf(candidates),
        };
    }
    let Some(instance) = cloud.and_then(|c| c.instance.as_ref()) else {
        return Known::Nothing("the firmware does not tell the instance type".to_owned());
    };
    let disks = catalog.instance(instance).ok().and_then(|i| i.disks.as_ref());
    match disks.and_then(|d| d.speed.clone()) {
        Some(speed) => Known::Disk { instance: instance.clone(), speed },
        None => Known::Nothing(format!("the catalogue has no speed of the disks of {instance}")),
    }
}

fn link(catalog: &Catalog, cloud: Option<&Cloud>) -> Option<InstanceLink> {
    let instance = catalog.instance(cloud?.instance.as_ref()?).ok()?;
    // Without limits towards volumes the link would be the instance's network, which EBS need not use.
    instance.volumes?;
    Some(InstanceLink {
        instance: instance.id.clone(),
        link: instance.link()?,
        sources: instance.sources.clone(),
    })
}
