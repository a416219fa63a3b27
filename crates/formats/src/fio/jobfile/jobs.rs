//! From sections of options to jobs.

use super::known::{self, Verify, not_done, verify, without_effect};
use super::lines::{Given, Section};
use super::values::Value;
use super::{
    FILES_MOST, JobFile, JobFileContext, JobFileError, JobFileErrors, Mistake, OptionMistake, Place, Service,
};
use ebbtide_model::units::Bytes;
use ebbtide_model::workload::Workload;
use ebbtide_model::workload::options::{Draft, Grammar, switch};
use std::collections::HashSet;

/// What a job runs on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// One file or device, shared by the job's clones.
    Shared(String),
    /// A file for each clone.
    Each(Vec<String>),
    /// Several files for each clone.
    Several {
        /// Those of each clone.
        clones: Vec<Vec<String>>,
        /// So many bytes go to one before the next has its turn; else one is finished before the next.
        in_turn: Option<Bytes>,
    },
}

/// One job of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct FileJob {
    /// Heading of its section.
    pub name: String,
    /// Where its section begins.
    pub place: Place,
    /// Number of its group, from 0: groups run one after the other, the jobs of one at the same time.
    pub group: u32,
    /// What it runs on.
    pub target: Target,
    /// Bytes of the file (of each, where every clone has one), where the job says how large it is.
    pub file_size: Option<Bytes>,
    /// What its options ask for.
    pub workload: Workload,
    /// Whether what it writes is stamped, held in a ledger and read back.
    pub verified: bool,
    /// Its options as they stand, those of [global] first.
    pub options: Vec<(String, String)>,
    /// Where it differs from fio.
    pub notes: Vec<String>,
}

/// The jobs that `sections` describe; `errors` are the lines of the file that cannot be read.
pub(super) fn jobs(
    sections: &[Section],
    mut errors: Vec<JobFileError>,
    (file, beside): (&str, &[(String, String)]),
    surroundings: &dyn JobFileContext,
) -> Result<JobFile, JobFileErrors> {
    let beside = beside_the_file(beside, sections, &mut errors);
    let mut global: Vec<&Given> = beside.iter().collect();
    let mut jobs: Vec<FileJob> = Vec::new();
    let mut group = 0;
    // Whether a job has waited for another, and none for all.
    let mut waited = false;
    for section in sections {
        if section.name.eq_ignore_ascii_case("global") {
            global.extend(&section.options);
            continue;
        }
        let given: Vec<&Given> = global.iter().copied().chain(&section.options).collect();
        let (draft, wrong) = JobDraft::read(&given);
        // What follows from an option that could not be read is no mistake of the file's.
        let whole = wrong.iter().all(|error| error.mistake.is_of_an_option_not_done());
        errors.extend(wrong);
        if !whole {
            continue;
        }
        let at_section = |mistake| JobFileError { place: section.place.clone(), mistake };
        match begins_later(&draft, &jobs, waited) {
            Ok(later) => group += u32::from(later),
            Err(mistake) => errors.push(at_section(mistake)),
        }
        waited = !draft.stonewall && (waited || draft.wait_for.is_some());
        match draft.finish(section, group, &|file| surroundings.length(file)) {
            Ok(job) => jobs.push(FileJob { options: as_given(&given), ..job }),
            Err(mistake) => errors.push(at_section(mistake)),
        }
    }
    if jobs.is_empty() && errors.is_empty() {
        let place = Place { file: file.to_owned(), line: 1 };
        errors.push(JobFileError { place, mistake: Mistake::NoJob });
    }
    if !errors.is_empty() {
        return Err(JobFileErrors(each_once(errors)));
    }
    let names: Vec<&str> =
        sections.iter().flat_map(|s| &s.options).map(|given| given.name.as_str()).collect();
    if let (Some(note), Some(first)) = (known::only_told(&names), jobs.first_mut()) {
        first.notes.push(note);
    }
    Ok(JobFile { global: as_given(&global), jobs })
}

/// `errors` without repetitions: each job has the options of [global].
fn each_once(errors: Vec<JobFileError>) -> Vec<JobFileError> {
    let mut seen = HashSet::new();
    errors.into_iter().filter(|error| seen.insert(error.to_string())).collect()
}

/// Whether `job` begins when those of the last group of `jobs` are done; whether one of them has `waited` for another by name.
///
/// # Errors
/// When it would wait for nobody, or begin while others wait.
fn begins_later(job: &JobDraft, jobs: &[FileJob], waited: bool) -> Result<bool, Mistake> {
    let last = jobs.last().map_or(0, |job| job.group);
    match &job.wait_for {
        _ if job.stonewall => Ok(!jobs.is_empty()),
        // Those that wait for the same one begin together.
        Some(name) => match jobs.iter().rfind(|job| job.name == *name) {
            Some(waitee) => Ok(waitee.group == last),
            None => Err(Mistake::WaitsForNobody(name.clone())),
        },
        None if waited => Err(Mistake::BeginsBefore),
        None => Ok(false),
    }
}

