//! Units of systemd's: files of `ebb`'s own, of which systemd starts one.

use super::{Context, Failure, Now};
use ebbtide_model::shown::Shown;
use ebbtide_provision::files::Part;

/// Units that belong together.
pub(crate) struct Units {
    /// Each a file of `ebb`'s own.
    pub(crate) parts: Vec<Part>,
    /// The one that is enabled.
    pub(crate) enabled: String,
    /// Whether it is started now, too.
    pub(crate) is_started: bool,
    /// The one that may have failed, which systemd lists for ever.
    pub(crate) fails: String,
}

impl Units {
    /// Of these units, those that are there and `ebb`'s.
    pub(crate) fn there<'a>(&'a self, on: &Context<'_>) -> Result<Vec<&'a Part>, Failure> {
        let mut there = Vec::new();
        for part in &self.parts {
            if let Some(now) = on.text(&part.path)?
                && part.take("", &now, &[])?.is_none()
            {
                there.push(part);
            }
        }
        Ok(there)
    }

    /// Those that are not as they should be; an error where somebody else's is in the place of one.
    pub(crate) fn pending(&self, on: &Context<'_>) -> Result<Vec<&Part>, Failure> {
        let mut pending = Vec::new();
        for part in &self.parts {
            let now = on.text(&part.path)?;
            if now.as_ref() != Some(&part.put("", now.as_deref(), &[])?) {
                pending.push(part);
            }
        }
        Ok(pending)
    }

    pub(crate) fn state(&self, on: &Context<'_>) -> Result<Now, Failure> {
        Ok(match self.pending(on)?.len() {
            0 => Now::Stands,
            _ if self.there(on)?.is_empty() => Now::Absent,
            _ => Now::Partly,
        })
    }

    /// Writes what is not as it should be, and has systemd read it.
    pub(crate) fn make(&self, on: &Context<'_>) -> Result<(), Failure> {
        for part in self.pending(on)? {
            on.next()?;
            (on.tell)(&format!("write {}", part.path.to_string_lossy()));
            on.replace(part, &|now| Ok(part.put("", now, &[])?))?;
        }
        on.next()?;
        self.start(on)
    }

    /// Has systemd read them and start the one that it is to start.
    pub(crate) fn start(&self, on: &Context<'_>) -> Result<(), Failure> {
        let all = [["daemon-reload", ""], ["enable", &self.enabled], ["restart", &self.enabled]];
        let count = if self.is_started { 3 } else { 2 };
        on.after(all[..count].iter().map(|words| {
            std::iter::once("systemctl")
                .chain(words.iter().copied())
                .filter(|word| !word.is_empty())
                .collect::<Vec<_>>()
        }))
    }

    /// What [`unmake`](Self::unmake) would do, in words.
    pub(crate) fn unmaking(&self, on: &Context<'_>) -> Vec<String> {
        let there = self.there(on).unwrap_or_default();
        there.iter().rev().map(|part| format!("remove {}", part.path.shown())).collect()
    }

    /// Stops and removes those that are `ebb`'s, and nothing else.
    pub(crate) fn unmake(&self, on: &Context<'_>) -> Result<(), Failure> {
        let there = self.there(on)?;
        if there.is_empty() {
            return Ok(());
        }
        if on.has_systemd() && there.iter().any(|part| part.path.ends_with(&self.enabled)) {
            on.after([["systemctl", "disable", "--now", &self.enabled]])?;
            // When a timer ran last, which a persistent one keeps (systemd.timer(5)); older systemd cannot be told to forget.
            let _ = on.runner.run("systemctl", &["clean", "--what=state", &self.enabled]);
        }
        there.into_iter().rev().try_for_each(|part| on.remove_file(part))?;
        if on.has_systemd() {
            on.after([["systemctl", "daemon-reload"]])?;
            let _ = on.runner.run("systemctl", &["reset-failed", &self.fails]);
        }
        Ok(())
    }
}
