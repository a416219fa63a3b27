//! `--on lab`: the kernel's arrays in a guest, whose disks are held to the volumes' limits.

use super::{DryRun, Facts, Result, Run, Start, Way, hosts, keep_ceiling, refuse_planted};
use crate::kernel::{self, Built};
use crate::places;
use ebbtide_lab::backend::{Lab, adapt::adapt, how_long};
use ebbtide_lab::{Laboratory, accelerator};
use ebbtide_model::backend::{Backend, BackendKind};
use ebbtide_model::plan::RunPlan;
use ebbtide_model::session::Session;

/// See the module.
#[derive(Debug)]
pub struct OnLab;

impl Way for OnLab {
    fn facts(&self) -> Facts {
        let no_use_for = &[
            hosts::ONLY_FILES,
            ("--keep", "has no meaning with `--on lab`: the disks go with the guest"),
            (
                "--destroy",
                "has no meaning with `--on lab`: the guest's disks are its own, and nothing of this host is written",
            ),
        ];
        Facts { no_use_for, ..Facts::of(BackendKind::Lab) }
    }

    /// It is scaled once it is known what the guest can carry.
    fn fit(&self, run: &mut Run) -> Result<()> {
        refuse_planted(&run.session.experiment)
    }

    fn dry_run(&self, run: &Run) -> Result<DryRun> {
        let accelerator = accelerator(&places::lab()?)?;
        let adapted = adapt(&run.session.experiment, accelerator, run.scale)?;
        let measured = &adapted.experiment;
        let builds = kernel::plan(&adapted.inside, &run.session.meta.id)?;
        let built = match measured.shared_builds() {
            _ if adapted.own_disks => Built::Once,
            Some(_) => Built::Shared,
            None => Built::InTurn,
        };
        let mut dry = run.planned(measured);
        dry.add_builds(measured, &builds, built);
        dry.value["guest"] = adapted.json();
        dry.text += &format!("{adapted}{}\n", how_long(&dry.plan, measured, accelerator));
        Ok(dry)
    }

    fn start(&self, run: &mut Run, with: Start<'_>) -> Result<Box<dyn Backend>> {
        let Session { meta, experiment, .. } = &mut run.session;
        // What cannot be had is refused before the program is packed for the guest.
        let places = places::lab()?;
        let accelerator = accelerator(&places)?;
        let adapted = adapt(experiment, accelerator, run.scale)?;
        let laboratory = Laboratory::open(places, with.control.clone(), with.lab_says)?;
        let lab = Lab::start(&laboratory, &adapted, &meta.id, meta.seed)?;
        adapted.scaling.iter().for_each(|scaling| (with.say)(scaling));
        let plan = RunPlan::new(&adapted.experiment, BackendKind::Lab, meta.seed, false);
        (with.say)(&how_long(&plan, &adapted.experiment, accelerator));
        meta.host = lab.host().clone();
        keep_ceiling(meta, lab.ceiling());
        meta.warnings.extend(adapted.scaling);
        *experiment = adapted.experiment;
        Ok(Box::new(lab))
    }
}
