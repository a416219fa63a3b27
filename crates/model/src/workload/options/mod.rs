//! The options of a workload, each defined once.
//!
//! Everything that reads, prints or explains an option takes it from [`OPTIONS`]: the command line, experiment files and
//! their JSON Schema, fio's job files, the options in fio's JSON, what is refused because it would change nothing, and the
//! tables of the documentation. Two options that fio has are missing because they say nothing of a workload: `kb_base` is
//! how a job file's units are read, and `randseed` belongs to the run.

mod draft;
mod shares;
mod table;

#[cfg(test)]
mod tests;

pub use draft::{Amount, Draft, SteadyDraft};
pub use shares::ShareError;
pub use table::{OPTIONS, named, said};

use crate::near;
use crate::units::{Bytes, Nanos, UnitError};
use crate::workload::{Sizes, TextError, Workload, cpu_list};
use std::fmt;

/// Who writes options, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grammar {
    /// `key = value` in an experiment file.
    Experiment,
    /// `--name value` on the command line.
    Command,
    /// `name=value` in a job file of fio's.
    JobFile,
}

/// One option of a workload.
#[derive(Debug, Clone, Copy)]
pub struct WorkloadOption {
    /// Name of the option, as in fio.
    pub name: &'static str,
    /// The key in an experiment, where it is another one.
    pub key: Option<&'static str>,
    /// Other names of fio's for it, on the command line and in job files.
    pub aliases: &'static [&'static str],
    /// Grammars that do not have it.
    pub absent: &'static [Grammar],
    /// The option that says the same in other words; help and tables leave this one out then.
    pub stands_for: Option<&'static str>,
    /// What an experiment is told that has it, after the key that it is to have; where it is to have none, what to do instead.
    pub remark: &'static str,
    /// What its value is, and what it sets.
    pub kind: Kind,
    /// What may follow its words.
    pub after: Option<After>,
    /// What holds without it, in words: in an experiment, on the command line, in a job file.
    pub default: [&'static str; 3],
    /// What it does, one line without a full stop.
    pub doc: &'static str,
    /// Where it would change nothing.
    pub unused: &'static [Unused],
    /// What the simulator makes of it.
    pub simulated: Simulated,
    /// Its value in fio's words and units; nothing where fio would not say it.
    pub fio: fn(&Workload) -> Option<String>,
}

/// What the value of an option is, its range, and what it sets.
#[derive(Debug, Clone, Copy)]
#[expect(missing_docs, reason = "`set` puts the value into the draft; `least` and `most` are what it may be")]
pub enum Kind {
    /// A number of bytes.
    Size { least: Bytes, most: Bytes, set: fn(&mut Draft, Bytes) },
    /// A number of bytes, on the command line and in a job file also a share of what is there.
    Amount { least: Bytes, set: fn(&mut Draft, Amount) },
    /// Bytes per second, more than 0.
    Throughput { set: fn(&mut Draft, Bytes) },
    /// A whole number in a range.
    Whole { least: i64, most: i64, set: fn(&mut Draft, i64) },
    /// A number above 0 and up to `most`; `range` says so in words.
    Number { most: f64, range: &'static str, example: &'static str, set: fn(&mut Draft, f64) },
    /// A time; on the command line and in a job file a bare number is in `bare`.
    Time { least: Nanos, bare: Nanos, set: fn(&mut Draft, Nanos) },
    /// On or off, also in some `words`; on the command line it is on `alone`, where it may stand so.
    Switch { alone: bool, words: &'static [(&'static str, bool)], set: fn(&mut Draft, bool) },
    /// One of some words.
    Choice(&'static [Word]),
    /// CPU numbers and ranges.
    Cpus { set: fn(&mut Draft, Vec<u32>) },
    /// What has a grammar of its own; `value` is what help calls it.
    Text { value: &'static str, example: &'static str, set: Parse },
}

