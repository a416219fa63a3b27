//! Each backend as a run knows it, one file for each: what it refuses, what it makes of an experiment, what it would do, and how it is
//! started.

mod files;
mod hosts;
mod kernel;
mod lab;
mod sim;
#[cfg(test)]
mod tests;

pub use files::{OnFiles, in_user_space};
pub use hosts::{Launching, OnHosts};
pub use kernel::OnKernel;
pub use lab::OnLab;
pub use sim::OnSim;
#[cfg(test)]
pub(crate) use sim::simulated;

use crate::kernel::{Built, KernelPlan, show};
use crate::{RunnerError, places, surroundings};
use ebbtide_engine::files::{Options, Surroundings, may_open, survey};
use ebbtide_host::{hostinfo, sys::Sys};
use ebbtide_lab::backend::scale::{Scale, scaled};
use ebbtide_model::backend::{Backend, BackendError, BackendKind, Control};
use ebbtide_model::experiment::Experiment;
use ebbtide_model::plan::RunPlan;
use ebbtide_model::session::{Session, SessionMeta};
use ebbtide_model::shown::Shown;
use serde_json::{Value, json};
use std::sync::Arc;

type Result<T, E = RunnerError> = std::result::Result<T, E>;

/// A backend that a user can name, made when it is named.
pub type Named = fn() -> Box<dyn Way>;

/// The names of `--on`, each with what it is in words.
pub const NAMED: [(&str, &str, Named); 4] = [
    ("files", files::WORDS, || Box::new(OnFiles)),
    ("kernel", kernel::WORDS, || Box::new(OnKernel)),
    ("lab", lab::WORDS, || Box::new(OnLab)),
    ("sim", sim::WORDS, || Box::new(OnSim)),
];

/// What is known of a backend before it is asked for anything.
#[derive(Debug, Clone, Copy)]
pub struct Facts {
    /// What sessions and plans call it.
    pub kind: BackendKind,
    /// Of each option that it has no use for the sentence that refuses it, which begins with the option.
    pub no_use_for: &'static [&'static str],
    /// Its designs are encrypted on this host, with the user's own keys.
    pub takes_key: bool,
    /// This host is around its trials, and is observed. In a guest and on other hosts workers look for themselves.
    pub is_here: bool,
    /// Its trials take no real time, and those that run at the same time do not touch each other.
    pub in_virtual_time: bool,
}

impl Facts {
    /// Those of a backend elsewhere that takes every option.
    const fn of(kind: BackendKind) -> Facts {
        Facts { kind, no_use_for: &[], takes_key: false, is_here: false, in_virtual_time: false }
    }
}

/// A way to carry an experiment out.
pub trait Way {
    /// What is known of it.
    fn facts(&self) -> Facts;

    /// Makes of the experiment what it runs.
    ///
    /// # Errors
    /// What of it cannot be carried out, and what to write instead.
    fn fit(&self, run: &mut Run) -> Result<()> {
        refuse_planted(&run.session.experiment)
    }

    /// What `run`, which fits, would do. Touches nothing.
    ///
    /// # Errors
    /// When that cannot be said.
    fn dry_run(&self, run: &Run) -> Result<DryRun> {
        Ok(run.planned(&run.session.experiment))
    }

    /// Starts it for `run`, which fits. What is known where it measures goes into the session.
    ///
    /// # Errors
    /// When it cannot be started, and when it is stopped meanwhile.
    fn start(&self, run: &mut Run, with: Start<'_>) -> Result<Box<dyn Backend>>;
}

/// A session that has no trial yet, and what is asked beside it.
pub struct Run {
    /// Its experiment is that which is measured, once it fits.
    pub session: Session,
    /// Existing volumes may be overwritten.
    pub destroy: bool,
    /// The factor on limits and rates, where the user asks for one.
    pub scale: Option<Scale>,
}

impl Run {
    /// Scales the experiment as it is asked for.
    fn scale_as_asked(&mut self) {
        let Session { meta, experiment, .. } = &mut self.session;
        if let Some(scale) = self.scale.filter(|scale| *scale != Scale::ONE) {
            *experiment = scaled(experiment, scale);
            meta.warnings.push(scale.as_asked_for());
        }
    }

    /// What volumes of this host are made with.
    fn options(&self) -> Options {
        let SessionMeta { id, seed, .. } = &self.session.meta;
        let (destroy, places) = (self.destroy, places::for_volumes());
        Options { name: id.clone(), seed: *seed, destroy, places, ..Options::default() }
    }

