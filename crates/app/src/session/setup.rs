//! What carries a session out: the backend that the user names, with all that belongs to it.

use super::kernel::Kernel;
use super::kernel::members::KernelObserver;
use super::observer::HostObserver;
use super::simulated::Simulated;
use super::{NoObserver, TrialObserver, surroundings};
use crate::error::CliError;
use crate::laboratory;
use ebbtide_engine::files::{FilesBackend, Options};
use ebbtide_host::{hostinfo, sys::Sys};
use ebbtide_lab::accelerator;
use ebbtide_lab::backend::adapt::adapt;
use ebbtide_lab::backend::scale::Scale;
use ebbtide_lab::backend::{Lab, how_long};
use ebbtide_model::backend::{Backend, BackendKind, Control};
use ebbtide_model::experiment::Experiment;
use ebbtide_model::plan::Plan;
use ebbtide_model::session::HostInfo;
use std::sync::Arc;

pub struct SessionSetup {
    pub backend: Box<dyn Backend>,
    /// Who looks around each trial.
    pub observer: Box<dyn TrialObserver>,
    /// The experiment as it will be measured.
    pub experiment: Experiment,
    /// Where it is measured.
    pub host: HostInfo,
    /// What the engine reaches there with nothing behind it, operations per second, where that was measured.
    pub engine_ceiling_iops: Option<f64>,
    /// What the reader must know from the start.
    pub warnings: Vec<String>,
}

impl SessionSetup {
    /// On this host; `key` is what [`key::ask`](super::kernel::key::ask) says.
    ///
    /// # Errors
    /// When there is no place for the journal.
    pub fn of_host(
        kind: BackendKind,
        experiment: Experiment,
        options: Options,
        key: Option<Vec<u8>>,
    ) -> Result<Self, CliError> {
        let around = || surroundings::of_host(&options.name).map_err(CliError::Failed);
        let (backend, observer): (Box<dyn Backend>, Box<dyn TrialObserver>) = match kind {
            BackendKind::Kernel => {
                let around = around()?;
                (Box::new(Kernel::new(options, around, key)), Box::new(KernelObserver::default()))
            }
            BackendKind::Sim => (Box::new(Simulated::new(options.seed)), Box::new(NoObserver)),
            _ => {
                let around = around()?;
                (Box::new(FilesBackend::new(options, around)), Box::new(HostObserver::default()))
            }
        };
        let ceiling = (kind != BackendKind::Sim).then(surroundings::engine_ceiling);
        let host = hostinfo::host_info(&Sys::host());
        Ok(Self::new(backend, observer, experiment, host, ceiling))
    }

    /// In a guest, which is started; `say` is told what the user must know before it goes on.
    ///
    /// # Errors
    /// What a guest cannot have; when it does not come up.
    pub fn of_guest(
        experiment: &Experiment,
        options: &Options,
        scale: Option<Scale>,
        control: &Arc<Control>,
        quiet: bool,
        say: &dyn Fn(&str),
    ) -> Result<Self, CliError> {
        // What cannot be had is refused before the program is packed for the guest.
        let accelerator = accelerator(&laboratory::places()?)?;
        let adapted = adapt(experiment, accelerator, scale).map_err(CliError::Usage)?;
        let laboratory = laboratory::stopped_by(control.clone(), quiet)?;
        let lab = Lab::start(&laboratory, &adapted, &options.name, options.seed)?;
        adapted.scaling.iter().for_each(|scaling| say(scaling));
        let plan = Plan::new(&adapted.experiment, BackendKind::Lab, options.seed, false);
        say(&how_long(&plan, &adapted.experiment, accelerator));
        let (host, ceiling) = (lab.host().clone(), lab.ceiling());
        let mut setup =
            Self::new(Box::new(lab), Box::new(NoObserver), adapted.experiment, host, Some(ceiling));
        setup.warnings.extend(adapted.scaling);
        Ok(setup)
    }

    fn new(
        backend: Box<dyn Backend>,
        observer: Box<dyn TrialObserver>,
        experiment: Experiment,
        host: HostInfo,
        ceiling: Option<Result<f64, String>>,
    ) -> Self {
        let (engine_ceiling_iops, warnings) = match ceiling {
            Some(Ok(iops)) => (Some(iops), Vec::new()),
            Some(Err(unknown)) => (None, vec![unknown]),
            None => (None, Vec::new()),
        };
        SessionSetup { backend, observer, experiment, host, engine_ceiling_iops, warnings }
    }
}