/// Takes a text, in which it reads numbers of bytes as its writer means them.
///
/// # Errors
/// What is wrong, without what to write instead.
pub type Parse = fn(&mut Draft, &str, Sizes<'_>) -> Result<(), TextError>;

/// What may follow a word of a [`Kind::Choice`] after a colon.
#[derive(Debug, Clone, Copy)]
pub struct After {
    /// How help writes it.
    pub shown: &'static str,
    /// One line of what it does.
    pub doc: &'static str,
    /// Takes it, once its word is taken.
    pub set: Parse,
    /// A word with it, for messages.
    pub example: &'static str,
}

/// One word of a [`Kind::Choice`].
#[derive(Debug, Clone, Copy)]
pub struct Word {
    /// As it is written.
    pub name: &'static str,
    /// What it means; nothing for a second name of another word, which lists leave out.
    pub doc: &'static str,
    /// What runs instead of this word of fio's. An experiment, which compares, asks for that by its own name.
    pub runs_as: Option<&'static str>,
    /// Puts what the word stands for into the draft.
    pub set: fn(&mut Draft),
}

/// What the simulator makes of an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Simulated {
    /// What any backend does.
    Yes,
    /// Nothing: it is how the engine runs on the host, and changes nothing of what is asked of an array.
    Ignored,
    /// It has no model of it, and refuses: the figures would be the same without.
    No,
}

/// An option that `workload` uses and the simulator has no model of.
pub fn not_simulated(workload: &Workload) -> Option<&'static WorkloadOption> {
    let plain = Workload::new("", workload.access, workload.mix, workload.stop);
    OPTIONS
        .iter()
        .find(|option| option.simulated == Simulated::No && (option.fio)(workload) != (option.fio)(&plain))
}

/// Where an option would change nothing.
#[derive(Debug, Clone, Copy)]
pub struct Unused {
    /// Whether that is so.
    pub when: fn(&Draft) -> bool,
    /// The reason that a message gives: `nothing is written`.
    pub why: &'static str,
    /// With which other option it would change something; where no value is given, with its own.
    pub with: Option<(&'static str, &'static str)>,
    /// Where it is refused.
    pub refused: Refused,
}

/// Where an option that would change nothing is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// In each grammar: command line, experiments and job files.
    Everywhere,
    /// Not in job files, where it commonly stands in [global] for other jobs: a note says so.
    NotInJobFiles,
    /// In experiments. fio's users commonly write it, and the engine's notes say so.
    InExperiments,
}

/// What could be read; else what is wrong with it, or nothing where that has been reported.
pub type Read<T> = Result<T, Option<String>>;

/// A value as it is written in one grammar, which says what is not written as in any other.
#[expect(missing_docs, reason = "each reads one kind of value")]
pub trait Written {
    fn text(&mut self) -> Read<String>;
    fn size(&mut self) -> Read<Bytes>;
    fn time(&mut self, bare: Nanos) -> Read<Nanos>;
    /// A number of bytes that is part of a longer text.
    fn size_in(&self, text: &str) -> Result<Bytes, TextError> {
        Ok(text.trim().parse()?)
    }
    fn amount(&mut self) -> Read<Amount> {
        self.size().map(Amount::Bytes)
    }
    fn throughput(&mut self) -> Read<Bytes> {
        self.size()
    }
    fn whole(&mut self) -> Read<i64> {
        let text = self.text()?;
        text.trim().parse().map_err(|_| Some(format!("`{text}` is not a whole number; write for example 8")))
    }
    fn number(&mut self) -> Read<f64> {
        let text = self.text()?;
        text.trim().parse().map_err(|_| Some(format!("`{text}` is not a number; write for example 1000")))
    }
    fn switch(&mut self, words: &[(&str, bool)]) -> Read<bool> {
        switch(Some(&self.text()?), words)
    }
}

/// A value as it is written on the command line.
#[derive(Debug)]
pub struct Plain<'a>(pub &'a str);

