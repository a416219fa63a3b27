//! The options of a workload on the command line, called as in fio: those of the model's table.

use crate::cli::CliError;
use clap::builder::PossibleValue;
use clap::error::ErrorKind;
use clap::{Arg, ArgMatches, Command, Error, FromArgMatches};
use ebbtide_model::units::{Bytes, Nanos};
use ebbtide_model::workload::Workload;
use ebbtide_model::workload::options::{
    self, Amount, Draft, Grammar, Kind, OPTIONS, WorkloadOption, Written, named,
};

/// What is asked of the target.
#[derive(Debug)]
pub(super) struct WorkloadArgs(Draft);

/// The value of an option as it was given.
struct Value<'a>(&'a str);

impl Value<'_> {
    fn parse<T: std::str::FromStr>(&self, what: &str) -> Result<T, Option<String>> {
        self.0.parse().map_err(|_| Some(format!("`{}` is not a {what}", self.0)))
    }
}

impl Written for Value<'_> {
    fn size(&mut self) -> Result<Bytes, Option<String>> {
        self.0.parse().map_err(|error| Some(format!("{error}")))
    }
    fn count(&mut self) -> Result<u32, Option<String>> {
        self.parse("whole number")
    }
    fn integer(&mut self) -> Result<i32, Option<String>> {
        self.parse("whole number")
    }
    fn number(&mut self) -> Result<f64, Option<String>> {
        self.parse("number")
    }
    fn time(&mut self, bare: Nanos) -> Result<Nanos, Option<String>> {
        let plain = self.0.chars().all(|c| c.is_ascii_digit() || c == '.');
        let unit =
            if plain { bare.to_string().replace(|c: char| c.is_ascii_digit(), "") } else { String::new() };
        format!("{}{unit}", self.0).parse().map_err(|error| Some(format!("{error}")))
    }
    fn switch(&mut self, words: &[(&str, bool)]) -> Result<bool, Option<String>> {
        options::switch(Some(self.0), words)
    }
    fn text(&mut self) -> Result<String, Option<String>> {
        Ok(self.0.to_owned())
    }
}

fn known() -> impl Iterator<Item = &'static WorkloadOption> {
    OPTIONS.iter().filter(|option| option.is_in(Grammar::Command))
}

fn arg(option: &'static WorkloadOption) -> Arg {
    let dashed = option.names().map(|name| name.replace('_', "-")).filter(|name| name.contains('-'));
    let default = option.default(Grammar::Command);
    let arg = Arg::new(option.name)
        .long(option.name)
        .visible_aliases(option.aliases.iter().copied())
        .aliases(dashed)
        .hide(option.stands_for.is_some())
        .help(format!("{} [default: {default}]", option.does()))
        .help_heading("Workload");
    match option.kind {
        Kind::Size { .. } | Kind::Amount { .. } | Kind::Throughput { .. } => arg.value_name("SIZE"),
        Kind::Count { .. } | Kind::Iops { .. } => arg.value_name("N"),
        Kind::Integer { .. } => arg.value_name("N").allow_hyphen_values(true),
        Kind::Time { .. } => arg.value_name("TIME"),
        Kind::Switch { alone: false, .. } => arg.value_name("0|1"),
        Kind::Switch { .. } => {
            arg.value_name("0|1").num_args(0..=1).require_equals(true).default_missing_value("1")
        }
        Kind::Choice(_) => arg.value_name("WORD").value_parser(Words(option)),
        Kind::Cpus { .. } => arg.value_name("CPUS"),
    }
}

/// Takes any text, whose option refuses it in its own words, and lists in the help what it may be.
#[derive(Clone)]
struct Words(&'static WorkloadOption);

impl clap::builder::TypedValueParser for Words {
    type Value = String;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<String, Error> {
        clap::builder::StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let words = self.0.words(Grammar::Command);
        Some(Box::new(words.map(|word| {
            let as_ = word.runs_as.map(|other| format!("runs on {other}"));
            PossibleValue::new(word.name).help(as_.unwrap_or_else(|| word.doc.to_owned()))
        })))
    }
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
        let refused = |what: String| Error::raw(ErrorKind::ValueValidation, format!("{what}\n"));
        for option in known() {
            let Some(text) = matches.get_one::<String>(option.name) else { continue };
            let before = draft.workload.clone();
            let set = option.set(&mut draft, &mut Value(text));
            set.map_err(|refusal| refused(refusal.map_or_else(String::new, |refusal| refusal.to_string())))?;
            if let Some(other) = option.stands_for
                && matches.contains_id(other)
                && draft.workload != before
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

    /// Measured time, where that is said.
    pub(super) fn runtime(&self) -> Option<Nanos> {
        self.0.runtime
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
