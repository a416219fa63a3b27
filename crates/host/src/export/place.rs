//! Where in the kernel an export goes, and what of it others use too.

use super::error::ExportError;
use super::{Exporter, records};
use crate::sys;
use ebbtide_model::export::{Action, CONFIG, Export, Listen, PORTS, Placed, Step, Transport};
use std::path::{Path, PathBuf};

impl Exporter<'_> {
    /// Where in the kernel `export` of what is at `path` goes.
    pub(super) fn placed(&self, export: &Export, path: &Path) -> Result<Placed, ExportError> {
        let config = self.sys.at(Path::new(CONFIG));
        let mut placed = Placed::default();
        match export.transport {
            Transport::NvmeTcp => {
                let client = config.join("nvmet/hosts").join(&export.client);
                placed.has_client = client.exists();
                (placed.number, placed.has_port) = self.port(export.listen())?;
            }
            Transport::Iscsi => {
                if path.to_string_lossy().contains(',') {
                    return Err(ExportError::Path {
                        path: path.to_owned(),
                        what: "LIO takes no path with a comma: rename it, or use --transport nvme-tcp",
                    });
                }
                placed.has_iscsi = config.join("target/iscsi").exists();
                let taken: Vec<u16> = sys::names(&config.join("target/core"))
                    .iter()
                    .filter_map(|adapter| adapter.rsplit('_').next()?.parse().ok())
                    .collect();
                placed.number = (0..u16::MAX).find(|number| !taken.contains(number)).unwrap_or(u16::MAX);
            }
        }
        Ok(placed)
    }

    /// The port of nvmet that listens at `listen`, and whether it is there; it has to be one of `ebb`'s.
    fn port(&self, listen: Listen) -> Result<(u16, bool), ExportError> {
        let place = self.sys.at(Path::new(CONFIG)).join("nvmet/ports");
        let names = sys::names(&place);
        for name in &names {
            let of = |attribute: &str| sys::word(&place.join(name).join(attribute));
            let is_it = of("addr_trtype").as_deref() == Some("tcp")
                && of("addr_traddr").and_then(|text| text.parse().ok()) == Some(listen.address)
                && of("addr_trsvcid").and_then(|text| text.parse().ok()) == Some(listen.port);
            if is_it {
                return match name.parse().ok().filter(|number| PORTS.contains(number)) {
                    Some(number) => Ok((number, true)),
                    None => {
                        Err(ExportError::ForeignPort { listen: listen.shown(), object: place.join(name) })
                    }
                };
            }
        }
        let free = PORTS.into_iter().find(|number| !names.contains(&number.to_string()));
        free.map(|number| (number, false)).ok_or(ExportError::NoPort)
    }

    /// Notes in `export` what `steps` make, and what others made that it takes part in.
    pub(super) fn note_paths(&self, export: &mut Export, steps: &[Step]) -> Result<(), ExportError> {
        let made = |shared: bool| {
            let these = steps.iter().filter(move |step| step.shared == shared);
            these.filter_map(|step| step.makes().map(Path::to_owned))
        };
        export.paths = made(false).collect();
        export.shared = made(true).collect();
        // What another export made and this one uses too is removed by the last of them.
        let uses = |path: &PathBuf| {
            steps.iter().any(|step| match &step.action {
                Action::Link(target, link) => target == path || link.starts_with(path),
                Action::Make(made) => made.starts_with(path),
                _ => false,
            })
        };
        for other in records::all(&self.sys)?.into_iter().filter(|other| other.boot == export.boot) {
            for path in other.shared {
                if uses(&path) && !export.shared.contains(&path) {
                    export.shared.push(path);
                }
            }
        }
        Ok(())
    }
}