impl Written for Plain<'_> {
    fn text(&mut self) -> Read<String> {
        Ok(self.0.to_owned())
    }
    fn size(&mut self) -> Read<Bytes> {
        self.0.parse().map_err(|error: UnitError| Some(error.to_string()))
    }
    fn amount(&mut self) -> Read<Amount> {
        let Some(share) = self.0.trim().strip_suffix('%') else { return self.size().map(Amount::Bytes) };
        let percent = share.parse().ok().filter(|percent| *percent <= 100);
        let wrong = || Some(format!("`{}` is no share; write a whole number of percent up to 100%", self.0));
        percent.map(Amount::Percent).ok_or_else(wrong)
    }
    fn time(&mut self, bare: Nanos) -> Read<Nanos> {
        time(self.0, bare).map_err(|error| Some(error.to_string()))
    }
}

/// A time; a number without a unit is of `bare`, which is one of a unit: `1s`, `1us`.
///
/// # Errors
/// When it is no time.
pub fn time(text: &str, bare: Nanos) -> Result<Nanos, UnitError> {
    let unit = bare.to_string();
    let plain = text.chars().all(|c| c.is_ascii_digit() || c == '.');
    let unit = if plain { unit.trim_start_matches('1') } else { "" };
    format!("{text}{unit}").parse()
}

/// 0 or 1 and words for them; nothing at all is on.
///
/// # Errors
/// What to write.
pub fn switch(text: Option<&str>, words: &[(&str, bool)]) -> Read<bool> {
    let text = text.map(str::trim);
    match text {
        None | Some("1" | "true" | "yes" | "on") => Ok(true),
        Some("0" | "false" | "no" | "off") => Ok(false),
        Some(other) => words.iter().find(|(word, _)| *word == other).map(|(_, on)| *on).ok_or_else(|| {
            let words: String = words.iter().map(|(word, _)| format!(" or {word}")).collect();
            Some(format!("`{other}` is neither on nor off; write 0 or 1{words}"))
        }),
    }
}

/// Why an option cannot stand as it does.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{what}{}{remedy}", if remedy.is_empty() { "" } else { "; " })]
pub struct Refusal {
    /// The option that was given.
    pub option: &'static WorkloadOption,
    /// What is wrong, with the option's name.
    pub what: String,
    /// What to write instead; nothing where `what` says it.
    pub remedy: String,
}

