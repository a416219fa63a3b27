//! What kind of device a block device is: rules as data, the first that fits decides.

use serde::Serialize;

/// The kind of a whole block device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Amazon EBS volume.
    Ebs,
    /// Google Persistent Disk or Hyperdisk.
    GoogleDisk,
    /// Azure managed disk behind NVMe.
    AzureDisk,
    /// A cloud instance's own NVMe disk (EC2 instance store, Google local SSD, Azure local NVMe): lost when the
    /// instance stops.
    InstanceStore,
    /// NVMe over a fabric (TCP, RDMA, Fibre Channel).
    NvmeFabric,
    /// Local NVMe.
    Nvme,
    /// iSCSI logical unit.
    Iscsi,
    /// SATA or PATA disk.
    Sata,
    /// USB storage.
    Usb,
    /// Another SCSI disk.
    Scsi,
    /// virtio-blk or virtio-scsi disk of a virtual machine.
    Virtio,
    /// Virtual disk of User-Mode Linux.
    Uml,
    /// Xen virtual disk; on EC2 either EBS or instance store.
    Xen,
    /// Network block device.
    Nbd,
    /// Ceph RADOS block device.
    Rbd,
    /// DRBD replicated device.
    Drbd,
    /// Linux software RAID array.
    Md,
    /// LVM logical volume.
    Lvm,
    /// dm-crypt.
    Crypt,
    /// Multipath device.
    Multipath,
    /// Another device-mapper device.
    Dm,
    /// Loop device: a file as a device.
    Loop,
    /// Compressed memory.
    Zram,
    /// RAM disk.
    Ram,
    /// Optical drive.
    Optical,
    /// SD card or eMMC.
    Mmc,
    /// Null block device: no data is kept.
    Null,
    /// Nothing that the rules know.
    Other,
}

impl Kind {
    /// As it is printed.
    pub fn label(self) -> &'static str {
        match self {
            Kind::Ebs => "EBS",
            Kind::GoogleDisk => "Google disk",
            Kind::AzureDisk => "Azure disk",
            Kind::InstanceStore => "instance store",
            Kind::NvmeFabric => "NVMe-oF",
            Kind::Nvme => "NVMe",
            Kind::Iscsi => "iSCSI",
            Kind::Sata => "SATA",
            Kind::Usb => "USB",
            Kind::Scsi => "SCSI",
            Kind::Virtio => "virtio",
            Kind::Uml => "UML",
            Kind::Xen => "Xen",
            Kind::Nbd => "NBD",
            Kind::Rbd => "RBD",
            Kind::Drbd => "DRBD",
            Kind::Md => "md",
            Kind::Lvm => "LVM",
            Kind::Crypt => "crypt",
            Kind::Multipath => "multipath",
            Kind::Dm => "dm",
            Kind::Loop => "loop",
            Kind::Zram => "zram",
            Kind::Ram => "RAM",
            Kind::Optical => "optical",
            Kind::Mmc => "MMC",
            Kind::Null => "null",
            Kind::Other => "other",
        }
    }

    /// Whether its bytes travel over a network; `None` when the kind does not tell (a virtual disk can be either).
    pub fn is_network(self) -> Option<bool> {
        match self {
            Kind::Ebs
            | Kind::GoogleDisk
            | Kind::AzureDisk
            | Kind::NvmeFabric
            | Kind::Iscsi
            | Kind::Nbd
            | Kind::Rbd
            | Kind::Drbd => Some(true),
            Kind::InstanceStore
            | Kind::Nvme
            | Kind::Sata
            | Kind::Usb
            | Kind::Zram
            | Kind::Ram
            | Kind::Mmc => Some(false),
            _ => None,
        }
    }

    /// Provider of the network volumes of this kind, as the catalogue names it.
    pub fn provider(self) -> Option<&'static str> {
        match self {
            Kind::Ebs => Some("aws"),
            Kind::GoogleDisk => Some("gcp"),
            Kind::AzureDisk => Some("azure"),
            _ => None,
        }
    }
}

