//! What there is of what should be: each step, found by identity.

use super::super::{Differs, identity, lvm, mdadm, queue, undo};
use super::apply::APPLY;
use super::running::ReadOnly;
use super::whose::{Other, uuid_made};
use super::{Failure, Keeper};
use crate::made;
use crate::mounting;
use crate::sys::md::Synced;
use crate::{at_work, sys};
use ebbtide_model::plan::build::{BuildAction, BuildStep, BuildUndo};
use ebbtide_model::shown::{Shown, one_line};
use ebbtide_provision::copies::Superblock;
use ebbtide_provision::status::{Activity, ArraySeen};
use ebbtide_provision::{AtWork, Desired, Member, Phase, Record};
use ebbtide_provision::{Carried, MemberSeen, MemberState};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

/// What there is of what a step makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepState {
    /// It is as it should be.
    Stands,
    /// It is not there.
    Absent,
    /// Something else is in its place: what.
    Other(String),
}

/// Whether a step makes or unmakes what is on a device; the others can be done again at any time.
pub(super) fn destroys(undo: &BuildUndo) -> bool {
    matches!(
        undo,
        BuildUndo::StopMd { .. }
            | BuildUndo::RemovePv { .. }
            | BuildUndo::RemoveVg { .. }
            | BuildUndo::RemoveLv { .. }
            | BuildUndo::WipeContent { .. }
    )
}

/// Whether a step takes what is made into use.
fn uses(step: &BuildStep) -> bool {
    matches!(
        step.undo,
        Some(BuildUndo::Unmount { .. } | BuildUndo::SwapOff { .. } | BuildUndo::RestoreQueue { .. })
    )
}

/// Whether a step makes swap space, which holds no data of anybody's.
pub(super) fn makes_swap(step: &BuildStep) -> bool {
    kind_made(&step.action) == Some("swap")
}

/// What blkid calls the content that `action` makes.
pub(super) fn kind_made(action: &BuildAction) -> Option<&str> {
    let BuildAction::Run { program, .. } = action else { return None };
    match program.as_str() {
        "cryptsetup" => Some("crypto_LUKS"),
        "mkswap" => Some("swap"),
        other => other.strip_prefix("mkfs."),
    }
}

/// Whether `action` mounts a file system that is not to be written to.
fn is_read_only(action: &BuildAction) -> bool {
    let BuildAction::Run { arguments, .. } = action else { return false };
    arguments.windows(2).any(|pair| pair[0] == "-o" && pair[1].split(',').any(|option| option == "ro"))
}

/// The devices that a step writes to.
pub(super) fn written(undo: &BuildUndo) -> Vec<&str> {
    match undo {
        BuildUndo::StopMd { members, .. } => members.iter().map(String::as_str).collect(),
        BuildUndo::RemovePv { device, .. } | BuildUndo::WipeContent { device, .. } => vec![device],
        _ => Vec::new(),
    }
}

