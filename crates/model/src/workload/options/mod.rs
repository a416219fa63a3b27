//! The options of a workload, each defined once.
//!
//! Everything that reads, prints or explains an option takes it from [`OPTIONS`]: the command line, experiment files and
//! their JSON Schema, fio's job files, the options in fio's JSON, what is refused because it would change nothing, and the
//! tables of the documentation. Two options that fio has are missing because they say nothing of a workload: `kb_base` is
//! how a job file's units are read, and `randseed` belongs to the run.

mod draft;
mod table;

#[cfg(test)]
mod tests;

pub use draft::{Amount, Draft};
pub use table::{OPTIONS, named, said};

use crate::near;
use crate::units::{Bytes, Nanos};
use crate::workload::{Workload, cpu_list};
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
    /// fio's name.
    pub name: &'static str,
    /// The key in an experiment, where it is another one.
    pub key: Option<&'static str>,
    /// Other names of fio's for it, on the command line and in job files.
    pub aliases: &'static [&'static str],
    /// Grammars that do not have it.
    pub absent: &'static [Grammar],
    /// The option that says the same in other words; help and tables leave this one out then.
    pub stands_for: Option<&'static str>,
    /// What an experiment is told that has it, after the key that it is to have.
    pub remark: &'static str,
    /// What its value is, and what it sets.
    pub kind: Kind,
    /// What holds without it, in words: in an experiment, on the command line, in a job file.
    pub default: [&'static str; 3],
    /// What it does, one line without a full stop.
    pub doc: &'static str,
    /// Where it would change nothing.
    pub unused: &'static [Unused],
    /// Whether the simulator has no use for it.
    pub real_only: bool,
    /// Its value in fio's words and units; nothing where fio would not say it.
    pub fio: fn(&Workload) -> Option<String>,
}

/// What the value of an option is, its range, and what it sets.
#[derive(Debug, Clone, Copy)]
#[expect(missing_docs, reason = "`set` puts the value into the draft; `least` and `most` are what it may be")]
pub enum Kind {
    /// A number of bytes.
    Size { least: Bytes, most: Bytes, set: fn(&mut Draft, Bytes) },
    /// A number of bytes, in a job file also a share of what is there.
    Amount { least: Bytes, set: fn(&mut Draft, Amount) },
    /// Bytes per second, more than 0.
    Throughput { set: fn(&mut Draft, Bytes) },
    /// A whole number.
    Whole { least: i64, most: i64, set: fn(&mut Draft, i64) },
    /// Operations per second, more than 0.
    Iops { set: fn(&mut Draft, f64) },
    /// A time; on the command line and in a job file a bare number is in `bare`.
    Time { least: Nanos, bare: Nanos, set: fn(&mut Draft, Nanos) },
    /// On or off, also in some `words`; on the command line it is on `alone`, where it may stand so.
    Switch { alone: bool, words: &'static [(&'static str, bool)], set: fn(&mut Draft, bool) },
    /// One of some words.
    Choice(&'static [Word]),
    /// CPU numbers and ranges.
    Cpus { set: fn(&mut Draft, Vec<u32>) },
}

/// One word of a [`Kind::Choice`].
#[derive(Debug, Clone, Copy)]
pub struct Word {
    /// As it is written.
    pub name: &'static str,
    /// What it means; a second name of another word, which lists leave out, has none.
    pub doc: &'static str,
    /// What runs instead of this word of fio's. An experiment, which compares, asks for that by its own name.
    pub runs_as: Option<&'static str>,
    /// Takes it.
    pub set: fn(&mut Draft),
}

/// Where an option would change nothing.
#[derive(Debug, Clone, Copy)]
pub struct Unused {
    /// Whether that is so.
    pub when: fn(&Draft) -> bool,
    /// Why.
    pub why: &'static str,
    /// With which other option it would change something; where no value is given, with its own.
    pub with: Option<(&'static str, &'static str)>,
    /// Where it is refused.
    pub refused: Refused,
}