    /// What a backend of real I/O on this host needs from it.
    fn this_host(&mut self) -> Result<(Options, Surroundings)> {
        let meta = &mut self.session.meta;
        meta.host = hostinfo::host_info(&Sys::host());
        let around = surroundings::of_host(&meta.id)?;
        keep_ceiling(meta, surroundings::engine_ceiling());
        Ok((self.options(), around))
    }

    /// The plan of `experiment`, which is its own as the backend measures it.
    fn planned(&self, experiment: &Experiment) -> DryRun {
        let SessionMeta { backend, seed, .. } = self.session.meta;
        let plan = RunPlan::new(experiment, backend, seed, self.destroy);
        let refused = plan.refused.clone();
        DryRun { plan, value: json!({ "places": [] }), text: String::new(), refused }
    }
}

/// What a backend is started with.
pub struct Start<'a> {
    /// For the designs that ask for one.
    pub key: Option<Vec<u8>>,
    /// How it is ended early.
    pub control: &'a Arc<Control>,
    /// Is told what the user must know before the first trial.
    pub say: &'a dyn Fn(&str),
    /// Is told how a guest does.
    pub lab_says: fn(&str),
}

/// What a run would do.
pub struct DryRun {
    /// Its steps and trials.
    pub plan: RunPlan,
    /// What only the backend knows, by keys of schema `ebbtide.dry-run/1`.
    pub value: Value,
    /// The same as text, for between the plan's two parts.
    pub text: String,
    /// Why the run would not begin.
    pub refused: Option<String>,
}

impl DryRun {
    /// Adds the exact commands of each design.
    fn add_builds(&mut self, experiment: &Experiment, builds: &KernelPlan, built: Built) {
        self.value["builds"] = json!(builds.builds);
        self.text += &show(experiment, builds, built);
    }

    /// Adds the places of new volumes, and what stands in the way of any.
    fn add_volumes(&mut self, run: &Run) {
        let (experiment, options) = (&run.session.experiment, run.options());
        let survey = survey(experiment, &options);
        let mut places = Vec::new();
        for place in survey.iter().flat_map(|survey| &survey.places) {
            places.push(json!({
                "directory": place.directory.to_string_lossy(),
                "filesystem": place.filesystem,
                "needed_bytes": place.needed,
                "free_bytes": place.free,
            }));
            self.text += &format!(
                "space: {} in {} ({}), {} are free there\n",
                place.needed.short(),
                place.directory.shown(),
                place.filesystem.as_deref().unwrap_or("file system of unknown type"),
                place.free.short(),
            );
        }
        self.value["places"] = places.into();
        let door = surroundings::without_journal().door;
        let refused = survey.and_then(|_| may_open(experiment, &options, &door)).err();
        self.refused = refused.map(|error| error.to_string()).or(self.refused.take());
    }
}

/// An error where there is something that cannot be carried out.
fn refuse(what: Option<String>) -> Result<()> {
    what.map_or(Ok(()), |what| Err(BackendError::Other(what).into()))
}

/// Refuses effects that nothing real can have.
fn refuse_planted(experiment: &Experiment) -> Result<()> {
    let planted = in_backticks(&experiment.environment.planted_fields);
    let what = format!(
        "`[[effects]]` plants what {planted} would do, which only a simulation can have: say `--on sim`, or remove the effects \
         and measure the real ones"
    );
    refuse((!planted.is_empty()).then_some(what))
}

/// Refuses programs as loads where `who` cannot run them.
fn refuse_programs(experiment: &Experiment, who: &str) -> Result<()> {
    let program = experiment.loads().find(|load| load.program.is_some());
    refuse(program.map(|load| {
        format!(
            "workload {} is a program, which {who}; say `--on kernel`, or `--on files` with a `directory`",
            load.name
        )
    }))
}

/// Refuses directories that stand where `who` has none.
fn refuse_directories(experiment: &Experiment, who: &str) -> Result<()> {
    let directory = experiment.designs.iter().find(|design| design.stack.directory.is_some());
    refuse(directory.map(|design| format!("design {} is a directory of this host, which {who}", design.name)))
}

/// Keys as an experiment has them.
fn in_backticks(keys: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    keys.into_iter().map(|key| format!("`{}`", key.as_ref())).collect::<Vec<_>>().join(", ")
}

/// Keeps what the engine reaches with nothing behind it, operations per second, or why that is not known.
fn keep_ceiling(meta: &mut SessionMeta, ceiling: Result<f64, String>) {
    match ceiling {
        Ok(iops) => meta.engine_ceiling_iops = Some(iops),
        Err(unknown) => meta.warnings.push(unknown),
    }
}
