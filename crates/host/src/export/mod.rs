//! Volumes given to other hosts by the kernel's own targets, nvmet (NVMe over TCP) and LIO (iSCSI).
//!
//! What is exported is opened at the door and judged as what is written; the kernel is told step by step what [`steps`] says, after the
//! journal was. The record ([`Export`]) is on disk before the first step and says when the last was done: what is not whole is taken away
//! by the same run, or by `ebb cleanup` after a kill. What the host exports by now, `ebb` or anybody, is in the [`graph`](crate::graph).

mod config;
mod connected;
mod error;
mod place;
mod records;
mod secret;
mod source;
mod taking;
#[cfg(test)]
mod tests;

mod unit;

pub use config::{ConfigFs, Kernel};
pub use error::ExportError;
pub use records::RECORDS;
pub use taking::{foresee, put_back, stands};

use crate::build::run;
use crate::command::Runner;
use crate::judge;
use crate::sys::Sys;
use ebbtide_door::own::Locked;
use ebbtide_door::{Claim, Lent, config as configfs};
use ebbtide_model::export::{
    Action, CONFIG, Export, Listen, Phase, Step, Transport, default_name, steps, target,
};
use ebbtide_model::guard::WriteRequest;
use ebbtide_model::journal::{Entry, Journal};
use ebbtide_model::plan::build::{BuildUndo, Identity};
use ebbtide_model::shown::Shown;
use ebbtide_provision::export::{Exported, unit_path};
use source::{Located, Opened};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use taking::{Taking, is_left};

/// The number that the only step has in its journal.
const STEP: u64 = 0;

/// What is to be exported, for whom and how.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// A device, a file, or the stable id of a device.
    pub source: PathBuf,
    /// UUID of what the device carries, where that is to say which device is meant.
    pub carries: Option<String>,
    /// What it is to be called; after the source where nobody says.
    pub name: Option<String>,
    /// NQN or IQN of the initiator that may log in.
    pub client: String,
    /// The file with its secret.
    pub secret: Option<PathBuf>,
    /// Protocol.
    pub transport: Transport,
    /// Where it listens.
    pub listen: Listen,
    /// The program that brings it back at boot; nothing where it need not come back.
    pub persistent: Option<PathBuf>,
}

/// What an export came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done {
    /// The export as it is recorded.
    pub export: Export,
    /// Whether it was made now; it was there before otherwise.
    pub made: bool,
    /// What the user should know of this host.
    pub warnings: Vec<String>,
}

/// Makes, lists and takes away the exports of a host.
pub struct Exporter<'a> {
    /// The host's file trees.
    pub sys: Sys,
    /// Where the kernel is told.
    pub config: &'a dyn ConfigFs,
    /// Runs programs.
    pub runner: &'a dyn Runner,
    /// Where each change is announced.
    pub journal: &'a dyn Journal,
    /// The run, as its journal is called.
    pub run: &'a str,
    /// Told of each thing as it is done.
    pub tell: &'a dyn Fn(&str),
    /// Ends it before the next step.
    pub stop: &'a AtomicBool,
    /// Called between any two changes: tests end everything there, as a kill would.
    pub boundary: &'a dyn Fn(),
}