/// Where an option that would change nothing is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// Everywhere.
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
    fn amount(&mut self) -> Read<Amount> {
        self.size().map(Amount::Bytes)
    }
    fn throughput(&mut self) -> Read<Bytes> {
        self.size()
    }
    fn whole(&mut self) -> Read<i64> {
        let text = self.text()?;
        text.trim().parse().map_err(|_| Some(format!("`{text}` is not a whole number")))
    }
    fn number(&mut self) -> Read<f64> {
        let text = self.text()?;
        text.trim().parse().map_err(|_| Some(format!("`{text}` is not a number")))
    }
    fn switch(&mut self, words: &[(&str, bool)]) -> Read<bool> {
        switch(Some(&self.text()?), words)
    }
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

/// Why an option cannot stand as it does. `Display` says it with the option's name and what to write instead.
#[derive(Debug, Clone)]
pub struct Refusal {
    /// Which.
    pub option: &'static WorkloadOption,
    /// Who wrote it.
    pub grammar: Grammar,
    /// What is wrong.
    pub wrong: Wrong,
    /// What to write instead.
    pub remedy: String,
}

/// What can be wrong with an option.
#[derive(Debug, Clone)]
pub enum Wrong {
    /// It cannot be read: why, and what to write.
    Text(String),
    /// It is not within its range.
    OutOfRange {
        /// What is there.
        found: String,
        /// What it must be.
        range: String,
    },
    /// It is none of the words that are possible.
    UnknownWord(String),
    /// It would change nothing: why.
    Unused(&'static str),
    /// It and another one exclude each other.
    Conflict(&'static WorkloadOption),
    /// It is not there: what to write.
    Missing(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (grammar, remedy) = (self.grammar, &self.remedy);
        let name = self.option.called(grammar);
        match &self.wrong {
            Wrong::Text(what) if remedy.is_empty() => write!(f, "{name}: {what}"),
            Wrong::Text(what) => write!(f, "{name}: {what}; {remedy}"),
            Wrong::OutOfRange { found, range } => {
                write!(f, "{name} is {found}, but must be {range}; {remedy}")
            }
            Wrong::UnknownWord(found) => write!(f, "{name}: `{found}` is unknown; {remedy}"),
            Wrong::Unused(why) => write!(f, "{name} changes nothing: {why}; {remedy}"),
            Wrong::Conflict(other) => {
                write!(f, "{} and {name} exclude each other; {remedy}", other.called(grammar))
            }
            Wrong::Missing(example) => {
                write!(f, "{name} is missing; write for example {}", grammar.quoted(example))
            }
        }
    }
}

impl Grammar {
    /// `text` as a piece of what is written.
    pub fn quoted(self, text: &str) -> String {
        if self == Grammar::Experiment { format!("`{text}`") } else { text.to_owned() }
    }
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
            Grammar::Command => format!("--{}", self.name),
            _ => grammar.quoted(self.key(grammar)),
        }
    }

