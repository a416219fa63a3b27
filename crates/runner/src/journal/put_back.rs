//! Putting back what a run left, and telling before what that would do.

use super::abandoned::Abandoned;
use ebbtide_door::{Directory, Doubt, Removed, foreign_content, id_of, is_hidden_name};
use ebbtide_host::build::{self, BuildError, Outcome};
use ebbtide_host::command::{Real, Runner};
use ebbtide_host::judge;
use ebbtide_host::sys::Sys;
use ebbtide_model::journal::{Entry, FileId, Leftover};
use std::io::{self, ErrorKind};
use std::path::Path;

/// Why something that a run left stays.
#[derive(Debug, thiserror::Error)]
pub enum PutBackError {
    /// What was made in it does.
    #[error("{above} is still in it")]
    In { above: String },
    /// What was built on it does.
    #[error("what stands on it is still there: {above}")]
    Under { above: String },
    #[error(transparent)]
    System(#[from] io::Error),
    #[error(transparent)]
    Build(#[from] BuildError),
}

impl PutBackError {
    /// Because of `above`, which stands on it.
    fn under(above: &Leftover) -> PutBackError {
        match above {
            Leftover::Path { .. } => PutBackError::In { above: shown(above) },
            Leftover::Step { .. } => PutBackError::Under { above: shown(above) },
        }
    }
}

/// How it went with each of what a run left.
pub type PutBack = (Leftover, Result<Outcome, PutBackError>);

impl Abandoned {
    /// Puts back `left` one by one with `runner` and tells of each how it went as soon as it is done; the journal goes with
    /// the last.
    pub fn put_back(mut self, runner: &dyn Runner, tell: &mut dyn FnMut(&PutBack)) -> Vec<PutBack> {
        let mut results: Vec<PutBack> = Vec::new();
        for leftover in std::mem::take(&mut self.left) {
            let mut kept = results.iter().filter(|(_, result)| result.is_err()).map(|(above, _)| above);
            let result = match kept.find(|above| above.stands_on(&leftover)) {
                Some(above) => Err(PutBackError::under(above)),
                None => self.put_back_one(&leftover, runner),
            };
            let done = (leftover, result);
            tell(&done);
            results.push(done);
        }
        if results.iter().all(|(_, result)| result.is_ok()) {
            // One that stays leaves nothing: the next cleanup removes it.
            let _ = self.log.remove();
        }
        results
    }

    /// Puts back one change and says so in the journal.
    fn put_back_one(&mut self, leftover: &Leftover, runner: &dyn Runner) -> Result<Outcome, PutBackError> {
        let checked = check(leftover, &self.run);
        let (entry, outcome) = match leftover {
            Leftover::Path { path, .. } => (Entry::Gone(path.clone()), remove(path, checked, &self.labels)?),
            Leftover::Step { number, undo } => {
                checked?;
                (Entry::Undone(*number), build::undo(&Sys::host(), runner, undo)?)
            }
        };
        self.log.append(&serde_json::to_vec(&entry).map_err(io::Error::from)?)?;
        Ok(outcome)
    }
}

/// What `leftover` is in short: its path, or what puts it back.
pub fn shown(leftover: &Leftover) -> String {
    match leftover {
        Leftover::Path { path, .. } => path.to_string_lossy().into_owned(),
        Leftover::Step { undo, .. } => undo.to_string(),
    }
}

/// What putting back each of what `run` left would do, as far as that can be told without trying; touches nothing.
pub fn foresee(run: &Abandoned) -> Vec<PutBack> {
    let mut stay: Vec<&Leftover> = Vec::new();
    let mut goes: Vec<&Leftover> = Vec::new();
    let foreseen = run.left.iter().map(|leftover| {
        let result = match stay.iter().find(|above| above.stands_on(leftover)) {
            Some(above) => Err(PutBackError::under(above)),
            None => foresee_one(leftover, run, &goes),
        };
        if result.is_err() { &mut stay } else { &mut goes }.push(leftover);
        (leftover.clone(), result)
    });
    foreseen.collect()
}

/// The same of one thing, when what `goes` is gone.
fn foresee_one(leftover: &Leftover, run: &Abandoned, goes: &[&Leftover]) -> Result<Outcome, PutBackError> {
    let is_top = !goes.iter().any(|above| above.stands_on(leftover));
    let id = match check(leftover, &run.run) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Outcome::Before),
        checked => checked?,
    };
    match (leftover, id) {
        // Who else uses it shows when what stands on it is gone.
        (Leftover::Step { undo, .. }, _) if is_top => Ok(build::foresee(&Sys::host(), &Real, undo)?),
        (Leftover::Path { path, directory, .. }, Some(id)) => {
            if std::fs::symlink_metadata(path).is_err_and(|error| error.kind() == ErrorKind::NotFound) {
                return Ok(Outcome::Before);
            }
            if *directory
                && let Some(other) = foreign_content(path, |name| goes.iter().any(|gone| gone.is_path(name)))?
            {
                return Err(io::Error::other(other).into());
            }
            if is_top || *directory {
                let (place, name) = Directory::of(path)?;
                judge::door().may_remove(&place, name, &id, &run.labels)?;
            }
            Ok(Outcome::Done)
        }
        _ => Ok(Outcome::Done),
    }
}

