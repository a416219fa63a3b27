//! What the kernel has of an export: where it goes, made object by object, the way in last, and taken away in reverse.

use super::{Exports, boot, source};
use crate::judge;
use crate::made::{Failure, Now, Resource};
use crate::sys;
use ebbtide_door::{Claim, Lent};
use ebbtide_model::export::{
    Action, CONFIG, Export, Exporting, Listen, PORTS, Placed, Step, Transport, steps,
};
use ebbtide_model::guard::WriteRequest;
use ebbtide_model::shown::Shown;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// All objects of an export in configfs, the last of which lets initiators in.
pub(super) struct Target;

impl Resource<Exporting> for Target {
    fn state(&self, on: &Exports<'_>, export: &mut Export) -> Result<Now, Failure> {
        // After another boot the kernel has nothing of it; what has such a name then is another's.
        let now = boot(&on.sys) == export.boot;
        let there = |path: &PathBuf| now && on.sys.at(path).symlink_metadata().is_ok();
        Ok(match export.paths.iter().filter(|path| there(path)).count() {
            0 => Now::Absent,
            count if count == export.paths.len() => Now::Stands,
            _ => Now::Partly,
        })
    }

    fn make(&self, on: &Exports<'_>, export: &mut Export) -> Result<(), Failure> {
        // A part of it that a kill left.
        self.unmake(on, export, &mut Vec::new())?;
        let located = source::locate(&on.sys, &export.source)?;
        let secret = on.secret(export)?;
        let carries = export.carries.clone();
        let opened = source::open(&on.sys, &located, carries.as_deref())?;
        let steps = on.steps(export, &opened)?;
        export.boot = boot(&on.sys);
        on.note_paths(export, &steps)?;
        on.write(export)?;
        let (mut held, mut _lent): (_, Option<Lent>) = (Some(opened.claim), None);
        for step in steps {
            on.next()?;
            tracing::debug!("{step}");
            // LIO claims a device for itself, nvmet does not: what it opens is held by this program until it has.
            if matches!(step.action, Action::Open(_))
                && export.transport == Transport::Iscsi
                && let Some(claim) = held.take_if(|claim| claim.device().is_some())
            {
                _lent = Some(lend(claim, &opened.request)?);
            }
            on.carry_out(&step.action, secret.as_deref())?;
        }
        Ok(())
    }

    fn unmake(&self, on: &Exports<'_>, export: &Export, _: &mut Vec<String>) -> Result<(), Failure> {
        if export.boot != boot(&on.sys) {
            return Ok(());
        }
        if !export.is_its_own() {
            return Err(Failure::Refused(format!(
                "the record of {} names what no export of that name has in the kernel: see who has written it",
                export.name
            )));
        }
        for path in own(export) {
            on.remove(path, &[])?;
        }
        for path in export.shared.iter().rev() {
            on.remove(path, &[ErrorKind::ResourceBusy, ErrorKind::DirectoryNotEmpty])?;
        }
        Ok(())
    }

    fn unmaking(&self, on: &Exports<'_>, export: &Export) -> Vec<String> {
        let now = boot(&on.sys) == export.boot;
        let there = |path: &&PathBuf| now && on.sys.at(path).symlink_metadata().is_ok();
        own(export).filter(there).map(|path| format!("remove {}", path.shown())).collect()
    }
}

/// Why no secret is asked for.
const NO_DHCHAP: &str = "this kernel cannot ask NVMe initiators for a secret (it was built without CONFIG_NVME_TARGET_AUTH, which Linux has since 6.0): \
     write --transport iscsi, which has CHAP, or leave out --secret and let clients come through SSH to a listener on loopback";

/// What no other export uses, the last first.
fn own(export: &Export) -> impl Iterator<Item = &PathBuf> {
    export.paths.iter().rev().filter(|path| !export.shared.contains(path))
}

/// Lets the kernel at what was claimed, judged once more.
fn lend(claim: Claim, request: &WriteRequest<'_>) -> Result<Lent, Failure> {
    let lent = claim.lend().map_err(|error| Failure::file(request.path, error))?;
    judge::door().recheck(&[(&lent, *request)]).map_err(|(_, error)| source::refused(error))?;
    Ok(lent)
}

impl Exports<'_> {
    /// What the kernel is told to export what was opened.
    pub(super) fn steps(
        &self,
        export: &mut Export,
        opened: &source::Opened<'_>,
    ) -> Result<Vec<Step>, Failure> {
        export.bytes = opened.bytes;
        let placed = self.placed(export, opened.source.path())?;
        Ok(steps(export, &opened.source, &placed))
    }

    fn carry_out(&self, action: &Action, secret: Option<&str>) -> Result<(), Failure> {
        let at = |path: &Path| self.sys.at(path);
        let (path, done) = match action {
            Action::Make(path) => (path, self.host.make(&at(path))),
            Action::Link(target, path) => (path, self.host.link(&at(target), &at(path))),
            Action::Set(path, value) => (path, self.host.set(&at(path), value.as_bytes())),
            Action::SetSecret(path) if path.ends_with("dhchap_key") && !at(path).exists() => {
                return Err(Failure::Refused(NO_DHCHAP.to_owned()));
            }
            Action::SetSecret(path) => {
                (path, self.host.set(&at(path), secret.unwrap_or_default().as_bytes()))
            }
            Action::Open(path) => (path, self.host.set(&at(path), b"1")),
        };
        done.map_err(|error| Failure::file(path, error))
    }

    fn remove(&self, path: &Path, may_stay: &[ErrorKind]) -> Result<(), Failure> {
        match self.host.remove(&self.sys.at(path)) {
            Ok(()) => (self.boundary)(),
            Err(error) if error.kind() == io::ErrorKind::NotFound || may_stay.contains(&error.kind()) => {}
            Err(error) => return Err(Failure::file(path, error)),
        }
        Ok(())
    }

    /// Where in the kernel `export` of what is at `path` goes.
    pub(super) fn placed(&self, export: &Export, path: &Path) -> Result<Placed, Failure> {
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
                    let what = "LIO takes no path with a comma: rename it, or use --transport nvme-tcp";
                    return Err(Failure::file(path, what));
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
    fn port(&self, listen: Listen) -> Result<(u16, bool), Failure> {
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
                    None => Err(Failure::Refused(format!(
                        "nvmet listens at {} already, and not for ebb ({}): write another --listen, such as 127.0.0.1:4421",
                        listen.shown(),
                        place.join(name).shown()
                    ))),
                };
            }
        }
        let free = PORTS.into_iter().find(|number| !names.contains(&number.to_string()));
        free.map(|number| (number, false)).ok_or_else(|| {
            Failure::Refused(
                "nvmet has a thousand ports of ebb's: take exports away that nobody needs (`ebb status`)"
                    .to_owned(),
            )
        })
    }

    /// Notes in `export` what `steps` make, and what others made that it takes part in.
    pub(super) fn note_paths(&self, export: &mut Export, steps: &[Step]) -> Result<(), Failure> {
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
        let (name, boot) = (export.name.clone(), export.boot.clone());
        for other in self.all()?.into_iter().filter(|other| other.name != name && other.boot == boot) {
            for path in other.of.shared {
                if uses(&path) && !export.shared.contains(&path) {
                    export.shared.push(path);
                }
            }
        }
        Ok(())
    }
}