impl Keeper<'_> {
    /// What there is of what `step` makes.
    pub(super) fn now(&self, record: &Record, step: &BuildStep) -> Result<StepState, Failure> {
        match self.whose(record, step)? {
            Some(other) => Ok(StepState::Other(other.what)),
            None => self.there(step),
        }
    }

    /// The same of what is nobody else's.
    fn there(&self, step: &BuildStep) -> Result<StepState, Failure> {
        let Some(undo) = &step.undo else { return Ok(StepState::Stands) };
        let is = |stands: bool| if stands { StepState::Stands } else { StepState::Absent };
        let (sys, runner) = (&self.sys, self.runner);
        Ok(match undo {
            BuildUndo::StopMd { device, uuid, members } => {
                if mdadm::is_at(runner, uuid, device)? {
                    // Who starts members one by one, as they appear, leaves it so until enough are there.
                    let name = self.kernel_name(device).unwrap_or_default();
                    return Ok(
                        match sys::md::is_inactive(&self.sys.sys.join("block").join(name).join("md")) {
                            true => StepState::Other(format!("{device} waits for members, and does not run")),
                            false => StepState::Stands,
                        },
                    );
                }
                if let Some(name) = mdadm::broken(sys, device, members) {
                    return Ok(StepState::Other(format!(
                        "{device} is broken: its members failed while it ran, and it takes no more writes. See why (`dmesg`), unmount what is \
                         on it, and `mdadm --stop /dev/{name}`; the same `ebb apply` then starts it again"
                    )));
                }
                match mdadm::arrays(sys, runner, uuid)?.first() {
                    Some(name) if sys::md::is_inactive(&sys.sys.join("block").join(name).join("md")) => {
                        StepState::Other(format!(
                            "{device} waits for members, and does not run: it is /dev/{name}"
                        ))
                    }
                    Some(name) => StepState::Other(format!(
                        "the array is /dev/{name} and not {device}: `ebb apply` gives it its name when nothing uses it"
                    )),
                    None => StepState::Absent,
                }
            }
            // Where the disk is gone the group still knows of it; where it is there, it has to say so itself.
            BuildUndo::RemovePv { device, uuid } => is(lvm::physical(runner)?
                .iter()
                .any(|pv| pv.uuid == *uuid && (!self.leads(device) || self.is_same(&pv.device, device)))),
            BuildUndo::RemoveVg { name } => is(lvm::has_vg(runner, name)?),
            BuildUndo::RemoveLv { volume } => {
                is(lvm::is_there(runner, volume)? && self.sys.at(&Path::new("/dev").join(volume)).exists())
            }
            BuildUndo::Uncache { volume } => is(lvm::cache_of(runner, volume)?.is_some()),
            BuildUndo::WipeContent { device, label, .. } => {
                match (undo::to_wipe(sys, runner, device, label, None), kind_made(&step.action)) {
                    (Ok(found), Some(wanted)) if found.kind != wanted => StepState::Other(format!(
                        "{device} carries {} with the label {label}, and the design wants {wanted}",
                        found.kind
                    )),
                    (Ok(_), _) => StepState::Stands,
                    (Err(undo::Outcome::Left(what)), _) => StepState::Other(what),
                    (Err(_), _) => StepState::Absent,
                }
            }
            BuildUndo::CloseCrypt { name, .. } => {
                let status = runner.run("cryptsetup", &["status", name]).map_err(super::BuildError::from)?;
                is(status.status == Some(0))
            }
            BuildUndo::SwapOff { label, .. } => is(!self.swaps(label).is_empty()),
            BuildUndo::Unmount { mountpoint, from } => match undo::mounted(sys, mountpoint, from.as_ref()) {
                Ok(None) => StepState::Stands,
                Ok(Some(undo::Outcome::Left(what))) => StepState::Other(what),
                Ok(Some(_)) => StepState::Absent,
                // What covers it is said to whoever looks, too.
                Err(covered) => StepState::Other(covered.to_string()),
            },
            BuildUndo::RemoveDirectory(path) | BuildUndo::RemoveGroup(path) => {
                // A file system that has shut down answers with an error: its directory is there.
                let found = std::fs::metadata(self.sys.at(path)).map(|found| found.is_dir());
                is(found.unwrap_or_else(|error| {
                    error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error())
                }))
            }
            BuildUndo::EndLoad { directory, .. } => is(self.sys.at(directory).is_dir()),
            BuildUndo::Unmake(thing) => is(made::recorded(sys).contains(&(thing.kind, thing.name.clone()))),
            BuildUndo::RestoreQueue { set, .. } => match queue::get(sys, set) {
                Ok(now) if now == set.value => StepState::Stands,
                Ok(now) => StepState::Other(format!(
                    "{} of {} is {now} and not {}",
                    set.attribute.file(),
                    set.device,
                    set.value
                )),
                Err(_) => StepState::Absent,
            },
            BuildUndo::DetachLoop { .. } => StepState::Absent,
        })
    }

    /// How a member is by the kernel's own files; nothing where it is not there.
    pub fn state_by_kernel(&self, member: &Member) -> Option<MemberState> {
        let name = self.kernel_name(&member.path)?;
        let class = self.sys.sys.join("class/block");
        let mut holders = sys::names(&class.join(&name).join("holders")).into_iter();
        let found = holders.find_map(|array| {
            let md = class.join(array).join("md");
            Some((sys::word(&md.join(format!("dev-{name}/state")))?, sys::md::is_inactive(&md)))
        });
        let has =
            |word: &str| found.as_ref().is_some_and(|(state, _)| state.split(',').any(|part| part == word));
        Some(match () {
            () if !self.answers(&name) => MemberState::Unreachable,
            () if has("faulty") => MemberState::Faulty,
            () if has("spare") && found.as_ref().is_some_and(|(_, is_inactive)| *is_inactive) => {
                MemberState::Inactive
            }
            () if has("spare") => MemberState::Resyncing,
            () => MemberState::InUse,
        })
    }

    /// [`look`](Self::look) where these members, by their places, do not answer: whoever asks them, or the array, may wait for ever. So only
    /// the kernel's own files are read.
    pub fn look_without(&self, record: &Record, silent: &BTreeSet<usize>, waited: Duration) -> ArraySeen {
        let desired = &record.desired;
        let seconds = waited.as_secs();
        let paths =
            silent.iter().filter_map(|place| desired.members.get(*place)).map(|member| member.path.as_str());
        let drift = paths.map(|path| {
            format!("{path} does not answer: a read of it takes longer than {seconds} s; nothing else was looked at, which would wait for it")
        });
        self.look_by_kernel(record, silent, drift.collect())
    }

    /// The kernel's own files, where whoever asks more waits: why is in `drift`.
    fn look_by_kernel(&self, record: &Record, silent: &BTreeSet<usize>, drift: Vec<String>) -> ArraySeen {
        let members = record.desired.members.iter().enumerate().map(|(place, member)| {
            let state = if silent.contains(&place) {
                Some(MemberState::Unreachable)
            } else {
                self.state_by_kernel(member)
            };
            MemberSeen { state, ..MemberSeen::default() }
        });
        ArraySeen { members: members.collect(), drift, ..ArraySeen::default() }
    }

    /// All that there is of what `record` is of.
    ///
    /// # Errors
    /// When a program that is asked fails.
    pub fn look(&self, record: &Record) -> Result<ArraySeen, Failure> {
        let desired = &record.desired;
        if let Some(why) = self.suspended(desired) {
            let drift = vec![format!("{why}; nothing else was looked at, which would wait for it")];
            return Ok(self.look_by_kernel(record, &BTreeSet::new(), drift));
        }
        // What has the data and is not as it was made, each told once.
        let mut moved: Vec<String> = Vec::new();
        let mut elsewhere = false;
        let mut steps = Vec::new();
        for (step, other) in desired.build.steps.iter().zip(self.others(record)?) {
            let is_content = matches!(step.undo, Some(BuildUndo::WipeContent { .. }));
            let own = if is_content { self.whose(record, step)? } else { None };
            elsewhere |= other.as_ref().is_some_and(|other| other.has_data);
            elsewhere |=
                own.as_ref().is_some_and(|own| own.has_data) && self.there(step)? == StepState::Absent;
            // What is on it is there, and is used.
            let is_itself = |other: &Other| !other.has_data || !uses(step) && !is_content;
            let other = own.or(other.filter(is_itself));
            if let Some(Other { what, has_data: true }) = &other
                && !moved.contains(what)
            {
                moved.push(what.clone());
            }
            steps.push(match other {
                Some(other) => StepState::Other(other.what),
                None => self.there(step)?,
            });
        }
        let mut drift = Vec::new();
        let at_work = at_work::ask(&self.sys, &self.place()).filter(|at_work| at_work.name == desired.name);
        match record.phase {
            _ if at_work.is_some() => {}
            Phase::Applied => {}
            Phase::Applying => drift.push(format!(
                "`ebb apply` was ended before it was done; run it again, or `ebb undo {}`",
                desired.name
            )),
            Phase::Undoing => {
                drift.push(format!("`ebb undo {}` was ended before it was done; run it again", desired.name))
            }
        }
        if at_work.is_none() {
            let left = at_work::left_behind(&self.sys, &self.place());
            drift.extend(left.iter().map(|program| {
                format!(
                    "{program} of a killed `ebb` is still at work: nothing is changed before it has ended"
                )
            }));
        }
        drift.extend(moved.iter().cloned());
        let mut gone: Vec<&BuildUndo> = Vec::new();
        let mut differs = false;
        for (step, now) in desired.build.steps.iter().zip(&steps) {
            let Some(undo) = &step.undo else { continue };
            if *now == StepState::Stands
                && let Some((device, how)) = self.differs(step)?
            {
                differs = true;
                let Differs { property, is, wanted } = how;
                drift.push(format!("{device} is not the array that was applied: its {property} is {is}, and the design wants {wanted}"));
            }
            // What stands on something that is not there is not told again.
            let above = gone.iter().any(|below| undo.stands_on(below));
            match now {
                StepState::Stands => continue,
                StepState::Other(what) if drift.contains(what) => continue,
                StepState::Absent if !moved.is_empty() && destroys(undo) => continue,
                // What covers a mount has covered its directory, too.
                StepState::Other(what) if !above || matches!(undo, BuildUndo::Unmount { .. }) => {
                    drift.push(what.clone());
                }
                StepState::Absent if !above => drift.push(absent(undo)),
                _ => {}
            }
            gone.push(undo);
        }
        match self.pending(record) {
            Ok(pending) => drift.extend(pending.iter().map(|(part, now, _)| match now {
                None => format!("{} is not there", part.path.shown()),
                Some(_) => format!("{} is not as `ebb apply` wrote it", part.path.shown()),
            })),
            Err(error) => drift.push(error.to_string()),
        }
        let unfit = desired.parts.iter().filter_map(|part| self.may_change(part).err());
        let unfit: BTreeSet<String> = unfit.map(|error| error.to_string()).collect();
        drift.extend(unfit.into_iter().filter(|why| !drift.contains(why)).collect::<Vec<_>>());
        drift.extend(self.mounts(desired).filter_map(|mountpoint| {
            let line = mounting::given_to_another(&self.sys, mountpoint, &desired.mounted_as())?;
            Some(format!(
                "line {} of /etc/fstab gives {} to {}, too: take one of the two out",
                line.number,
                mountpoint.shown(),
                line.source
            ))
        }));
        drift.extend(desired.build.steps.iter().filter_map(|step| self.copy_of(record, step)));
        drift.extend(desired.build.steps.iter().filter_map(|step| self.frozen(step.undo.as_ref()?)));
        let read_only = self.read_only(desired);
        let silent: Vec<String> = desired
            .build
            .steps
            .iter()
            .filter_map(|step| match &step.undo {
                Some(BuildUndo::Unmount { mountpoint, .. }) if !is_read_only(&step.action) => {
                    self.takes_no_writes(mountpoint, &read_only)
                }
                _ => None,
            })
            .collect();
        let untold =
            read_only.iter().filter(|below| !silent.iter().any(|told| told.contains(&below.command)));
        drift.extend(untold.map(ReadOnly::told).collect::<Vec<_>>());
        drift.extend(silent);
        drift.extend(self.said_by_md(desired));
        if !self.lost_cache(record)?.commands.is_empty() {
            drift.push(
                "its cache came back blank: `ebb apply` makes that anew, and nothing is lost".to_owned(),
            );
        }
        let grown = self.grown(record);
        if !grown.is_empty() && self.growth(record).is_some() {
            drift.extend(grown.iter().map(|grown| format!("{grown}: `ebb apply` takes that up")));
        }
        // What stands on an array under another name cannot be asked for by its own.
        let mut otherwise: Vec<&BuildUndo> = Vec::new();
        for step in &desired.build.steps {
            let Some(undo) = &step.undo else { continue };
            if otherwise.iter().any(|below| undo.stands_on(below)) || self.runs_otherwise(undo) {
                otherwise.push(undo);
            }
        }
        let is_there = |step: &BuildStep, now: &StepState| match now {
            _ if step.undo.as_ref().is_some_and(|undo| otherwise.contains(&undo)) => true,
            StepState::Stands => true,
            StepState::Other(what) => moved.contains(what),
            // The devices that it was made on are not those that it is on.
            StepState::Absent => !moved.is_empty() && matches!(step.undo, Some(BuildUndo::RemovePv { .. })),
        };
        let missing = desired
            .build
            .steps
            .iter()
            .zip(&steps)
            .filter(|(step, _)| step.undo.as_ref().is_some_and(destroys) && !makes_swap(step))
            .any(|(step, now)| !is_there(step, now));
        let (members, doing) = self.members(record);
        let at_work = at_work.map(|at_work| {
            // What is not made yet, or is being taken away, has not drifted.
            drift.clear();
            let step = (at_work.command == APPLY).then(|| self.at_step(record, &steps)).flatten();
            AtWork { step, ..at_work }
        });
        // Names of others' are in it.
        let drift = drift.iter().map(|drift| one_line(drift).into_owned()).collect();
        let elsewhere = elsewhere && !missing;
        let short = if elsewhere { self.short(desired) } else { 0 };
        Ok(ArraySeen { members, doing, drift, missing, elsewhere, differs, short, at_work })
    }

    /// Whether the array that `undo` would stop runs on its members under another name alone.
    fn runs_otherwise(&self, undo: &BuildUndo) -> bool {
        let BuildUndo::StopMd { device, uuid, members } = undo else { return false };
        let arrays = mdadm::arrays(&self.sys, self.runner, uuid).unwrap_or_default();
        let named = self.kernel_name(device);
        let runs = |name: &String| {
            let state = sys::word(&self.sys.sys.join("block").join(name).join("md/array_state"));
            !matches!(state.as_deref(), Some("inactive" | "clear" | "broken"))
                && mdadm::strangers(&self.sys, name, members).is_empty()
        };
        !named.is_some_and(|named| arrays.contains(&named)) && arrays.iter().any(runs)
    }

    /// How many members the arrays of `desired` lack by their own count.
    fn short(&self, desired: &Desired) -> u64 {
        let arrays = desired.build.steps.iter().filter_map(|step| match &step.undo {
            Some(BuildUndo::StopMd { uuid, .. }) => mdadm::arrays(&self.sys, self.runner, uuid).ok(),
            _ => None,
        });
        let degraded = |array: String| self.sys.sys.join("block").join(array).join("md/degraded");
        arrays.flatten().filter_map(|array| sys::number::<u64>(&degraded(array))).sum()
    }

    /// Where an apply of `record` is that is at work, by what there is of its `steps`.
    fn at_step(&self, record: &Record, steps: &[StepState]) -> Option<String> {
        let desired = &record.desired;
        // Only a boot waits: an apply of what was made refuses at once.
        let is_made = record.phase == Phase::Applied || record.is_made_anew();
        if let Some(path) = self.absent(record).filter(|_| is_made) {
            let or = if desired.has_hosts() { ", or goes on without it" } else { "" };
            return Some(format!("it waits for {}, which is not there{or}", Path::new(path).shown()));
        }
        let is_open = |(index, (step, now)): &(usize, (&BuildStep, &StepState))| {
            let is_noted = step.undo.as_ref().is_none_or(destroys);
            **now != StepState::Stands || is_noted && *index >= record.done
        };
        if let Some((index, (step, _))) = desired.build.steps.iter().zip(steps).enumerate().find(is_open) {
            return Some(format!("step {} of {}, `{}`", index + 1, steps.len(), step.action));
        }
        if let Some((part, ..)) = self.pending(record).ok()?.first() {
            return Some(format!("all steps are done, and {} is written", part.path.shown()));
        }
        let after = desired.after.iter().map(|words| format!("`{}`", words.join(" "))).collect::<Vec<_>>();
        let is_after = record.phase != Phase::Applied && !after.is_empty();
        is_after.then(|| format!("what follows a change of files, {}", after.join(", ")))
    }

    /// Where something of `desired` is mounted.
    fn mounts<'a>(&self, desired: &'a Desired) -> impl Iterator<Item = &'a Path> {
        desired.build.steps.iter().filter_map(|step| match &step.undo {
            Some(BuildUndo::Unmount { mountpoint, .. }) => Some(mountpoint.as_path()),
            _ => None,
        })
    }

    /// That the host finds another device by the UUID of what `step` makes: a boot would mount that.
    fn copy_of(&self, record: &Record, step: &BuildStep) -> Option<String> {
        let Some(BuildUndo::WipeContent { device, label, .. }) = &step.undo else { return None };
        let uuid = uuid_made(&step.action)?;
        let found = self.kernel_name(&format!("/dev/disk/by-uuid/{uuid}"))?;
        // Where ours does not run under its name, or is no more what was made, that may be it.
        let is_ours = || undo::to_wipe(&self.sys, self.runner, device, label, None).is_ok();
        let is_other = self.kernel_name(device).is_some_and(|own| own != found) && is_ours();
        let is_part = || self.spread(record, device, (label, uuid)).is_some();
        (is_other && !is_part()).then(|| {
            format!(
                "/dev/{found} has the UUID of what is on {device}, {uuid}: /etc/fstab and /etc/crypttab may take that one at the next boot. Detach the copy, or \
                 give it another UUID"
            )
        })
    }

    /// Asks of every mount that does not stand whether it can be made, before anything else is.
    pub(super) fn may_mount(&self, record: &Record) -> Result<(), Failure> {
        let desired = &record.desired;
        for step in &desired.build.steps {
            if let Some(BuildUndo::Unmount { mountpoint, .. }) = &step.undo
                && self.now(record, step)? != StepState::Stands
            {
                mounting::check(&self.sys, mountpoint, &desired.mounted_as())
                    .map_err(|unfit| Failure::Refused(unfit.to_string()))?;
            }
        }
        Ok(())
    }

    /// Members as the kernel knows them, and what the arrays over them do.
    fn members(&self, record: &Record) -> (Vec<MemberSeen>, Vec<Activity>) {
        let desired = &record.desired;
        let block = self.sys.sys.join("block");
        // A member may be in an array of somebody's by now.
        let arrays: Vec<String> = desired.build.steps.iter().flat_map(|step| self.arrays_of(step)).collect();
        let mut doing = Vec::new();
        let mut seen = BTreeSet::new();
        let members = desired.members.iter().map(|member| {
            let Some(name) = self.kernel_name(&member.path) else { return MemberSeen::default() };
            for array in &arrays {
                let md = block.join(array).join("md");
                let Some(state) = sys::word(&md.join(format!("dev-{name}/state"))) else { continue };
                let errors = sys::number(&md.join(format!("dev-{name}/errors"))).unwrap_or(0);
                if let Some(action) = sys::md::action(&md).filter(|_| seen.insert(array.clone())) {
                    let done = sys::md::synced(&self.sys, array).map(Synced::share);
                    doing.push(Activity { action, done });
                }
                let has = |word: &str| state.split(',').any(|part| part == word);
                let now = match () {
                    () if !self.answers(&name) => MemberState::Unreachable,
                    () if has("faulty") => MemberState::Faulty,
                    () if has("in_sync") => MemberState::InUse,
                    () if has("spare") && sys::md::is_inactive(&md) => MemberState::Inactive,
                    () if has("spare") => MemberState::Resyncing,
                    () => MemberState::Unused,
                };
                let carries = (now == MemberState::Unused).then_some(Carried::Own);
                let has_bitmap = sys::md::has_bitmap(&md);
                return MemberSeen { state: Some(now), errors, carries, has_bitmap, ..MemberSeen::default() };
            }
            let place = self.sys.sys.join("class/block").join(&name);
            let is_of_md = desired.build.steps.iter().any(|step| {
                matches!(&step.undo, Some(BuildUndo::StopMd { members, .. }) if members.contains(&member.path))
            });
            // Who holds a member of an array that does not use it is somebody else.
            let held = !is_of_md && !sys::names(&place.join("holders")).is_empty();
            let used = held || self.is_used_itself(record, member) || self.is_in_whole_volume(desired, member);
            let state = match used {
                _ if !self.answers(&name) => MemberState::Unreachable,
                true => MemberState::InUse,
                false => MemberState::Unused,
            };
            let is_away = !arrays.is_empty() && state == MemberState::Unused;
            let carries = is_away.then(|| self.carried(desired, member, &arrays));
            let has_bitmap = arrays.iter().any(|array| sys::md::has_bitmap(&block.join(array).join("md")));
            MemberSeen { state: Some(state), carries, has_bitmap, ..MemberSeen::default() }
        });
        (members.collect(), doing)
    }

    /// What `member` carries, of which no array is made now.
    fn carried(&self, desired: &Desired, member: &Member, arrays: &[String]) -> Carried {
        let (sys, runner) = (&self.sys, self.runner);
        let is_own = desired.build.steps.iter().any(|step| match &step.undo {
            Some(BuildUndo::StopMd { uuid, .. }) => {
                mdadm::is_on(sys, runner, uuid, std::slice::from_ref(&member.path)).unwrap_or(false)
            }
            _ => false,
        });
        match undo::carries(sys, runner, &member.path) {
            _ if is_own => self.ran_apart(member, arrays).map_or(Carried::Own, Carried::Apart),
            Some(what) => Carried::Other(what),
            None => Carried::Nothing,
        }
    }

    /// When `member` was last written to, where it was run without all that are in use in one of `arrays`.
    fn ran_apart(&self, member: &Member, arrays: &[String]) -> Option<String> {
        let found = self.superblock(&member.path).ok()??;
        let in_use = arrays.iter().flat_map(|array| self.in_sync(array).0);
        let running: Vec<Superblock> = in_use
            .filter_map(|name| self.superblock(&format!("/dev/{name}")).ok()?)
            .filter(|running| running.array == found.array)
            .collect();
        let is_ahead = running.iter().all(|running| running.events < found.events);
        (!running.is_empty() && (is_ahead || found.ran_without(running.iter()))).then_some(found.updated)
    }

    /// Whether `member` is in a group whose volume runs and has no copies: it could not run without any that it is on, and somebody may have made it
    /// smaller.
    fn is_in_whole_volume(&self, desired: &Desired, member: &Member) -> bool {
        let stands = |step: &BuildStep| matches!(self.there(step), Ok(StepState::Stands));
        let is_whole = |action: &BuildAction| {
            let BuildAction::Run { arguments, .. } = action else { return false };
            arguments.windows(2).any(|pair| pair[0] == "--type" && matches!(&*pair[1], "linear" | "striped"))
        };
        let has = |is_wanted: &dyn Fn(&BuildStep) -> bool| {
            desired.build.steps.iter().any(|step| is_wanted(step) && stands(step))
        };
        has(&|step| matches!(&step.undo, Some(BuildUndo::RemovePv { device, .. }) if *device == member.path))
            && has(&|step| matches!(step.undo, Some(BuildUndo::RemoveLv { .. })) && is_whole(&step.action))
    }

    /// Whether something is mounted from the member itself, or swapped to.
    fn is_used_itself(&self, record: &Record, member: &Member) -> bool {
        record.desired.build.steps.iter().any(|step| match &step.undo {
            Some(BuildUndo::Unmount { from: Some(from), .. }) if from.device == member.path => {
                matches!(self.now(record, step), Ok(StepState::Stands))
            }
            Some(BuildUndo::SwapOff { device, .. }) if *device == member.path => {
                matches!(self.now(record, step), Ok(StepState::Stands))
            }
            _ => false,
        })
    }

    /// What the kernel calls the device at `path`.
    pub(super) fn kernel_name(&self, path: &str) -> Option<String> {
        identity::name(&self.sys, path)
    }
}

