//! A guest's image: kernel, initial RAM disk and root file system, made of Debian packages.

use super::archive::Archive;
use super::files::{lock, make_directory, path, remove_directory, rename, write};
use super::machine::{Boot, Root};
use super::places::Places;
use super::settings::write_settings;
use super::tools::{self, run};
use super::{LabError, kernel, packages, recipe};
use ebbtide_door::{Directory, own, read};
use ebbtide_host::sys;
use std::io;
use std::path::{Path, PathBuf};

/// Where it is built, below the lab's directory.
const BUILDING: &str = "building";

/// Largest file of an unpacked package that is read.
const LARGEST: u64 = 1 << 30;

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

    /// The initial RAM disk.
    pub fn initrd(&self) -> PathBuf {
        self.directory.join("early.cpio")
    }

    /// The root file system, squashfs.
    pub fn root(&self) -> PathBuf {
        self.directory.join("root.squashfs")
    }

    /// What a guest with the host name `name` is started with.
    pub(super) fn boot(&self, name: &str) -> Boot {
        let words = format!("ebb.host={name}");
        Boot { kernel: self.kernel(), initrd: self.initrd(), words, root: Root::Shared(self.root()) }
    }

    /// One line `PACKAGE VERSION` for every package in it.
    pub fn contents(&self) -> PathBuf {
        self.directory.join("contents.txt")
    }

    /// Release of its kernel.
    pub fn kernel_release(&self) -> String {
        sys::word(&self.directory.join("release")).unwrap_or_default()
    }

    /// Where its files are.
    pub fn directory(&self) -> &Path {
        &self.directory
    }
}

/// The image of this recipe, if it was built.
pub fn find(places: &Places) -> Option<Image> {
    let directory = places.image();
    directory.join("release").is_file().then_some(Image { directory })
}

/// The image of this recipe; builds it where it is missing, or anew with `force`. `say` is told what happens.
///
/// # Errors
/// When programs are missing, nothing can be downloaded, or the disk is full.
pub fn build(places: &Places, force: bool, say: &mut dyn FnMut(&str)) -> Result<Image, LabError> {
    tools::check()?;
    make_directory(places.root())?;
    // Whoever comes second finds the image of the first.
    let _lock = lock(&places.root().join("build.lock"))?;
    if let (Some(image), false) = (find(places), force) {
        return Ok(image);
    }
    places.check_image(&places.image())?;
    places.remove_marked(Path::new(BUILDING))?;
    let work = places.make_marked(Path::new(BUILDING))?;
    let result = assemble(places, &work, say);
    places.remove_marked(Path::new(BUILDING))?;
    result
}

fn assemble(places: &Places, work: &Path, say: &mut dyn FnMut(&str)) -> Result<Image, LabError> {
    say("downloading the packages");
    let packages = packages::download(&work.join("downloads"), &recipe::packages())?;
    say(&format!("unpacking {} packages", packages.all().count()));
    let (root, new) = (work.join("root"), work.join("new"));
    let marked = Directory::make_all(&new).and_then(|new| new.mark());
    marked.map_err(LabError::file("make", &new))?;
    packages::unpack(&packages, &root)?;
    let release = kernel::release(&root)?;
    say(&format!("kernel {release}: choosing its modules"));
    let modules = kernel::keep_modules(&root, &release, &recipe::modules(), recipe::EARLY_MODULES)?;
    write_settings(&root)?;
    early_archive(&root, &modules, &new.join("early.cpio"))?;
    let kernel = root.join("boot").join(format!("vmlinuz-{release}"));
    rename(&kernel, &new.join("vmlinuz"))?;
    remove_directory(&root.join("boot"))?;

    say("packing the root image");
    let (from, to) = (path(&root)?, new.join("root.squashfs"));
    // lz4 unpacks fastest, which counts under emulation.
    run(
        "mksquashfs",
        &[from, path(&to)?, "-all-root", "-comp", "lz4", "-noappend", "-no-progress", "-quiet", "-no-xattrs"],
    )?;
    write(&new.join("contents.txt"), packages.contents().as_bytes())?;
    // Last: an image with it is whole.
    write(&new.join("release"), format!("{release}\n").as_bytes())?;

    let image = Image { directory: places.image() };
    places.publish_image(&new, &image.directory)?;
    Ok(image)
}

/// Writes the initial RAM disk: busybox, the modules to reach the root image, and the early init.
fn early_archive(root: &Path, modules: &[PathBuf], to: &Path) -> Result<(), LabError> {
    let read = |file: &Path| {
        read::bytes(file, LARGEST).map_err(io::Error::from).map_err(LabError::file("read", file))
    };
    let name = |file: &Path| file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let busybox = read(&root.join("usr/bin/busybox"))?;
    let list: String = modules.iter().map(|file| name(file) + "\n").collect();
    let mut files = vec![("init".to_owned(), recipe::EARLY_INIT.as_bytes().to_vec())];
    files.push(("bin/busybox".to_owned(), busybox));
    files.push(("modules/list".to_owned(), list.into_bytes()));
    for file in modules {
        files.push((format!("modules/{}", name(file)), read(file)?));
    }
    let fill = || -> std::io::Result<()> {
        let mut archive = Archive::new(std::io::BufWriter::new(own::anew(to)?));
        for directory in ["bin", "dev", "proc", "sys", "lower", "upper", "new", "modules"] {
            archive.directory(directory)?;
        }
        archive.device("dev/console", 5, 1)?;
        for (name, content) in &files {
            archive.program(name, content)?;
        }
        archive.finish().map(|_| ())
    };
    fill().map_err(LabError::file("write", to))
}
