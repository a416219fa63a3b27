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
    // fio writes a rate as a size.
    let is_rate = matches!(option.kind, Kind::Throughput { .. });
    let text = text.strip_suffix("/s").filter(|_| is_rate).unwrap_or(text);
    let unsaid = || Refusal { option, what: String::new(), remedy: String::new() };
    option.set(draft, &mut Plain(text)).map_err(|refusal| refusal.unwrap_or_else(unsaid))
}

/// What is asked of the target.
#[derive(Debug, Clone)]
pub(super) struct WorkloadArgs {
    draft: Draft,
    /// What was given, as it was written.
    written: Vec<(&'static str, String)>,
}

fn known() -> impl Iterator<Item = &'static WorkloadOption> {
    OPTIONS.iter().filter(|option| option.is_in(Grammar::Command))
}

/// The options in the groups of the help; of those that the table explains at more length than two lines have, the short text.
const GROUPS: [(&str, &[(&str, &str)]); 8] = [
    (
        "Access",
        &[
            ("rw", "Direction and order: read, write, randread, randwrite, rw, randrw, rewrite"),
            ("rwmixread", ""),
            ("rwmixwrite", ""),
            ("bs", ""),
            ("bssplit", "Operations of several sizes with percentages: 4k/60:64k/40"),
            ("random_distribution", "random, zipf:THETA, pareto:H, normal:PERCENT or zoned:OPS/REGION:..."),
            ("rw_sequencer", "With rw=randread:N: sequential or identical offsets between draws"),
            ("offset", ""),
            ("offset_increment", "Each job begins so many bytes behind the one before it"),
        ],
    ),
    (
        "Load",
        &[
            ("iodepth", ""),
            ("numjobs", ""),
            ("rate", ""),
            ("rate_iops", "Operations that arrive per second, over all jobs; latency from arrival"),
            ("rate_process", "With rate_iops: at equal (linear) or exponential (poisson) distances"),
            ("io_submit_mode", "inline or offload; latency is the same with either"),
            ("thinktime", "Pause of a job after each of its operations"),
        ],
    ),
    (
        "Length",
        &[
            ("runtime", ""),
            ("size", ""),
            ("io_size", ""),
            ("loops", ""),
            ("time_based", "The runtime is kept in full"),
            ("ramp_time", ""),
            ("startdelay", "Time after which it begins"),
        ],
    ),
    (
        "Caches and durability",
        &[
            ("direct", ""),
            ("buffered", ""),
            ("invalidate", "Drops the target's cached pages before a run through the page cache"),
            ("sync", ""),
            ("fsync", "Every job calls fsync after so many writes"),
            ("fdatasync", ""),
            ("end_fsync", ""),
        ],
    ),
    (
        "Content",
        &[
            ("buffer_compress_percentage", "Percentage of what is written that is zeros"),
            ("dedupe_percentage", "Percentage of writes whose content was written before"),
            ("refill_buffers", "Each write has content of its own"),
        ],
    ),
    (
        "Conditions",
        &[
            ("rate_min", "Fails below so many bytes per second"),
            ("rate_iops_min", "Fails below so many operations per second"),
            ("rate_cycle", "Time over which the two are averaged"),
            ("continue_on_error", "Errors that do not end it: none, read, write, io, all"),
            ("steadystate", "Ends when steady: iops:5%, bw:5%, lat:5%, iops_slope:1%, ..."),
            ("steadystate_duration", "Window that is judged"),
            ("steadystate_ramp_time", "Time before the first measurement that counts"),
            ("steadystate_check_interval", "What one measurement takes"),
        ],
    ),
    (
        "The most load that keeps a latency",
        &[
            ("latency_target", "Looks for the largest iodepth that keeps this latency"),
            ("latency_window", "How long each iodepth is tried"),
            ("latency_percentile", "Percentage of the operations that have to keep it"),
            ("latency_run", "The rest of the runtime is run at what was found"),
        ],
    ),
    (
        "Engine",
        &[
            ("ioengine", "io_uring or psync; fio's libaio, posixaio, sync, vsync and pvsync run on these"),
            ("cpus_allowed", "CPUs of the jobs' threads, taken in turn: 0-3,6"),
            ("nice", ""),
            ("iomem", "Memory of the buffers: malloc or mmaphuge"),
            ("huge_pages", ""),
            ("hipri", ""),
            ("sqthread_poll", ""),
        ],
    ),
];

/// The heading of `option` in the help, and its short text.
fn group(option: &WorkloadOption) -> (&'static str, &'static str) {
    let found = GROUPS.iter().find_map(|(heading, options)| {
        let (_, brief) = options.iter().find(|(name, _)| *name == option.name)?;
        Some((*heading, *brief))
    });
    found.unwrap_or(("Workload", ""))
}

