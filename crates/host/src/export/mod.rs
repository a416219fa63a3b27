//! Volumes given to other hosts by the kernel's own targets, nvmet (NVMe over TCP) and LIO (iSCSI).
//!
//! What is exported is opened at the door and judged as what is written; the kernel is told step by step what [`steps`] says, after the
//! journal was. The record ([`Export`]) is on disk before the first step and says when the last was done: what is not whole is taken away
//! by the same run, or by `ebb cleanup` after a kill. What the host exports by now, `ebb` or anybody, is [`seen()`] in configfs.

mod config;
mod connected;
mod error;
mod records;
mod seen;
mod source;
mod taking;
#[cfg(test)]
mod tests;

mod unit;

pub use config::{ConfigFs, Kernel};
pub use error::ExportError;
pub use records::RECORDS;
pub use seen::{Exposed, Seen, seen};
pub use taking::{foresee, put_back, stands};

use crate::build::{at, run};
use crate::command::Runner;
use crate::judge;
use crate::sys::{self, Sys};
use ebbtide_door::own::Locked;
use ebbtide_door::{Claim, Lent, config as configfs, read};
use ebbtide_model::export::{
    Action, CONFIG, Export, Listen, PORTS, Phase, Placed, Step, Transport, check_secret, default_name, steps,
    target,
};
use ebbtide_model::guard::WriteRequest;
use ebbtide_model::journal::{Entry, Journal};
use ebbtide_model::plan::build::{BuildUndo, Identity};
use ebbtide_model::shown::Shown;
use source::{Located, Opened};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// Longest file with a secret.
const LONGEST_SECRET: u64 = 4096;
/// The number that the only step has in its journal.
const STEP: u64 = 0;

/// What is to be exported, for whom and how.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// A device, a file, or the stable id of a device.
    pub source: PathBuf,
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
    /// Its record.
    pub export: Export,
    /// Whether it was made now; it was there before otherwise.
    pub made: bool,
    /// What the user should know of this host.
    pub warnings: Vec<String>,
}

