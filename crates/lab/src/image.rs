//! What guests boot, made once out of Debian packages by the script `lab/build`: here the kernel, the initial RAM disk and the root
//! file system of guests of QEMU.

use super::files::{lock, make_directory, path, write};
use super::machine::{Boot, Root};
use super::places::Places;
use super::tools::{self, run};
use super::{LabError, recipe};
use ebbtide_door::Directory;
use ebbtide_host::sys;
use std::path::{Path, PathBuf};

/// The file of an image that says the release of its kernel. It is made last: an image with it is whole.
const RELEASE: &str = "release";

/// An image that was built.
#[derive(Debug, Clone)]
pub struct Image {
    directory: PathBuf,
}

impl Image {
    /// The file that QEMU boots.
    pub fn kernel(&self) -> PathBuf {
        self.directory.join("vmlinuz")
    }

    /// What a guest with the host name `name` is started with.
    pub(super) fn boot(&self, name: &str) -> Boot {
        let words = format!("ebb.host={name}");
        let initrd = self.directory.join("early.cpio");
        Boot {
            kernel: self.kernel(),
            initrd,
            words,
            root: Root::Shared(self.directory.join("root.squashfs")),
        }
    }

    /// Release of its kernel.
    pub fn kernel_release(&self) -> String {
        release(&self.directory)
    }

    /// Where its files are.
    pub fn directory(&self) -> &Path {
        &self.directory
    }
}

/// The release of the kernel of what was made in `directory`.
pub(super) fn release(directory: &Path) -> String {
    sys::word(&directory.join(RELEASE)).unwrap_or_default()
}

/// The image of this recipe, if it was built.
pub fn find(places: &Places) -> Option<Image> {
    let directory = places.image("");
    directory.join(RELEASE).is_file().then_some(Image { directory })
}

/// The image of this recipe; builds it where it is missing, or anew with `force`. `say` is told what happens.
///
/// # Errors
/// When programs are missing, nothing can be downloaded, or the disk is full.
pub fn build(places: &Places, force: bool, say: &mut dyn FnMut(&str)) -> Result<Image, LabError> {
    tools::check()?;
    let directory = make(places, "", force, |work| {
        say("downloading the packages");
        let count = step(work, &["download", "packages"])?;
        say(&format!("unpacking {count} packages"));
        step(work, &["unpack"])?;
        let release = step(work, &["modules", "modules"])?;
        say(&format!("kernel {release}: packing the root image"));
        step(work, &["image", &release]).map(drop)
    })?;
    Ok(Image { directory })
}

/// The directory of the image of this `kind`, whose name begins with that. Where it is missing, or with `force`, `fill` has the script make it
/// in a directory of its own. Whoever comes second finds that of the first.
pub(super) fn make(
    places: &Places,
    kind: &str,
    force: bool,
    fill: impl FnOnce(&Path) -> Result<(), LabError>,
) -> Result<PathBuf, LabError> {
    let image = places.image(kind);
    make_directory(&places.images())?;
    let _lock = lock(&places.root().join(format!("{kind}build.lock")))?;
    if image.join(RELEASE).is_file() && !force {
        return Ok(image);
    }
    places.check_removable(&image)?;
    let building = places.root().join(format!("{kind}building"));
    places.remove_marked(&building)?;
    places.make_marked(&building)?;
    let filled = || {
        for (name, content) in recipe::FILES {
            write(&building.join(name), content.as_bytes())?;
        }
        let new = building.join("new");
        Directory::make_all(&new).and_then(|new| new.mark()).map_err(LabError::file("make", &new))?;
        fill(&building)?;
        places.publish(&new, &image)
    };
    let filled = filled();
    places.remove_marked(&building)?;
    filled.map(|()| image)
}

