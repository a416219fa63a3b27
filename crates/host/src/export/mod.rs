//! Volumes given to other hosts by the kernel's own targets, nvmet (NVMe over TCP) and LIO (iSCSI).
//!
//! An export is two resources: what the kernel has of it ([`target`]), and the unit that brings it back at boot. What is exported is opened at the
//! door and judged as what is written. What the host exports by now, `ebb` or anybody, is in the [`graph`](crate::graph).

mod connected;
mod secret;
mod source;
mod target;
#[cfg(test)]
mod tests;

use crate::build::run;
use crate::made::{Engine, Failure, Now, Plan, Resource, Resources, Units};
use crate::sys::{self, Sys};
use ebbtide_door::{config as configfs, own};
use ebbtide_model::export::{
    CONFIG, Export, Exporting, Listen, Step, Transport, default_name, target as target_name,
};
use ebbtide_model::made::{Record, State};
use ebbtide_model::plan::build::Identity;
use ebbtide_model::shown::Shown;
use ebbtide_provision::export::{ExportUnit, Exported, program_of, unit_name, unit_path};
use source::Located;
use std::path::{Path, PathBuf};
use std::time::Duration;
use target::Target;

/// How long another `ebb` that changes exports is waited for: several clients may come at once.
const PATIENCE: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 20 });
/// The same at boot, when all persistent ones come back at once.
const PATIENCE_AT_BOOT: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 150 });
/// What tells this host's exports from those of others, made with the first of them.
const HOST: &str = "host";

/// Makes, lists and takes away the exports of a host.
pub type Exports<'a> = Engine<'a, Exporting>;

impl Plan for Exporting {
    const RECORDS: &'static str = "var/lib/ebbtide/exports";
    const RESOURCES: Resources<Exporting> = &[("target", &Target), ("unit", &Unit)];
    const PATIENCE: Duration = PATIENCE;

    fn may_unmake(on: &Exports<'_>, export: &mut Export, force: bool) -> Result<(), Failure> {
        match on.is_running(export) && !force {
            true => connected::refuse(&on.sys, export, &on.all()?),
            false => Ok(()),
        }
    }
}

/// What brings it back at boot.
struct Unit;

impl Unit {
    fn of(export: &Export) -> Units {
        let unit = ExportUnit {
            name: &export.name,
            program: export.program.as_deref().unwrap_or(Path::new("")),
            file: Some(export.device.as_path()).filter(|device| !device.starts_with("/dev")),
            is_local: export.address.is_loopback(),
        };
        let name = unit_name(&export.name);
        Units { parts: vec![unit.part()], enabled: name.clone(), is_started: false, fails: name }
    }
}

impl Resource<Exporting> for Unit {
    fn state(&self, on: &Exports<'_>, export: &mut Export) -> Result<Now, Failure> {
        Ok(match (export.persistent, on.has_systemd()) {
            (false, _) => Now::Stands,
            (true, true) => Unit::of(export).state(on)?,
            (true, false) => Now::Others(
                "systemd does not run this host: leave out --persistent, and export it anew after a boot"
                    .to_owned(),
            ),
        })
    }

    fn make(&self, on: &Exports<'_>, export: &mut Export) -> Result<(), Failure> {
        Unit::of(export).make(on)
    }

    fn unmake(&self, on: &Exports<'_>, export: &Export, _: &mut Vec<String>) -> Result<(), Failure> {
        Unit::of(export).unmake(on)
    }

    fn unmaking(&self, on: &Exports<'_>, export: &Export) -> Vec<String> {
        Unit::of(export).unmaking(on)
    }
}

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

/// What there is of what is wanted already.
enum There {
    Running(Export),
    /// It was whole, and after a boot the kernel has nothing of it.
    Whole(Export),
    /// What a killed run left.
    Half(Export),
}

