//! From what options say one by one to a workload.

use super::{Grammar, OPTIONS, Refusal, Refused, WorkloadOption, named};
use crate::units::{Bytes, Nanos, format_number};
use crate::workload::{
    Access, Arrival, Conditions, Criterion, Details, Distribution, Floor, IoEngine, LatencyTarget, Mix,
    Regions, Sequence, SteadyState, Stop, Workload,
};

/// Smallest unit of O_DIRECT on any disk.
const SECTOR: u64 = 512;
/// What is read back is compared in pages.
const PAGE: u64 = 4096;
/// The shortest interval of a series.
const STEP: Nanos = Nanos::from_millis(10);
/// Measured time on the command line when nothing says when to end: most see a rate in it, nobody waits long.
const RUNTIME_DEFAULT: Nanos = Nanos::from_secs(10);

/// An amount in bytes or a share of something, up to all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// A number of bytes.
    Bytes(Bytes),
    /// Percent, 0 to 100.
    Percent(u8),
}

impl Amount {
    /// The bytes, where it is not a share.
    pub fn bytes(self) -> Option<Bytes> {
        match self {
            Amount::Bytes(bytes) => Some(bytes),
            Amount::Percent(_) => None,
        }
    }
}

fn refuse(option: &'static WorkloadOption, what: String, remedy: String) -> Option<Refusal> {
    Some(Refusal { option, what, remedy })
}

/// A steady state while its options are read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SteadyDraft {
    /// When it is one; nothing where none is asked for.
    pub criterion: Option<Criterion>,
    /// What of the run is judged.
    pub window: Nanos,
    /// What of it is not.
    pub ramp: Nanos,
    /// Time of a measurement.
    pub interval: Nanos,
}

impl Default for SteadyDraft {
    fn default() -> Self {
        SteadyDraft { criterion: None, window: Nanos(0), ramp: Nanos(0), interval: Nanos::from_secs(1) }
    }
}

/// A workload while its options are read.
#[derive(Debug, Clone, PartialEq)]
pub struct Draft {
    /// The grammar that they are written in, which has its defaults and units.
    pub grammar: Grammar,
    /// What options say outright; what takes several of them together is filled in at the end.
    pub workload: Workload,
    /// Share of reads, in percent, where they are mixed with writes.
    pub read_percent: u8,
    /// The part of the target that is used.
    pub region: Option<Amount>,
    /// Bytes that are read or written.
    pub moved: Option<Amount>,
    /// Where the used part begins.
    pub offset: Amount,
    /// How far behind one job's beginning that of the next is.
    pub step: Amount,
    /// How many times as many bytes.
    pub loops: u32,
    /// Length of the measurement.
    pub runtime: Option<Nanos>,
    /// Whether the time is kept in full, where bytes are given too.
    pub time_based: bool,
    /// Operations that arrive per second.
    pub iops: Option<f64>,
    /// Whether they arrive at exponential distances.
    pub poisson: bool,
    /// Whether operations between two draws stay at the same offset.
    pub identical: bool,
    /// Whether others than the jobs are to submit.
    pub offload: bool,
    /// The latency whose load is looked for; a target of 0 is none.
    pub latency: LatencyTarget,
    /// The steady state that ends it.
    pub steady: SteadyDraft,
    /// The rates below which it fails; none where it has none.
    pub floor: Floor,
    /// Where it is not what the options say.
    pub notes: Vec<String>,
    /// Words of fio's that something else runs as: the option and the word.
    pub asked: Vec<(&'static str, &'static str)>,
    pub(super) given: Vec<&'static str>,
    pub(super) broken: bool,
}

impl Draft {
    /// Nothing said yet, in `grammar` with its defaults.
    pub fn new(grammar: Grammar) -> Draft {
        let workload = Workload::new("", Access::Sequential, Mix::Read, Stop::Size(Bytes(0)));
        let fio = grammar == Grammar::JobFile;
        let ioengine = if fio { IoEngine::Psync } else { IoEngine::IoUring };
        Draft {
            grammar,
            workload: Workload { direct: !fio, ioengine, ..workload },
            read_percent: 50,
            region: None,
            moved: None,
            offset: Amount::Bytes(Bytes(0)),
            step: Amount::Bytes(Bytes(0)),
            loops: 1,
            runtime: None,
            time_based: false,
            iops: None,
            poisson: false,
            identical: false,
            offload: false,
            latency: LatencyTarget::default(),
            steady: SteadyDraft::default(),
            floor: Floor { throughput: None, iops: None, cycle: Nanos::from_secs(1) },
            notes: Vec::new(),
            asked: Vec::new(),
            given: Vec::new(),
            broken: false,
        }
    }

