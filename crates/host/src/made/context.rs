//! What everything that makes, looks at and takes away works with: one host, real or made up.

use super::{Failure, Host, ThisHost};
use crate::command::{Runner, Shown as Line};
use crate::sys::{self, Sys};
use ebbtide_door::configuration::{self, Configured};
use ebbtide_door::{DoorError, own, read};
use ebbtide_model::journal::Journal;
use ebbtide_provision::files::{self, Part};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Longest file of the host's that is changed.
const LONGEST: u64 = 4 << 20;
/// How often a file is read again that others edit meanwhile.
const TRIES: u32 = 100;
/// Says that systemd runs the host.
const SYSTEMD: &str = "/run/systemd/system";

/// What everything that makes, looks at and takes away works with.
pub struct Context<'a> {
    /// The host's file trees.
    pub sys: Sys,
    /// Runs programs on this host.
    pub runner: &'a dyn Runner,
    /// What else is asked.
    pub host: &'a dyn Host,
    /// Where it is written down that something is under way; nothing where that is the caller's.
    pub journal: Option<&'a dyn Journal>,
    /// Told of each thing as it is done.
    pub tell: &'a dyn Fn(&str),
    /// Ends it before the next step.
    pub stop: &'a AtomicBool,
    /// Called between any two changes: tests end everything there, as a kill would.
    pub boundary: &'a dyn Fn(),
}

impl Context<'_> {
    /// Between any two changes.
    ///
    /// # Errors
    /// When the user has ended it.
    pub(crate) fn next(&self) -> Result<(), Failure> {
        (self.boundary)();
        self.go_on()
    }

    /// While something is waited for.
    ///
    /// # Errors
    /// When the user has ended it.
    pub(crate) fn go_on(&self) -> Result<(), Failure> {
        self.runner.forget();
        if self.stop.load(Ordering::Relaxed) { Err(Failure::Stopped) } else { Ok(()) }
    }

    /// Does `what` on the host of `sys`, and says nothing.
    pub(crate) fn quietly<T>(sys: &Sys, runner: &dyn Runner, what: impl FnOnce(&Context<'_>) -> T) -> T {
        what(&Context {
            sys: sys.clone(),
            runner,
            host: &ThisHost,
            journal: None,
            tell: &|_| {},
            stop: &AtomicBool::new(false),
            boundary: &|| {},
        })
    }

    /// An id that no other has: of version 4, drawn by the kernel (random(4)).
    pub(crate) fn draw(&self) -> String {
        sys::word(&self.sys.proc.join("sys/kernel/random/uuid")).unwrap_or_default()
    }

    /// Runs a program that must succeed; what it printed.
    pub(crate) fn run(&self, program: &str, arguments: &[&str]) -> Result<String, Failure> {
        (self.tell)(&Line(program, arguments).to_string());
        Ok(crate::build::run(self.runner, program, arguments)?)
    }

    /// Whether systemd runs the host.
    pub(crate) fn has_systemd(&self) -> bool {
        self.sys.at(Path::new(SYSTEMD)).exists()
    }

    /// The text of the host's file `path`; nothing where there is none.
    pub(crate) fn text(&self, path: &Path) -> Result<Option<String>, Failure> {
        match read::text(&self.sys.at(path), LONGEST) {
            Err(read::ReadError::System(error)) if error.kind() == ErrorKind::NotFound => Ok(None),
            other => other.map(Some).map_err(|error| Failure::file(path, error.of_it())),
        }
    }

    /// Gives the file of `part` the text that `change` makes of the one it has, however often others edit it meanwhile.
    pub(crate) fn replace(
        &self,
        part: &Part,
        change: &dyn Fn(Option<&str>) -> Result<String, Failure>,
    ) -> Result<(), Failure> {
        let path = self.sys.at(&part.path);
        let mode = if part.executable { 0o755 } else { 0o644 };
        for _ in 0..TRIES {
            let now = self.text(&part.path)?;
            let text = change(now.as_deref())?;
            // Of an edit that a kill interrupted: the other lines are those of the file in its place, so that nothing is lost with it.
            let others = files::others(now.as_deref().unwrap_or_default());
            let is_known =
                |left: &[u8]| std::str::from_utf8(left).is_ok_and(|left| files::others(left) == others);
            configuration::forget_unfinished(&path, &is_known)
                .map_err(|error| Failure::file(&part.path, error))?;
            let written =
                configuration::replace(&path, now.as_ref().map(String::as_bytes), text.as_bytes(), mode);
            if written.map_err(|error| Failure::unchanged(&part.path, error))? == Configured::Written {
                (self.boundary)();
                return Ok(());
            }
        }
        Err(Failure::file(&part.path, "other programs edit it all the time; stop them, and try again"))
    }

    /// Whether the file of `part` can be changed.
    pub(crate) fn may_change(&self, part: &Part) -> Result<(), Failure> {
        match configuration::may_replace(&self.sys.at(&part.path)) {
            // Its directory is made with it.
            Err(DoorError::System { source, .. }) if source.kind() == ErrorKind::NotFound => Ok(()),
            judged => judged.map_err(|error| Failure::unchanged(&part.path, error)),
        }
    }

    /// Removes the file of `part`, which is `ebb`'s own.
    pub(crate) fn remove_file(&self, part: &Part) -> Result<(), Failure> {
        (self.tell)(&format!("remove {}", part.path.to_string_lossy()));
        own::remove(&self.sys.at(&part.path)).map_err(|error| Failure::file(&part.path, error))?;
        (self.boundary)();
        Ok(())
    }

    /// Runs `commands`, of those that follow a change of the host's files.
    pub(crate) fn after<W: AsRef<[S]>, S: AsRef<str>>(
        &self,
        commands: impl IntoIterator<Item = W>,
    ) -> Result<(), Failure> {
        for words in commands {
            let words: Vec<&str> = words.as_ref().iter().map(AsRef::as_ref).collect();
            let Some((program, arguments)) = words.split_first() else { continue };
            (self.tell)(&words.join(" "));
            crate::build::run(self.runner, program, arguments)?;
            (self.boundary)();
        }
        Ok(())
    }
}