impl Exports<'_> {
    /// Exports `wanted`; where it is exported like that already, nothing is done.
    ///
    /// # Errors
    /// Why it must not be exported, or what failed; nothing is left of it then.
    pub fn export(&self, wanted: &Wanted) -> Result<Done, Failure> {
        self.export_within(wanted, PATIENCE)
    }

    /// The same, where another `ebb` is waited for so long.
    fn export_within(&self, wanted: &Wanted, patience: Duration) -> Result<Done, Failure> {
        self.may(wanted.transport)?;
        let _lock = self.lock("ebb export", wanted.name.as_deref().unwrap_or("a volume"), patience)?;
        let located = source::locate(&self.sys, &wanted.source)?;
        let mut export = self.draft(wanted, &located, &self.host_name()?)?;
        let warnings = source::warnings(&self.sys, &located, &export);
        for there in self.there(&export)? {
            match there {
                There::Running(export) => return Ok(Done { export, made: false, warnings }),
                There::Half(mut half) => self.unmake(&mut half).map(drop)?,
                There::Whole(whole) => {
                    let Exporting { source, carries, program, .. } = export.of;
                    export = whole;
                    (export.source, export.carries, export.program) = (source, carries, program);
                }
            }
        }
        self.check_other_secrets(&export, self.secret(&export)?.as_deref())?;
        self.forget_stale(&export)?;
        self.make(&mut export)?;
        Ok(Done { export, made: true, warnings })
    }

    /// What [`export`](Self::export) would tell the kernel; nothing where it is exported like that already. Changes nothing.
    ///
    /// # Errors
    /// As there.
    pub fn plan(&self, wanted: &Wanted) -> Result<(Export, Vec<Step>), Failure> {
        let located = source::locate(&self.sys, &wanted.source)?;
        let host = sys::word(&self.place().join(HOST)).unwrap_or_else(|| "HOST".to_owned());
        let mut export = self.draft(wanted, &located, &host)?;
        for there in self.there(&export)? {
            if let There::Running(there) = there {
                return Ok((there, Vec::new()));
            }
        }
        self.check_other_secrets(&export, self.secret(&export)?.as_deref())?;
        let opened = source::open(&self.sys, &located, wanted.carries.as_deref())?;
        let steps = self.steps(&mut export, &opened)?;
        Ok((export, steps))
    }

    /// Every export that has a record, with how it is.
    ///
    /// # Errors
    /// When a record cannot be read.
    pub fn list(&self) -> Result<Vec<Exported>, Failure> {
        let all = self.all()?;
        let now = all.iter().map(|export| {
            let running = self.is_running(export);
            let connected = if running { connected::to(&self.sys, export, &all) } else { Some(false) };
            Exported::of(export, running, connected)
        });
        Ok(now.collect())
    }

    fn all(&self) -> Result<Vec<Export>, Failure> {
        self.records().into_iter().collect()
    }

    /// Brings the export `name` back after a boot, as its record says.
    ///
    /// # Errors
    /// As [`export`](Self::export); when there is no such export.
    pub fn start(&self, name: &str) -> Result<Done, Failure> {
        let export = self.known(name)?;
        if export.state == State::Unmaking {
            return Err(Failure::Refused(format!(
                "{name} is not brought back: `ebb undo {name}` was ended before it was done; run it again"
            )));
        }
        source::wait_for(self.runner, &export.device)?;
        let of_unit = || program_of(&self.text(&unit_path(name)).ok()??);
        let program = export.program.clone().or_else(of_unit);
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
        self.export_within(&wanted, PATIENCE_AT_BOOT)
    }

    /// Whether this kernel can export by `transport` at all: its modules are loaded, its configfs is there. Both stay.
    fn may(&self, transport: Transport) -> Result<(), Failure> {
        let (modules, object): (&[&str], &str) = match transport {
            Transport::NvmeTcp => (&["nvmet", "nvmet-tcp"], "nvmet"),
            Transport::Iscsi => {
                (&["target_core_mod", "target_core_iblock", "target_core_file", "iscsi_target_mod"], "target")
            }
        };
        for module in modules {
            let loaded = self.sys.sys.join("module").join(module.replace('-', "_"));
            if !loaded.exists() {
                run(self.runner, "modprobe", &[module]).map_err(|why| {
                    Failure::Refused(format!(
                        "the kernel has no {module}: {why}; install the modules of the running kernel (`uname -r`)"
                    ))
                })?;
            }
        }
        let config = self.sys.at(Path::new(CONFIG));
        if self.sys.is_host() && !configfs::is_config(&config) {
            run(self.runner, "mount", &["-t", "configfs", "configfs", CONFIG])?;
        }
        match config.join(object).is_dir() {
            true => Ok(()),
            false => Err(Failure::Refused(format!(
                "the kernel's target for {transport} is not in /sys/kernel/config: mount it with `mount -t configfs configfs /sys/kernel/config`"
            ))),
        }
    }

    /// The record of `wanted`, with nothing made yet.
    fn draft(&self, wanted: &Wanted, located: &Located, host: &str) -> Result<Export, Failure> {
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
        let target = target_name(wanted.transport, &format!("{host}-{}", &uuid[..8]), &name);
        let uuid = Identity::new(&format!("{host}/{device}"), 0, &name).uuid();
        let of = Exporting {
            boot: boot(&self.sys),
            transport: wanted.transport,
            address: wanted.listen.address,
            port: wanted.listen.port,
            target,
            client: wanted.client.clone(),
            secret: wanted.secret.as_deref().map(source::absolute).transpose()?,
            device: located.device.clone(),
            stable_id: located.id.clone(),
            bytes: 0,
            persistent: wanted.persistent.is_some(),
            program: wanted.persistent.clone(),
            source: wanted.source.clone(),
            carries: wanted.carries.clone(),
            uuid,
            paths: Vec::new(),
            shared: Vec::new(),
        };
        Ok(Record::new(&name, self.draw(), of))
    }

    /// What the export of `source` is called where nobody says: what it is called already, or after the source.
    fn name_of(&self, source: &Path, located: &Located) -> Result<String, Failure> {
        let known = self.all()?.into_iter().find(|export| export.device == located.device);
        known.map(|export| export.name).or_else(|| default_name(source)).ok_or_else(|| {
            let source = source.shown();
            Failure::Usage(format!(
                "no export can be called after {source}: say what it is to be called with --name"
            ))
        })
    }

    /// What is there of what is `wanted`, under its name or of its device.
    fn there(&self, wanted: &Export) -> Result<Vec<There>, Failure> {
        let mut there = Vec::new();
        let is_it = |export: &Export| export.name == wanted.name || export.device == wanted.device;
        for export in self.all()?.into_iter().filter(is_it) {
            if export.state == State::Unmaking || !export.whole {
                there.push(There::Half(export));
                continue;
            }
            let name = &export.name;
            let running = self.is_running(&export);
            let mut differences = export.differences(wanted);
            if differences.is_empty() && running && !self.has_secret(&export)? {
                differences.push("the secret in its file is not the one that is asked for".to_owned());
            }
            if !differences.is_empty() && (running || export.persistent) {
                return Err(Failure::Refused(format!(
                    "it is exported already as {name}, in another way: {}; write the same, or `ebb undo {name}` first",
                    differences.join("; ")
                )));
            }
            // A part of it was taken out of the kernel by hand.
            if Target.state(self, &mut export.clone())? == Now::Partly {
                connected::refuse(&self.sys, &export, &self.all()?)?;
            }
            match differences.is_empty() {
                true if running => there.push(There::Running(export)),
                true => there.push(There::Whole(export)),
                // What does not come back by itself is no reason against another one.
                false => {}
            }
        }
        Ok(there)
    }

    /// Forgets what the same device was exported as before a boot, by another name.
    fn forget_stale(&self, wanted: &Export) -> Result<(), Failure> {
        let is_stale = |export: &&Export| {
            export.device == wanted.device
                && export.name != wanted.name
                && export.boot != boot(&self.sys)
                && !export.persistent
        };
        self.all()?.iter().filter(is_stale).try_for_each(|stale| self.forget(&stale.name))
    }

    /// Whether the kernel has `export`, all of it.
    fn is_running(&self, export: &Export) -> bool {
        export.state == State::Made && Target.state(self, &mut export.clone()) == Ok(Now::Stands)
    }

    /// What targets of this host are called after: its name, and signs that no other host has.
    fn host_name(&self) -> Result<String, Failure> {
        let path = self.place().join(HOST);
        if let Some(host) = sys::word(&path) {
            return Ok(host);
        }
        let random = self.draw();
        let random = random.split('-').next().filter(|random| !random.is_empty()).unwrap_or("0");
        let name =
            sys::word(&self.sys.proc.join("sys/kernel/hostname")).unwrap_or_default().to_ascii_lowercase();
        let name: String = name.split('.').next().unwrap_or_default().chars().take(40).collect();
        let name: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        let host = format!("{name}-{random}");
        let host = host.trim_start_matches('-').to_owned();
        own::replace(&path, format!("{host}\n").as_bytes()).map_err(|error| Failure::file(&path, error))?;
        Ok(host)
    }
}

/// The boot that a record is of: what tells it from others, empty where the host does not say.
fn boot(sys: &Sys) -> String {
    sys.boot().unwrap_or_default()
}
