//! Taking an export away: what was made for it, the last first, its unit and its record.

use super::config::{ConfigFs, Kernel};
use super::error::ExportError;
use super::records;
use crate::build::{BuildError, Outcome};
use crate::command::Runner;
use crate::sys::Sys;
use ebbtide_model::export::{Export, ExportUndo, Phase};
use std::io::ErrorKind;
use std::path::Path;

/// What takes exports away.
pub(super) struct Taking<'a> {
    pub(super) sys: &'a Sys,
    pub(super) config: &'a dyn ConfigFs,
    pub(super) runner: &'a dyn Runner,
    pub(super) boundary: &'a dyn Fn(),
}

impl Taking<'_> {
    /// Takes `export` away, of which `undo` says what there may be.
    pub(super) fn take(&self, undo: &ExportUndo, export: &Export) -> Result<(), ExportError> {
        if export.persistent {
            self.remove_unit(&export.name)?;
        }
        // After another boot the kernel has nothing of it; what has such a name then is another's.
        if export.boot == records::boot(self.sys) {
            self.objects(undo)?;
        }
        records::forget(self.sys, &undo.name)?;
        (self.boundary)();
        Ok(())
    }

    fn objects(&self, undo: &ExportUndo) -> Result<(), ExportError> {
        for path in undo.paths.iter().rev().filter(|path| !undo.shared.contains(path)) {
            self.remove(path, &[])?;
        }
        for path in undo.shared.iter().rev() {
            self.remove(path, &[ErrorKind::ResourceBusy, ErrorKind::DirectoryNotEmpty])?;
        }
        Ok(())
    }

    fn remove(&self, path: &Path, may_stay: &[ErrorKind]) -> Result<(), ExportError> {
        match self.config.remove(&self.sys.at(path)) {
            Ok(()) => (self.boundary)(),
            Err(error) if error.kind() == ErrorKind::NotFound || may_stay.contains(&error.kind()) => {}
            Err(error) => {
                return Err(ExportError::Kernel { path: path.to_owned(), what: error.to_string() });
            }
        }
        Ok(())
    }
}

/// Whether the kernel has anything of `export`.
pub(super) fn is_left(sys: &Sys, export: &Export) -> bool {
    export.boot == records::boot(sys)
        && export.paths.iter().any(|path| sys.at(path).symlink_metadata().is_ok())
}

/// Whether the kernel has anything of what `undo` takes away.
pub fn stands(sys: &Sys, undo: &ExportUndo) -> bool {
    undo.paths.iter().any(|path| sys.at(path).symlink_metadata().is_ok())
}

/// Why there is nothing to take away, or that it is not this run's any more; the record where there is something.
fn look(sys: &Sys, undo: &ExportUndo) -> Result<Result<Export, Outcome>, ExportError> {
    Ok(match records::of(sys, &undo.name)? {
        None => Err(Outcome::Before),
        Some(export) if export.run != undo.run => {
            Err(Outcome::Left(format!("{} was not touched by that run: `ebb status` shows it", undo.name)))
        }
        Some(export) if export.phase == Phase::Exported => Err(Outcome::Left(format!(
            "{} was made as a whole: `ebb undo {}` takes it away",
            undo.name, undo.name
        ))),
        Some(export) => Ok(export),
    })
}

fn in_words(error: ExportError, name: &str) -> BuildError {
    BuildError::Path {
        path: Path::new(records::RECORDS).join(format!("{name}.json")),
        what: error.to_string(),
    }
}

/// Takes away on the host of `sys` what a killed run left of an export.
///
/// # Errors
/// When it cannot be taken away.
pub fn put_back(sys: &Sys, runner: &dyn Runner, undo: &ExportUndo) -> Result<Outcome, BuildError> {
    put_back_with(sys, &Kernel, runner, undo)
}

/// [`put_back`] from `config`.
pub(super) fn put_back_with(
    sys: &Sys,
    config: &dyn ConfigFs,
    runner: &dyn Runner,
    undo: &ExportUndo,
) -> Result<Outcome, BuildError> {
    let done = || {
        let _lock = records::lock(sys, records::PATIENCE)?;
        match look(sys, undo)? {
            Err(outcome) => Ok(outcome),
            Ok(export) => {
                let taking = Taking { sys, config, runner, boundary: &|| {} };
                taking.take(undo, &export).map(|()| Outcome::Done)
            }
        }
    };
    done().map_err(|error| in_words(error, &undo.name))
}

/// What [`put_back`] would do; touches nothing.
///
/// # Errors
/// When the record cannot be read.
pub fn foresee(sys: &Sys, undo: &ExportUndo) -> Result<Outcome, BuildError> {
    let found = look(sys, undo).map_err(|error| in_words(error, &undo.name))?;
    Ok(found.err().unwrap_or(Outcome::Done))
}