/// An export as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Now {
    /// Its record.
    pub export: Export,
    /// Whether the kernel has it.
    pub running: bool,
    /// Whether an initiator is connected; nothing where that cannot be told from those of other exports.
    pub connected: Option<bool>,
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
        self.may(wanted.transport)?;
        let lock = records::lock(&self.sys)?;
        self.make(wanted, &lock)
    }

    /// What [`export`](Self::export) would tell the kernel; nothing where it is exported like that already. Changes nothing.
    ///
    /// # Errors
    /// As there.
    pub fn plan(&self, wanted: &Wanted) -> Result<(Export, Vec<Step>), ExportError> {
        let located = source::locate(&self.sys, &wanted.source)?;
        let mut export = self.draft(wanted, &located, "HOST")?;
        if let Some(there) = self.there(&export)? {
            return Ok((there, Vec::new()));
        }
        self.secret(&export)?;
        let opened = source::open(&self.sys, &located)?;
        export.bytes = opened.bytes;
        let placed = self.placed(&export, opened.source.path())?;
        let steps = steps(&export, &opened.source, &placed);
        Ok((export, steps))
    }

    /// Every export that has a record, with how it is.
    ///
    /// # Errors
    /// When a record cannot be read.
    pub fn list(&self) -> Result<Vec<Now>, ExportError> {
        let all = records::all(&self.sys)?;
        let now = all.iter().map(|export| {
            let running = self.is_running(export);
            let connected = if running { connected::to(&self.sys, export, &all) } else { Some(false) };
            Now { export: export.clone(), running, connected }
        });
        Ok(now.collect())
    }

    /// Takes the export `name` away; `force` also where an initiator is connected.
    ///
    /// # Errors
    /// When there is none, somebody is connected, or the kernel does not let go.
    pub fn remove(&self, name: &str, force: bool) -> Result<Export, ExportError> {
        let _lock = records::lock(&self.sys)?;
        let Some(mut export) = records::of(&self.sys, name)? else {
            let names = records::all(&self.sys)?.into_iter().map(|export| export.name).collect();
            return Err(ExportError::Unknown { name: name.to_owned(), names });
        };
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
        let taking = taking::Taking {
            sys: &self.sys,
            config: self.config,
            runner: self.runner,
            boundary: self.boundary,
        };
        taking.take(&undo, &export)?;
        self.journal.write(&Entry::Undone(STEP))?;
        Ok(export)
    }

    /// Brings the export `name` back after a boot, as its record says.
    ///
    /// # Errors
    /// As [`export`](Self::export); when there is no such export.
    pub fn start(&self, name: &str) -> Result<Done, ExportError> {
        let Some(export) = records::of(&self.sys, name)?.filter(|export| export.phase != Phase::Removing)
        else {
            let names = records::all(&self.sys)?.into_iter().map(|export| export.name).collect();
            return Err(ExportError::Unknown { name: name.to_owned(), names });
        };
        source::wait_for(self.runner, &export.device)?;
        let program = unit::program(&self.sys, name);
        self.export(&Wanted {
            source: export.device.clone(),
            name: Some(export.name.clone()),
            client: export.client.clone(),
            secret: export.secret.clone(),
            transport: export.transport,
            listen: export.listen(),
            persistent: program.filter(|_| export.persistent),
        })
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
        let opened = source::open(&self.sys, &located)?;
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
                Some(program) => unit::install(self, &export, program),
                None => Ok(()),
            })
            .and_then(|()| {
                export.phase = Phase::Exported;
                records::write(&self.sys, &export)
            });
        if let Err(error) = made {
            let taking = taking::Taking {
                sys: &self.sys,
                config: self.config,
                runner: self.runner,
                boundary: self.boundary,
            };
            return Err(match taking.take(&undo, &export) {
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
        let config = at(&self.sys, Path::new(CONFIG));
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
        let target = target(wanted.transport, host, &name);
        let device = located.device.to_string_lossy();
        let uuid = Identity::new(&format!("{host}/{device}"), 0, &name).uuid();
        Ok(Export {
            schema: Export::SCHEMA.to_owned(),
            phase: Phase::Making,
            run: self.run.to_owned(),
            boot: boot(&self.sys),
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
            let is_over = export.boot != boot(&self.sys) && (differences.is_empty() || !export.persistent);
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

    /// Whether the kernel has `export`, all of it.
    fn is_running(&self, export: &Export) -> bool {
        export.phase == Phase::Exported
            && export.boot == boot(&self.sys)
            && !export.paths.is_empty()
            && export.paths.iter().all(|path| at(&self.sys, path).symlink_metadata().is_ok())
    }

    /// The secret of `export`.
    fn secret(&self, export: &Export) -> Result<Option<String>, ExportError> {
        let Some(file) = &export.secret else { return Ok(None) };
        let fail = |what: String| ExportError::Secret { file: file.clone(), what };
        let open = read::regular(file).map_err(|error| fail(error.to_string()))?;
        let found = open.metadata().map_err(|error| fail(error.to_string()))?;
        if found.mode() & 0o077 != 0 {
            return Err(fail(format!("others than its owner may read it: `chmod 600 {}`", file.shown())));
        }
        let text = read::text(file, LONGEST_SECRET).map_err(|error| fail(format!("it {error}")))?;
        let secret = check_secret(&text, export.transport).map_err(|error| fail(error.to_string()))?;
        Ok(Some(secret.to_owned()))
    }

    /// Whether the kernel asks for the secret that is in the file of `export`.
    fn has_secret(&self, export: &Export) -> Result<bool, ExportError> {
        let Some(secret) = self.secret(export)? else { return Ok(true) };
        let config = at(&self.sys, Path::new(CONFIG));
        let attribute = match export.transport {
            Transport::NvmeTcp => config.join("nvmet/hosts").join(&export.client).join("dhchap_key"),
            Transport::Iscsi => {
                let group = config.join("target/iscsi").join(&export.target).join("tpgt_1");
                group.join("acls").join(&export.client).join("auth/password")
            }
        };
        Ok(sys::text(&attribute).is_some_and(|now| now == secret))
    }

    /// Where in the kernel `export` of what is at `path` goes.
    fn placed(&self, export: &Export, path: &Path) -> Result<Placed, ExportError> {
        let config = at(&self.sys, Path::new(CONFIG));
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
        let place = at(&self.sys, Path::new(CONFIG)).join("nvmet/ports");
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
    fn note_paths(&self, export: &mut Export, steps: &[Step]) -> Result<(), ExportError> {
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
            let place = |path: &Path| at(&self.sys, path);
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

/// What tells this boot of the host of `sys` from others.
fn boot(sys: &Sys) -> String {
    sys::word(&sys.proc.join("sys/kernel/random/boot_id")).unwrap_or_default()
}
