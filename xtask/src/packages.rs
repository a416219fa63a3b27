//! What the tests need from the operating system.

use crate::run::{Step, run_all};
use std::path::PathBuf;
use std::process::Command;

/// A program that the tests call, and the Debian package that brings it.
struct Needed {
    program: &'static str,
    package: &'static str,
}

const NEEDED: &[Needed] = &[
    Needed { program: "cc", package: "gcc" },
    // libFuzzer is C++.
    Needed { program: "c++", package: "g++" },
    Needed { program: "chromium", package: "chromium" },
    Needed { program: "fio", package: "fio" },
    Needed { program: "iostat", package: "sysstat" },
    Needed { program: "blkid", package: "util-linux" },
    Needed { program: "cryptsetup", package: "cryptsetup-bin" },
    // Guests of User-Mode Linux have this machine's programs.
    Needed { program: "mdadm", package: "mdadm" },
    Needed { program: "modprobe", package: "kmod" },
    Needed { program: "mkfs.btrfs", package: "btrfs-progs" },
    Needed { program: "mkfs.ext4", package: "e2fsprogs" },
    Needed { program: "mkfs.xfs", package: "xfsprogs" },
    Needed { program: "mksquashfs", package: "squashfs-tools" },
    Needed { program: "npm", package: "npm" },
    Needed { program: "python3", package: "python3" },
    Needed { program: "qemu-img", package: "qemu-utils" },
    Needed { program: "qemu-system-x86_64", package: "qemu-system-x86" },
    Needed { program: "sfdisk", package: "fdisk" },
    Needed { program: "strace", package: "strace" },
];

/// Whether `program` is in a directory of `PATH` (or in sbin, where Debian keeps root's tools).
pub fn on_path(program: &str) -> bool {
    find(program).is_some()
}

fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .map(|directory| directory.join(program))
        .find(|file| file.is_file())
}

/// Whether this runs as root.
pub fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n")
}

/// Where what is for the tests alone is installed.
fn tools() -> PathBuf {
    crate::pages::root().join("target/tools")
}

/// The release of the accessibility checker that pages are held against.
const AXE: &str = "axe-core@4.10.3";

/// Installs what is missing: packages as root on Debian; otherwise says what is missing and how to get it.
pub fn install() -> Result<(), String> {
    packages()?;
    promtool()?;
    servers()?;
    accessibility_checker()
}

/// What a guest of User-Mode Linux needs to be a storage host and its own client: installed here, these would start servers.
const SERVERS: &[&str] = &["openssh-server", "open-iscsi", "libopeniscsiusr", "libisns0", "libwrap0"];

fn servers() -> Result<(), String> {
    let place = tools().join("servers");
    if place.join("usr/sbin/sshd").is_file() || (on_path("sshd") && on_path("iscsid")) {
        return Ok(());
    }
    if find("apt-get").is_none() {
        return Err(format!("install {}", SERVERS.join(" ")));
    }
    std::fs::create_dir_all(&place).map_err(|error| format!("{}: {error}", place.display()))?;
    let place = place.to_string_lossy();
    let download = ["-C", &place, "apt-get", "download", "-q"];
    let unpack = "for package in *.deb; do dpkg-deb --extract $package .; rm $package; done";
    run_all(&[
        Step::new("servers", "env", &[&download, SERVERS].concat()),
        Step::new("servers unpacked", "env", &["-C", &place, "sh", "-ec", unpack]),
    ])
}

/// Takes promtool, which checks figures and rules, out of Debian's package of Prometheus: installed, that would start a server.
fn promtool() -> Result<(), String> {
    let place = tools().join("prometheus");
    if place.join("usr/bin/promtool").is_file() {
        return Ok(());
    }
    if let Some(found) = find("promtool") {
        let link = || {
            std::fs::create_dir_all(place.join("usr/bin"))?;
            std::os::unix::fs::symlink(&found, place.join("usr/bin/promtool"))
        };
        return link().map_err(|error| format!("{}: {error}", place.display()));
    }
    if find("apt-get").is_none() {
        return Err(format!("put promtool, which comes with Prometheus, in {}/usr/bin", place.display()));
    }
    std::fs::create_dir_all(&place).map_err(|error| format!("{}: {error}", place.display()))?;
    let place = place.to_string_lossy();
    let unpack =
        "dpkg-deb --fsys-tarfile prometheus_*.deb | tar -x ./usr/bin/promtool && rm prometheus_*.deb";
    if is_root() {
        run_all(&[Step::new("package list", "apt-get", &["update", "-q"])])?;
    }
    run_all(&[
        Step::new("promtool", "env", &["-C", &place, "apt-get", "download", "-q", "prometheus"]),
        Step::new("promtool alone", "env", &["-C", &place, "sh", "-ec", unpack]),
    ])
}

fn accessibility_checker() -> Result<(), String> {
    if tools().join("node_modules/axe-core/axe.min.js").is_file() {
        return Ok(());
    }
    let prefix = tools();
    let arguments = [
        "install",
        "--prefix",
        &prefix.to_string_lossy(),
        "--no-save",
        "--ignore-scripts",
        "--no-audit",
        AXE,
    ];
    run_all(&[Step::new("accessibility checker", "npm", &arguments)])
}

fn packages() -> Result<(), String> {
    let missing: Vec<&str> = NEEDED.iter().filter(|n| !on_path(n.program)).map(|n| n.package).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let packages = missing.join(" ");
    if !on_path("apt-get") {
        return Err(format!("install these first: {packages}"));
    }
    if !is_root() {
        return Err(format!("install these first: sudo apt-get install {packages}"));
    }
    let mut arguments =
        vec!["DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "-y", "-q", "--no-install-recommends"];
    arguments.extend(&missing);
    run_all(&[
        Step::new("package list", "apt-get", &["update", "-q"]),
        Step::new("packages", "env", &arguments),
    ])
}