/// Has the script do one step in `work`; what it said, without the end of the line.
pub(super) fn step(work: &Path, arguments: &[&str]) -> Result<String, LabError> {
    let said = run("env", &[&["-C", path(work)?, "sh", "-eu", "build"], arguments].concat())?;
    Ok(said.text().trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::process::{Command, Output};

    /// A directory with the recipe in it, and programs of our own before the host's.
    struct Making(tempfile::TempDir);

    impl Making {
        fn new(programs: &[(&str, &str)]) -> Making {
            let making = Making(tempfile::tempdir().expect("a directory"));
            recipe::FILES.iter().for_each(|(name, content)| making.write(name, content));
            for (name, content) in programs {
                making.write(name, &format!("#!/bin/sh\n{content}\n"));
                fs::set_permissions(making.0.path().join(name), fs::Permissions::from_mode(0o755))
                    .expect("sets");
            }
            making.write("new/.ebbtide", "");
            making
        }

        fn write(&self, name: &str, content: &str) {
            let path = self.0.path().join(name);
            fs::create_dir_all(path.parent().expect("above")).expect("makes");
            fs::write(path, content).expect("writes");
        }

        fn step(&self, arguments: &[&str]) -> Output {
            let path = format!("{}/bin:/usr/sbin:/usr/bin:/bin", self.0.path().display());
            let mut command = Command::new("sh");
            command.args(["-eu", "build"]).args(arguments).current_dir(&self.0).env("PATH", path);
            command.output().expect("runs")
        }

        fn said(&self, arguments: &[&str]) -> String {
            let output = self.step(arguments);
            assert!(output.status.success(), "{output:?}");
            String::from_utf8(output.stdout).expect("text")
        }

        fn text(&self, name: &str) -> String {
            fs::read_to_string(self.0.path().join(name)).expect("reads")
        }
    }

    #[test]
    fn the_newest_kernel_is_named_by_its_dependency_and_the_rest_by_the_list() {
        let apt_get = r#"case "$*" in
*download-only*) touch ../debs/mdadm.deb ../debs/libc6.deb; echo "$@" >../asked ;;
*" download "* | "download "*) touch "$2.deb" ;;
esac"#;
        let depends = "echo 'linux-image-cloud-amd64'; echo '  Depends: linux-image-6.1.0-41-cloud-amd64'; echo '    linux-image-x'";
        let making = Making::new(&[("bin/apt-get", apt_get), ("bin/apt-cache", depends)]);
        assert_eq!(making.said(&["download", "packages"]), "3\n");
        assert!(making.0.path().join("debs/linux-image-6.1.0-41-cloud-amd64.deb").is_file());
        assert!(making.text("asked").contains(" mdadm lvm2 "), "{}", making.text("asked"));
        let making = Making::new(&[("bin/apt-get", apt_get), ("bin/apt-cache", "echo x")]);
        let output = making.step(&["download", "packages"]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains("have no linux-image-cloud-amd64"), "{said}");
    }

    #[test]
    fn packages_are_unpacked_without_their_documentation_and_named_with_their_versions() {
        let making = Making::new(&[]);
        let control = "Package: mdadm\nVersion: 1:4.2-5\nArchitecture: all\nMaintainer: m <m@example.org>\nDescription: d\n";
        making.write("package/DEBIAN/control", control);
        for file in ["sbin/mdadm", "usr/share/doc/mdadm/README", "usr/share/mdadm/mkconf"] {
            making.write(&format!("package/{file}"), file);
        }
        making.write("debs/none", "");
        let built = Command::new("dpkg-deb")
            .args(["-b", "package", "debs/mdadm.deb"])
            .current_dir(&making.0)
            .output()
            .expect("runs");
        assert!(built.status.success(), "{built:?}");
        making.said(&["unpack"]);
        assert_eq!(making.text("new/contents.txt"), "mdadm 1:4.2-5\n");
        assert_eq!(making.text("root/usr/sbin/mdadm"), "sbin/mdadm");
        assert_eq!(making.text("root/usr/share/mdadm/mkconf"), "usr/share/mdadm/mkconf");
        assert!(!making.0.path().join("root/usr/share/doc").exists());
        making.write("debs/none.deb", "no package");
        fs::remove_dir_all(making.0.path().join("root")).expect("removes");
        assert!(!making.step(&["unpack"]).status.success());
    }

    #[test]
    fn of_modules_those_stay_that_are_named_and_what_they_need() {
        // As modprobe says it, which is asked through the guest's own loader.
        let kmod = r#"[ "$2" = modprobe ] || exit 0
for name; do case $name in
raid0) printf 'insmod /x/lib/modules/6.1.0-1/kernel/drivers/md/md-mod.ko \ninsmod /x/lib/modules/6.1.0-1/kernel/drivers/md/raid0.ko \n' ;;
virtio_blk) echo builtin virtio_blk; missing=1 ;;
esac; done; exit ${missing:-0}"#;
        let making = Making::new(&[("root/usr/lib64/ld-linux-x86-64.so.2", kmod)]);
        for name in ["drivers/md/md-mod", "drivers/md/raid0", "drivers/md/raid1", "fs/jfs/jfs"] {
            making.write(&format!("root/usr/lib/modules/6.1.0-1/kernel/{name}.ko"), name);
        }
        assert_eq!(making.said(&["modules", "modules"]), "6.1.0-1\n");
        let found = Command::new("find").args(["root", "-name", "*.ko"]).current_dir(&making.0).output();
        let mut found: Vec<String> = String::from_utf8(found.expect("finds").stdout)
            .expect("text")
            .lines()
            .map(str::to_owned)
            .collect();
        found.sort();
        let at = "root/usr/lib/modules/6.1.0-1/kernel/drivers/md";
        assert_eq!(found, [format!("{at}/md-mod.ko"), format!("{at}/raid0.ko")]);
        // What a guest cannot reach its image without has to be there.
        assert!(!making.step(&["image", "6.1.0-1"]).status.success());
        assert!(!making.0.path().join("new/release").exists());
        making.write("root/usr/lib/modules/6.1.0-2/x", "");
        let two = making.step(&["modules", "modules"]);
        assert!(
            String::from_utf8_lossy(&two.stderr).contains("one kernel, found: 6.1.0-1 6.1.0-2"),
            "{two:?}"
        );
    }
}
