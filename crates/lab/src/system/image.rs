//! The disk of a system: made once out of Debian packages, then copied for each guest.

use crate::files::{lock, make_directory, path, rename, write};
use crate::guest::{Finished, Guest, listen};
use crate::guest_directory::GuestDirectory;
use crate::machine::{self, Machine, Use};
use crate::tools::{last_lines, run};
use crate::uml::Kernel;
use crate::{LabError, Laboratory, disks, kernel, packages, recipe, settings};
use ebbtide_door::Directory;
use ebbtide_host::sys;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where it is built, below the lab's directory.
const BUILDING: &str = "building-system";
/// Name of the disk's file in the image's directory.
const DISK: &str = "system.disk";
/// Bytes of the disk, most of them holes: six times what is on it.
const SIZE: u64 = 2 << 30;
/// UUID of the root file system.
pub(super) const ROOT: &str = "d4b9a8a6-6f0e-4c57-9d0b-3f5f0c8b7e21";

/// The command in another guest that gives the script on its standard input a root to work in: the new disk's.
const SET_UP: &str = "\
modprobe md-mod
mount /dev/disk/by-id/virtio-system /mnt
for name in proc sys dev run; do mount --rbind /$name /mnt/$name; done
status=0
chroot /mnt sh -eu || status=$?
for name in proc sys dev run; do umount -R /mnt/$name; done
umount /mnt
exit $status
";

/// A system disk that was built.
#[derive(Debug, Clone)]
pub struct SystemImage {
    directory: PathBuf,
}

impl SystemImage {
    /// The disk: an ext4 file system without partitions.
    pub fn disk(&self) -> PathBuf {
        self.directory.join(DISK)
    }

    /// Release of its kernel.
    pub fn kernel_release(&self) -> String {
        sys::word(&self.directory.join("release")).unwrap_or_default()
    }
}

/// The system disk of this recipe, for User-Mode Linux or for QEMU; made where it is missing.
///
/// # Errors
/// When programs are missing, nothing can be downloaded, the disk is full, or the guest that sets it up fails.
pub fn build(laboratory: &Laboratory, uml: Option<&Kernel>) -> Result<SystemImage, LabError> {
    let places = laboratory.places();
    let image = SystemImage { directory: places.system_image(uml.is_some()) };
    let _lock = lock(&places.root().join("build-system.lock"))?;
    if image.directory.join("release").is_file() {
        return Ok(image);
    }
    places.check_image(&image.directory)?;
    places.remove_marked(Path::new(BUILDING))?;
    let work = places.make_marked(Path::new(BUILDING))?;
    let result = assemble(laboratory, uml, &work, &image);
    places.remove_marked(Path::new(BUILDING))?;
    result.map(|()| image)
}

fn assemble(
    laboratory: &Laboratory,
    uml: Option<&Kernel>,
    work: &Path,
    image: &SystemImage,
) -> Result<(), LabError> {
    let places = laboratory.places();
    laboratory.say("system disk: downloading the packages");
    let packages = packages::download(&work.join("downloads"), &recipe::system_packages())?;
    laboratory.say(&format!("system disk: unpacking {} packages", packages.all().count()));
    let (root, new) = (work.join("root"), work.join("new"));
    let marked = Directory::make_all(&new).and_then(|new| new.mark());
    marked.map_err(LabError::file("make", &new))?;
    packages::unpack(&packages, &root)?;
    if let Some(uml) = uml {
        uml.replace(&root)?;
    }
    let release = kernel::release(&root)?;
    kernel::keep_modules(&root, &release, &recipe::system_modules(), &[])?;
    settings::write_system(&root, ROOT)?;

    laboratory.say("system disk: setting it up in a guest");
    let machine = Machine {
        name: "system".to_owned(),
        memory_mib: 512,
        cpus: 2,
        disks: vec![disks::Disk {
            name: "system".to_owned(),
            bus: disks::Bus::Virtio,
            size: SIZE,
            throttle: disks::Throttle::default(),
            link: None,
        }],
        links: Vec::new(),
        place: None,
        usage: Use::Commands,
    };
    let directory = Arc::new(GuestDirectory::make(places, &machine.name)?);
    let disk = directory.path().join(machine.disks[0].file());
    let kib = format!("{}k", SIZE >> 10);
    let options = ["-q", "-t", "ext4", "-m", "0", "-U", ROOT, "-E", "root_owner=0:0", "-d"];
    run("mke2fs", &[&options[..], &[path(&root)?, path(&disk)?, &kib]].concat())?;
    let listener = listen(directory.path(), machine::SOCKET)?;
    let boot = laboratory.image().boot(&machine.name);
    let mut guest = Guest::start(&directory, &listener, &boot, laboratory, &machine)?;
    let Finished { status, output, errors } =
        guest.capture(&["sh", "-ec", SET_UP], recipe::SYSTEM_CONFIGURE.as_bytes())?;
    if status != 0 {
        let said = [output, errors].concat();
        let said = last_lines(&String::from_utf8_lossy(&said), 8);
        return Err(LabError::SetUp { status, said });
    }
    // Nothing is mounted any more: what it has written is in the file.
    drop(guest);
    rename(&disk, &new.join(DISK))?;
    write(&new.join("contents.txt"), packages.contents().as_bytes())?;
    // Last: an image with it is whole.
    write(&new.join("release"), format!("{release}\n").as_bytes())?;
    make_directory(&places.images())?;
    places.publish_image(&new, &image.directory)
}