    /// Itself with `value` (as on the command line) in `grammar`.
    pub fn setting(&self, grammar: Grammar, value: &str) -> String {
        let key = self.key(grammar);
        match (grammar, self.kind) {
            (Grammar::Command, _) => format!("--{key}={value}"),
            (Grammar::JobFile, _) => format!("{key}={value}"),
            (_, Kind::Switch { .. }) => format!("{key} = {}", value == "1"),
            (_, Kind::Whole { .. } | Kind::Iops { .. }) => format!("{key} = {value}"),
            (_, Kind::Throughput { .. }) => format!("{key} = \"{value}/s\""),
            _ => format!("{key} = \"{value}\""),
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
        self.does() + if words.is_empty() { "" } else { ": " } + &words
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
        let refuse = |wrong: Wrong, remedy: String| Some(Refusal { option: self, grammar, wrong, remedy });
        let unread = |what: Option<String>| what.and_then(|what| refuse(Wrong::Text(what), String::new()));
        let example =
            |value: &str| format!("write for example {}", grammar.quoted(&self.setting(grammar, value)));
        let within = |inside: bool, found: &dyn fmt::Display, range: String, instead: &str| {
            let wrong = || Wrong::OutOfRange { found: found.to_string(), range };
            if inside { Ok(()) } else { Err(refuse(wrong(), example(instead))) }
        };
        match self.kind {
            Kind::Size { least, most, set } => {
                let size = value.size().map_err(unread)?;
                let inside = (least..=most).contains(&size);
                within(inside, &size, format!("from {least} to {most}"), "4k")?;
                set(draft, size);
            }
            Kind::Amount { least, set } => {
                let amount = value.amount().map_err(unread)?;
                let bytes = amount.bytes().unwrap_or(least);
                within(bytes >= least, &bytes.0, "more than 0".to_owned(), "1g")?;
                set(draft, amount);
            }
            Kind::Throughput { set } => {
                let rate = value.throughput().map_err(unread)?;
                within(rate.0 > 0, &rate.0, "more than 0 bytes per second".to_owned(), "10MB")?;
                set(draft, rate);
            }
            Kind::Whole { least, most, set } => {
                let number = value.whole().map_err(unread)?;
                let nearest = number.clamp(least, most).to_string();
                within(nearest == number.to_string(), &number, format!("from {least} to {most}"), &nearest)?;
                set(draft, number);
            }
            Kind::Iops { set } => {
                let iops = value.number().map_err(unread)?;
                let range = "more than 0 operations per second".to_owned();
                within(iops.is_finite() && iops > 0.0, &iops, range, "1000")?;
                set(draft, iops);
            }
            Kind::Time { least, bare, set } => {
                let time = value.time(bare).map_err(unread)?;
                // fio's word for no time at all.
                if grammar != Grammar::JobFile || time > Nanos(0) {
                    within(time >= least, &time.0, "more than 0".to_owned(), "10s")?;
                    set(draft, time);
                }
            }
            Kind::Switch { words, set, .. } => {
                let on = value.switch(words).map_err(unread)?;
                set(draft, on);
            }
            Kind::Choice(words) => {
                let text = value.text().map_err(unread)?;
                let same = text.replace('-', "_");
                let asks = |word: &&Word| word.runs_as.is_none() || grammar != Grammar::Experiment;
                let Some(word) = words.iter().find(|word| word.name == same).filter(asks) else {
                    let remedy = self.instead_of(&text, grammar);
                    return Err(refuse(Wrong::UnknownWord(text), remedy));
                };
                (word.set)(draft);
                if let Some(other) = word.runs_as {
                    draft.asked.push((self.name, word.name));
                    draft.notes.push(format!("{}={} runs on {other}", self.name, word.name));
                }
            }
            Kind::Cpus { set } => {
                let text = value.text().map_err(unread)?;
                let wrong = format!("`{text}` is not a list of CPUs");
                let cpus = cpu_list(&text).ok_or_else(|| refuse(Wrong::Text(wrong), example("0-3,6")))?;
                set(draft, cpus);
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

/// The table of `grammar`'s options for a page of the documentation (Markdown).
pub fn page(grammar: Grammar) -> String {
    let head = if grammar == Grammar::Experiment { "key" } else { "option" };
    let mut page = format!("| {head} | meaning | default |\n| --- | --- | --- |\n");
    for option in OPTIONS.iter().filter(|option| option.is_in(grammar) && option.stands_for.is_none()) {
        let name = option.called(Grammar::Command);
        let name = if grammar == Grammar::Command { &name } else { option.key(grammar) };
        let also: String = option.aliases.iter().map(|alias| format!(", `--{alias}`")).collect();
        let also = if grammar == Grammar::Command { also } else { String::new() };
        let real = if option.real_only { "; real I/O only" } else { "" };
        let (meaning, default) = (option.meaning(grammar), option.default[grammar as usize]);
        page += &format!("| `{name}`{also} | {meaning}{real} | {default} |\n");
    }
    page
}
