//! Images of Ceph that the kernel's rbd has mapped, as it says itself (`/sys/bus/rbd/devices`, Documentation/ABI/testing/sysfs-bus-rbd).
//!
//! udev's links below /dev/rbd are not asked: they are missing where udev or Ceph's rules are not installed. What `rbd-nbd` maps is known to
//! its own processes alone, whose command lines prove nothing.

use crate::command::Shown as Line;
use crate::sys::{self, DevNum, Sys};
use ebbtide_model::rbd::{Image, ImageError};
use std::path::{Path, PathBuf};

/// What `current_snap` is where no snapshot is mapped.
const NO_SNAPSHOT: &str = "-";

/// An image as a device of this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapped {
    /// The image, or the snapshot of one.
    pub image: Image,
    /// The cluster that it is in, where the kernel says so (since 4.9).
    pub cluster: Option<String>,
    /// Kernel name, for example `rbd0`.
    pub device: String,
    /// Device number.
    pub dev: DevNum,
}

impl Mapped {
    /// Whether `other` is the same image, so that what is written to one is on the other.
    fn is(&self, other: &Mapped) -> bool {
        let apart = matches!((&self.cluster, &other.cluster), (Some(one), Some(another)) if one != another);
        self.image == other.image && !apart
    }
}

/// Why an image is no device of this host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotHere {
    /// The text names none.
    #[error(transparent)]
    Named(#[from] ImageError),
    /// Nobody has mapped it.
    #[error(
        "{0} is not mapped on this host: `{map}` maps it; what rbd-nbd has mapped is named by its device, such as /dev/nbd0 (`rbd-nbd list-mapped`)",
        map = map_command(.0)
    )]
    NotMapped(Image),
    /// Several devices have its name.
    #[error(
        "{image} is mapped more than once on this host, as {}: unmap all but one (`rbd device unmap /dev/{}`), or name the device where they are images of \
         different clusters",
        devices.join(" and "),
        devices.last().map_or("", String::as_str)
    )]
    Several {
        /// The image that is mapped more than once.
        image: Image,
        /// Kernel names.
        devices: Vec<String>,
    },
}

fn map_command(image: &Image) -> String {
    Line("rbd", &["device", "map", &image.spec()]).to_string()
}

/// Every image that is mapped, in the order in which people count their devices.
pub fn mapped(sys: &Sys) -> Vec<Mapped> {
    let directory = sys.sys.join("bus/rbd/devices");
    let of = |number: String| {
        let word = |name: &str| sys::word(&directory.join(&number).join(name));
        let device = format!("rbd{number}");
        let image = Image {
            pool: word("pool")?,
            namespace: word("pool_ns"),
            name: word("name")?,
            snapshot: word("current_snap").filter(|snapshot| snapshot != NO_SNAPSHOT),
        };
        let dev = sys::text(&sys.sys.join("block").join(&device).join("dev"))?.parse().ok()?;
        Some(Mapped { image, cluster: word("cluster_fsid"), device, dev })
    };
    sys::names(&directory).into_iter().filter_map(of).collect()
}

/// The id of the disk with this kernel name, where it is an image and no other device has that one's name.
pub fn id(sys: &Sys, device: &str) -> Option<String> {
    let all = if device.starts_with("rbd") { mapped(sys) } else { return None };
    let own = all.iter().find(|one| one.device == device)?;
    all.iter().all(|other| other.device == device || other.image != own.image).then(|| own.image.to_string())
}

/// Kernel names of other devices than `device` that are the same image, of all that are mapped.
pub fn same_image<'a>(all: &'a [Mapped], device: &str) -> Vec<&'a str> {
    let Some(own) = all.iter().find(|one| one.device == device) else { return Vec::new() };
    let others = all.iter().filter(|other| other.device != device && other.is(own));
    others.map(|other| other.device.as_str()).collect()
}

/// The device that `image` is on this host.
///
/// # Errors
/// When it is none, or several.
pub fn locate(sys: &Sys, image: &Image) -> Result<Mapped, NotHere> {
    let mut found: Vec<Mapped> = mapped(sys).into_iter().filter(|one| one.image == *image).collect();
    match (found.pop(), found.is_empty()) {
        (Some(one), true) => Ok(one),
        (None, _) => Err(NotHere::NotMapped(image.clone())),
        (Some(last), false) => {
            let devices = found.into_iter().chain([last]).map(|one| one.device).collect();
            Err(NotHere::Several { image: image.clone(), devices })
        }
    }
}

/// The same for what stands in the place of a path; nothing where it is one.
///
/// # Errors
/// When it begins as the name of an image and is none of this host's.
pub fn named_by(sys: &Sys, path: &Path) -> Result<Option<Mapped>, NotHere> {
    Image::named_by(path)?.map(|image| locate(sys, &image)).transpose()
}

/// Where to find what `path` names: the node of an image, or `path` itself.
///
/// # Errors
/// As [`named_by`].
pub fn path_of(sys: &Sys, path: &Path) -> Result<PathBuf, NotHere> {
    Ok(named_by(sys, path)?.map_or_else(|| path.to_owned(), |mapped| sys.dev.join(mapped.device)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::{self, Kind};
    use crate::testing::{RBD, unpack};

    fn image(text: &str) -> Image {
        text.parse().expect("an image")
    }

    #[test]
    fn an_image_is_the_device_that_the_kernel_says() {
        let root = unpack(RBD);
        let sys = Sys::below(root.path());
        let at = |text: &str| locate(&sys, &image(text)).map(|found| (found.device, found.dev.to_string()));
        assert_eq!(at("rbd:rbd/vol1"), Ok(("rbd0".to_owned(), "252:0".to_owned())));
        assert_eq!(at("rbd:fast/team-a/db"), Ok(("rbd1".to_owned(), "252:16".to_owned())));
        assert_eq!(at("rbd:rbd/vol1@monday"), Ok(("rbd10".to_owned(), "252:160".to_owned())));
        let missing = at("rbd:fast/db").expect_err("another namespace").to_string();
        assert!(
            missing.contains("`rbd device map fast/db` maps it") && missing.contains("/dev/nbd0"),
            "{missing}"
        );
        let several = at("rbd:rbd/twice").expect_err("mapped twice").to_string();
        assert!(several.contains("as rbd2 and rbd3") && several.contains("unmap /dev/rbd3"), "{several}");
        assert!(named_by(&sys, Path::new("rbd:vol1")).is_err());
        assert_eq!(named_by(&sys, Path::new("/dev/rbd0")), Ok(None));
        assert_eq!(path_of(&sys, Path::new("rbd:rbd/vol1")), Ok(sys.dev.join("rbd0")));
        assert_eq!(mapped(&Sys::below(Path::new("/no/such"))), []);
    }

    #[test]
    fn an_image_s_name_is_its_device_s_id() {
        let root = unpack(RBD);
        let devices = probe::devices(&Sys::below(root.path()));
        for (device, id) in [
            ("rbd0", Some("rbd:rbd/vol1")),
            ("rbd1", Some("rbd:fast/team-a/db")),
            ("rbd2", None),
            ("rbd3", None),
            ("rbd4", None),
            ("rbd5", None),
            ("rbd10", Some("rbd:rbd/vol1@monday")),
        ] {
            let found = devices.get(device).expect(device);
            assert_eq!((found.kind, found.ids.best()), (Kind::Rbd, id), "{device}");
            assert!(id.is_none_or(|id| found.ids.matches(id)) && !found.ids.matches("rbd:rbd/other"));
        }
    }
}
