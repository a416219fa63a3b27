//! Sessions of the store, for the subcommands that show them.

use crate::cli::globals::Globals;
use crate::error::CliError;
use crate::views::Format;
use ebbtide_analysis::{Analysis, together};
use ebbtide_model::session::Session;
use ebbtide_report::Report;
use ebbtide_runner::store::{Store, StoreError};

/// The store.
///
/// # Errors
/// When there is none yet, or it cannot be opened.
pub(super) fn open(globals: &Globals) -> Result<Store, CliError> {
    Store::open_existing(globals.store.as_deref()).map_err(CliError::failed)?.ok_or_else(|| {
        CliError::usage("nothing is stored yet; `ebb run FILE` or `ebb import FILE` makes a session")
    })
}

/// Why a session that is named cannot be shown: wrong usage where there is none of that name, or several. To a script,
/// 1 is a regression, and a slip of the pen is none.
pub(super) fn wrong(error: StoreError) -> CliError {
    match error {
        StoreError::NoSession { .. } | StoreError::Ambiguous { .. } => CliError::usage(error),
        _ => CliError::failed(error),
    }
}

/// The session that `which` names without its trials, and what they say.
///
/// # Errors
/// As [`open`], and when there is no such session, or it cannot be read.
pub(super) fn analysis(globals: &Globals, which: &str) -> Result<(Session, Analysis), CliError> {
    let store = open(globals)?;
    let session = store.head(which).map_err(wrong)?;
    let parts = store.by_design(&session, |_, _| ()).map_err(CliError::failed)?;
    let analysis = together(&session, parts.into_iter().map(|(part, ())| part).collect());
    Ok((session, analysis))
}

/// `error`, with how a design is named where `which` is no session but a design of the last one.
pub(super) fn is_design(globals: &Globals, which: &str, error: CliError) -> CliError {
    let last = open(globals).ok().and_then(|store| store.head("last").ok());
    let is_one = |session: &Session| session.experiment.designs.iter().any(|design| design.name == which);
    match last.filter(is_one) {
        Some(_) => CliError::Usage(format!(
            "no session `{which}`, but a design of the last one: name it as SESSION:DESIGN, here last:{which}"
        )),
        None => error,
    }
}

/// The report of the session that `which` names, with as much of each trial as `format` shows.
///
/// # Errors
/// As [`open`], and when there is no such session, or it cannot be read.
pub(super) fn report(globals: &Globals, which: &str, format: Format) -> Result<Report, CliError> {
    crate::stored::report(&open(globals)?, which, format).map_err(wrong)
}
