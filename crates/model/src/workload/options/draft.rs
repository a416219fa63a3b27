//! From what options say one by one to a workload.

use super::{Grammar, OPTIONS, Refusal, Refused, WorkloadOption, named};
use crate::units::{Bytes, Nanos};
use crate::workload::{Access, Arrival, Details, IoEngine, Mix, Stop, Workload};

/// Smallest unit of O_DIRECT on any disk.
const SECTOR: u64 = 512;
/// Measured time on the command line when nothing says when to end: most see a rate in it, nobody waits long.
const RUNTIME_DEFAULT: Nanos = Nanos::from_secs(10);

/// An amount in bytes or a share of something, up to all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// Bytes.
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

/// A workload while its options are read.
#[derive(Debug, Clone, PartialEq)]
pub struct Draft {
    /// Who writes them.
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
    /// How many times as many bytes.
    pub loops: u32,
    /// Measured time.
    pub runtime: Option<Nanos>,
    /// Whether the time is kept in full, where bytes are given too.
    pub time_based: bool,
    /// Operations that arrive per second.
    pub iops: Option<f64>,
    /// Whether they arrive at exponential distances.
    pub poisson: bool,
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
            loops: 1,
            runtime: None,
            time_based: false,
            iops: None,
            poisson: false,
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
        match (self.runtime, self.bytes()) {
            (Some(_), Some(_)) => self.grammar != Grammar::JobFile || self.time_based,
            (_, bytes) => bytes.is_none(),
        }
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
        if let Some(bytes) = self.bytes() {
            let all = bytes.0.checked_mul(self.loops.into()).ok_or_else(|| {
                let what = format!("{} times {bytes} is more than 64 bits hold", self.loops);
                refuse(named("loops"), what, "write fewer loops".to_owned())
            })?;
            return Ok((Stop::Size(Bytes(all)), self.runtime));
        }
        if grammar == Grammar::Command {
            return Ok((Stop::Runtime(RUNTIME_DEFAULT), None));
        }
        // What was given and could not be read is not missing.
        if self.broken && (self.has("runtime") || self.has("io_size")) {
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
        let mut refusals: Vec<Refusal> = Vec::new();
        if self.grammar == Grammar::Experiment && !self.has("rw") {
            let rw = named("rw");
            refusals.extend(self.missing(rw, &[(rw, "randread")]));
        }
        let stop = self.stop();
        refusals.extend(stop.as_ref().err().cloned().flatten());
        self.check_alignment(&mut refusals);
        self.check_open_loop(&mut refusals);
        self.check_use(&mut refusals);
        let (Ok((stop, time_limit)), true) = (stop, refusals.is_empty() && !self.broken) else {
            return Err(refusals);
        };
        let writes = self.workload.writes();
        let details = self.workload.details;
        Ok(Workload {
            name: name.to_owned(),
            stop,
            span: self.region.and_then(Amount::bytes),
            arrival: match self.iops {
                None => Arrival::Closed,
                Some(iops) if self.poisson => Arrival::Poisson { iops },
                Some(iops) => Arrival::Fixed { iops },
            },
            details: Details {
                offset: self.offset.bytes().unwrap_or_default(),
                time_limit,
                fsync_every: details.fsync_every.filter(|_| writes),
                fdatasync_every: details.fdatasync_every.filter(|_| writes),
                ..details
            },
            ..self.workload.clone()
        })
    }

    /// O_DIRECT takes whole sectors; an experiment may run on any backend, some of which count in them always.
    fn check_alignment(&self, refusals: &mut Vec<Refusal>) {
        if !self.workload.direct && self.grammar != Grammar::Experiment {
            return;
        }
        for (name, bytes) in [("bs", self.workload.bs), ("offset", self.offset.bytes().unwrap_or_default())] {
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