/// That what `undo` would take away is not there.
fn absent(undo: &BuildUndo) -> String {
    match undo {
        BuildUndo::StopMd { device, .. } => format!("the array {device} is not running"),
        BuildUndo::RemovePv { device, .. } => {
            format!("{device} is not the physical volume of LVM that was made")
        }
        BuildUndo::RemoveVg { name } => format!("the volume group {name} is not there"),
        BuildUndo::RemoveLv { volume } => format!("the logical volume {volume} is not active"),
        BuildUndo::Uncache { volume } => format!("the logical volume {volume} has no cache"),
        BuildUndo::WipeContent { device, .. } => format!(
            "{device} no longer carries what `ebb apply` made on it, nor anything else with a signature"
        ),
        BuildUndo::CloseCrypt { name, .. } => format!("the encrypted device {name} is not open"),
        BuildUndo::SwapOff { device, .. } => format!("swap on {device} is off"),
        BuildUndo::Unmount { mountpoint, .. } => format!("nothing is mounted on {}", mountpoint.shown()),
        BuildUndo::RemoveDirectory(path) => format!("the directory {} is not there", path.shown()),
        BuildUndo::RemoveGroup(path) => format!("the control group {} is not there", path.shown()),
        BuildUndo::EndLoad { directory, .. } => format!("the directory {} is not there", directory.shown()),
        BuildUndo::Unmake(thing) => format!("{} is not there", thing.name),
        BuildUndo::RestoreQueue { set, .. } => {
            format!("{} of {} cannot be read", set.attribute.file(), set.device)
        }
        BuildUndo::DetachLoop { device, .. } => format!("{device} has no file"),
    }
}
