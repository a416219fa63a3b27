//! Secrets: read from their files, and asked of the kernel.

use super::Exports;
use crate::made::Failure;
use crate::sys;
use ebbtide_door::read;
use ebbtide_model::export::{CONFIG, Export, Transport, check_secret};
use ebbtide_model::shown::Shown;
use std::path::Path;

impl Exports<'_> {
    /// The secret of `export`.
    pub(super) fn secret(&self, export: &Export) -> Result<Option<String>, Failure> {
        let Some(file) = &export.secret else { return Ok(None) };
        let fail = |what: String| Failure::Usage(format!("{}: {what}", file.shown()));
        let text = read::secret_text(file).map_err(|error| fail(format!("the secret {error}")))?;
        let secret = check_secret(&text, export.transport).map_err(|error| fail(error.to_string()))?;
        Ok(Some(secret.to_owned()))
    }

    /// Refuses a secret for a client of nvmet's that has another one: it has one for all its exports, and would be let in by none of the
    /// others any more.
    pub(super) fn check_other_secrets(&self, export: &Export, secret: Option<&str>) -> Result<(), Failure> {
        let (Some(secret), Transport::NvmeTcp) = (secret, export.transport) else { return Ok(()) };
        let config = self.sys.at(Path::new(CONFIG));
        match sys::word(&config.join("nvmet/hosts").join(&export.client).join("dhchap_key")) {
            Some(now) if now != secret => Err(Failure::Refused(format!(
                "{} has another secret already, which its other exports of this host ask for: give the file with that one, or take those away first \
                 (`ebb status`)",
                export.client
            ))),
            _ => Ok(()),
        }
    }

    /// Whether the kernel asks for the secret that is in the file of `export`.
    pub(super) fn has_secret(&self, export: &Export) -> Result<bool, Failure> {
        let Some(secret) = self.secret(export)? else { return Ok(true) };
        let config = self.sys.at(Path::new(CONFIG));
        let attribute = match export.transport {
            Transport::NvmeTcp => config.join("nvmet/hosts").join(&export.client).join("dhchap_key"),
            Transport::Iscsi => {
                let group = config.join("target/iscsi").join(&export.target).join("tpgt_1");
                group.join("acls").join(&export.client).join("auth/password")
            }
        };
        Ok(sys::text(&attribute).is_some_and(|now| now == secret))
    }
}
