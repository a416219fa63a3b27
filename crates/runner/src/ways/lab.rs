//! `--on lab`: the kernel's arrays in a guest, whose disks are held to the volumes' limits.

use super::{
    DryRun, Facts, Result, Run, Start, Way, hosts, keep_ceiling, refuse_directories, refuse_planted,
    refuse_programs,
};
use crate::kernel::{self, Built};
use crate::places;
use ebbtide_lab::backend::{Lab, adapt::adapt, how_long};
use ebbtide_lab::{Laboratory, accelerator};
use ebbtide_model::backend::{Backend, BackendKind};
use ebbtide_model::session::Session;

/// In the help of `--on`.
pub(super) const WORDS: &str =
    "The same in a QEMU guest, with a throttled disk for each volume; needs no root";

/// See the module. Limits are scaled when it is known what a guest can carry.
pub struct OnLab;

impl Way for OnLab {
    fn facts(&self) -> Facts {
        let no_use_for = &[
            hosts::ONLY_FILES,
            "--keep has no meaning with `--on lab`: the disks go with the guest",
            "--destroy has no meaning with `--on lab`: the guest's disks are its own, and nothing of this host is written",
        ];
        Facts { no_use_for, ..Facts::of(BackendKind::Lab) }
    }

    fn fit(&self, run: &mut Run) -> Result<()> {
        let experiment = &run.session.experiment;
        refuse_planted(experiment)?;
        refuse_programs(experiment, "a guest of the laboratory does not have")?;
        refuse_directories(experiment, "a guest does not see")
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
        // What cannot be had is refused before the program is packed for the guest.
        let places = places::lab()?;
        let accelerator = accelerator(&places)?;
        let adapted = adapt(&run.session.experiment, accelerator, run.scale)?;
        let plan = run.planned(&adapted.experiment).plan;
        let laboratory = Laboratory::open(places, with.control.clone(), with.lab_says)?;
        let Session { meta, experiment, .. } = &mut run.session;
        let lab = Lab::start(&laboratory, &adapted, &meta.id, meta.seed)?;
        adapted.scaling.iter().for_each(|scaling| (with.say)(scaling));
        (with.say)(&how_long(&plan, &adapted.experiment, accelerator));
        meta.host = lab.host.clone();
        keep_ceiling(meta, lab.ceiling.clone());
        meta.warnings.extend(adapted.scaling);
        *experiment = adapted.experiment;
        Ok(Box::new(lab))
    }
}
