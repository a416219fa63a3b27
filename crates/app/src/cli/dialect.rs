//! Options of fio that a pasted command line has and that need no field of their own.

use crate::cli::globals::Globals;
use clap::error::ErrorKind;
use clap::{Arg, ArgMatches, Command, Error, FromArgMatches};
use ebbtide_formats::fio::jobfile::{Accepted, ONE_VALUE, WITHOUT_EFFECT, accept};

/// fio's choice of what it prints.
const OUTPUT_FORMAT: &str = "output-format";

/// Options that are accepted as in job files.
fn plain() -> impl Iterator<Item = &'static Accepted> {
    WITHOUT_EFFECT.iter().chain(ONE_VALUE)
}

/// Options of fio that change nothing here, accepted as in job files, and what its `--output-format` asks for.
#[derive(Debug, Default)]
pub(super) struct Dialect {
    json: bool,
}

impl Dialect {
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
        let format = matches.get_one::<String>(OUTPUT_FORMAT);
        Ok(Dialect { json: format.is_some_and(|format| format != "normal") })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
