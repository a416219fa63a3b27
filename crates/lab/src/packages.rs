//! Debian packages, downloaded and unpacked: never installed, so that no maintainer script runs, nothing needs root, and the
//! host's package database is neither read nor changed.

use super::files::{make_directory, path, write};
use super::tools::{self, run};
use super::{LabError, recipe};
use ebbtide_door::own;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Downloaded files of packages.
pub(super) struct Packages {
    /// The package of the kernel.
    pub kernel: PathBuf,
    /// All other packages.
    pub others: Vec<PathBuf>,
}

impl Packages {
    /// All of them, the kernel's last.
    pub fn all(&self) -> impl Iterator<Item = &PathBuf> {
        self.others.iter().chain([&self.kernel])
    }

    /// One line `PACKAGE VERSION` for every package.
    pub fn contents(&self) -> String {
        self.all().map(|package| label(package) + "\n").collect()
    }
}

/// Downloads `wanted` and the newest kernel into the empty directory `to` with apt-get, from the host's package sources, but with lists and a
/// package database of its own in which nothing is installed: what comes is everything that the packages need.
pub(super) fn download(to: &Path, wanted: &[&str]) -> Result<Packages, LabError> {
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
    // What is downloaded comes into the working directory.
    let place = ["-C", path(&kernel)?, "DEBIAN_FRONTEND=noninteractive"];
    let apt = |program: &str, more: &[&str]| run("env", &[&place[..], &[program], &options, more].concat());

    apt("apt-get", &["-q", "update"])?;
    let depends = apt("apt-cache", &["depends", recipe::KERNEL])?;
    let package = kernel_package(&depends.text())
        .map(str::to_owned)
        .ok_or(LabError::NoPackage { package: recipe::KERNEL })?;
    // The kernel alone: what it depends on is for making it bootable from a disk.
    apt("apt-get", &["-q", "download", &package])?;
    apt("apt-get", &[&["-q", "-y", "--download-only", "install"], wanted].concat())?;
    match debs(&kernel)?.pop() {
        Some(kernel) => Ok(Packages { kernel, others: debs(&archives)? }),
        None => Err(LabError::NotDownloaded { package }),
    }
}

/// Downloads `wanted`, and nothing that they need, from `suite` of the Debian mirror of this host's sources into the empty directory `to`.
pub(super) fn download_of(to: &Path, suite: &str, wanted: &[&str]) -> Result<Vec<PathBuf>, LabError> {
    for directory in [to.join("lists/partial"), to.join("archives/partial"), to.join("packages")] {
        make_directory(&directory)?;
    }
    write(&to.join("status"), b"")?;
    let mirror =
        run("apt-get", &["indextargets", "--format", "$(REPO_URI) $(ORIGIN)", "Created-By: Packages"])?;
    let mirror =
        mirror.text().lines().find_map(|line| line.trim_end().strip_suffix(" Debian").map(str::to_owned));
    let mirror = mirror.ok_or(LabError::NoPackage { package: recipe::UML })?;
    let source =
        format!("deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] {mirror} {suite} main\n");
    let sources = to.join("sources.list");
    write(&sources, source.as_bytes())?;
    let root = path(to)?;
    let options = [
        format!("Dir::Etc::SourceList={}", path(&sources)?),
        "Dir::Etc::SourceParts=/dev/null".to_owned(),
        format!("Dir::State={root}"),
        format!("Dir::State::lists={root}/lists"),
        format!("Dir::State::status={root}/status"),
        format!("Dir::Cache={root}"),
        "APT::Architecture=amd64".to_owned(),
        "APT::Architectures=amd64".to_owned(),
        // The files are this user's, not those of apt's own user.
        "APT::Sandbox::User=root".to_owned(),
    ];
    let options: Vec<&str> = options.iter().flat_map(|option| ["-o", option]).collect();
    let packages = to.join("packages");
    let place = ["-C", path(&packages)?, "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q"];
    for more in [&["update"][..], &[&["download"], wanted].concat()] {
        run("env", &[&place[..], &options, more].concat())?;
    }
    debs(&packages)
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

/// Unpacks the files of all `packages`, without their documentation, into the new directory `root`.
pub(super) fn unpack(packages: &Packages, root: &Path) -> Result<(), LabError> {
    unpack_files(packages.all(), root)
}

/// [`unpack`] for files of packages.
pub(super) fn unpack_files<'a>(
    mut packages: impl Iterator<Item = &'a PathBuf>,
    root: &Path,
) -> Result<(), LabError> {
    // Debian's merged /usr: packages that still have files in /bin follow these links.
    for name in ["bin", "sbin", "lib", "lib64"] {
        make_directory(&root.join("usr").join(name))?;
        own::link(&format!("usr/{name}"), &root.join(name))
            .map_err(LabError::file("make the link", &root.join(name)))?;
    }
    packages.try_for_each(|package| unpack_one(package, root))
}

fn unpack_one(package: &Path, root: &Path) -> Result<(), LabError> {
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