/// What a rule looks at.
#[derive(Debug, Clone, Copy, Default)]
pub struct DeviceTraits<'a> {
    /// Kernel name, for example `nvme0n1`.
    pub name: &'a str,
    /// Model, trimmed; empty when there is none.
    pub model: &'a str,
    /// Resolved place in sysfs, for example `.../pci0000:00/0000:00:02.0/virtio1/block/vda`.
    pub place: &'a str,
    /// Device-mapper uuid; empty for others.
    pub dm_uuid: &'a str,
    /// NVMe transport (`pcie`, `tcp`, ...); empty for others.
    pub transport: &'a str,
}

/// A rule: every text that is not empty must fit.
struct Rule {
    /// How the kernel name begins.
    name: &'static str,
    /// The whole model, or its beginning where it ends with `*`.
    model: &'static str,
    /// A part of the place in sysfs.
    place: &'static str,
    /// How the device-mapper uuid begins.
    dm_uuid: &'static str,
    /// The whole transport.
    transport: &'static str,
    kind: Kind,
}

const fn named(name: &'static str, kind: Kind) -> Rule {
    Rule { name, model: "", place: "", dm_uuid: "", transport: "", kind }
}

/// First that fits. Models of EC2: amazon-ec2-utils' udev rules and the EC2 user guide (catalog, device_identity.json);
/// of Google: the guest environment's udev rules (65-gce-disk-naming.rules); of Azure: azure-vm-utils' udev rules
/// (80-azure-disk.rules). A SCSI disk of Azure looks like any disk of Hyper-V and stays a SCSI disk here.
const RULES: &[Rule] = &[
    Rule { model: "Amazon Elastic Block Store", ..named("nvme", Kind::Ebs) },
    Rule { model: "Amazon EC2 NVMe Instance Storage", ..named("nvme", Kind::InstanceStore) },
    Rule { model: "nvme_card-pd", ..named("nvme", Kind::GoogleDisk) },
    Rule { model: "nvme_card*", ..named("nvme", Kind::InstanceStore) },
    Rule { model: "MSFT NVMe Accelerator*", ..named("nvme", Kind::AzureDisk) },
    Rule { model: "Microsoft NVMe Direct Disk*", ..named("nvme", Kind::InstanceStore) },
    Rule { transport: "tcp", ..named("nvme", Kind::NvmeFabric) },
    Rule { transport: "rdma", ..named("nvme", Kind::NvmeFabric) },
    Rule { transport: "fc", ..named("nvme", Kind::NvmeFabric) },
    named("nvme", Kind::Nvme),
    Rule { dm_uuid: "LVM-", ..named("dm-", Kind::Lvm) },
    Rule { dm_uuid: "CRYPT-", ..named("dm-", Kind::Crypt) },
    Rule { dm_uuid: "mpath-", ..named("dm-", Kind::Multipath) },
    named("dm-", Kind::Dm),
    named("md", Kind::Md),
    named("loop", Kind::Loop),
    named("zram", Kind::Zram),
    named("ram", Kind::Ram),
    named("ubd", Kind::Uml),
    named("xvd", Kind::Xen),
    named("vd", Kind::Virtio),
    Rule { model: "PersistentDisk", ..named("sd", Kind::GoogleDisk) },
    // The open-iscsi initiator's disks hang below .../hostN/sessionM/.
    Rule { place: "/session", ..named("sd", Kind::Iscsi) },
    Rule { place: "/usb", ..named("sd", Kind::Usb) },
    Rule { place: "/ata", ..named("sd", Kind::Sata) },
    Rule { place: "/virtio", ..named("sd", Kind::Virtio) },
    named("sd", Kind::Scsi),
    named("sr", Kind::Optical),
    named("mmcblk", Kind::Mmc),
    named("nbd", Kind::Nbd),
    named("rbd", Kind::Rbd),
    named("drbd", Kind::Drbd),
    named("nullb", Kind::Null),
];

/// The kind of the device with these facts.
pub fn classify(facts: &DeviceTraits<'_>) -> Kind {
    RULES
        .iter()
        .find(|r| {
            facts.name.starts_with(r.name)
                && model_fits(r.model, facts.model)
                && facts.place.contains(r.place)
                && facts.dm_uuid.starts_with(r.dm_uuid)
                && (r.transport.is_empty() || facts.transport == r.transport)
        })
        .map_or(Kind::Other, |r| r.kind)
}

