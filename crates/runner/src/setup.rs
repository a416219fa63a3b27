//! What carries a session out: the backend that the user names. What is known where it measures goes into the session.

use crate::hosts::{Hosts, Launcher};
use crate::kernel::Kernel;
use crate::simulated::Simulated;
use crate::{RunnerError, places, surroundings};
use ebbtide_engine::files::{FilesBackend, Options};
use ebbtide_host::{hostinfo, sys::Sys};
use ebbtide_lab::backend::adapt::adapt;
use ebbtide_lab::backend::scale::Scale;
use ebbtide_lab::backend::{Lab, how_long};
use ebbtide_lab::{Laboratory, accelerator};
use ebbtide_model::backend::{Backend, BackendKind, Control};
use ebbtide_model::hosts::placing::Placement;
use ebbtide_model::plan::RunPlan;
use ebbtide_model::session::{NamedHost, Session};
use std::sync::Arc;

/// On this host, of the session's kind; `key` is for the designs that ask for one.
///
/// # Errors
/// When there is no place for the journal, or the session's kind of backend is not one of this host alone.
pub fn on_host(
    session: &mut Session,
    options: Options,
    key: Option<Vec<u8>>,
) -> Result<Box<dyn Backend>, RunnerError> {
    let meta = &mut session.meta;
    meta.host = hostinfo::host_info(&Sys::host());
    let kernel = match meta.backend {
        BackendKind::Sim => return Ok(Box::new(Simulated::new(options.seed))),
        BackendKind::Kernel => true,
        BackendKind::Files => false,
        BackendKind::Lab | BackendKind::Hosts | BackendKind::Import => {
            return Err(RunnerError::NotOfThisHost(meta.backend));
        }
    };
    let around = surroundings::of_host(&options.name)?;
    match surroundings::engine_ceiling() {
        Ok(iops) => meta.engine_ceiling_iops = Some(iops),
        Err(unknown) => meta.warnings.push(unknown.to_string()),
    }
    Ok(match kernel {
        true => Box::new(Kernel::new(options, around, key)),
        false => Box::new(FilesBackend::new(options, around)),
    })
}

/// In a guest, which is started; `say` is told what the user must know before it goes on, `lab_says` how the guest does.
///
/// # Errors
/// What a guest cannot have; when it does not come up.
pub fn in_guest(
    session: &mut Session,
    scale: Option<Scale>,
    control: &Arc<Control>,
    lab_says: fn(&str),
    say: &dyn Fn(&str),
) -> Result<Box<dyn Backend>, RunnerError> {
    let Session { meta, experiment, .. } = session;
    // What cannot be had is refused before the program is packed for the guest.
    let places = places::lab()?;
    let accelerator = accelerator(&places)?;
    let adapted = adapt(experiment, accelerator, scale)?;
    let laboratory = Laboratory::open(places, control.clone(), lab_says)?;
    let lab = Lab::start(&laboratory, &adapted, &meta.id, meta.seed)?;
    adapted.scaling.iter().for_each(|scaling| say(scaling));
    let plan = RunPlan::new(&adapted.experiment, BackendKind::Lab, meta.seed, false);
    say(&how_long(&plan, &adapted.experiment, accelerator));
    meta.host = lab.host().clone();
    match lab.ceiling() {
        Ok(iops) => meta.engine_ceiling_iops = Some(iops),
        Err(unknown) => meta.warnings.push(unknown),
    }
    meta.warnings.extend(adapted.scaling);
    *experiment = adapted.experiment;
    Ok(Box::new(lab))
}

/// On the hosts of `placement`, on each of which `launcher` starts a worker.
///
/// # Errors
/// When one cannot be started, and when `control` stops it.
pub fn on_hosts(
    session: &mut Session,
    placement: Placement,
    launcher: &dyn Launcher,
    destroy: bool,
    control: &Arc<Control>,
) -> Result<Box<dyn Backend>, RunnerError> {
    let Session { meta, experiment, .. } = session;
    meta.host = hostinfo::host_info(&Sys::host());
    experiment.clone_from(&placement.experiment);
    let hosts = Hosts::start(launcher, placement, meta.seed, destroy, control.clone())?;
    meta.hosts =
        hosts.infos().map(|(name, host)| NamedHost { name: name.to_owned(), host: host.clone() }).collect();
    match hosts.ceiling() {
        Ok(iops) => meta.engine_ceiling_iops = Some(iops),
        Err(unknown) => meta.warnings.push(unknown),
    }
    Ok(Box::new(hosts))
}
