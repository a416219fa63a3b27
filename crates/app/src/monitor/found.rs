//! What a pass finds of a volume's host and of the volume, by which the next one tells what happened.

use ebbtide_host::build::lasting;
use ebbtide_host::hostinfo::host_info;
use ebbtide_host::probe::BlockDevice;
use ebbtide_host::sys::{self, Sys};
use ebbtide_model::monitor::events::VolumeContext;
use ebbtide_model::units::UnixTime;

/// Of the host alone.
pub fn host(sys: &Sys) -> VolumeContext {
    let info = host_info(sys);
    let some = |text: String| Some(text).filter(|text| !text.is_empty());
    let stat = sys::text(&sys.proc.join("stat")).unwrap_or_default();
    VolumeContext {
        host: info.hostname,
        machine_id: some(lasting::machine(sys)),
        machine: info.machine,
        boot: sys.boot(),
        booted: sys::field(&stat, "btime").and_then(|text| text.parse().ok()).map(UnixTime::from_secs),
        kernel: some(info.kernel),
        ..VolumeContext::default()
    }
}

/// The same with what is found of `device`.
pub fn device(host: &VolumeContext, device: &BlockDevice) -> VolumeContext {
    let kind = device.kind.label();
    let model = device.ids.model.as_deref().map(str::trim).filter(|model| !model.is_empty());
    VolumeContext {
        device: Some(device.name.clone()),
        kind: Some(model.map_or_else(|| kind.to_owned(), |model| format!("{kind} ({model})"))),
        bytes: Some(device.size),
        ..host.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebbtide_host::probe;
    use ebbtide_host::testing::unpack;

    #[test]
    fn a_recorded_guest_is_found_with_its_disks() {
        let tree = include_str!("../../../host/tests/trees/arrays.tree");
        let more = "f /proc/stat\n|cpu 1 2\n|btime 1700000000\nf /proc/sys/kernel/random/boot_id\n|b-1\nf /etc/machine-id\n|m-1\n";
        let root = unpack(&format!("{tree}\n{more}"));
        let sys = Sys::below(root.path());
        let of_host = host(&sys);
        assert_eq!((of_host.host.as_str(), of_host.machine_id.as_deref()), ("rec", Some("m-1")));
        assert_eq!(
            (of_host.boot.as_deref(), of_host.booted),
            (Some("b-1"), Some(UnixTime::from_secs(1_700_000_000)))
        );
        let devices = probe::devices(&sys);
        let found = device(&of_host, devices.get("nvme3n1").expect("is there"));
        assert_eq!((found.device.as_deref(), found.boot.as_deref()), (Some("nvme3n1"), Some("b-1")));
        assert!(found.kind.is_some_and(|kind| kind.contains("QEMU NVMe Ctrl")) && found.bytes.is_some());
    }
}
