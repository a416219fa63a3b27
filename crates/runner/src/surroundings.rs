//! What the `files` backend needs from the host, which the engine never looks at itself.

use crate::journal::JournalFile;
use crate::{RunnerError, places};
use ebbtide_engine::files::{Beneath, Surroundings, Topology};
use ebbtide_host::graph;
use ebbtide_host::judge;
use ebbtide_host::sys::Sys;
use ebbtide_model::backend::DiskBelow;
use ebbtide_model::graph::Layers;
use ebbtide_model::journal::{Entry, Journal, JournalError};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// The block devices of this host.
struct HostTopology(Sys);

impl Topology for HostTopology {
    fn beneath(&self, path: &Path) -> Beneath {
        let Ok((graph, place)) = graph::below_path(&self.0, path) else { return Beneath::default() };
        let disks = graph.disks_below(&place.below.devices).into_iter().map(|at| &graph.nodes[at]);
        let disks = disks.map(|disk| DiskBelow { number: disk.dev.to_string(), name: disk.name.clone() });
        Beneath { disks: disks.collect(), through: graph.in_words(&place), filesystem: place.fstype }
    }
}

/// The host's guard and disks, and the journal of the run `name`.
///
/// # Errors
/// When there is no place for the journal.
pub fn of_host(name: &str) -> Result<Surroundings, RunnerError> {
    Ok(with(Arc::new(JournalFile::new(&places::journals()?, name))))
}

/// The same for what makes nothing: there is no journal, so that nothing can be made.
pub fn without_journal() -> Surroundings {
    with(Arc::new(NoJournal))
}

/// The same with the journal of the run `name` in `directory`.
#[cfg(test)]
pub fn with_journal_in(directory: &std::path::Path, name: &str) -> Surroundings {
    with(Arc::new(JournalFile::new(directory, name)))
}

fn with(journal: Arc<dyn Journal>) -> Surroundings {
    Surroundings { door: judge::door(), topology: Arc::new(HostTopology(Sys::host())), journal }
}

/// Writes nothing down, and says so.
struct NoJournal;

impl Journal for NoJournal {
    fn write(&self, _: &Entry) -> Result<(), JournalError> {
        let error = io::Error::other("there is no place for it");
        Err(JournalError { path: "of changes".to_owned(), error })
    }
}

/// Operations per second that the engine reaches on this host with nothing behind it, in about 0.2 s.
///
/// # Errors
/// When that cannot be measured: a warning for the report, as verdicts then cannot tell the tool's limit from a device's.
pub fn engine_ceiling() -> Result<f64, String> {
    ebbtide_engine::ceiling().map(|ceiling| ceiling.iops).map_err(|unknown| {
        format!("the engine's own ceiling is not known, so no result is judged against it: {unknown}")
    })
}