/// Removes `path` where it is what was found there and nobody uses it.
fn remove(path: &Path, checked: io::Result<Option<FileId>>, labels: &[String]) -> io::Result<Outcome> {
    let id = match checked {
        Ok(Some(id)) => id,
        Ok(None) => return Ok(Outcome::Before),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Outcome::Before),
        Err(error) => return Err(error),
    };
    let (place, name) = match Directory::of(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Outcome::Before),
        other => other?,
    };
    Ok(match judge::door().remove(&place, name, &id, Doubt::Keeps, labels)? {
        Removed::Now => Outcome::Done,
        Removed::Before => Outcome::Before,
    })
}

/// Whether a file or directory has a name that `run` gives: its own directory, what is in that, or a file that has not
/// got its name yet.
fn is_named_by(run: &str, path: &Path, directory: bool) -> bool {
    let own = format!("ebbtide-{run}");
    let is_own =
        |path: Option<&Path>| path.and_then(Path::file_name).is_some_and(|name| name == own.as_str());
    if directory { is_own(Some(path)) } else { is_own(path.parent()) || is_hidden_name(path) }
}

/// Whether what is there is what the journal says that `run` made, and its identity; touches nothing. Something else under
/// its name is left alone, what was announced but never confirmed must be empty, and what is not named as a run names what
/// it makes is nobody's to put back. A step looks for the rest itself when it is put back.
///
/// # Errors
/// Why it is left alone; `NotFound` when it is gone already.
pub fn check(leftover: &Leftover, run: &str) -> io::Result<Option<FileId>> {
    let foreign = || Err(io::Error::other("no run makes anything of that name; it is left alone"));
    let (path, directory, known) = match leftover {
        Leftover::Path { path, directory, id } => (path, directory, id),
        Leftover::Step { undo, .. } if undo.is_of(run) => return Ok(None),
        Leftover::Step { .. } => return foreign(),
    };
    if !is_named_by(run, path, *directory) {
        return foreign();
    }
    let found = match std::fs::symlink_metadata(path) {
        // Gone, or moved aside on its way out when the program was killed: who removes it looks there too.
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return match known.as_ref().and_then(|id| judge::mounted_over(&Sys::host(), path, id.dev)) {
                Some(over) => Err(io::Error::other(over)),
                None => known.map(Some).ok_or(error),
            };
        }
        other => other?,
    };
    let id = id_of(&found);
    let same_kind = if *directory { found.is_dir() } else { found.is_file() };
    let ours = match known {
        Some(known) => *known == id,
        None => *directory || found.len() == 0,
    };
    if !same_kind || !ours {
        return Err(io::Error::other("something else has its name now; it is left alone"));
    }
    Ok(Some(id))
}
