//! Where passes are kept.

use crate::cli::globals::Globals;
use ebbtide_host::build::lasting::monitor::is_installed;
use ebbtide_host::sys::Sys;
use ebbtide_provision::monitor::{PAUSE, STORE};
use ebbtide_runner::places;
use std::path::{Path, PathBuf};

/// The store that passes are read from: the one that is named, else that of the service that `ebb monitor install` installed, where this
/// user may read it; nothing for the user's own.
pub fn store(globals: &Globals) -> Option<PathBuf> {
    let of_service = || {
        let store = Path::new(STORE);
        (is_installed(&Sys::host()) && store.is_file()).then(|| store.to_owned())
    };
    globals.store.clone().or_else(of_service)
}

/// What pauses the passes that are kept in `store`: the service's has one of its own.
pub fn pause_file(store: Option<&Path>) -> Option<PathBuf> {
    match store {
        Some(store) if store == Path::new(STORE) => Some(PathBuf::from(PAUSE)),
        _ => places::pause_file(),
    }
}
