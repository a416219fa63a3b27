//! `ebb bench JOBS.fio`: the jobs of a fio job file.

use super::super::verify;
use super::jobs::{self, Kept, TargetUse};
use crate::bench::fio::{self, FromFile};
use crate::cli::globals::Globals;
use crate::cli::output::Form;
use crate::error::CliError;
use crate::views;
use ebbtide_model::experiment::Volume;
use ebbtide_model::shown::one_line;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

/// What is asked of a job file.
pub(super) struct JobFileRun<'a> {
    pub(super) file: &'a Path,
    /// Directory of files with relative names.
    pub(super) directory: Option<&'a Path>,
    /// Options of the jobs that do not have them themselves.
    pub(super) beside: Vec<(String, String)>,
    /// Of a job with verify: the ledger to create.
    pub(super) ledger: Option<&'a Path>,
    pub(super) dry_run: bool,
    pub(super) conduct: &'a TargetUse,
    pub(super) kept: &'a Kept,
}

/// Runs the jobs of a file, or says what they would do.
pub(super) fn run(asked: &JobFileRun<'_>, globals: &Globals) -> Result<ExitCode, CliError> {
    let TargetUse { destroy, .. } = *asked.conduct;
    let from = fio::spec(asked.file, asked.directory, &asked.beside, destroy, asked.conduct.seed())?;
    jobs::cpus_exist(&from.spec)?;
    if asked.dry_run || from.verified {
        globals.printed.among("`ebb bench` that runs no benchmark", Form::PLAIN)?;
    }
    if asked.dry_run {
        return dry_run(&from, globals);
    }
    match (from.verified, asked.ledger) {
        (true, ledger) => verify::write(&from.spec, (ledger, false), globals),
        (false, None) => jobs::run(from.spec, Some(&from.global), asked.kept, globals),
        (false, Some(_)) => {
            let what = "--ledger changes nothing: the file has no job with verify; remove it, or write verify=crc32c in the job";
            Err(CliError::Usage(what.to_owned()))
        }
    }
}

/// What each job would do, and on what.
fn dry_run(from: &FromFile, globals: &Globals) -> Result<ExitCode, CliError> {
    let spec = &from.spec;
    let is_in = |list: Option<&Vec<usize>>, index: &usize| list.is_some_and(|list| list.contains(index));
    let is_new = |index: &usize| spec.options.named.iter().any(|(named, _)| named == index);
    let (mut text, mut jobs) = (String::new(), Vec::new());
    for (index, job) in spec.jobs.iter().enumerate() {
        let layout = &spec.experiment.designs[job.design].layout;
        let mut targets = Vec::new();
        let what = job.workload.in_words();
        let verified = if from.verified { ", then reads back what it wrote" } else { "" };
        if index > 0 && spec.jobs[index - 1].group != job.group {
            text += "when they are done:\n";
        }
        text += &format!("{}: {what}{verified}\n", one_line(&job.name));
        for volume in layout.volumes() {
            let Volume { name, size, .. } = &spec.experiment.volumes[volume];
            let (new, written) = (is_new(&volume), is_in(spec.options.written.as_ref(), &volume));
            let fate = match (new, written) {
                (true, _) => "is made",
                (false, true) => "is overwritten",
                (false, false) => "is read",
            };
            let of = size.map_or_else(String::new, |size| format!(", {}", size.short()));
            text += &format!("  {name}{of}: {fate}\n");
            targets.push(json!({ "path": name, "size": size, "new": new, "written": written }));
        }
        job.notes.iter().for_each(|note| text += &format!("  note: {note}\n"));
        jobs.push(json!({
            "name": job.name, "group": job.group, "does": what, "options": job.options.iter().cloned().collect::<BTreeMap<_, _>>(),
            "targets": targets, "notes": job.notes,
        }));
    }
    let value = json!({ "schema": "ebbtide.fio-dry-run/1", "verified": from.verified, "jobs": jobs });
    views::answer(globals.json(), &value, &text)
}