fn arg(option: &'static WorkloadOption) -> Arg {
    let dashed = option.names().map(|name| name.replace('_', "-")).filter(|name| name.contains('-'));
    let default = option.default[Grammar::Command as usize];
    let (heading, brief) = group(option);
    let text = if brief.is_empty() { option.does() } else { brief.to_owned() };
    let arg = Arg::new(option.name)
        .long(option.name)
        .aliases(option.aliases.iter().copied())
        .aliases(dashed)
        .hide(option.stands_for.is_some())
        .help(format!("{text} [default: {default}]"))
        .hide_possible_values(true)
        .help_heading(heading);
    match option.kind {
        Kind::Size { .. } | Kind::Amount { .. } => arg.value_name("SIZE"),
        Kind::Throughput { .. } => arg.value_name("RATE"),
        Kind::Number { .. } => arg.value_name("N"),
        Kind::Whole { .. } => arg.value_name("N").allow_hyphen_values(true),
        Kind::Time { .. } => arg.value_name("TIME"),
        Kind::Switch { alone: false, .. } => arg.value_name("0|1"),
        Kind::Switch { .. } => {
            arg.value_name("0|1").num_args(0..=1).require_equals(true).default_missing_value("1")
        }
        Kind::Choice(_) => match option.after {
            Some(after) => {
                let arg = arg.value_name(format!("WORD{}", after.shown));
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
        let (mut draft, mut written) = (Draft::new(Grammar::Command), Vec::new());
        let refused = |what: String| Error::raw(ErrorKind::ValueValidation, what);
        for option in known() {
            let Some(text) = matches.get_one::<String>(option.name) else { continue };
            written.push((option.name, text.clone()));
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
        Ok(WorkloadArgs { draft, written })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl WorkloadArgs {
    /// Bytes of the target that are used, where that is said.
    pub(super) fn size(&self) -> Option<Bytes> {
        self.draft.region.and_then(Amount::bytes)
    }

    /// The same, where a share is one of nothing that is known.
    pub(super) fn bytes(&self) -> Result<Option<Bytes>, CliError> {
        let share = self.draft.region.is_some() && self.size().is_none();
        let what = "--size: a share is of what is there, which a profile may have to make; write bytes, for example --size=1g";
        if share { Err(CliError::Usage(what.to_owned())) } else { Ok(self.size()) }
    }

    /// The measured time, where that is said.
    pub(super) fn runtime(&self) -> Option<Nanos> {
        self.draft.runtime
    }

    /// What was given, as it was written.
    pub(super) fn written(&self) -> &[(&'static str, String)] {
        &self.written
    }

    /// The same, with its shares of what has `length` bytes as bytes.
    pub(super) fn of(&self, length: Option<Bytes>) -> Result<WorkloadArgs, CliError> {
        let mut draft = self.draft.clone();
        draft.take_shares(length).map_err(|error| CliError::Usage(format!("--{error}")))?;
        Ok(self.with(draft))
    }

    /// The same, ending once `length` bytes have been moved, where nothing else says when.
    pub(super) fn once_over(&self, length: Bytes) -> WorkloadArgs {
        let mut draft = self.draft.clone();
        let ends = ["runtime", "size", "io_size", "latency_target", "steadystate"];
        let (offset, bs) = (draft.offset.bytes().unwrap_or_default().0, draft.workload.bs.0);
        let rest = length.0.saturating_sub(offset) / bs * bs;
        if rest > 0 && !ends.iter().any(|name| draft.has(name)) {
            draft.moved = Some(Amount::Bytes(Bytes(rest)));
        }
        self.with(draft)
    }

    fn with(&self, draft: Draft) -> WorkloadArgs {
        WorkloadArgs { draft, written: self.written.clone() }
    }

    /// The workload that they ask for.
    pub(super) fn workload(&self, name: &str) -> Result<Workload, CliError> {
        self.draft.clone().finish(name).map_err(|refusals| {
            let said: Vec<String> = refusals.iter().map(ToString::to_string).collect();
            CliError::Usage(said.join("\n"))
        })
    }

    /// The options that describe `workload`, as fio's JSON lists them.
    pub(super) fn given(&self, workload: &Workload) -> Vec<(String, String)> {
        let mut options = options::said(workload);
        for (name, value) in &mut options {
            let asked = self.draft.asked.iter().find(|(option, _)| option == name);
            asked.iter().for_each(|(_, word)| (*word).clone_into(value));
        }
        options
    }

    /// Where the workload is not what its options say.
    pub(super) fn notes(&self) -> Vec<String> {
        self.draft.notes.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_option_is_in_one_group() {
        let mut grouped: Vec<&str> =
            GROUPS.iter().flat_map(|(_, options)| options.iter().map(|(name, _)| *name)).collect();
        let mut all: Vec<&str> = known().map(|option| option.name).collect();
        grouped.sort_unstable();
        all.sort_unstable();
        assert_eq!(grouped, all);
    }
    #[test]
    fn a_rate_may_have_its_second() {
        for text in ["--rate=1MB", "--rate=1MB/s"] {
            let command = <WorkloadArgs as clap::Args>::augment_args(Command::default());
            let given = WorkloadArgs::from_arg_matches(&command.get_matches_from(["bench", text]));
            assert_eq!(given.unwrap().draft.workload.rate, Some(Bytes(1_000_000)), "{text}");
        }
    }
}
