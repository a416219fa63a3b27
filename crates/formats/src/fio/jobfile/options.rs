//! From sections of options to jobs.

use super::known::{self, unknown, without_effect};
use super::lines::{Given, Section};
use super::values::Value;
use super::{JobFile, JobFileError, Place, Surroundings};
use ebbtide_model::units::Bytes;
use ebbtide_model::workload::Workload;
use ebbtide_model::workload::options::{Draft, Grammar, switch};

/// What a job runs on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// One file or device, shared by the job's clones.
    Shared(String),
    /// A file for each clone.
    Each(Vec<String>),
}

/// One job of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct FileJob {
    /// Its section's heading.
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
    /// Its options as they stand, those of [global] first.
    pub options: Vec<(String, String)>,
    /// Where it differs from fio.
    pub notes: Vec<String>,
}

/// The jobs that `sections` describe.
pub(super) fn jobs(
    sections: &[Section],
    file: &str,
    surroundings: &dyn Surroundings,
) -> Result<JobFile, JobFileError> {
    let mut global: Vec<&Given> = Vec::new();
    let mut jobs: Vec<FileJob> = Vec::new();
    let mut group = 0;
    for section in sections {
        if section.name.eq_ignore_ascii_case("global") {
            global.extend(&section.options);
            continue;
        }
        let given: Vec<&Given> = global.iter().copied().chain(&section.options).collect();
        let draft = JobDraft::read(&given)?;
        if draft.stonewall && !jobs.is_empty() {
            group += 1;
        }
        let wrong = |what: String| JobFileError { place: section.place.clone(), what };
        let mut job = draft.finish(section, group, &|file| surroundings.length(file)).map_err(wrong)?;
        job.options = as_given(&given);
        jobs.push(job);
    }
    if jobs.is_empty() {
        let place = Place { file: file.to_owned(), line: 1 };
        let what = "there is no job; write a section `[name]` beside [global]".to_owned();
        return Err(JobFileError { place, what });
    }
    Ok(JobFile { global: as_given(&global), jobs })
}

/// Options as they stand; one without a value is a switch that is on.
fn as_given(options: &[&Given]) -> Vec<(String, String)> {
    let value = |given: &Given| given.value.clone().unwrap_or_else(|| "1".to_owned());
    options.iter().map(|given| (given.name.clone(), value(given))).collect()
}

/// Whether the option `name` with `value` may stand in a job.
///
/// # Errors
/// Why not, and what to write instead; the option's name comes first.
pub fn accept(name: &str, value: &str) -> Result<(), String> {
    JobDraft::new().option(name, Some(value))
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
        }
    }

    fn read(given: &[&Given]) -> Result<JobDraft, JobFileError> {
        let mut job = JobDraft::new();
        // The base of the units counts for the whole section, wherever it stands.
        let base = given.iter().filter(|given| given.name == "kb_base");
        for given in base.chain(given.iter().filter(|given| given.name != "kb_base")) {
            let (place, value) = (given.place.clone(), given.value.as_deref());
            job.option(&given.name, value).map_err(|what| JobFileError { place, what })?;
        }
        Ok(job)
    }

    fn option(&mut self, name: &str, text: Option<&str>) -> Result<(), String> {
        let mut value = Value { text, binary: self.binary };
        if let Some(option) = known::option(name) {
            let said = option.set(&mut self.draft, &mut value);
            return said.map_err(|refusal| refusal.map_or_else(String::new, |refusal| refusal.to_string()));
        }
        self.beside(name, &mut value).map_err(|what| format!("{name}: {what}"))
    }

    /// An option that says nothing of the workload: [`known::BESIDE`] and those that need no field.
    fn beside(&mut self, name: &str, value: &mut Value<'_>) -> Result<(), String> {
        match name {
            "name" => self.name = Some(value.given()?.to_owned()),
            "filename" => self.filename = Some(value.given()?.to_owned()),
            "directory" => self.directory = Some(value.given()?.to_owned()),
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
                    other => return Err(format!("`{other}` is not one of 1024, 1000")),
                }
            }
            // What fio does without them is what happens here.
            "nrfiles" if value.number()? == 1 => {}
            "startdelay" if value.number()? == 0 => {}
            "invalidate" if on(value)? => {}
            "nrfiles" => return Err("only 1 is done; write a job for each file".to_owned()),
            "startdelay" => {
                return Err("only 0 is done: put the job into a group of its own with stonewall".to_owned());
            }
            "invalidate" => {
                return Err("only 1 is done: caches are always dropped before a buffered job".to_owned());
            }
            _ if without_effect(name) => {}
            _ => return Err(unknown(name)),
        }
        Ok(())
    }
}

fn on(value: &Value<'_>) -> Result<bool, String> {
    switch(value.text, &[]).map_err(Option::unwrap_or_default)
}