impl Exporter<'_> {
    /// Exports `wanted`; where it is exported like that already, nothing is done.
    ///
    /// # Errors
    /// Why it must not be exported, or what failed; nothing is left of it then.
    pub fn export(&self, wanted: &Wanted) -> Result<Done, ExportError> {
        self.export_within(wanted, records::PATIENCE)
    }

    /// The same, where another `ebb` is waited for so long.
    fn export_within(&self, wanted: &Wanted, patience: Duration) -> Result<Done, ExportError> {
        self.may(wanted.transport)?;
        let lock = records::lock(&self.sys, patience)?;
        self.make(wanted, &lock)
    }

    /// What [`export`](Self::export) would tell the kernel; nothing where it is exported like that already. Changes nothing.
    ///
    /// # Errors
    /// As there.
    pub fn plan(&self, wanted: &Wanted) -> Result<(Export, Vec<Step>), ExportError> {
        let located = source::locate(&self.sys, &wanted.source)?;
        let mut export = self.draft(wanted, &located, &records::known_host(&self.sys))?;
        if let Some(there) = self.there(&export)? {
            return Ok((there, Vec::new()));
        }
        let secret = self.secret(&export)?;
        self.check_other_secrets(&export, secret.as_deref())?;
        let opened = source::open(&self.sys, &located, wanted.carries.as_deref())?;
        export.bytes = opened.bytes;
        let placed = self.placed(&export, opened.source.path())?;
        let steps = steps(&export, &opened.source, &placed);
        Ok((export, steps))
    }

    /// Every export that has a record, with how it is.
    ///
    /// # Errors
    /// When a record cannot be read.
    pub fn list(&self) -> Result<Vec<Exported>, ExportError> {
        let all = records::all(&self.sys)?;
        let now = all.iter().map(|export| {
            let running = self.is_running(export);
            let connected = if running { connected::to(&self.sys, export, &all) } else { Some(false) };
            Exported::of(export, running, connected)
        });
        Ok(now.collect())
    }

    /// What taking the export `name` away would remove from the kernel and the host's files, in words.
    ///
    /// # Errors
    /// When there is no such export.
    pub fn plan_remove(&self, name: &str) -> Result<Vec<String>, ExportError> {
        let export = self.known(name)?;
        let mut files = Vec::new();
        if export.persistent {
            files.push(unit_path(name));
        }
        if is_left(&self.sys, &export) {
            files.extend(export.paths.iter().rev().filter(|path| !export.shared.contains(path)).cloned());
        }
        files.retain(|path| self.sys.at(path).symlink_metadata().is_ok());
        Ok(files.iter().map(|path| format!("remove {}", path.shown())).collect())
    }

    /// The record of the export `name`.
    fn known(&self, name: &str) -> Result<Export, ExportError> {
        match records::of(&self.sys, name)? {
            Some(export) => Ok(export),
            None => self.unknown(name),
        }
    }

    /// That there is no export `name`, and which there are.
    fn unknown<T>(&self, name: &str) -> Result<T, ExportError> {
        let names = records::all(&self.sys)?.into_iter().map(|export| export.name).collect();
        Err(ExportError::Unknown { name: name.to_owned(), names })
    }

    /// Takes the export `name` away; `force` also where an initiator is connected.
    ///
    /// # Errors
    /// When there is none, somebody is connected, or the kernel does not let go.
    pub fn remove(&self, name: &str, force: bool) -> Result<Export, ExportError> {
        let _lock = records::lock(&self.sys, records::PATIENCE)?;
        let mut export = self.known(name)?;
        if !force && self.is_running(&export) {
            connected::refuse(&self.sys, &export, &records::all(&self.sys)?)?;
        }
        let undo = export.undo(self.run);
        self.journal.write(&Entry::Step { number: STEP, undo: BuildUndo::RemoveExport(undo.clone()) })?;
        (self.boundary)();
        self.run.clone_into(&mut export.run);
        export.phase = Phase::Removing;
        records::write(&self.sys, &export)?;
        (self.boundary)();
        self.taking().take(&undo, &export)?;
        self.journal.write(&Entry::Undone(STEP))?;
        Ok(export)
    }

    /// Brings the export `name` back after a boot, as its record says.
    ///
    /// # Errors
    /// As [`export`](Self::export); when there is no such export.
    pub fn start(&self, name: &str) -> Result<Done, ExportError> {
        let export = self.known(name)?;
        if export.phase == Phase::Removing {
            return self.unknown(name);
        }
        source::wait_for(self.runner, &export.device)?;
        let program = self.unit_program(name);
        let wanted = Wanted {
            source: export.device.clone(),
            carries: None,
            name: Some(export.name.clone()),
            client: export.client.clone(),
            secret: export.secret.clone(),
            transport: export.transport,
            listen: export.listen(),
            persistent: program.filter(|_| export.persistent),
        };
        self.export_within(&wanted, records::PATIENCE_AT_BOOT)
    }

    fn make(&self, wanted: &Wanted, _lock: &Locked) -> Result<Done, ExportError> {
        let located = source::locate(&self.sys, &wanted.source)?;
        let host = records::host(&self.sys)?;
        let mut export = self.draft(wanted, &located, &host)?;
        let warnings = source::warnings(&self.sys, &located, &export);
        if let Some(there) = self.there(&export)? {
            return Ok(Done { export: there, made: false, warnings });
        }
        let secret = self.secret(&export)?;
        self.check_other_secrets(&export, secret.as_deref())?;
        let opened = source::open(&self.sys, &located, wanted.carries.as_deref())?;
        self.forget_stale(&export)?;
        export.bytes = opened.bytes;
        let placed = self.placed(&export, opened.source.path())?;
        let steps = steps(&export, &opened.source, &placed);
        self.note_paths(&mut export, &steps)?;
        let undo = export.undo(self.run);
        self.journal.write(&Entry::Step { number: STEP, undo: BuildUndo::RemoveExport(undo.clone()) })?;
        (self.boundary)();
        let made = records::write(&self.sys, &export)
            .and_then(|()| self.carry_out(&steps, opened, secret.as_deref(), export.transport))
            .and_then(|()| match &wanted.persistent {
                Some(program) => self.install_unit(&export, program),
                None => Ok(()),
            })
            .and_then(|()| {
                export.phase = Phase::Exported;
                records::write(&self.sys, &export)
            });
        if let Err(error) = made {
            return Err(match self.taking().take(&undo, &export) {
                Ok(()) => {
                    self.journal.write(&Entry::Undone(STEP))?;
                    error
                }
                Err(left) => ExportError::Both { made: Box::new(error), taken: Box::new(left) },
            });
        }
        (self.boundary)();
        self.journal.write(&Entry::Stays(STEP))?;
        Ok(Done { export, made: true, warnings })
    }

    fn taking(&self) -> Taking<'_> {
        Taking { sys: &self.sys, config: self.config, runner: self.runner, boundary: self.boundary }
    }

    /// Whether this kernel can export by `transport` at all: its modules are loaded, its configfs is there. Both stay.
    fn may(&self, transport: Transport) -> Result<(), ExportError> {
        let (modules, object): (&[&str], &str) = match transport {
            Transport::NvmeTcp => (&["nvmet", "nvmet-tcp"], "nvmet"),
            Transport::Iscsi => {
                (&["target_core_mod", "target_core_iblock", "target_core_file", "iscsi_target_mod"], "target")
            }
        };
        for module in modules {
            let loaded = self.sys.sys.join("module").join(module.replace('-', "_"));
            if !loaded.exists() {
                run(self.runner, "modprobe", &[module]).map_err(|error| ExportError::NoModule {
                    module: (*module).to_owned(),
                    why: error.to_string(),
                })?;
            }
        }
        let config = self.sys.at(Path::new(CONFIG));
        if self.sys.is_host() && !configfs::is_config(&config) {
            run(self.runner, "mount", &["-t", "configfs", "configfs", CONFIG])?;
        }
        match config.join(object).is_dir() {
            true => Ok(()),
            false => Err(ExportError::NoTarget { transport }),
        }
    }

    /// The record of `wanted`, with nothing made yet.
    fn draft(&self, wanted: &Wanted, located: &Located, host: &str) -> Result<Export, ExportError> {
        let name = match &wanted.name {
            Some(name) => name.clone(),
            None => self.name_of(&wanted.source, located)?,
        };
        if wanted.persistent.is_some() {
            located.check_lasting()?;
        }
        let device = located.device.to_string_lossy();
        // Another device under the same name has another target: an initiator that comes back (iSCSI's asks no more than the name) would go on
        // writing to it what was meant for this one.
        let uuid = Identity::new(&device, 0, &name).uuid();
        let target = target(wanted.transport, &format!("{host}-{}", &uuid[..8]), &name);
        let uuid = Identity::new(&format!("{host}/{device}"), 0, &name).uuid();
        Ok(Export {
            schema: Export::SCHEMA.to_owned(),
            phase: Phase::Making,
            run: self.run.to_owned(),
            boot: records::boot(&self.sys),
            name,
            transport: wanted.transport,
            address: wanted.listen.address,
            port: wanted.listen.port,
            target,
            client: wanted.client.clone(),
            secret: wanted.secret.as_deref().map(source::absolute).transpose()?,
            device: located.device.clone(),
            id: located.id.clone(),
            bytes: 0,
            persistent: wanted.persistent.is_some(),
            uuid,
            paths: Vec::new(),
            shared: Vec::new(),
        })
    }

    /// What the export of `source` is called where nobody says: what it is called already, or after the source.
    fn name_of(&self, source: &Path, located: &Located) -> Result<String, ExportError> {
        let known = records::all(&self.sys)?.into_iter().find(|export| export.device == located.device);
        known
            .map(|export| export.name)
            .or_else(|| default_name(source))
            .ok_or_else(|| ExportError::NoName(source.to_owned()))
    }

    /// The export that is there already as `wanted` says; nothing where none is there.
    fn there(&self, wanted: &Export) -> Result<Option<Export>, ExportError> {
        let all = records::all(&self.sys)?;
        let is_it = |export: &&Export| export.name == wanted.name || export.device == wanted.device;
        for export in all.iter().filter(is_it) {
            let running = self.is_running(export);
            let mut differences = export.differences(wanted);
            // After another boot nothing is left of what a killed run had made but the record and, as wanted, the unit.
            let is_over =
                export.boot != records::boot(&self.sys) && (differences.is_empty() || !export.persistent);
            if export.phase != Phase::Exported && !is_over {
                return Err(ExportError::Unfinished { name: export.name.clone() });
            }
            if differences.is_empty() && running && !self.has_secret(export)? {
                differences.push("the secret in its file is not the one that is asked for".to_owned());
            }
            if !differences.is_empty() && (running || export.persistent) {
                return Err(ExportError::Otherwise { name: export.name.clone(), differences });
            }
            if differences.is_empty() && running {
                return Ok(Some(export.clone()));
            }
            if !running && taking::is_left(&self.sys, export) {
                return Err(ExportError::Half { name: export.name.clone() });
            }
        }
        Ok(None)
    }

    /// Forgets what the same device was exported as before a boot, by another name.
    fn forget_stale(&self, wanted: &Export) -> Result<(), ExportError> {
        let is_stale = |export: &Export| {
            export.device == wanted.device
                && export.name != wanted.name
                && export.boot != wanted.boot
                && !export.persistent
        };
        let all = records::all(&self.sys)?;
        all.iter()
            .filter(|export| is_stale(export))
            .try_for_each(|stale| records::forget(&self.sys, &stale.name))
    }

    /// Whether the kernel has `export`, all of it.
    fn is_running(&self, export: &Export) -> bool {
        export.phase == Phase::Exported
            && export.boot == records::boot(&self.sys)
            && !export.paths.is_empty()
            && export.paths.iter().all(|path| self.sys.at(path).symlink_metadata().is_ok())
    }

    fn carry_out(
        &self,
        steps: &[Step],
        opened: Opened<'_>,
        secret: Option<&str>,
        transport: Transport,
    ) -> Result<(), ExportError> {
        let mut held = Some(opened.claim);
        let mut _lent: Option<Lent> = None;
        for step in steps {
            (self.boundary)();
            if self.stop.load(Ordering::Relaxed) {
                return Err(ExportError::Stopped);
            }
            (self.tell)(&step.to_string());
            let fail = |path: &Path| {
                let path = path.to_owned();
                move |error: std::io::Error| ExportError::Kernel { path, what: error.to_string() }
            };
            let place = |path: &Path| self.sys.at(path);
            match &step.action {
                Action::Make(path) => self.config.make(&place(path)).map_err(fail(path))?,
                Action::Link(target, path) => {
                    self.config.link(&place(target), &place(path)).map_err(fail(path))?;
                }
                Action::Set(path, value) => {
                    self.config.set(&place(path), value.as_bytes()).map_err(fail(path))?;
                }
                Action::SetSecret(path) if transport == Transport::NvmeTcp && !place(path).exists() => {
                    return Err(ExportError::NoDhChap);
                }
                Action::SetSecret(path) => {
                    let secret = secret.unwrap_or_default();
                    self.config.set(&place(path), secret.as_bytes()).map_err(fail(path))?;
                }
                Action::Open(path) => {
                    // LIO claims a device for itself, nvmet does not: what it opens is held by this program until it has.
                    if transport == Transport::Iscsi
                        && let Some(claim) = held.take_if(|claim| claim.device().is_some())
                    {
                        _lent = Some(self.lend(claim, &opened.request)?);
                    }
                    self.config.set(&place(path), b"1").map_err(fail(path))?;
                }
            }
        }
        (self.boundary)();
        Ok(())
    }

    /// Lets the kernel at what was claimed, judged once more.
    fn lend(&self, claim: Claim, request: &WriteRequest<'_>) -> Result<Lent, ExportError> {
        let lent = claim.lend().map_err(|error| ExportError::file(request.path, error))?;
        judge::door().recheck(&[(&lent, *request)]).map_err(|(_, error)| ExportError::from(error))?;
        Ok(lent)
    }
}
