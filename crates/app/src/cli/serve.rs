//! `ebb serve`: the store in a browser.

use crate::cli::globals::Globals;
use crate::error::CliError;
use crate::monitor::kept;
use crate::serve::StoreSite;
use crate::{signals, views};
use clap::Args;
use ebbtide_runner::store::Store;
use ebbtide_serve::{Address, Limits, Options, ServeError, Server};
use serde_json::json;
use std::process::ExitCode;
use std::sync::Arc;

/// Show sessions and the weeks of volumes in a browser
///
/// Prints the address to open, and serves until Ctrl-C or SIGTERM. Only this host can reach it. Nothing can be changed through it.
///
/// Exit status: 0 ended by a signal; 1 it cannot listen there; 2 wrong usage.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Loopback address and port (0: any that is free), or the path of a socket, which only this user can open
    #[arg(long, value_name = "ADDRESS", default_value_t = Address::DEFAULT)]
    listen: Address,
    /// Another name that browsers may ask for, such as that of a web server before it; can be given several times
    #[arg(long, value_name = "NAME")]
    name: Vec<String>,
}

/// Runs `ebb serve`.
///
/// # Errors
/// When the store cannot be opened, other hosts could read what is served, or it cannot listen.
pub fn run(args: &ServeArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    // Told at once rather than on every page; there may be none yet.
    Store::open_existing(globals.store.as_deref()).map_err(CliError::failed)?;
    let control = signals::stoppable(true)?;
    let options =
        Options { address: args.listen.clone(), names: args.name.clone(), limits: Limits::default() };
    let server = Server::new(options).map_err(error)?;
    let url = server.url();
    views::answer(globals.json(), &json!({ "schema": "ebbtide.serve/1", "url": url }), &format!("{url}\n"))?;
    if !globals.quiet {
        views::say("ebb: serving the store; Ctrl-C ends it");
    }
    server
        .run(Arc::new(StoreSite::new(globals.store.clone(), kept::store(globals))), &control.stop)
        .map_err(error)?;
    Ok(ExitCode::SUCCESS)
}

fn error(error: ServeError) -> CliError {
    match error {
        ServeError::Exposed { .. } => CliError::usage(error),
        ServeError::Listen { .. } | ServeError::System(_) => CliError::failed(error),
    }
}
