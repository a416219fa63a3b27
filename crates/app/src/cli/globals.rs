//! The options of every subcommand.

use clap::Args;
use std::path::PathBuf;

/// Options that every subcommand takes.
#[derive(Debug, Clone, Args)]
pub struct Globals {
    /// SQLite file that keeps sessions [default: ebbtide/store.sqlite in the user data directory]
    #[arg(long, global = true, value_name = "FILE")]
    pub store: Option<PathBuf>,
    /// Catalog file whose volume and instance types are used beside the built-in ones, after the user's own
    /// (ebbtide/catalog.toml in the user config directory)
    #[arg(long, global = true, value_name = "FILE")]
    pub catalog: Option<PathBuf>,
    /// Print JSON, and only JSON, on standard output
    #[arg(long, global = true)]
    pub json: bool,
    /// No progress and no remarks on standard error, errors only
    #[arg(long, short, global = true)]
    pub quiet: bool,
}
