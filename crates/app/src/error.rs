//! How a subcommand ends when it does not end well.

use ebbtide_lab::LabError;
use ebbtide_runner::RunnerError;
use ebbtide_runner::verify::VerifyError;
use std::fmt::Display;

/// An end other than success, with its exit status.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// The command line or a file it names is wrong: exit status 2. Says what to write instead.
    #[error("{0}")]
    Usage(String),
    /// It was tried and failed: exit status 1.
    #[error("{0}")]
    Failed(String),
    /// It ran, but the answer is inconclusive: exit status 3.
    #[error("{0}")]
    Inconclusive(String),
    /// Ctrl-C; what was done is kept: exit status 130.
    #[error("interrupted: {0}")]
    Interrupted(String),
}

impl CliError {
    /// It was tried and failed, for the reason that `error` says.
    pub fn failed(error: impl Display) -> CliError {
        CliError::Failed(error.to_string())
    }

    /// The command line or a file it names is wrong, as `error` says.
    pub fn usage(error: impl Display) -> CliError {
        CliError::Usage(error.to_string())
    }

    /// Exit status that users and scripts rely on.
    pub fn status(&self) -> u8 {
        match self {
            CliError::Failed(_) => 1,
            CliError::Usage(_) => 2,
            CliError::Inconclusive(_) => 3,
            CliError::Interrupted(_) => 130,
        }
    }
}

impl From<LabError> for CliError {
    fn from(error: LabError) -> Self {
        match error {
            LabError::Stopped => CliError::Interrupted("the guest was ended".to_owned()),
            LabError::Disk { .. } => CliError::Usage(error.to_string()),
            other => CliError::Failed(other.to_string()),
        }
    }
}

impl From<RunnerError> for CliError {
    fn from(error: RunnerError) -> Self {
        let said = error.to_string();
        match error {
            RunnerError::Lab(error) => error.into(),
            RunnerError::Hosts(error) if error.is_stop() => {
                CliError::Interrupted("nothing was measured".to_owned())
            }
            RunnerError::Verify(VerifyError::Stopped) => CliError::Interrupted(said),
            RunnerError::Verify(error) if error.is_usage() => CliError::Usage(said),
            RunnerError::Adapt(_) => CliError::Usage(said),
            _ => CliError::Failed(said),
        }
    }
}
