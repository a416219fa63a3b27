//! The laboratory as the user has it: below the user's cache directory, stopped by Ctrl-C.

pub mod terminal;

use crate::error::CliError;
use crate::places::user_directory;
use crate::session::signals;
use ebbtide_host::sys;
use ebbtide_lab::places::{GuestState, Places, Swept, directories};
use ebbtide_lab::{LabError, Laboratory};
use ebbtide_model::backend::Control;
use ebbtide_model::shown::Shown;
use serde_json::{Value, json};
use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where the lab's files are.
///
/// # Errors
/// When the environment does not say.
pub fn places() -> Result<Places, CliError> {
    let cache = user_directory("XDG_CACHE_HOME", ".cache").ok_or_else(|| {
        CliError::Failed("no place for the lab's files: set HOME or XDG_CACHE_HOME".to_owned())
    })?;
    Ok(Places::new(cache.join("lab")))
}

impl From<LabError> for CliError {
    fn from(error: LabError) -> Self {
        match error {
            LabError::Stopped => CliError::Interrupted("the guest was ended".to_owned()),
            LabError::Disk { .. } => CliError::Usage(error.to_string()),
            other => CliError::Failed(other.to_string()),
        }
    }
}

/// The user's lab. From now on Ctrl-C ends guests, and with them the program.
///
/// # Errors
/// When there is no image.
pub fn open(quiet: bool) -> Result<Laboratory, CliError> {
    let control = Arc::new(Control::default());
    signals::stop_on_signals(control.clone(), true)
        .map_err(|error| CliError::Failed(format!("cannot set up signal handlers: {error}")))?;
    stopped_by(control, quiet)
}

/// The user's lab, whose guests end when `control` says stop.
///
/// # Errors
/// When there is no image.
pub fn stopped_by(control: Arc<Control>, quiet: bool) -> Result<Laboratory, CliError> {
    let say = if quiet { |_: &str| {} } else { |text: &str| crate::views::say(&format!("ebb: {text}")) };
    Ok(Laboratory::open(places()?, control, say)?)
}

/// What the lab keeps on disk.
#[derive(Debug)]
pub struct Holdings {
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
pub fn holdings() -> Result<Holdings, CliError> {
    let places = places()?;
    let images = directories(&places.images()).into_iter().map(|path| ImageHeld {
        current: path == places.image(),
        kernel: sys::word(&path.join("release")).unwrap_or_default(),
        bytes: allocated(&path),
        path,
    });
    let guests = places.guest_directories()?.into_iter().map(|(path, state)| GuestHeld {
        bytes: if matches!(state, GuestState::NotOurs(_)) { 0 } else { allocated(&path) },
        path,
        state,
    });
    Ok(Holdings { root: places.root().to_owned(), images: images.collect(), guests: guests.collect() })
}

/// Bytes that the files directly in `directory` take up: of sparse files what is written.
fn allocated(directory: &Path) -> u64 {
    /// Unit of `st_blocks` (stat(2)).
    const BLOCK: u64 = 512;
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.metadata().ok()).map(|found| found.blocks() * BLOCK).sum()
}

impl Holdings {
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

impl fmt::Display for Holdings {
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

/// Removes what ended guests left, and with `all` images and packed programs.
///
/// # Errors
/// When the lab's directories cannot be looked at.
pub fn clean(all: bool) -> Result<Swept, CliError> {
    let places = places()?;
    let mut swept = places.sweep()?;
    if all {
        let images = places.remove_images()?;
        swept.removed.extend(images.removed);
        swept.left.extend(images.left);
    }
    Ok(swept)
}
