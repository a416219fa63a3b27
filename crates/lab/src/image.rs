//! A guest's image: kernel, initial RAM disk and root file system, made of Debian packages.
//!
//! Packages are unpacked, never installed: no maintainer script runs, nothing is booted, nothing needs root, and
//! the host's package database is neither read nor changed.

use super::archive::Archive;
use super::files::{lock, make_directory, remove_directory, rename, write};
use super::modules::Dependencies;
use super::places::Places;
use super::settings::write_settings;
use super::tools::{self, run};
use super::{LabError, recipe};
use ebbtide_door::{Directory, own, read};
use ebbtide_host::sys;
use ebbtide_model::shown::Shown;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

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
    places.check_image()?;
    places.remove_marked(Path::new(BUILDING))?;
    let work = places.make_marked(Path::new(BUILDING))?;
    let result = assemble(places, &work, say);
    places.remove_marked(Path::new(BUILDING))?;
    result
}

fn assemble(places: &Places, work: &Path, say: &mut dyn FnMut(&str)) -> Result<Image, LabError> {
    say("downloading the packages");
    let packages = download(&work.join("downloads"))?;
    say(&format!("unpacking {} packages", packages.guest.len() + 1));
    let (root, new) = (work.join("root"), work.join("new"));
    let marked = Directory::make_all(&new).and_then(|new| new.mark());
    marked.map_err(LabError::file("make", &new))?;
    // Debian's merged /usr: packages that still have files in /bin follow these links.
    for name in ["bin", "sbin", "lib", "lib64"] {
        make_directory(&root.join("usr").join(name))?;
        own::link(&format!("usr/{name}"), &root.join(name))
            .map_err(LabError::file("make the link", &root.join(name)))?;
    }
    for package in packages.guest.iter().chain([&packages.kernel]) {
        unpack(package, &root)?;
    }
    let release = kernel_release(&root)?;
    say(&format!("kernel {release}: choosing its modules"));
    let modules = keep_modules(&root, &release)?;
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
    let contents: Vec<String> = packages.guest.iter().chain([&packages.kernel]).map(|p| label(p)).collect();
    write(&new.join("contents.txt"), (contents.join("\n") + "\n").as_bytes())?;
    // Last: an image with it is whole.
    write(&new.join("release"), format!("{release}\n").as_bytes())?;

    let image = Image { directory: places.image() };
    make_directory(&places.images())?;
    // Guests that run keep the old files open.
    places.remove_marked(image.directory.strip_prefix(places.root()).unwrap_or(&image.directory))?;
    rename(&new, &image.directory)?;
    Ok(image)
}

/// Package files.
struct Packages {
    kernel: PathBuf,
    guest: Vec<PathBuf>,
}

/// Downloads into the empty directory `to` with apt-get, from the host's package sources, but with lists and a
/// package database of its own in which nothing is installed: what comes is everything that the packages need.
fn download(to: &Path) -> Result<Packages, LabError> {
    let (archives, kernel) = (to.join("archives"), to.join("kernel"));
    for directory in [to.join("lists/partial"), archives.join("partial"), kernel.clone()] {
        make_directory(&directory)?;
    }
    let status = to.join("status");
    write(&status, b"")?;
    let options = [
        format!("Dir::State={}", path(to)?),
        format!("Dir::State::lists={}", path(&to.join("lists"))?),
        format!("Dir::State::status={}", path(&status)?),
        format!("Dir::Cache={}", path(to)?),
        format!("Dir::Cache::archives={}", path(&archives)?),
        "APT::Architecture=amd64".to_owned(),
        "APT::Architectures=amd64".to_owned(),
        "APT::Install-Recommends=false".to_owned(),
        // The files are this user's, not those of apt's own user.
        "APT::Sandbox::User=root".to_owned(),
        "Debug::NoLocking=1".to_owned(),
    ];
    let options: Vec<&str> = options.iter().flat_map(|option| ["-o", option]).collect();
    let apt = |program: &str, more: &[&str]| run_in(&kernel, program, &[&options, more].concat());

    apt("apt-get", &["-q", "update"])?;
    let depends = apt("apt-cache", &["depends", recipe::KERNEL])?;
    let package = kernel_package(&depends).ok_or_else(|| {
        LabError::Unexpected(format!(
            "the package sources of this host have no {}: the lab needs those of Debian",
            recipe::KERNEL
        ))
    })?;
    // The kernel alone: what it depends on is for making it bootable from a disk.
    apt("apt-get", &["-q", "download", package])?;
    apt("apt-get", &[&["-q", "-y", "--download-only", "install"], recipe::packages().as_slice()].concat())?;
    match debs(&kernel)?.pop() {
        Some(kernel) => Ok(Packages { kernel, guest: debs(&archives)? }),
        None => Err(LabError::Unexpected(format!("apt-get has not downloaded {package}"))),
    }
}

/// The kernel package in what `apt-cache depends` says of the package that follows the newest kernel.
fn kernel_package(depends: &str) -> Option<&str> {
    let mut needed = depends.lines().filter_map(|line| line.trim().strip_prefix("Depends: "));
    needed.find(|name| name.starts_with("linux-image-"))
}

/// The package files in `directory`.
fn debs(directory: &Path) -> Result<Vec<PathBuf>, LabError> {
    let entries = std::fs::read_dir(directory).map_err(LabError::file("read", directory))?;
    let mut found: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    found.retain(|path| path.extension().is_some_and(|ending| ending == "deb"));
    found.sort();
    Ok(found)
}

/// `PACKAGE VERSION` of a package file, from its name `PACKAGE_VERSION_ARCHITECTURE.deb`.
fn label(package: &Path) -> String {
    let name = package.file_stem().unwrap_or_default().to_string_lossy();
    let mut parts = name.split('_');
    let (name, version) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    format!("{name} {}", version.replace("%3a", ":"))
}