    /// `option` was given and cannot be read.
    pub fn fail(&mut self, option: &WorkloadOption) {
        self.given.push(option.name);
        self.broken = true;
    }

    /// Whether the option called `name` was given, or one that stands for it.
    pub fn has(&self, name: &str) -> bool {
        let says = |option: &&WorkloadOption| option.name == name || option.stands_for == Some(name);
        OPTIONS.iter().filter(says).any(|option| self.given.contains(&option.name))
    }

    /// Whether it asks for what `other` does, whichever options said so.
    pub fn asks_the_same(&self, other: &Draft) -> bool {
        Draft { given: other.given.clone(), ..self.clone() } == *other
    }

    /// Whether a time ends it, whatever the bytes.
    pub(super) fn ends_by_time(&self) -> bool {
        if self.searches() {
            return true;
        }
        match (self.runtime, self.bytes()) {
            (Some(_), Some(_)) => self.grammar != Grammar::JobFile || self.time_based,
            (_, bytes) => bytes.is_none(),
        }
    }

    /// Whether it looks for the load that keeps a latency.
    pub(super) fn searches(&self) -> bool {
        self.latency.target > Nanos(0)
    }

    /// Whether it fails where it is slower than something.
    pub(super) fn has_floor(&self) -> bool {
        self.floor.throughput.is_some() || self.floor.iops.is_some()
    }

    /// Bytes after which it ends, before they are repeated.
    fn bytes(&self) -> Option<Bytes> {
        // The span of an experiment's workload says nothing of its end.
        let region = self.region.filter(|_| self.grammar != Grammar::Experiment);
        self.moved.or(region).and_then(Amount::bytes)
    }

    /// When it ends, and the time after which it ends in any case.
    ///
    /// # Errors
    /// What is missing or contradicts; nothing where it has been reported.
    pub fn stop(&self) -> Result<(Stop, Option<Nanos>), Option<Refusal>> {
        let grammar = self.grammar;
        let [time, moved] = [named("runtime"), named("io_size")];
        if self.has("runtime") && self.has("io_size") && grammar != Grammar::JobFile {
            let [first, second, part] = [time, moved, named("size")].map(|option| option.called(grammar));
            let remedy = format!(
                "keep {first} to end after a time or {second} to end after so many bytes; {part} is the part of the target \
                 that is used"
            );
            return Err(refuse(moved, format!("{first} and {second} exclude each other"), remedy));
        }
        if let (Some(runtime), true) = (self.runtime, self.ends_by_time()) {
            return Ok((Stop::Runtime(runtime), None));
        }
        if self.searches() {
            return Ok((Stop::Runtime(self.latency.longest(self.workload.depth())), None));
        }
        if let Some(bytes) = self.bytes() {
            let all = bytes.0.checked_mul(self.loops.into()).ok_or_else(|| {
                let what = format!("{} times {bytes} is more than 64 bits hold", self.loops);
                refuse(named("loops"), what, "write fewer loops".to_owned())
            })?;
            return Ok((Stop::Size(Bytes(all)), self.runtime));
        }
        // How long it is to be waited for a steady state is not for us to say.
        if grammar == Grammar::Command && self.steady.criterion.is_none() {
            return Ok((Stop::Runtime(RUNTIME_DEFAULT), None));
        }
        // What was given and could not be read is not missing.
        if self.broken && ["runtime", "io_size", "latency_target"].iter().any(|name| self.has(name)) {
            return Err(None);
        }
        Err(self.missing(time, &[(time, "10s"), (moved, "1GiB")]))
    }

    fn missing(
        &self,
        option: &'static WorkloadOption,
        examples: &[(&WorkloadOption, &str)],
    ) -> Option<Refusal> {
        let settings = examples.iter().map(|(option, value)| option.setting(self.grammar, value));
        let remedy = format!("write for example {}", settings.collect::<Vec<_>>().join(" or "));
        refuse(option, format!("{} is missing", option.called(self.grammar)), remedy)
    }