fn model_fits(rule: &str, model: &str) -> bool {
    match rule.strip_suffix('*') {
        Some(beginning) => model.starts_with(beginning),
        None => rule.is_empty() || model == rule,
    }
}

/// The EBS volume id in an NVMe serial: EBS reports `volNNNN` without the dash that its id has.
pub fn ebs_volume_id(kind: Kind, serial: &str) -> Option<String> {
    let rest = serial.strip_prefix("vol").filter(|_| kind == Kind::Ebs)?;
    let rest = rest.strip_prefix('-').unwrap_or(rest);
    (!rest.is_empty()).then(|| format!("vol-{rest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_fitting_rule_decides() {
        let pci = "/sys/devices/pci0000:00/0000:00:04.0";
        for (name, model, place, dm_uuid, transport, kind) in [
            ("nvme1n1", "Amazon Elastic Block Store", pci, "", "pcie", Kind::Ebs),
            ("nvme2n1", "Amazon EC2 NVMe Instance Storage", pci, "", "pcie", Kind::InstanceStore),
            ("nvme0n1", "nvme_card-pd", pci, "", "pcie", Kind::GoogleDisk),
            ("nvme0n2", "nvme_card3", pci, "", "pcie", Kind::InstanceStore),
            ("nvme0n1", "MSFT NVMe Accelerator v1.0", pci, "", "pcie", Kind::AzureDisk),
            ("nvme1n1", "Microsoft NVMe Direct Disk v2", pci, "", "pcie", Kind::InstanceStore),
            ("sda", "PersistentDisk", "/sys/devices/pci0000:00/virtio0/host0", "", "", Kind::GoogleDisk),
            ("sda", "Virtual Disk", "/sys/devices/LNXSYSTM:00/vmbus/host0", "", "", Kind::Scsi),
            ("nvme0n1", "Samsung SSD 980 PRO 1TB", pci, "", "pcie", Kind::Nvme),
            ("nvme3n1", "Linux", "/sys/devices/virtual/nvme-fabrics/ctl/nvme3", "", "tcp", Kind::NvmeFabric),
            (
                "sda",
                "VIRTUAL-DISK",
                "/sys/devices/platform/host2/session1/target2:0:0/2:0:0:0",
                "",
                "",
                Kind::Iscsi,
            ),
            ("sdb", "WDC", "/sys/devices/pci0000:00/0000:00:1f.2/ata1/host0", "", "", Kind::Sata),
            ("sdc", "QEMU HARDDISK", "/sys/devices/pci0000:00/virtio3/host0", "", "", Kind::Virtio),
            ("sdd", "PERC H730", "/sys/devices/pci0000:00/host0", "", "", Kind::Scsi),
            ("dm-0", "", "", "LVM-4zFpRjzOif8k", "", Kind::Lvm),
            ("dm-1", "", "", "CRYPT-LUKS2-fde5223b", "", Kind::Crypt),
            ("dm-2", "", "", "", "", Kind::Dm),
            ("md127", "", "", "", "", Kind::Md),
            ("xvdf", "", "", "", "", Kind::Xen),
            ("ubda", "", "", "", "", Kind::Uml),
            ("ublkb0", "", "", "", "", Kind::Other),
        ] {
            let facts = DeviceTraits { name, model, place, dm_uuid, transport };
            assert_eq!(classify(&facts), kind, "{name} {model}");
        }
    }

    #[test]
    fn volume_ids_get_their_dash() {
        assert_eq!(ebs_volume_id(Kind::Ebs, "vol0a1b"), Some("vol-0a1b".into()));
        assert_eq!(ebs_volume_id(Kind::Ebs, "vol-0a1b"), Some("vol-0a1b".into()));
        assert_eq!(ebs_volume_id(Kind::Ebs, "AWS123"), None);
        assert_eq!(ebs_volume_id(Kind::Nvme, "vol0a1b"), None);
    }
}