impl WorkloadOption {
    /// Its name in `grammar`.
    pub fn key(&self, grammar: Grammar) -> &'static str {
        self.key.filter(|_| grammar == Grammar::Experiment).unwrap_or(self.name)
    }

    /// fio's names for it.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.name).chain(self.aliases.iter().copied())
    }

    /// Its name in messages about `grammar`.
    pub fn called(&self, grammar: Grammar) -> String {
        match grammar {
            Grammar::Experiment => format!("`{}`", self.key(grammar)),
            Grammar::Command => format!("--{}", self.name),
            Grammar::JobFile => self.name.to_owned(),
        }
    }

    /// Itself with `value` (as on the command line) in `grammar`, for messages.
    pub fn setting(&self, grammar: Grammar, value: &str) -> String {
        let key = self.key(grammar);
        match (grammar, self.kind) {
            (Grammar::Command, _) => format!("--{key}={value}"),
            (Grammar::JobFile, _) => format!("{key}={value}"),
            (Grammar::Experiment, kind) => match kind {
                Kind::Switch { .. } => format!("`{key} = {}`", value == "1"),
                Kind::Whole { .. } | Kind::Number { .. } => format!("`{key} = {value}`"),
                Kind::Throughput { .. } => format!("`{key} = \"{value}/s\"`"),
                Kind::Size { .. }
                | Kind::Amount { .. }
                | Kind::Time { .. }
                | Kind::Choice(_)
                | Kind::Text { .. }
                | Kind::Cpus { .. } => format!("`{key} = \"{value}\"`"),
            },
        }
    }

    /// Whether `grammar` has it.
    pub fn is_in(&self, grammar: Grammar) -> bool {
        !self.absent.contains(&grammar)
    }

    /// Its words that `grammar` lists.
    pub fn words(&self, grammar: Grammar) -> impl Iterator<Item = &'static Word> {
        let words = if let Kind::Choice(words) = self.kind { words } else { &[] };
        words.iter().filter(move |word| {
            !word.doc.is_empty() && (word.runs_as.is_none() || grammar != Grammar::Experiment)
        })
    }

    /// What it does, with its range.
    pub fn does(&self) -> String {
        match self.kind {
            Kind::Whole { least, most, .. } if most < i64::from(u32::MAX) => {
                format!("{}, {least} to {most}", self.doc)
            }
            _ => self.doc.to_owned(),
        }
    }

    /// What it does, with its words, for tables and schemas.
    pub fn meaning(&self, grammar: Grammar) -> String {
        let words = self.words(grammar).map(|word| format!("{} ({})", word.name, word.doc));
        let words = words.collect::<Vec<_>>().join(", ");
        let after = self.after.map(|after| format!("; {}", after.doc)).unwrap_or_default();
        self.does() + if words.is_empty() { "" } else { ": " } + &words + &after
    }

    /// Puts `value` into `draft`.
    ///
    /// # Errors
    /// Why it cannot stand; nothing where `value` has reported it.
    pub fn set(&'static self, draft: &mut Draft, value: &mut impl Written) -> Result<(), Option<Refusal>> {
        draft.given.push(self.name);
        let set = self.read(draft, value);
        draft.broken |= set.is_err();
        set
    }

    fn read(&'static self, draft: &mut Draft, value: &mut impl Written) -> Result<(), Option<Refusal>> {
        let grammar = draft.grammar;
        let name = self.called(grammar);
        let refuse = |what: String, remedy: String| Some(Refusal { option: self, what, remedy });
        let example = |value: &str| format!("write for example {}", self.setting(grammar, value));
        let unread =
            |what: Option<String>| what.and_then(|what| refuse(format!("{name}: {what}"), String::new()));
        let within = |inside: bool, found: &dyn fmt::Display, range: &str, instead: &str| {
            let what = || format!("{name} is {found}, but must be {range}");
            if inside { Ok(()) } else { Err(refuse(what(), example(instead))) }
        };
        match self.kind {
            Kind::Size { least, most, set } => {
                let size = value.size().map_err(unread)?;
                let inside = (least..=most).contains(&size);
                within(inside, &size, &format!("from {least} to {most}"), "4k")?;
                set(draft, size);
            }
            Kind::Amount { least, set } => {
                let amount = value.amount().map_err(unread)?;
                let bytes = amount.bytes().unwrap_or(least);
                within(bytes >= least, &bytes.0, "more than 0", "1g")?;
                set(draft, amount);
            }
            Kind::Throughput { set } => {
                let rate = value.throughput().map_err(unread)?;
                within(rate.0 > 0, &rate.0, "more than 0 bytes per second", "10MB")?;
                set(draft, rate);
            }
            Kind::Whole { least, most, set } => {
                let number = value.whole().map_err(unread)?;
                let nearest = number.clamp(least, most).to_string();
                within(nearest == number.to_string(), &number, &format!("from {least} to {most}"), &nearest)?;
                set(draft, number);
            }
            Kind::Number { most, range, example, set } => {
                let number = value.number().map_err(unread)?;
                within(number > 0.0 && number <= most, &number, range, example)?;
                set(draft, number);
            }
            Kind::Time { least, bare, set } => {
                let time = value.time(bare).map_err(unread)?;
                // In a job file 0 is no time at all.
                let default = self.default[grammar as usize];
                let instead = match default.parse::<Nanos>() {
                    Ok(time) if time >= least => default,
                    _ if bare >= Nanos::from_secs(1) => "10s",
                    _ => "500us",
                };
                within(time >= least || grammar == Grammar::JobFile, &time.0, "more than 0", instead)?;
                set(draft, time);
            }
            Kind::Switch { words, set, .. } => {
                let on = value.switch(words).map_err(unread)?;
                set(draft, on);
            }
            Kind::Choice(words) => {
                let text = value.text().map_err(unread)?;
                let (text, suffix) = match self.after.and_then(|after| Some((after, text.split_once(':')?))) {
                    Some((after, (word, suffix))) => (word.to_owned(), Some((after, suffix.to_owned()))),
                    None => (text, None),
                };
                let same = text.replace('-', "_");
                let asks = |word: &&Word| word.runs_as.is_none() || grammar != Grammar::Experiment;
                let Some(word) = words.iter().find(|word| word.name == same).filter(asks) else {
                    return Err(refuse(
                        format!("{name}: `{text}` is unknown"),
                        self.instead_of(&text, grammar),
                    ));
                };
                (word.set)(draft);
                if let Some((after, suffix)) = suffix {
                    (after.set)(draft, suffix.trim(), &|text| value.size_in(text))
                        .map_err(|what| refuse(format!("{name}: {what}"), example(after.example)))?;
                }
                if let Some(other) = word.runs_as {
                    draft.asked.push((self.name, word.name));
                    draft.notes.push(format!("{}={} runs on {other}", self.name, word.name));
                }
            }
            Kind::Cpus { set } => {
                let text = value.text().map_err(unread)?;
                let wrong = format!("{name}: `{text}` is not a list of CPUs");
                let cpus = cpu_list(&text).ok_or_else(|| refuse(wrong, example("0-3,6")))?;
                set(draft, cpus);
            }
            Kind::Text { example: instead, set, .. } => {
                let text = value.text().map_err(unread)?;
                set(draft, text.trim(), &|text| value.size_in(text))
                    .map_err(|what| refuse(format!("{name}: {what}"), example(instead)))?;
            }
        }
        Ok(())
    }

    /// What to write instead of the word `found`.
    fn instead_of(&self, found: &str, grammar: Grammar) -> String {
        let names: Vec<&str> = self.words(grammar).map(|word| word.name).collect();
        let Kind::Choice(words) = self.kind else { return String::new() };
        let same = words.iter().find(|word| word.name == found).and_then(|word| word.runs_as);
        match found {
            "trim" | "randtrim" | "trimwrite" => {
                format!("trim is not measured; write one of {}", names.join(", "))
            }
            _ => same.map_or_else(|| near::choose(found, &names), |same| format!("write \"{same}\"")),
        }
    }
}

/// `grammar`'s options for a page of the documentation (Markdown): a table, of a job file's, which fio's manual explains,
/// the names.
pub fn page(grammar: Grammar) -> String {
    let listed = OPTIONS.iter().filter(|option| {
        option.is_in(grammar) && (option.stands_for.is_none() || grammar == Grammar::JobFile)
    });
    if grammar == Grammar::JobFile {
        let names: Vec<String> = listed.map(|option| option.names().collect::<Vec<_>>().join("/")).collect();
        return names.join(", ");
    }
    let mut page = "| option | meaning | default |\n| --- | --- | --- |".to_owned();
    for option in listed {
        let names: Vec<String> = match grammar {
            Grammar::Command => option.names().map(|name| format!("`--{name}`")).collect(),
            _ => vec![option.called(grammar)],
        };
        let real = if option.simulated == Simulated::Yes { "" } else { "; real I/O only" };
        let (meaning, default) = (option.meaning(grammar), option.default[grammar as usize]);
        page += &format!("\n| {} | {meaning}{real} | {default} |", names.join(", "));
    }
    page
}
