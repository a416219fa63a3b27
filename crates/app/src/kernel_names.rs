//! Devices that a file names as the kernel numbers them: `/dev/sdb` is another disk after the next boot.

use ebbtide_host::probe::steadiest_name;
use ebbtide_model::experiment::{Experiment, VolumeSource};
use ebbtide_model::shown::Shown;
use std::path::Path;

/// Where udev puts names that stay.
const BY_ID: &str = "/dev/disk/by-id";

/// A note for each volume of `experiment` that has such a name, with the one to write.
pub fn notes(experiment: &Experiment) -> Vec<String> {
    let named = experiment.volumes.iter().filter_map(|volume| match &volume.source {
        VolumeSource::Device { path, .. } if is_numbered(path) => Some((volume, path)),
        _ => None,
    });
    named
        .map(|(volume, path)| {
            let instead = match by_id(path) {
                Some(name) => format!("write `device = \"{BY_ID}/{name}\"`"),
                None => format!("write its name below {BY_ID} (`ebb volumes` lists it), where it has one"),
            };
            format!(
                "volume {}: {} is what the kernel called it at this boot, and may be another disk at the next; {instead}",
                volume.name,
                path.shown()
            )
        })
        .collect()
}

/// Whether the kernel numbers disks so: in the order in which it finds them.
fn is_numbered(path: &Path) -> bool {
    let Some(name) = path.strip_prefix("/dev").ok().and_then(|name| name.to_str()) else { return false };
    let lettered =
        ["sd", "vd", "xvd", "hd", "ubd"].iter().filter_map(|kind| name.strip_prefix(kind)).any(|rest| {
            let letters = rest.trim_end_matches(|c: char| c.is_ascii_digit());
            !letters.is_empty() && letters.bytes().all(|byte| byte.is_ascii_lowercase())
        });
    let numbered = name.strip_prefix("nvme").is_some_and(|rest| {
        let mut parts =
            rest.splitn(2, 'n').map(|part| part.trim_end_matches(|c: char| c == 'p' || c.is_ascii_digit()));
        rest.starts_with(|c: char| c.is_ascii_digit()) && parts.next() == Some("") && parts.next() == Some("")
    });
    // Numbers of loop and RAM disks are chosen by who makes them, at each boot anew.
    let counted =
        ["md", "dm-", "mmcblk", "nbd", "rbd"].iter().filter_map(|kind| name.strip_prefix(kind)).any(|rest| {
            let is_part = |c: char| c == 'p' || c.is_ascii_digit();
            rest.starts_with(|c: char| c.is_ascii_digit()) && rest.chars().all(is_part)
        });
    lettered || numbered || counted
}

/// The name below `/dev/disk/by-id` that leads to `path`, the steadiest of several.
fn by_id(path: &Path) -> Option<String> {
    let device = path.canonicalize().ok()?;
    let links = Path::new(BY_ID).read_dir().ok()?.filter_map(Result::ok);
    let leads = |link: &std::fs::DirEntry| link.path().canonicalize().is_ok_and(|to| to == device);
    let names: Vec<String> =
        links.filter(leads).filter_map(|link| link.file_name().into_string().ok()).collect();
    steadiest_name(&names).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_the_kernel_gives_are_told_from_those_that_stay() {
        for name in [
            "sdb",
            "sdaa",
            "sdb1",
            "vdc",
            "xvdf",
            "ubda",
            "nvme1n1",
            "nvme10n2p3",
            "md127",
            "md0p1",
            "dm-3",
            "mmcblk0",
            "mmcblk0p2",
            "nbd0",
            "rbd0p1",
        ] {
            assert!(is_numbered(&Path::new("/dev").join(name)), "{name}");
        }
        for name in [
            "disk/by-id/nvme-a",
            "md/data",
            "mapper/vg-lv",
            "vg/lv",
            "nvme-fabrics",
            "nvme",
            "sd",
            "loop3",
            "ram0",
            "md_data",
            "dm-x",
            "nvmex1n1",
        ] {
            assert!(!is_numbered(&Path::new("/dev").join(name)), "{name}");
        }
        assert!(!is_numbered(Path::new("/data/sdb")));
    }
}
