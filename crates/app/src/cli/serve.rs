//! `ebb serve`: the store in a browser.

use crate::cli::globals::Globals;
use crate::error::CliError;
use crate::monitor::kept;
use crate::serve::StoreSite;
use crate::{signals, views};
use clap::Args;
use ebbtide_runner::store::Store;
use ebbtide_serve::{Address, Limits, Options, ServeError, Server, Tls, Token};
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

/// Show the store in a browser: sessions, comparisons, the weeks of volumes
///
/// Prints the address to open, and serves until Ctrl-C or SIGTERM. Only this host can reach it unless --listen names another address, and then
/// --token-file, --certificate and --key are needed. Nothing can be changed through it.
///
/// Exit status: 0 ended by a signal; 1 it cannot listen there; 2 wrong usage, or a file that cannot be used.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Address and port (0: any that is free), or the path of a socket, which only this user can open
    #[arg(long, value_name = "ADDRESS", default_value_t = Address::DEFAULT)]
    listen: Address,
    /// File with a secret of 22 characters or more, which viewers must enter; only its owner may have rights to it
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Certificate for TLS with those that it is signed with, as PEM
    #[arg(long, value_name = "FILE", requires = "key")]
    certificate: Option<PathBuf>,
    /// Its private key, as PEM
    #[arg(long, value_name = "FILE", requires = "certificate")]
    key: Option<PathBuf>,
    /// Another name of this host, which browsers may ask for; can be given several times
    #[arg(long, value_name = "NAME")]
    name: Vec<String>,
}

/// Runs `ebb serve`.
///
/// # Errors
/// When the store cannot be opened, a file cannot be used, other hosts could read what they must not, or it cannot listen.
pub fn run(args: &ServeArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    // Told at once rather than on every page; there may be none yet.
    Store::open_existing(globals.store.as_deref()).map_err(CliError::failed)?;
    let token = args.token_file.as_deref().map(Token::read).transpose().map_err(error)?;
    let tls = args.certificate.as_deref().zip(args.key.as_deref());
    let tls = tls.map(|(certificate, key)| Tls::read(certificate, key)).transpose().map_err(error)?;
    let control = signals::stoppable(true)?;
    let options = Options {
        address: args.listen.clone(),
        token,
        tls,
        names: args.name.clone(),
        limits: Limits::default(),
    };
    let server = Server::new(options).map_err(error)?;
    let url = server.url();
    views::answer(globals.json, &json!({ "schema": "ebbtide.serve/1", "url": url }), &format!("{url}\n"))?;
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
        ServeError::Exposed { .. }
        | ServeError::NoSecret { .. }
        | ServeError::Unreadable { .. }
        | ServeError::Wrong { .. } => CliError::usage(error),
        ServeError::Listen { .. } | ServeError::System(_) => CliError::failed(error),
    }
}
