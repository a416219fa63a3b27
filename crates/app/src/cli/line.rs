//! The command line before it is parsed: spellings of earlier versions, and a tip where an option stands with the wrong
//! command.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use ebbtide_model::workload::options::OPTIONS;
use std::ffi::{OsStr, OsString};

/// A command line that was spelt as in an earlier version.
#[derive(Debug, PartialEq)]
pub(super) struct OldSpelling {
    /// As it is spelt now.
    pub(super) line: Vec<OsString>,
    old: &'static str,
    new: &'static str,
}

impl OldSpelling {
    /// What to write from now on.
    pub(super) fn hint(&self) -> String {
        let OldSpelling { old, new, .. } = self;
        format!("ebb: `ebb bench {old}` is `ebb {new}` now; a later version will refuse the old spelling")
    }
}

/// Where the subcommand stands in `line`.
fn subcommand(line: &[OsString]) -> Option<usize> {
    let mut words = line.iter().enumerate().skip(1);
    while let Some((at, word)) = words.next() {
        match word.to_str() {
            Some("--store" | "--catalog") => drop(words.next()),
            Some(option) if option.starts_with('-') => {}
            _ => return Some(at),
        }
    }
    None
}

/// `ebb bench` with `--profile`, `--fio` or `--self-test`, which are commands of their own now.
pub(super) fn respelt(line: &[OsString]) -> Option<OldSpelling> {
    let at = subcommand(line).filter(|at| line[*at] == "bench")?;
    let mut words = line[at + 1..].iter();
    let (mut mode, mut rest) = (None, Vec::new());
    while let Some(word) = words.next() {
        let text = word.to_str().unwrap_or_default();
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(OsString::from(value))),
            None => (text, None),
        };
        match name {
            "--profile" | "--fio" => mode = Some((name, value.or_else(|| words.next().cloned())?)),
            "--self-test" => mode = Some((name, OsString::new())),
            "--filename" | "--directory" => rest.push(value.or_else(|| words.next().cloned())?),
            // Always so.
            "--time_based" | "--time-based" if value.as_deref().is_none_or(|value| value == "1") => {}
            "--" => {
                rest.push(word.clone());
                rest.extend(words.by_ref().cloned());
            }
            _ => rest.push(word.clone()),
        }
    }
    let (mode, value) = mode?;
    let of = |old, new, words: &[&OsStr]| {
        let words = words.iter().map(|word| (*word).to_owned());
        OldSpelling { line: line[..at].iter().cloned().chain(words).chain(rest.clone()).collect(), old, new }
    };
    let [profile, list, show, run, fio, self_test] =
        ["profile", "list", "show", "run", "fio", "self-test"].map(OsStr::new);
    Some(match (mode, value.to_str()) {
        ("--profile", Some("list")) => of("--profile list", "profile list", &[profile, list]),
        ("--profile", Some("show")) => of("--profile show NAME", "profile show NAME", &[profile, show]),
        ("--profile", _) => of("--profile NAME TARGET", "profile run NAME TARGET", &[profile, run, &value]),
        ("--fio", _) => of("--fio JOBFILE", "fio JOBFILE [DIRECTORY]", &[fio, &value]),
        _ => of("--self-test", "self-test", &[self_test]),
    })
}

/// `error` of `line`; where it is about an option of a workload, with who decides that in place of the options.
pub(super) fn with_tip(mut error: clap::Error, line: &[OsString]) -> clap::Error {
    let Some(ContextValue::String(argument)) = error.get(ContextKind::InvalidArg) else { return error };
    let name =
        argument.trim_start_matches('-').split(['=', ' ']).next().unwrap_or_default().replace('-', "_");
    let of_workload = OPTIONS.iter().any(|option| option.names().any(|known| known == name));
    let tip = match subcommand(line).and_then(|at| line[at].to_str()) {
        Some("fio") => "the job file says what to run: write it there",
        Some("profile") => {
            "the profile says what to run; for anything else write a profile of your own (docs/profiles.md)"
        }
        _ => return error,
    };
    if error.kind() == ErrorKind::UnknownArgument && of_workload {
        error.remove(ContextKind::SuggestedArg);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Vec<OsString> {
        text.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn what_bench_did_besides_is_a_command_of_its_own() {
        for (old, new) in [
            ("ebb -q bench --profile list --json", "ebb -q profile list --json"),
            ("ebb bench --profile=show dd --size 1m", "ebb profile show dd --size 1m"),
            ("ebb --store bench bench --profile dd /d", "ebb --store bench profile run dd /d"),
            ("ebb bench --filename=/d --profile dd --time_based", "ebb profile run dd /d"),
            ("ebb bench /d --fio j.fio --destroy", "ebb fio j.fio /d --destroy"),
            ("ebb bench --directory /d --fio=j.fio", "ebb fio j.fio /d"),
            ("ebb bench --self-test --json", "ebb self-test --json"),
        ] {
            assert_eq!(respelt(&line(old)).map(|respelt| respelt.line), Some(line(new)), "{old}");
        }
        for now in [
            "ebb",
            "ebb bench /d --rw=read --filename=/d",
            "ebb bench --name=x -- --fio",
            "ebb bench --profile",
            "ebb run --fio x",
            "ebb --store bench run",
        ] {
            assert_eq!(respelt(&line(now)), None, "{now}");
        }
    }
}
