//! What the `files` backend needs from the host, which the engine never looks at itself.

use super::journal::{self, JournalFile};
use ebbtide_engine::files::{Beneath, Surroundings, Topology};
use ebbtide_host::chain;
use ebbtide_host::judge;
use ebbtide_host::sys::Sys;
use ebbtide_model::backend::DiskBelow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The block devices of this host.
struct HostTopology(Sys);

impl Topology for HostTopology {
    fn beneath(&self, path: &Path) -> Beneath {
        let Ok(chain) = chain::of_path(&self.0, path) else { return Beneath::default() };
        let disks =
            chain.disks().map(|disk| DiskBelow { number: disk.dev.to_string(), name: disk.name.clone() });
        Beneath { disks: disks.collect(), through: chain.in_words(), filesystem: chain.fstype.clone() }
    }
}

/// The host's guard and disks, and the journal of the run `name`.
///
/// # Errors
/// When there is no place for the journal.
pub fn of_host(name: &str) -> Result<Surroundings, String> {
    Ok(Surroundings {
        door: judge::door(),
        topology: Arc::new(HostTopology(Sys::host())),
        journal: Arc::new(JournalFile::new(&journal::directory()?, name)),
    })
}

/// Directories for volumes of experiments that name none, the best first: where the user keeps temporary files,
/// where they outlive a reboot and are rarely kept in memory, the user's cache, and here.
pub fn places_for_volumes() -> Vec<PathBuf> {
    let mut places: Vec<PathBuf> = std::env::var_os("TMPDIR").map(PathBuf::from).into_iter().collect();
    places.push("/var/tmp".into());
    places.extend(
        crate::places::user_directory("XDG_CACHE_HOME", ".cache")
            .and_then(|ours| ours.parent().map(Path::to_owned)),
    );
    places.push(".".into());
    places
}

/// Operations per second that the engine reaches on this host with nothing behind it, in about 0.2 s; or why they are
/// not known.
///
/// # Errors
/// A warning for the report: verdicts then cannot tell the tool's limit from a device's.
pub fn engine_ceiling() -> Result<f64, String> {
    ebbtide_engine::ceiling().map(|ceiling| ceiling.iops).map_err(|error| {
        format!("the engine's own ceiling is not known, so no result is judged against it: {error}")
    })
}
