//! The unit that brings an export back at boot: written, and taken away where it is `ebb`'s.

use super::Exporter;
use super::error::ExportError;
use super::taking::Taking;
use crate::build::run;
use crate::sys;
use ebbtide_door::configuration::{self, Configured};
use ebbtide_door::own;
use ebbtide_model::export::Export;
use ebbtide_provision::export::{ExportUnit, is_unit, program_of, unit_name, unit_path};
use std::path::{Path, PathBuf};

/// Says that systemd runs the host.
const SYSTEMD: &str = "run/systemd/system";

impl Exporter<'_> {
    /// Writes the unit of `export`, which starts `program`, and has systemd start it at boot.
    pub(super) fn install_unit(&self, export: &Export, program: &Path) -> Result<(), ExportError> {
        let sys = &self.sys;
        if !sys.root().join(SYSTEMD).exists() {
            return Err(ExportError::Persistent(
                "systemd does not run this host: leave out --persistent, and export it anew after a boot"
                    .to_owned(),
            ));
        }
        let is_file = !export.device.starts_with("/dev");
        let unit = ExportUnit {
            name: &export.name,
            program,
            file: is_file.then_some(export.device.as_path()),
            is_local: export.address.is_loopback(),
        };
        let part = unit.part();
        let now = sys::text(&sys.at(&part.path));
        let text = part
            .put(&export.name, now.as_deref(), &[])
            .map_err(|error| ExportError::file(&part.path, error.what))?;
        if now.as_ref().is_none_or(|now| now.trim_end() != text.trim_end()) {
            (self.boundary)();
            (self.tell)(&format!("write {}", part.path.to_string_lossy()));
            let now = now.as_ref().map(String::as_bytes);
            match configuration::replace(&sys.at(&part.path), now, text.as_bytes(), 0o644) {
                Ok(Configured::Written) => {}
                Ok(Configured::Edited) => {
                    return Err(ExportError::file(&part.path, "another program edits it; try again"));
                }
                Err(error) => return Err(ExportError::file(&part.path, error)),
            }
        }
        (self.boundary)();
        run(self.runner, "systemctl", &["daemon-reload"])?;
        (self.boundary)();
        run(self.runner, "systemctl", &["enable", &unit_name(&export.name)])?;
        Ok(())
    }

    /// The program that the unit of the export `name` starts.
    pub(super) fn unit_program(&self, name: &str) -> Option<PathBuf> {
        program_of(&sys::text(&self.sys.at(&unit_path(name)))?)
    }
}

impl Taking<'_> {
    /// Takes the unit of the export `name` away, where it is `ebb`'s.
    pub(super) fn remove_unit(&self, name: &str) -> Result<(), ExportError> {
        let path = unit_path(name);
        let place = self.sys.at(&path);
        if !sys::text(&place).is_some_and(|text| is_unit(name, &text)) {
            return Ok(());
        }
        let has_systemd = self.sys.root().join(SYSTEMD).exists();
        if has_systemd {
            // Stopping it does nothing but that systemd forgets it.
            run(self.runner, "systemctl", &["disable", "--now", &unit_name(name)])?;
            (self.boundary)();
        }
        own::remove(&place).map_err(|error| ExportError::file(&path, error))?;
        (self.boundary)();
        if has_systemd {
            run(self.runner, "systemctl", &["daemon-reload"])?;
            // One that failed would be listed for ever.
            let _ = self.runner.run("systemctl", &["reset-failed", &unit_name(name)]);
        }
        Ok(())
    }
}
