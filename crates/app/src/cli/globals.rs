//! The options of every subcommand.

use crate::cli::output::{Form, Printed};
use clap::Args;
use std::path::PathBuf;

/// Options that every subcommand takes.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Options of every command")]
pub struct Globals {
    /// SQLite file with the sessions [default: ebbtide/store.sqlite in the user's data directory]
    #[arg(long, global = true, value_name = "FILE")]
    pub store: Option<PathBuf>,
    /// Catalogue file with more volume and instance types, read after the built-in ones and the user's own
    /// (ebbtide/catalog.toml in the user's configuration directory); or what `aws ec2 describe-instance-types`, `aws ec2
    /// describe-volumes` or `aws pricing get-products` printed. Can be given several times
    #[arg(long, global = true, value_name = "FILE")]
    pub catalog: Vec<PathBuf>,
    /// What is printed.
    #[command(flatten)]
    pub printed: Printed,
    /// Print no progress and no remarks on standard error, only errors
    #[arg(long, short, global = true)]
    pub quiet: bool,
}

impl Globals {
    /// The form of what is printed.
    pub fn form(&self) -> Form {
        self.printed.asked().unwrap_or(Form::Text)
    }

    /// Whether that is JSON.
    pub fn json(&self) -> bool {
        self.form() == Form::Json
    }
}
