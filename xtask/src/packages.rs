//! What the tests need from the operating system.

use crate::run::{Step, run_all, words};
use std::path::PathBuf;
use std::process::Command;

/// Programs that the tests call, each with the Debian package that brings it.
const NEEDED: &[(&str, &str)] = &[
    ("cc", "gcc"),
    // libFuzzer is C++.
    ("c++", "g++"),
    ("chromium", "chromium"),
    ("fio", "fio"),
    ("iostat", "sysstat"),
    ("blkid", "util-linux"),
    ("cryptsetup", "cryptsetup-bin"),
    // Guests of User-Mode Linux have this machine's programs.
    ("curl", "curl"),
    ("lvs", "lvm2"),
    ("mdadm", "mdadm"),
    ("modprobe", "kmod"),
    ("mkfs.btrfs", "btrfs-progs"),
    ("mkfs.ext4", "e2fsprogs"),
    ("mkfs.xfs", "xfsprogs"),
    ("mksquashfs", "squashfs-tools"),
    ("npm", "npm"),
    ("python3", "python3"),
    ("qemu-img", "qemu-utils"),
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("sfdisk", "fdisk"),
    ("strace", "strace"),
];

/// Whether `program` is in a directory of `PATH` (or in sbin, where Debian keeps root's tools).
pub fn on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    places.any(|directory| directory.join(program).is_file())
}

/// What installs a tool of cargo's where it is missing: minutes on 2 cores.
pub fn cargo_tool(name: &'static str) -> Vec<Step> {
    let install = || Step::cargo(name, &format!("install --quiet --locked {name}"));
    (!on_path(name)).then(install).into_iter().collect()
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
    accessibility_checker()
}

/// Unpacks the program that checks figures and rules: its package would start a server if it was installed.
fn promtool() -> Result<(), String> {
    let place = tools().join("prometheus");
    if place.join("usr/bin/promtool").is_file() {
        return Ok(());
    }
    let place = place.to_string_lossy();
    let get = if on_path("promtool") {
        "ln -s $(command -v promtool) usr/bin/"
    } else {
        "[ $(id -u) != 0 ] || apt-get update -q; apt-get download -q prometheus; \
         dpkg-deb --fsys-tarfile *.deb | tar -x ./usr/bin/promtool; rm *.deb"
    };
    let unpack = format!("mkdir -p {place}/usr/bin; cd {place}; {get}");
    run_all(&[Step::new("prometheus", "sh", &["-ec", &unpack])])
}

fn accessibility_checker() -> Result<(), String> {
    if tools().join("node_modules/axe-core/axe.min.js").is_file() {
        return Ok(());
    }
    let install = format!("install --no-save --ignore-scripts --no-audit {AXE} --prefix");
    let prefix = tools().to_string_lossy().into_owned();
    let arguments = [&words(&install)[..], &[&*prefix]].concat();
    run_all(&[Step::new("accessibility checker", "npm", &arguments)])
}

fn packages() -> Result<(), String> {
    let missing: Vec<&str> =
        NEEDED.iter().filter(|(program, _)| !on_path(program)).map(|(_, package)| *package).collect();
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
    let install = "DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends";
    let arguments = [words(install), missing].concat();
    run_all(&[
        Step::new("package list", "apt-get", &["update", "-q"]),
        Step::new("packages", "env", &arguments),
    ])
}