    /// What the options ask for together.
    ///
    /// # Errors
    /// Everything that is wrong; nothing where it has been reported.
    pub fn finish(&mut self, name: &str) -> Result<Workload, Vec<Refusal>> {
        if let Mix::Mixed { read_percent } = &mut self.workload.mix {
            *read_percent = self.read_percent;
        }
        if let Sequence::Runs { identical, .. } = &mut self.workload.details.sequence {
            *identical = self.identical;
        }
        let mut refusals: Vec<Refusal> = Vec::new();
        if self.grammar == Grammar::Experiment && !self.has("rw") {
            let rw = named("rw");
            refusals.extend(self.missing(rw, &[(rw, "randread")]));
        }
        let stop = self.stop();
        refusals.extend(stop.as_ref().err().cloned().flatten());
        self.check_alignment(&mut refusals);
        self.check_open_loop(&mut refusals);
        self.check_search(&mut refusals);
        self.check_floor(&mut refusals);
        self.check_steps(&mut refusals);
        self.check_verify(&mut refusals);
        self.check_use(&mut refusals);
        let (Ok((stop, time_limit)), true) = (stop, refusals.is_empty() && !self.broken) else {
            return Err(refusals);
        };
        let writes = self.workload.writes();
        let details = self.workload.details;
        let split = self.workload.split.as_ref();
        // What one job has is not shared out.
        let step = self.step.bytes().filter(|_| self.workload.numjobs > 1).unwrap_or_default();
        Ok(Workload {
            name: name.to_owned(),
            bs: split.map_or(self.workload.bs, |split| split.largest(self.workload.mix)),
            // Where it changes nothing, a job file may have it all the same.
            distribution: match self.workload.access {
                Access::Sequential => Distribution::Uniform,
                Access::Random => self.workload.distribution.clone(),
            },
            stop,
            span: self.region.and_then(Amount::bytes),
            arrival: match self.iops {
                None => Arrival::Closed,
                Some(iops) if self.poisson => Arrival::Poisson { iops },
                Some(iops) => Arrival::Fixed { iops },
            },
            details: Details {
                offset: self.offset.bytes().unwrap_or_default(),
                offset_increment: step,
                regions: if step > Bytes(0) { Regions::Shared } else { details.regions },
                time_limit,
                fsync_every: details.fsync_every.filter(|_| writes),
                fdatasync_every: details.fdatasync_every.filter(|_| writes),
                ..details
            },
            conditions: Conditions {
                latency: Some(self.latency).filter(|_| self.searches()),
                steady: self.steady.criterion.map(|criterion| SteadyState {
                    criterion,
                    window: self.steady.window,
                    ramp: self.steady.ramp,
                    interval: self.steady.interval,
                }),
                floor: Some(self.floor).filter(|_| self.has_floor()),
                go_on: self.workload.conditions.go_on,
            },
            ..self.workload.clone()
        })
    }

    /// A search changes the depth: it has to be what decides the load, and be tried for longer than an operation may take.
    fn check_search(&self, refusals: &mut Vec<Refusal>) {
        if !self.searches() {
            return;
        }
        let target = named("latency_target");
        let called = |name| named(name).called(self.grammar);
        let others = ["rate_iops", "rate", "thinktime", "rate_min", "rate_iops_min", "steadystate"];
        for other in others.into_iter().filter(|other| self.has(other)) {
            let what = format!("{} and {} exclude each other", target.called(self.grammar), called(other));
            let remedy = format!(
                "keep {} (the load is what iodepth makes it) or {}",
                target.called(self.grammar),
                called(other)
            );
            refusals.extend(refuse(target, what, remedy));
        }
        let LatencyTarget { target: limit, window, .. } = self.latency;
        if window <= limit {
            let option = named("latency_window");
            let what = format!(
                "{} is {window}, but must be longer than {}, {limit}: nothing else completes in it",
                option.called(self.grammar),
                target.called(self.grammar)
            );
            let instead = limit.times(10).to_string();
            let remedy = format!("write for example {}", option.setting(self.grammar, &instead));
            refusals.extend(refuse(option, what, remedy));
        } else if let Some(runtime) = self.runtime.filter(|runtime| *runtime < window.times(2)) {
            let option = named("runtime");
            let what = format!(
                "{} is {runtime}, in which there is no room for two windows of {window}, one to find a load and one to confirm it",
                option.called(self.grammar)
            );
            let instead = self.latency.longest(self.workload.depth()).to_string();
            let remedy = format!(
                "write for example {}, or a shorter {}",
                option.setting(self.grammar, &instead),
                named("latency_window").called(self.grammar)
            );
            refusals.extend(refuse(option, what, remedy));
        }
    }

