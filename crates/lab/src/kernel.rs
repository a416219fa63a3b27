//! A kernel's modules in a root directory that was unpacked.

use super::LabError;
use super::files::{make_directory, path, remove_directory, rename};
use super::modules::Dependencies;
use super::tools::run;
use ebbtide_door::read;
use std::io;
use std::path::{Path, PathBuf};

/// Largest table of modules that is read.
const LARGEST: u64 = 1 << 30;

/// The only kernel's release, from the name of its modules' folder.
pub(super) fn release(root: &Path) -> Result<String, LabError> {
    let found = super::places::directories(&root.join("usr/lib/modules"));
    match found.as_slice() {
        [one] => Ok(one.file_name().unwrap_or_default().to_string_lossy().into_owned()),
        _ => Err(LabError::Kernels { found: found.len() }),
    }
}

/// Removes the modules but `wanted` and those that they need; returns the files of `early`, and of what they need, in the order
/// in which they can be inserted.
pub(super) fn keep_modules(
    root: &Path,
    release: &str,
    wanted: &[&str],
    early: &[&str],
) -> Result<Vec<PathBuf>, LabError> {
    let folder = root.join("usr/lib/modules").join(release);
    let table = || -> Result<String, LabError> {
        depmod(root, release)?;
        let file = folder.join("modules.dep");
        let text = read::text(&file, LARGEST).map_err(io::Error::from);
        text.map_err(LabError::file("read", &file))
    };
    let text = table()?;
    let (keep, _) = Dependencies::parse(&text).files(wanted);
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
    let (early, missing) = Dependencies::parse(&text).files(early);
    if !missing.is_empty() {
        return Err(LabError::NoModule { release: release.to_owned(), modules: missing.join(", ") });
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