/// Unpacks a package's files, without its documentation, into `root`.
fn unpack(package: &Path, root: &Path) -> Result<(), LabError> {
    let start = |error: std::io::Error| LabError::file("unpack", package)(error);
    let mut source = Command::new("dpkg-deb")
        .args([OsStr::new("--fsys-tarfile"), package.as_os_str()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(start)?;
    let mut arguments = vec!["-x", "-C", path(root)?, "--keep-directory-symlink", "--no-same-owner"];
    let left_out: Vec<String> = ["doc", "man", "locale", "info", "i18n", "lintian", "bug"]
        .iter()
        .map(|name| format!("--exclude=./usr/share/{name}"))
        .collect();
    arguments.extend(left_out.iter().map(String::as_str));
    arguments.push("--exclude=./usr/lib/x86_64-linux-gnu/gconv");
    let unpacked = Command::new("tar")
        .args(&arguments)
        .stdin(source.stdout.take().map_or_else(Stdio::null, Stdio::from))
        .stdout(Stdio::null())
        .output()
        .map_err(LabError::file("unpack", package));
    // Waited for in every case, so that no process stays.
    let read = source.wait().map_err(LabError::file("unpack", package))?;
    let unpacked = unpacked?;
    if !unpacked.status.success() {
        let said = String::from_utf8_lossy(&unpacked.stderr);
        return Err(tools::failed("tar", &arguments, unpacked.status.code(), &said));
    }
    match read.success() {
        true => Ok(()),
        false => Err(tools::failed("dpkg-deb", &["--fsys-tarfile", path(package)?], read.code(), "")),
    }
}

/// The only kernel's release, from the name of its modules' folder.
fn kernel_release(root: &Path) -> Result<String, LabError> {
    let found = super::places::directories(&root.join("usr/lib/modules"));
    match found.as_slice() {
        [one] => Ok(one.file_name().unwrap_or_default().to_string_lossy().into_owned()),
        _ => Err(LabError::Unexpected(format!("expected the modules of one kernel, found {}", found.len()))),
    }
}

/// Removes the modules that are not on the list; returns the files for the initial RAM disk, in order.
fn keep_modules(root: &Path, release: &str) -> Result<Vec<PathBuf>, LabError> {
    let folder = root.join("usr/lib/modules").join(release);
    let table = || -> Result<String, LabError> {
        depmod(root, release)?;
        let file = folder.join("modules.dep");
        let text = read::text(&file, LARGEST).map_err(io::Error::from);
        text.map_err(LabError::file("read", &file))
    };
    let text = table()?;
    let (keep, _) = Dependencies::parse(&text).files(&recipe::modules());
    let kept = folder.join("kept");
    for file in &keep {
        let (from, to) = (folder.join(file), kept.join(file));
        make_directory(to.parent().unwrap_or(&kept))?;
        rename(&from, &to)?;
        // The early init's insmod takes no compressed modules.
        if to.extension().is_some_and(|ending| ending == "xz") {
            run("xz", &["-d", path(&to)?])?;
        }
    }
    remove_directory(&folder.join("kernel"))?;
    let (from, to) = (kept.join("kernel"), folder.join("kernel"));
    rename(&from, &to)?;
    remove_directory(&kept)?;
    let text = table()?;
    let (early, missing) = Dependencies::parse(&text).files(recipe::EARLY_MODULES);
    if !missing.is_empty() {
        return Err(LabError::Unexpected(format!("kernel {release} has no module {}", missing.join(", "))));
    }
    Ok(early.into_iter().map(|file| folder.join(file)).collect())
}

/// Writes the modules' tables with the guest's own depmod, through its own loader: many a container has none.
fn depmod(root: &Path, release: &str) -> Result<(), LabError> {
    let (loader, libraries, kmod) = (
        root.join("usr/lib64/ld-linux-x86-64.so.2"),
        root.join("usr/lib/x86_64-linux-gnu"),
        root.join("usr/bin/kmod"),
    );
    // One program of many names: which it is, it reads from its own.
    let with =
        ["--argv0", "depmod", "--library-path", path(&libraries)?, path(&kmod)?, "-b", path(root)?, release];
    run(path(&loader)?, &with).map(|_| ())
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

/// Runs a program in `directory` to a good end; what it printed.
fn run_in(directory: &Path, program: &str, arguments: &[&str]) -> Result<String, LabError> {
    let done = Command::new(program)
        .args(arguments)
        .current_dir(directory)
        .env("LC_ALL", "C")
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null())
        .output()
        .map_err(LabError::file("run a program in", directory))?;
    if !done.status.success() {
        return Err(tools::failed(
            program,
            arguments,
            done.status.code(),
            &String::from_utf8_lossy(&done.stderr),
        ));
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

/// A path as an argument among others.
fn path(path: &Path) -> Result<&str, LabError> {
    path.to_str().ok_or_else(|| {
        LabError::Unexpected(format!(
            "the path {} is not UTF-8; XDG_CACHE_HOME chooses another place",
            path.shown()
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_kernel_is_named_by_its_dependency() {
        let said =
            "linux-image-cloud-amd64\n  Depends: linux-image-6.1.0-41-cloud-amd64\n    linux-image-x\n";
        assert_eq!(kernel_package(said), Some("linux-image-6.1.0-41-cloud-amd64"));
        assert_eq!(kernel_package("linux-image-cloud-amd64\n"), None);
    }

    #[test]
    fn a_package_file_names_its_version() {
        let file = Path::new("/d/mdadm_1%3a4.2-5_amd64.deb");
        assert_eq!(label(file), "mdadm 1:4.2-5");
    }
}
