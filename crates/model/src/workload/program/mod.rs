//! A program as the load: what is run on a design, and which figures of its output count.

mod known;
mod reading;

pub use known::Known;
pub use reading::{Output, ReadingError, pgbench_latencies};

use crate::metric::{Figure, Metric};
use crate::units::Nanos;
use serde::{Deserialize, Serialize};
use strum::{AsRefStr, EnumString, VariantNames};

/// A program and its arguments, with placeholders.
pub type Argv = Vec<String>;

/// A program that is the load of a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Program {
    /// What is run and timed.
    pub command: Argv,
    /// What lays out the data, in [`Placeholder::Run`]: once for each design that stands, anew for each build.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prepare: Vec<Argv>,
    /// What is run before each trial, after the data were put back; not timed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<Argv>,
    /// What is run after each trial, one that failed too; not timed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<Argv>,
    /// Variables of its environment, their values with placeholders.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<(String, String)>,
    /// Whom it runs as; absent: whoever started the run, and of root the user behind `sudo`, or `nobody`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Whom root runs it as, where `user` does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub as_root: Option<String>,
    /// How long each of its commands may take.
    pub timeout: Nanos,
    /// How data that were laid out are put back before each trial.
    #[serde(default)]
    pub reset: Reset,
    /// What [`Placeholder::Clients`] stands for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clients: Option<u32>,
    /// Figures of its output, the one that decides first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<Reading>,
}

/// A figure, and where in the output of a program it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    /// What is read.
    pub figure: Figure,
    /// Where.
    pub from: Source,
}

/// Where in the output of a program a figure is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The first group of the last match of this regular expression; `^` and `$` are at lines.
    Pattern(String),
    /// The number at this JSON pointer (RFC 6901) of the output, which is JSON.
    Pointer(String),
    /// This percentile, 0 to 100, of the latencies in pgbench's logs of transactions (`pgbench -l`), in milliseconds.
    PgbenchLog(u8),
}

/// How a design has the same data before each trial.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, EnumString, VariantNames, AsRefStr,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Reset {
    /// Each file is copied: its blocks are its own, as they would be in use.
    #[default]
    Copy,
    /// Files share blocks with those that were laid out (XFS, btrfs): at once, but the first write to each block makes a copy of it.
    Reflink,
    /// They are laid out anew.
    Prepare,
    /// Not at all: a trial finds what the one before it left.
    None,
}

/// What stands for something in arguments of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumString, VariantNames, AsRefStr)]
#[strum(serialize_all = "lowercase")]
pub enum Placeholder {
    /// Where the design's file system is mounted, or the directory that is measured.
    Mount,
    /// The block device that the design is.
    Device,
    /// A directory of the trial's own in the file system, where the program starts.
    Run,
    /// The trial's seed, a number below 2^31.
    Seed,
    /// The round, from 1.
    Round,
    /// The number that `clients` says.
    Clients,
}

/// A word of arguments that is no placeholder: where it begins in the text, and what stands there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{{{0}}}` is no placeholder")]
pub struct NoPlaceholder(pub String);

/// The placeholders in `text`, in their order; other braces than those around a word of small letters are text.
///
/// # Errors
/// A word in braces that stands for nothing.
pub fn placeholders(text: &str) -> Result<Vec<Placeholder>, NoPlaceholder> {
    let mut found = Vec::new();
    filled(text, &mut |placeholder| {
        found.push(placeholder);
        String::new()
    })?;
    Ok(found)
}

/// `text` with each placeholder replaced by what `value` says.
///
/// # Errors
/// As [`placeholders`].
pub fn filled(text: &str, value: &mut dyn FnMut(Placeholder) -> String) -> Result<String, NoPlaceholder> {
    let (mut rest, mut out) = (text, String::with_capacity(text.len()));
    while let Some((before, behind)) = rest.split_once('{') {
        out.push_str(before);
        let word = behind.split_once('}');
        let is_word = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase());
        // So has a shell: `${name}` is a variable of it.
        match word.filter(|(word, _)| is_word(word) && !out.ends_with('$')) {
            // JSON and awk have braces of their own.
            None => {
                out.push('{');
                rest = behind;
            }
            Some((word, after)) => {
                let placeholder = word.parse().map_err(|_| NoPlaceholder(word.to_owned()))?;
                out.push_str(&value(placeholder));
                rest = after;
            }
        }
    }
    out.push_str(rest);
    Ok(out)
}

impl Program {
    /// Every text that may have placeholders: arguments of all its commands, values of its environment.
    pub fn texts(&self) -> impl Iterator<Item = &String> {
        let commands =
            std::iter::once(&self.command).chain(&self.prepare).chain(&self.before).chain(&self.after);
        commands.flatten().chain(self.env.iter().map(|(_, value)| value))
    }

    /// Whether any of its texts has `wanted`.
    pub fn uses(&self, wanted: Placeholder) -> bool {
        self.texts().any(|text| placeholders(text).is_ok_and(|found| found.contains(&wanted)))
    }

    /// Figures that its trials have.
    pub fn metrics(&self) -> Vec<Metric> {
        self.metrics.iter().map(|reading| Metric::Own(reading.figure)).chain([Metric::Time]).collect()
    }

    /// The command as one line to read.
    pub fn in_words(&self) -> String {
        let line = self.command.join(" ");
        let clients = self.clients.map_or_else(String::new, |clients| format!(", {clients} clients"));
        format!("program `{line}`{clients}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_words_in_braces_and_other_braces_stay() {
        let fill = |text: &str| filled(text, &mut |what| format!("<{}>", what.as_ref()));
        assert_eq!(fill("-c{clients} {run}/x").as_deref(), Ok("-c<clients> <run>/x"));
        for text in ["awk '{ print $1 }'", "{\"a\": {}}", "{", "}{", "${HOME}", "${run}", "{2,3}"] {
            assert_eq!(fill(text).as_deref(), Ok(text));
        }
        assert_eq!(fill("{clinets}"), Err(NoPlaceholder("clinets".to_owned())));
        assert_eq!(placeholders("{seed}{round}"), Ok(vec![Placeholder::Seed, Placeholder::Round]));
    }
}
