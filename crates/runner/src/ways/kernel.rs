//! `--on kernel`: arrays of this host's kernel, built for each trial.

use super::{DryRun, Facts, Result, Run, Start, Way, hosts, refuse, refuse_planted};
use crate::kernel::{self, Built, Kernel};
use ebbtide_model::backend::{Backend, BackendKind};

/// See the module.
#[derive(Debug)]
pub struct OnKernel;

impl Way for OnKernel {
    fn facts(&self) -> Facts {
        let no_use_for = &[
            hosts::ONLY_FILES,
            ("--keep", "has no meaning with `--on kernel`: an array is taken apart after each trial"),
            ("--scale", "has no meaning with `--on kernel`, which runs devices as fast as they are"),
        ];
        Facts { no_use_for, takes_key: true, is_here: true, ..Facts::of(BackendKind::Kernel) }
    }

    fn fit(&self, run: &mut Run) -> Result<()> {
        refuse_planted(&run.session.experiment)?;
        let shaped = run.session.experiment.volumes.iter().find(|volume| volume.shape.is_some());
        refuse(shaped.map(|volume| {
            let what = "has a `shape`, and the kernel runs devices as fast as they are; remove it, or say `--on files`";
            format!("volume {} {what}", volume.name)
        }))
    }

    fn dry_run(&self, run: &Run) -> Result<DryRun> {
        let builds = kernel::plan(&run.session.experiment, &run.session.meta.id)?;
        let shared = run.session.experiment.shared_builds().is_some();
        let mut dry = run.planned(&run.session.experiment);
        dry.add_builds(
            &run.session.experiment,
            &builds,
            if shared { Built::Shared } else { Built::EachTrial },
        );
        dry.add_volumes(run);
        let lacks = || builds.check_host().err().map(|what| format!("this host cannot run it: {what}"));
        dry.refused = dry.refused.or_else(lacks);
        Ok(dry)
    }

    fn start(&self, run: &mut Run, with: Start<'_>) -> Result<Box<dyn Backend>> {
        let (options, around) = run.this_host()?;
        Ok(Box::new(Kernel::new(options, around, with.key)))
    }
}