    /// A run may not have to be faster than it is allowed to be.
    fn check_floor(&self, refusals: &mut Vec<Refusal>) {
        let more =
            |least: Option<f64>, most: Option<f64>| least.zip(most).is_some_and(|(least, most)| least > most);
        let bytes = |rate: Option<Bytes>| rate.map(|rate| rate.0 as f64);
        let rate = self.workload.rate.map(|rate| rate.to_string());
        let iops = self.iops.map(format_number);
        for (least, most, contradict, allowed) in [
            ("rate_min", "rate", more(bytes(self.floor.throughput), bytes(self.workload.rate)), rate),
            ("rate_iops_min", "rate_iops", more(self.floor.iops, self.iops), iops),
        ] {
            let Some(allowed) = allowed.filter(|_| contradict) else { continue };
            let (least, most) = (named(least), named(most));
            let what = format!(
                "{} is more than {}, so that every trial would fail",
                least.called(self.grammar),
                most.called(self.grammar)
            );
            let remedy = format!("write {} or less", least.setting(self.grammar, &allowed));
            refusals.extend(refuse(least, what, remedy));
        }
    }

    /// Rates are looked at in whole intervals of the series, and a window has to be full before the run ends.
    fn check_steps(&self, refusals: &mut Vec<Refusal>) {
        let mut wrong = |name: &str, what: &str, instead: Nanos| {
            let option = named(name);
            let what = format!("{} {what}", option.called(self.grammar));
            let remedy = format!("write for example {}", option.setting(self.grammar, &instead.to_string()));
            refusals.extend(refuse(option, what, remedy));
        };
        let whole = |time: Nanos| time > Nanos(0) && time.0.is_multiple_of(STEP.0);
        let rounded = |time: Nanos| STEP.times(time.0.div_ceil(STEP.0).max(1));
        if self.has_floor() && !whole(self.floor.cycle) {
            wrong("rate_cycle", "must be a multiple of 10ms", rounded(self.floor.cycle));
        }
        if let Some(runtime) = self.runtime.filter(|runtime| self.has_floor() && *runtime < self.floor.cycle)
        {
            let what = format!(
                "is {}, and the run is over after {runtime}: no rate would be taken",
                self.floor.cycle
            );
            wrong("rate_cycle", &what, rounded(Nanos(runtime.0 / 4)));
        }
        let SteadyDraft { criterion: Some(_), window, ramp, interval } = self.steady else { return };
        if window == Nanos(0) {
            wrong(
                "steadystate_duration",
                "is missing: it says how much of the run is judged",
                interval.times(30),
            );
        } else if !whole(interval) {
            wrong("steadystate_check_interval", "must be a multiple of 10ms", rounded(interval));
        } else if window < interval.times(2) || !window.0.is_multiple_of(interval.0) {
            let instead = interval.times((window.0 / interval.0).max(2));
            let what = format!(
                "is {window}, but must be a multiple of {interval}, what one measurement takes, and at least two of them"
            );
            wrong("steadystate_duration", &what, instead);
        } else if let Some(runtime) = self.runtime.filter(|runtime| *runtime < ramp.plus(window)) {
            let after = if ramp > Nanos(0) { format!(" after {ramp}") } else { String::new() };
            let what = format!("is {runtime}, in which there is no window of {window}{after}");
            wrong("runtime", &what, ramp.plus(window).times(4));
        }
    }

    /// What is read back is known again in whole pages, each of which is written by its place alone.
    fn check_verify(&self, refusals: &mut Vec<Refusal>) {
        let Workload { details, mix, .. } = &self.workload;
        if !details.verify {
            return;
        }
        let verify = named("verify");
        let mut wrong = |why: &str, remedy: &str| {
            let what = format!("{} {why}", verify.called(self.grammar));
            refusals.extend(refuse(
                verify,
                what,
                format!("{remedy}, or remove {}", verify.called(self.grammar)),
            ));
        };
        if *mix == Mix::Rewrite {
            wrong("is not done with rewrite, which writes back what it read", "write `rw = \"randwrite\"`");
        }
        if !self.workload.is_multiple_of(PAGE) {
            wrong("needs operations of multiples of 4KiB", "write for example `bs = \"4k\"`");
        }
        if details.sequence != Sequence::Plain {
            wrong("is not done with a modifier of `rw`", "leave out the modifier");
        }
        if details.dedupe_percent > 0 {
            wrong(
                "makes each page unlike others, and dedupe_percentage makes them alike",
                "remove `dedupe_percentage`",
            );
        }
        if details.refill {
            wrong("knows what it wrote by the buffers' own content", "remove `refill_buffers`");
        }
        if self.workload.conditions.go_on.write {
            wrong("cannot tell a write that failed from one that is lost", "remove `continue_on_error`");
        }
        if self.searches() {
            wrong("is not done where a load is looked for", "remove `latency_target`");
        }
    }

