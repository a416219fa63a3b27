//! Options of `ebb run` for several hosts: which, what is where on them, and how their workers are started.

use crate::error::CliError;
use clap::{Args, ValueEnum};
use ebbtide_host::ssh::Ssh;
use ebbtide_model::experiment::Experiment;
use ebbtide_model::hosts::placing::{Place, Placement};
use ebbtide_runner::hosts::{OpenSsh, Processes};
use ebbtide_runner::ways::{Launching, OnHosts, Way};
use std::path::PathBuf;

/// Several hosts.
#[derive(Debug, Default, Args)]
pub struct HostsArgs {
    /// Run it on these hosts at once, over ssh: names as you write them after `ssh`, separated by commas. Volumes go to the hosts in turn, and each
    /// host runs a design's jobs on its own members
    #[arg(long, value_delimiter = ',', value_name = "HOST")]
    hosts: Vec<String>,
    /// With --hosts: put a volume on a host, and there on a file or device that exists: VOLUME=HOST or VOLUME=HOST:PATH
    #[arg(long, value_name = "VOLUME=HOST[:PATH]", requires = "hosts")]
    place: Vec<Place>,
    /// With --hosts: make new files below this directory of each host, such as one that a file server gives to all
    #[arg(long, value_name = "DIRECTORY", requires = "hosts")]
    directory: Option<PathBuf>,
    /// With --hosts: copy this ebb to hosts that have another or none; the copy is removed when the run ends
    #[arg(long, requires = "hosts")]
    copy_ebb: bool,
    /// How workers are started on the hosts
    #[arg(long, value_enum, default_value = "ssh", requires = "hosts", hide = true)]
    launch: Launch,
}

/// A launcher by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum Launch {
    /// OpenSSH
    #[default]
    Ssh,
    /// Processes of this host: to try out what several hosts would do
    Processes,
}

impl HostsArgs {
    /// Whether there are any.
    pub(super) fn any(&self) -> bool {
        !self.hosts.is_empty()
    }

    /// How `experiment` runs on them; nothing on this host alone.
    ///
    /// # Errors
    /// What cannot be placed.
    pub(super) fn way(&self, experiment: &Experiment) -> Result<Option<Box<dyn Way>>, CliError> {
        let directory = self.directory.as_deref();
        if let Some(relative) = directory.filter(|directory| !directory.is_absolute()) {
            return Err(CliError::Usage(format!(
                "--directory {}: write the whole path, from /; it is one of the hosts'",
                relative.to_string_lossy()
            )));
        }
        let copy = self.copy_ebb;
        let launcher: Launching = match self.launch {
            Launch::Ssh => {
                // What `ssh` would take for something else is refused before anything begins.
                self.hosts.iter().try_for_each(|host| Ssh::new(host).map(drop)).map_err(CliError::usage)?;
                Box::new(move || Ok(Box::new(OpenSsh::new(copy)?)))
            }
            Launch::Processes => Box::new(|| Ok(Box::new(Processes))),
        };
        if !self.any() {
            return Ok(None);
        }
        let placement =
            Placement::new(experiment, &self.hosts, &self.place, directory).map_err(CliError::usage)?;
        Ok(Some(Box::new(OnHosts { placement, launcher })))
    }
}
