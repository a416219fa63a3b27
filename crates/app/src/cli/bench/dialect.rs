//! Options of fio that a pasted command line has and that need no field of their own.

use crate::cli::globals::Globals;
use crate::cli::output::Printed;
use clap::error::ErrorKind;
use clap::{Arg, ArgMatches, Command, Error, FromArgMatches};
use ebbtide_formats::fio::jobfile::{
    AT_DEFAULT, Accepted, DO_VERIFY, ONLY_TOLD, WITHOUT_EFFECT, accept, only_told,
};

/// fio's choice of what it prints.
const OUTPUT_FORMAT: &str = "output-format";

/// Options that are accepted as in job files.
fn plain() -> impl Iterator<Item = &'static Accepted> {
    let at_default = AT_DEFAULT.iter().map(|(option, _)| option);
    WITHOUT_EFFECT.iter().chain(ONLY_TOLD).chain([&DO_VERIFY]).chain(at_default)
}

/// What fio has on its command line only: how it tells of its progress, and how much memory it may have.
const OF_THE_COMMAND: [&str; 6] =
    ["eta-newline", "eta-interval", "status-interval", "idle-prof", "max-jobs", "alloc-size"];

/// Options of fio that change nothing here, accepted as in job files, and what its `--output-format` asks for.
#[derive(Debug, Default)]
pub(super) struct Dialect {
    json: bool,
    /// Those that are named once, as doing nothing.
    told: Vec<&'static str>,
}

impl Dialect {
    /// `globals` with what fio's `--output-format` asks for.
    pub(super) fn globals(&self, globals: &Globals) -> Globals {
        let printed = if self.json { Printed::JSON } else { globals.printed.clone() };
        Globals { printed, ..globals.clone() }
    }

    /// Whether `option` is one of them.
    pub(super) fn has(option: &str) -> bool {
        plain().any(|known| known.name == option)
            || OF_THE_COMMAND.contains(&option)
            || option == OUTPUT_FORMAT
    }

    /// What the reader must know of options that were given.
    pub(super) fn note(&self) -> Option<String> {
        only_told(&self.told)
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
        let own = OF_THE_COMMAND.map(|name| Arg::new(name).long(name).hide(true).num_args(1));
        let formats = ["normal", "json", "json+"];
        command
            .args(plain)
            .args(own)
            .arg(Arg::new(OUTPUT_FORMAT).long(OUTPUT_FORMAT).value_parser(formats).hide(true))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Dialect {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        // A value that is not done is refused with the words of a job file; only some commands have --verify.
        let verify = matches.try_get_one::<String>("verify").ok().flatten().map(String::as_str);
        for Accepted { name, .. } in plain() {
            if let Some(value) = matches.get_one::<String>(name) {
                let refused = |what| Error::raw(ErrorKind::ValueValidation, format!("--{what}"));
                accept(name, value, verify).map_err(refused)?;
            }
        }
        let format = matches.get_one::<String>(OUTPUT_FORMAT);
        let given = |option: &&Accepted| matches.contains_id(option.name);
        let told = ONLY_TOLD.iter().filter(given).map(|option| option.name).collect();
        Ok(Dialect { json: format.is_some_and(|format| format != "normal"), told })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