    /// O_DIRECT takes whole sectors; an experiment may run on any backend, some of which count in them always.
    fn check_alignment(&self, refusals: &mut Vec<Refusal>) {
        if !self.workload.direct && self.grammar != Grammar::Experiment {
            return;
        }
        let mut wrong = |name, instead: &str| {
            let option = named(name);
            let what = format!(
                "{}: sizes must be multiples of 512 bytes, as O_DIRECT needs",
                option.called(self.grammar)
            );
            let remedy = format!("write for example {}", option.setting(self.grammar, instead));
            refusals.extend(refuse(option, what, remedy));
        };
        if self.workload.split.as_ref().is_some_and(|split| !split.is_multiple_of(SECTOR)) {
            wrong("bssplit", "4k/60:64k/40");
        }
        if let Sequence::Holes(bytes) = self.workload.details.sequence
            && !bytes.unsigned_abs().is_multiple_of(SECTOR)
        {
            wrong("rw", "read:-8k");
        }
        let of = |amount: Amount| amount.bytes().unwrap_or_default();
        let aligned =
            [("bs", self.workload.bs), ("offset", of(self.offset)), ("offset_increment", of(self.step))];
        for (name, bytes) in aligned {
            if name == "bs" && self.workload.split.is_some() {
                continue;
            }
            if !bytes.0.is_multiple_of(SECTOR) {
                let option = named(name);
                let whole = Bytes((bytes.0 / SECTOR * SECTOR).max(SECTOR)).to_string();
                let mut remedy = format!("write {}", option.setting(self.grammar, &whole));
                if self.grammar != Grammar::Experiment {
                    remedy += &format!(" or {}", named("direct").setting(self.grammar, "0"));
                }
                let name = option.called(self.grammar);
                let what =
                    format!("{name} is {bytes}, but must be a multiple of 512 bytes, as O_DIRECT needs");
                refusals.extend(refuse(option, what, remedy));
            }
        }
    }

    /// In a comparison one thing alone may hold operations back, or nobody knows what was compared.
    fn check_open_loop(&self, refusals: &mut Vec<Refusal>) {
        if self.grammar != Grammar::Experiment || !self.has("rate_iops") {
            return;
        }
        for other in ["rate", "thinktime"].into_iter().filter(|other| self.has(other)) {
            let remedy = "keep `rate_iops` (operations arrive on their own) or the other one".to_owned();
            refusals.extend(refuse(
                named(other),
                format!("`rate_iops` and `{other}` exclude each other"),
                remedy,
            ));
        }
    }

    /// Refuses or notes the options that would change nothing.
    fn check_use(&mut self, refusals: &mut Vec<Refusal>) {
        // What could not be read stands at its default, from which nothing follows.
        if self.broken {
            return;
        }
        let grammar = self.grammar;
        for option in OPTIONS.iter().filter(|option| option.is_in(grammar)) {
            let Some(unused) = option.unused.iter().find(|unused| (unused.when)(self)) else { continue };
            if !self.given.contains(&option.name) {
                continue;
            }
            let refused = match unused.refused {
                Refused::Everywhere => true,
                Refused::NotInJobFiles => grammar != Grammar::JobFile,
                Refused::InExperiments => grammar == Grammar::Experiment,
            };
            if refused {
                let name = option.called(grammar);
                let own = (option.fio)(&self.workload).unwrap_or_default();
                let instead = |(other, value): (&str, &str)| {
                    let setting = named(other).setting(grammar, if value.is_empty() { &own } else { value });
                    format!("write for example {setting}, or ")
                };
                let remedy = unused.with.map_or_else(String::new, instead) + "remove " + &name;
                refusals.extend(refuse(option, format!("{name} changes nothing: {}", unused.why), remedy));
            } else if unused.refused == Refused::NotInJobFiles {
                self.notes.push(format!("{} changes nothing: {}", option.name, unused.why));
            }
        }
    }
}
