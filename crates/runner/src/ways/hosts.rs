//! `--hosts`: files and devices of several hosts at once.

use super::{DryRun, Facts, Result, Run, Start, Way, in_user_space, keep_ceiling, refuse, refuse_programs};
use crate::hosts::{Hosts, HostsError, LaunchError, Launcher};
use ebbtide_host::{hostinfo, sys::Sys};
use ebbtide_model::backend::{Backend, BackendKind};
use ebbtide_model::hosts::placing::Placement;
use ebbtide_model::session::{HostInfo, NamedHost};
use serde_json::json;

/// What all say that would not run on files.
pub(super) const ONLY_FILES: &str =
    "--hosts runs files and devices of the hosts as they are, as `--on files` does; leave out --on";

/// Makes what starts the workers.
pub type Launching = Box<dyn Fn() -> Result<Box<dyn Launcher>, LaunchError>>;

/// See the module.
pub struct OnHosts {
    /// What is where.
    pub placement: Placement,
    /// Asked when it is started: a plan needs no worker.
    pub launcher: Launching,
}

impl OnHosts {
    /// What is known of it, wherever volumes are.
    pub const FACTS: Facts = Facts {
        no_use_for: &["--scale has no meaning with --hosts: what is on hosts is as fast as it is"],
        ..Facts::of(BackendKind::Hosts)
    };
}

impl Way for OnHosts {
    fn facts(&self) -> Facts {
        Self::FACTS
    }

    fn fit(&self, run: &mut Run) -> Result<()> {
        run.session.experiment.clone_from(&self.placement.experiment);
        refuse_programs(&run.session.experiment, "several hosts do not run together")?;
        in_user_space(&run.session.experiment)?;
        let jobs = run.session.experiment.workloads.iter().find_map(|workload| workload.group.as_ref());
        refuse(jobs.map(|group| {
            format!(
                "the jobs of workload {group} run at the same time, which --hosts does not do: hosts begin one workload together; write \
                 them as workloads of their own, or leave out --hosts"
            )
        }))
    }

    /// What room there is on other hosts they say when they are asked.
    fn dry_run(&self, run: &Run) -> Result<DryRun> {
        let mut dry = run.planned(&run.session.experiment);
        let lines = self.placement.in_words();
        dry.text.extend(lines.iter().chain(&self.placement.notes).map(|line| format!("{line}\n")));
        dry.value["hosts"] = json!(lines);
        Ok(dry)
    }

    fn start(&self, run: &mut Run, with: Start<'_>) -> Result<Box<dyn Backend>> {
        let meta = &mut run.session.meta;
        let launcher = (self.launcher)().map_err(HostsError::from)?;
        self.placement.in_words().iter().for_each(|line| (with.say)(line));
        meta.host = hostinfo::host_info(&Sys::host());
        let (placement, destroy) = (self.placement.clone(), run.destroy);
        let hosts = Hosts::start(launcher.as_ref(), placement, meta.seed, destroy, with.control.clone())?;
        let named = |(name, host): (&str, &HostInfo)| NamedHost { name: name.to_owned(), host: host.clone() };
        meta.hosts = hosts.infos().map(named).collect();
        keep_ceiling(meta, hosts.ceiling());
        Ok(Box::new(hosts))
    }
}
