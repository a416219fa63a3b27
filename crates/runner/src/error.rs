//! What can go wrong around trials, said with a remedy.

use crate::hosts::HostsError;
use crate::store::StoreError;
use crate::verify::VerifyError;
use ebbtide_lab::LabError;
use ebbtide_lab::backend::adapt::AdaptError;
use ebbtide_model::backend::BackendError;
use ebbtide_model::plan::build::BuildPlanError;
use ebbtide_model::shown::Shown;
use std::io;
use std::path::PathBuf;

/// Why a session, a benchmark or a clean-up did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum RunnerError {
    /// The environment does not say where a user's files go.
    #[error("no place for {what}: set HOME or {variable}")]
    NoPlace { what: &'static str, variable: &'static str },
    /// The directory of journals.
    #[error("cannot read the journals in {}: {error}", directory.shown())]
    Journals { directory: PathBuf, error: io::Error },
    /// A guest cannot have what the experiment asks for.
    #[error(transparent)]
    Adapt(#[from] AdaptError),
    /// A design has no build.
    #[error(transparent)]
    Build(#[from] BuildPlanError),
    #[error(transparent)]
    Lab(#[from] LabError),
    /// A host has no worker.
    #[error(transparent)]
    Hosts(#[from] HostsError),
    #[error(transparent)]
    Backend(#[from] BackendError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Verify(#[from] VerifyError),
}
