//! The laboratory as the user has it: below the user's cache directory, stopped by Ctrl-C.

pub mod terminal;

use crate::error::CliError;
use crate::signals;
use ebbtide_host::sys;
use ebbtide_lab::Laboratory;
use ebbtide_lab::places::{GuestState, directories};
use ebbtide_model::shown::Shown;
use ebbtide_runner::places;
use serde_json::{Value, json};
use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The user's lab. From now on Ctrl-C ends guests, and with them the program.
///
/// # Errors
/// When there is no image.
pub fn open(quiet: bool) -> Result<Laboratory, CliError> {
    Ok(Laboratory::open(places::lab()?, signals::stoppable(true)?, says(quiet))?)
}

/// How the lab tells its user how its guests do.
pub fn says(quiet: bool) -> fn(&str) {
    if quiet { |_| {} } else { |text| crate::views::say(&format!("ebb: {text}")) }
}

/// What the lab keeps on disk.
#[derive(Debug)]
pub struct LabUsage {
    root: PathBuf,
    images: Vec<ImageHeld>,
    guests: Vec<GuestHeld>,
}

#[derive(Debug)]
struct ImageHeld {
    path: PathBuf,
    current: bool,
    kernel: String,
    bytes: u64,
}

#[derive(Debug)]
struct GuestHeld {
    path: PathBuf,
    state: GuestState,
    bytes: u64,
}

/// Looks what there is.
///
/// # Errors
/// When something cannot be looked at.
pub fn holdings() -> Result<LabUsage, CliError> {
    let places = places::lab()?;
    let images = directories(&places.images()).into_iter().map(|path| ImageHeld {
        current: places.is_current(&path),
        kernel: sys::word(&path.join("release")).unwrap_or_default(),
        bytes: allocated(&path),
        path,
    });
    let guests = places.guest_directories()?.into_iter().map(|(path, state)| GuestHeld {
        bytes: if matches!(state, GuestState::NotOurs(_)) { 0 } else { allocated(&path) },
        path,
        state,
    });
    Ok(LabUsage { root: places.root().to_owned(), images: images.collect(), guests: guests.collect() })
}

/// Bytes that the files directly in `directory` take up: of sparse files what is written.
fn allocated(directory: &Path) -> u64 {
    /// Unit of `st_blocks` (stat(2)).
    const BLOCK: u64 = 512;
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.metadata().ok()).map(|found| found.blocks() * BLOCK).sum()
}

impl LabUsage {
    /// As JSON, schema `ebbtide.lab/1`.
    pub fn json(&self) -> Value {
        let images: Vec<Value> = self
            .images
            .iter()
            .map(|i| json!({ "directory": i.path.to_string_lossy(), "kernel": i.kernel, "current": i.current, "bytes": i.bytes }))
            .collect();
        let guests: Vec<Value> = self
            .guests
            .iter()
            .filter(|g| !matches!(g.state, GuestState::NotOurs(_)))
            .map(|g| json!({ "directory": g.path.to_string_lossy(), "running": g.state == GuestState::Runs, "bytes": g.bytes }))
            .collect();
        json!({ "schema": "ebbtide.lab/1", "directory": self.root.to_string_lossy(), "images": images, "guests": guests })
    }
}

impl fmt::Display for LabUsage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mib = |bytes: u64| bytes.div_ceil(1 << 20);
        writeln!(f, "{}", self.root.shown())?;
        for image in &self.images {
            let state = if image.current { "current" } else { "of another version" };
            writeln!(
                f,
                "image {}  kernel {}  {} MiB  {state}",
                name(&image.path),
                image.kernel,
                mib(image.bytes)
            )?;
        }
        for guest in &self.guests {
            let state = match &guest.state {
                GuestState::Runs => "running",
                GuestState::Ended => "ended; `ebb lab clean` removes its files",
                GuestState::NotOurs(why) => {
                    writeln!(f, "{}  no guest: {why}", name(&guest.path))?;
                    continue;
                }
            };
            writeln!(f, "{}  {} MiB  {state}", name(&guest.path), mib(guest.bytes))?;
        }
        if self.images.is_empty() {
            writeln!(f, "no image yet: `ebb lab build` makes it")?;
        }
        Ok(())
    }
}
