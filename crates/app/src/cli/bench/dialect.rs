//! Options of fio that a pasted command line has and that need no field of their own, and which options were given.

use crate::cli::globals::Globals;
use crate::error::CliError;
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command, Error, FromArgMatches};
use ebbtide_formats::fio::jobfile::{Accepted, ONE_VALUE, WITHOUT_EFFECT, accept, without_effect};

/// fio's choice of what it prints.
const OUTPUT_FORMAT: &str = "output-format";

/// Options that are accepted as in job files.
fn plain() -> impl Iterator<Item = &'static Accepted> {
    WITHOUT_EFFECT.iter().chain(ONE_VALUE)
}

/// Options of fio that change nothing here, accepted as in job files, and the names of all options that were given.
#[derive(Debug, Default)]
pub(super) struct Dialect {
    given: Vec<String>,
    json: bool,
}

impl Dialect {
    /// Refuses what was given beside `option`, which decides it: `what` says where, `allowed` are the options that go
    /// with it.
    pub(super) fn only(&self, option: &str, what: &str, allowed: &[&str]) -> Result<(), CliError> {
        let beside: Vec<String> = self
            .given
            .iter()
            .filter(|name| !allowed.contains(&name.as_str()) && !without_effect(name))
            .map(|name| format!("--{name}"))
            .collect();
        if beside.is_empty() {
            return Ok(());
        }
        Err(CliError::Usage(format!("{} beside {option}: {what}", beside.join(", "))))
    }

    /// `globals` with what fio's `--output-format` asks for.
    pub(super) fn globals(&self, globals: &Globals) -> Globals {
        Globals { json: globals.json || self.json, ..globals.clone() }
    }
}

impl clap::Args for Dialect {
    fn augment_args(command: Command) -> Command {
        let plain = plain().map(|option| {
            let arg = Arg::new(option.name).long(option.name).hide(true);
            if option.takes_value {
                arg.num_args(1)
            } else {
                arg.num_args(0..=1).require_equals(true).default_missing_value("1")
            }
        });
        let formats = ["normal", "json", "json+"];
        command.args(plain).arg(Arg::new(OUTPUT_FORMAT).long(OUTPUT_FORMAT).value_parser(formats).hide(true))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Dialect {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        // Another value than the one that is done is refused with the words of a job file.
        for Accepted { name, .. } in plain() {
            if let Some(value) = matches.get_one::<String>(name) {
                let refused = |what| Error::raw(ErrorKind::ValueValidation, format!("--{what}"));
                accept(name, value).map_err(refused)?;
            }
        }
        let given = matches
            .ids()
            .map(clap::Id::as_str)
            .filter(|id| matches.value_source(id) == Some(ValueSource::CommandLine))
            // A group of options is no option.
            .filter(|id| id.starts_with(|first: char| first.is_ascii_lowercase()))
            .map(str::to_owned)
            .collect();
        let format = matches.get_one::<String>(OUTPUT_FORMAT);
        Ok(Dialect { given, json: format.is_some_and(|format| format != "normal") })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
