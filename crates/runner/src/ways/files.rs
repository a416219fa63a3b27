//! `--on files`: real I/O on files and devices of this host, layouts in user space.

use super::{DryRun, Facts, Result, Run, Start, Way, in_backticks, refuse, refuse_planted};
use crate::program::{Programs, WithPrograms};
use ebbtide_engine::files::FilesBackend;
use ebbtide_model::backend::{Backend, BackendKind};
use ebbtide_model::experiment::Experiment;

/// In the help of `--on`.
pub(super) const WORDS: &str = "Real I/O on files, or on devices opened directly";

/// See the module.
pub struct OnFiles;

impl Way for OnFiles {
    fn facts(&self) -> Facts {
        Facts { is_here: true, ..Facts::of(BackendKind::Files) }
    }

    fn fit(&self, run: &mut Run) -> Result<()> {
        in_user_space(&run.session.experiment)?;
        run.session.experiment.builds_nothing_in_turn();
        run.scale_as_asked();
        Ok(())
    }

    fn dry_run(&self, run: &Run) -> Result<DryRun> {
        let mut dry = run.planned(&run.session.experiment);
        dry.add_volumes(run);
        Ok(dry)
    }

    fn start(&self, run: &mut Run, _: Start<'_>) -> Result<Box<dyn Backend>> {
        let (options, around) = run.this_host()?;
        let programs = Programs::new(&run.session.meta.id, around.journal.clone());
        Ok(Box::new(WithPrograms::new(FilesBackend::new(options, around), programs)))
    }
}

/// Checks that all of `experiment` can be done on files, without anything that only the kernel builds.
///
/// # Errors
/// What cannot, and what to write instead.
pub fn in_user_space(experiment: &Experiment) -> Result<()> {
    refuse_planted(experiment)?;
    let mut designs = experiment.designs.iter().map(|design| (&design.name, design.stack.kernel_only()));
    let of_kernel = designs.find(|(_, keys)| !keys.is_empty()).map(|(design, keys)| {
        let keys = in_backticks(keys);
        format!("design {design} has {keys}, which only the kernel can build; say `--on kernel`")
    });
    let of_program = || {
        experiment.needs_file_system(|design| design.stack.directory.is_some()).map(|why| {
            format!("{why}; say `--on kernel` with a `filesystem` in it, or measure a `directory`")
        })
    };
    refuse(of_kernel.or_else(of_program).or_else(|| experiment.refused_in_user_space()))
}
