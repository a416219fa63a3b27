//! How a subcommand ends when it does not end well.

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