/// What stands beside the file, as options; an error for one that every job has itself.
fn beside_the_file(
    beside: &[(String, String)],
    sections: &[Section],
    errors: &mut Vec<JobFileError>,
) -> Vec<Given> {
    let is_global = |section: &&Section| section.name.eq_ignore_ascii_case("global");
    let has = |section: &Section, name: &str| {
        let option = known::option(name).map(|option| option.name);
        let same = |given: &Given| {
            given.name == name || (option.is_some() && known::option(&given.name).map(|o| o.name) == option)
        };
        section.options.iter().any(same)
    };
    let (global, jobs): (Vec<&Section>, Vec<&Section>) = sections.iter().partition(is_global);
    let given = beside.iter().map(|(name, value)| {
        let place = Place { file: format!("--{name}"), line: 0 };
        let in_all = !jobs.is_empty() && jobs.iter().all(|job| has(job, name));
        if in_all || global.iter().any(|section| has(section, name)) {
            errors.push(JobFileError { place: place.clone(), mistake: Mistake::SaidInFile(name.clone()) });
        }
        Given { place, name: name.clone(), value: Some(value.clone()) }
    });
    given.collect()
}

/// Options as they stand; one without a value is a switch that is on.
fn as_given(options: &[&Given]) -> Vec<(String, String)> {
    let value = |given: &Given| given.value.clone().unwrap_or_else(|| "1".to_owned());
    options.iter().map(|given| (given.name.clone(), value(given))).collect()
}

/// Whether the option `name` with `value` may stand in a job with this `verify`.
///
/// # Errors
/// Why not, and what to write instead; the option's name comes first.
pub fn accept(name: &str, value: &str, verify: Option<&str>) -> Result<(), Mistake> {
    let mut job = JobDraft::new();
    verify.map_or(Ok(()), |method| job.option("verify", Some(method)))?;
    job.option(name, Some(value))
}

/// A job while its options are read.
pub(super) struct JobDraft {
    /// What it does, limits and amounts of each clone.
    pub(super) draft: Draft,
    binary: bool,
    pub(super) name: Option<String>,
    pub(super) filename: Option<String>,
    pub(super) directory: Option<String>,
    pub(super) stonewall: bool,
    /// The job whose end it waits for.
    pub(super) wait_for: Option<String>,
    pub(super) verified: bool,
    /// Files of each clone.
    pub(super) files: u64,
    pub(super) service: Service,
    /// Whether the size was given as that of each file.
    pub(super) sized_each: bool,
}

impl JobDraft {
    fn new() -> JobDraft {
        JobDraft {
            draft: Draft::new(Grammar::JobFile),
            binary: true,
            name: None,
            filename: None,
            directory: None,
            stonewall: false,
            wait_for: None,
            verified: false,
            files: 1,
            service: Service::default(),
            sized_each: false,
        }
    }

    fn read(given: &[&Given]) -> (JobDraft, Vec<JobFileError>) {
        let (mut job, mut errors) = (JobDraft::new(), Vec::new());
        // These count for the whole section, wherever they stand.
        let (first, rest): (Vec<&Given>, Vec<&Given>) =
            given.iter().partition(|given| ["kb_base", "verify"].contains(&given.name.as_str()));
        for given in first.into_iter().chain(rest) {
            if let Err(mistake) = job.option(&given.name, given.value.as_deref()) {
                errors.push(JobFileError { place: given.place.clone(), mistake });
            }
        }
        (job, errors)
    }

    fn option(&mut self, name: &str, text: Option<&str>) -> Result<(), Mistake> {
        let mut value = Value { text, binary: self.binary };
        if let Some(option) = known::option(name) {
            if option.name == "size" {
                self.sized_each = name == "filesize";
            }
            let said = option.set(&mut self.draft, &mut value);
            return said.map_err(|refusal| Mistake::Refused(refusal.into_iter().collect()));
        }
        self.beside(name, &mut value).map_err(|wrong| Mistake::Option { name: name.to_owned(), wrong })
    }

    /// An option that says nothing of the workload: [`known::BESIDE`] and those that need no field.
    fn beside(&mut self, name: &str, value: &mut Value<'_>) -> Result<(), OptionMistake> {
        match name {
            "name" => self.name = Some(value.given()?.to_owned()),
            "filename" => self.filename = Some(value.given()?.to_owned()),
            "directory" => self.directory = Some(value.given()?.to_owned()),
            "wait_for" => self.wait_for = Some(value.given()?.to_owned()),
            "verify" => {
                let asked = verify(value.given()?)?;
                self.verified = asked != Verify::No;
                self.draft.notes.extend(match asked {
                    Verify::Yes(note) => note,
                    Verify::No => None,
                });
            }
            "do_verify" if on(value)? || !self.verified => {}
            "do_verify" => {
                return Err(OptionMistake::Only(
                    "1 is done: what is written is read back, and again by `ebb verify LEDGER`",
                ));
            }
            "stonewall" | "wait_for_previous" => self.stonewall = on(value)?,
            "randseed" => {
                value.number()?;
                let note = "randseed: --randseed of ebb bench decides the seed of all jobs";
                self.draft.notes.push(note.to_owned());
            }
            "kb_base" => {
                self.binary = match value.given()? {
                    "1024" => true,
                    "1000" => false,
                    other => {
                        return Err(OptionMistake::Word { found: other.to_owned(), words: "1024, 1000" });
                    }
                }
            }
            "nrfiles" => {
                self.files = value.number()?;
                if !(1..=FILES_MOST).contains(&self.files) {
                    return Err(OptionMistake::Only("1 to 1024 are done"));
                }
            }
            "file_service_type" => self.service = Service::named(value.given()?)?,
            _ if without_effect(name) => {}
            _ => not_done(name, value.text)?,
        }
        Ok(())
    }
}

fn on(value: &Value<'_>) -> Result<bool, OptionMistake> {
    switch(value.text, &[]).map_err(|what| OptionMistake::Switch(what.unwrap_or_default()))
}
