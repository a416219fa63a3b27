//! The options of a workload on the command line, called as in fio: those of the model's table.

use crate::error::CliError;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Arg, ArgMatches, Command, Error, FromArgMatches};
use ebbtide_model::units::{Bytes, Nanos};
use ebbtide_model::workload::Workload;
use ebbtide_model::workload::options::{
    self, Amount, Draft, Grammar, Kind, OPTIONS, Plain, Refusal, WorkloadOption, named,
};
use std::ffi::OsStr;

/// Puts `text` into `draft` as the value of `option`.
fn set(option: &'static WorkloadOption, draft: &mut Draft, text: &str) -> Result<(), Refusal> {
    let unsaid = || Refusal { option, what: String::new(), remedy: String::new() };
    option.set(draft, &mut Plain(text)).map_err(|refusal| refusal.unwrap_or_else(unsaid))
}

/// The draft that has the option `name` alone.
fn alone(name: &str, text: &str) -> Result<Draft, Refusal> {
    let mut draft = Draft::new(Grammar::Command);
    set(named(name), &mut draft, text).map(|()| draft)
}

/// The value of `--size`, for a command that takes no other option of a workload.
pub(super) fn size(text: &str) -> Result<Bytes, Refusal> {
    alone("size", text)?.region.and_then(Amount::bytes).ok_or_else(|| Refusal {
        option: named("size"),
        what: format!("--size: `{text}` is a share, and of what is not known here"),
        remedy: "write bytes, for example --size=1g".to_owned(),
    })
}

/// The value of `--runtime`, in the same way.
pub(super) fn runtime(text: &str) -> Result<Nanos, Refusal> {
    Ok(alone("runtime", text)?.runtime.unwrap_or_default())
}

/// What is asked of the target.
#[derive(Debug, Clone)]
pub(super) struct WorkloadArgs(Draft);

fn known() -> impl Iterator<Item = &'static WorkloadOption> {
    OPTIONS.iter().filter(|option| option.is_in(Grammar::Command))
}

fn arg(option: &'static WorkloadOption) -> Arg {
    let dashed = option.names().map(|name| name.replace('_', "-")).filter(|name| name.contains('-'));
    let default = option.default[Grammar::Command as usize];
    let arg = Arg::new(option.name)
        .long(option.name)
        .visible_aliases(option.aliases.iter().copied())
        .aliases(dashed)
        .hide(option.stands_for.is_some())
        .help(format!("{} [default: {default}]", option.does()))
        .help_heading("Workload");
    match option.kind {
        Kind::Size { .. } | Kind::Amount { .. } | Kind::Throughput { .. } => arg.value_name("SIZE"),
        Kind::Number { .. } => arg.value_name("N"),
        Kind::Whole { .. } => arg.value_name("N").allow_hyphen_values(true),
        Kind::Time { .. } => arg.value_name("TIME"),
        Kind::Switch { alone: false, .. } => arg.value_name("0|1"),
        Kind::Switch { .. } => {
            arg.value_name("0|1").num_args(0..=1).require_equals(true).default_missing_value("1")
        }
        Kind::Choice(_) => match option.after {
            Some(after) => {
                let help = format!("{}; {} [default: {default}]", option.does(), after.doc.replace('`', ""));
                let arg = arg.value_name(format!("WORD{}", after.shown)).help(help);
                arg.value_parser(Words { option, listed: words(option).into() })
            }
            None => arg.value_name("WORD").value_parser(words(option)),
        },
        Kind::Text { value, .. } => arg.value_name(value),
        Kind::Cpus { .. } => arg.value_name("CPUS"),
    }
}

/// Words that something may follow: the help lists them, and what reads the option judges the whole.
#[derive(Debug, Clone)]
struct Words {
    option: &'static WorkloadOption,
    listed: PossibleValuesParser,
}

impl TypedValueParser for Words {
    type Value = String;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<String, Error> {
        let text = value.to_string_lossy();
        let Some((word, suffix)) = text.split_once(':') else {
            return self.listed.parse_ref(command, arg, value);
        };
        let word = self.listed.parse_ref(command, arg, OsStr::new(word))?;
        Ok(format!("{word}:{suffix}"))
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(words(self.option).into_iter()))
    }
}

/// What a choice may be, as the help lists it.
fn words(option: &'static WorkloadOption) -> Vec<PossibleValue> {
    let Kind::Choice(words) = option.kind else { return Vec::new() };
    let listed = words.iter().map(|word| {
        let dashed = word.name.replace('_', "-");
        PossibleValue::new(word.name).alias(dashed).help(word.doc).hide(word.doc.is_empty())
    });
    listed.collect()
}

impl clap::Args for WorkloadArgs {
    fn augment_args(command: Command) -> Command {
        command.args(known().map(arg))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for WorkloadArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut draft = Draft::new(Grammar::Command);
        let refused = |what: String| Error::raw(ErrorKind::ValueValidation, what);
        for option in known() {
            let Some(text) = matches.get_one::<String>(option.name) else { continue };
            let before = draft.clone();
            set(option, &mut draft, text).map_err(|refusal| refused(refusal.to_string()))?;
            if let Some(other) = option.stands_for
                && matches.contains_id(other)
                && !draft.asks_the_same(&before)
            {
                let (name, other) = (option.called(Grammar::Command), named(other).called(Grammar::Command));
                return Err(refused(format!("{other} and {name} contradict each other; give one of them")));
            }
        }
        Ok(WorkloadArgs(draft))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl WorkloadArgs {
    /// Bytes of the target that are used, where that is said.
    pub(super) fn size(&self) -> Option<Bytes> {
        self.0.region.and_then(Amount::bytes)
    }

    /// The same, with its shares of what has `length` bytes as bytes.
    pub(super) fn of(&self, length: Option<Bytes>) -> Result<WorkloadArgs, CliError> {
        let mut draft = self.0.clone();
        draft.take_shares(length).map_err(|error| CliError::Usage(format!("--{error}")))?;
        Ok(WorkloadArgs(draft))
    }

    /// The same, ending once `length` bytes have been moved, where nothing else says when.
    pub(super) fn once_over(&self, length: Bytes) -> WorkloadArgs {
        let mut draft = self.0.clone();
        let ends = ["runtime", "size", "io_size", "latency_target", "steadystate"];
        let (offset, bs) = (draft.offset.bytes().unwrap_or_default().0, draft.workload.bs.0);
        let rest = length.0.saturating_sub(offset) / bs * bs;
        if rest > 0 && !ends.iter().any(|name| draft.has(name)) {
            draft.moved = Some(Amount::Bytes(Bytes(rest)));
        }
        WorkloadArgs(draft)
    }

    /// The workload that they ask for.
    pub(super) fn workload(&self, name: &str) -> Result<Workload, CliError> {
        self.0.clone().finish(name).map_err(|refusals| {
            let said: Vec<String> = refusals.iter().map(ToString::to_string).collect();
            CliError::Usage(said.join("\n"))
        })
    }

    /// The options that describe `workload`, as fio's JSON lists them.
    pub(super) fn given(&self, workload: &Workload) -> Vec<(String, String)> {
        let mut options = options::said(workload);
        for (name, value) in &mut options {
            let asked = self.0.asked.iter().find(|(option, _)| option == name);
            asked.iter().for_each(|(_, word)| (*word).clone_into(value));
        }
        options
    }

    /// Where the workload is not what its options say.
    pub(super) fn notes(&self) -> Vec<String> {
        self.0.notes.clone()
    }
}
