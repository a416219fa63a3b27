//! `--on kernel`: arrays of this host's kernel, built for each trial.

use super::{DryRun, Facts, Result, Run, Start, Way, hosts, refuse, refuse_planted};
use crate::kernel::{self, Built, Kernel};
use ebbtide_model::backend::{Backend, BackendKind};
use ebbtide_model::experiment::Design;

/// In the help of `--on`.
pub(super) const WORDS: &str = "md, LVM, encryption and file systems of this host's kernel, built for each trial (of a sweep: `builds`); as root";

/// See the module.
pub struct OnKernel;

impl Way for OnKernel {
    fn facts(&self) -> Facts {
        let no_use_for = &[
            hosts::ONLY_FILES,
            "--keep has no meaning with `--on kernel`: an array is taken apart after each trial",
            "--scale has no meaning with `--on kernel`, which runs devices as fast as they are",
        ];
        Facts { no_use_for, takes_key: true, is_here: true, ..Facts::of(BackendKind::Kernel) }
    }

    fn fit(&self, run: &mut Run) -> Result<()> {
        refuse_planted(&run.session.experiment)?;
        let experiment = &run.session.experiment;
        let has_one = |design: &Design| design.stack.directory.is_some() || design.stack.filesystem.is_some();
        let lacks = experiment.needs_file_system(has_one);
        refuse(lacks.map(|why| format!("{why}: write for example `filesystem = \"xfs\"` in it")))?;
        let shaped = run.session.experiment.volumes.iter().find(|volume| volume.shape.is_some());
        refuse(shaped.map(|volume| {
            let what = "has a `shape`, and the kernel runs devices as fast as they are; remove it, or say `--on files`";
            format!("volume {} {what}", volume.name)
        }))
    }

    fn dry_run(&self, run: &Run) -> Result<DryRun> {
        let experiment = &run.session.experiment;
        let builds = kernel::plan(experiment, &run.session.meta.id)?;
        let built = if experiment.shared_builds().is_some() { Built::Shared } else { Built::EachTrial };
        let mut dry = run.planned(experiment);
        dry.add_builds(experiment, &builds, built);
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
