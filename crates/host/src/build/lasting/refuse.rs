//! What an apply or a boot does not write over: members, content and names that may be somebody's by now.

use super::look::{destroys, makes_swap, written};
use super::whose::Other;
use super::{Failure, Keeper, StepState};
use crate::build::{Differs, lvm, mdadm, run, undo};
use ebbtide_model::plan::build::{BuildAction, BuildStep, BuildUndo};
use ebbtide_provision::{Class, Member, Record};

impl Keeper<'_> {
    /// What there is of the step at `index`. Of content that was begun here and not confirmed its own checker says whether it is whole: one
    /// that is may have been used since.
    pub(super) fn found(
        &self,
        record: &Record,
        index: usize,
        step: &BuildStep,
    ) -> Result<StepState, Failure> {
        let now = self.now(record, step)?;
        let unconfirmed = record.begun > index && record.done <= index;
        let (true, StepState::Stands, Some(BuildUndo::WipeContent { device, label, .. })) =
            (unconfirmed, &now, &step.undo)
        else {
            return Ok(now);
        };
        let Ok(found) = undo::to_wipe(&self.sys, self.runner, device, label, None) else { return Ok(now) };
        let Some((program, arguments)) = checker(&found.kind, device, &step.action) else { return Ok(now) };
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        Ok(match run(self.runner, program, &arguments) {
            Ok(_) => StepState::Stands,
            Err(why) => StepState::Other(format!(
                "making {} on {device} was interrupted, and it is not whole ({why})",
                found.kind
            )),
        })
    }

    /// Refuses to make what was made once and is gone, unless that was swap, and to write over what somebody put in its place.
    pub(super) fn may_be_made(
        &self,
        record: &Record,
        index: usize,
        undo: &BuildUndo,
        now: &StepState,
        destroy: bool,
    ) -> Result<(), Failure> {
        let is_swap_gone = *now == StepState::Absent && makes_swap(&record.desired.build.steps[index]);
        if record.done > index && !is_swap_gone {
            return Err(Failure::Refused(self.lost(record, undo, now)));
        }
        let content = matches!(undo, BuildUndo::WipeContent { .. });
        match now {
            _ if destroy => Ok(()),
            StepState::Other(what) if content => Err(may_be_lost(what)),
            _ if record.begun > index => self.is_unused(undo),
            _ => Ok(()),
        }
    }

    /// The members that a step writes to, of which the door has the last word. Refuses to make an array over members that carry it already,
    /// and to write to what other steps have made where somebody may have stored something: unless this apply has done them (`made`).
    pub(super) fn to_write<'a>(
        &self,
        record: &'a Record,
        index: usize,
        undo: &BuildUndo,
        destroy: bool,
        made: &[usize],
    ) -> Result<Vec<&'a Member>, Failure> {
        let mut paths = written(undo);
        if let BuildUndo::StopMd { device, uuid, members } = undo {
            let own = mdadm::carriers(&self.sys, self.runner, uuid, members)?;
            if !own.is_empty() && record.begun <= index {
                return Err(Failure::Refused(format!(
                    "some members of {device} carry it already, and mdadm does not start it from them: see `mdadm --examine` of each; \
                     nothing is made over them"
                )));
            }
            if !own.is_empty() && !destroy {
                return Err(may_be_lost(&format!(
                    "making {device} was interrupted, and mdadm does not start it from the members that carry it"
                )));
            }
            if own.is_empty()
                && let Some(other) = mdadm::arrays(&self.sys, self.runner, uuid)?.first()
            {
                return Err(Failure::Refused(format!(
                    "/dev/{other} has the uuid of {device} and does not stand on these members: stop it first (`mdadm --stop /dev/{other}`)"
                )));
            }
            paths.retain(|path| !own.contains(path));
        }
        let (members, built): (Vec<&str>, Vec<&str>) =
            paths.into_iter().partition(|path| record.desired.is_member(path));
        for path in built {
            let is_new =
                made_by(&record.desired.build.steps, path).is_some_and(|maker| made.contains(&maker));
            if !destroy
                && !is_new
                && let Some(what) = undo::carries(&self.sys, self.runner, path)
            {
                return Err(may_be_lost(&what));
            }
        }
        Ok(record.desired.members.iter().filter(|member| members.contains(&member.path.as_str())).collect())
    }

    /// Refuses to write to what may be somebody's by now.
    pub(super) fn may_write(
        &self,
        record: &Record,
        index: usize,
        undo: &BuildUndo,
        destroy: bool,
        made: &[usize],
    ) -> Result<(), Failure> {
        let members = self.to_write(record, index, undo, destroy, made)?;
        self.host.may_build(&members, destroy).map_err(Failure::Refused)
    }

    /// The array or logical volume that is there for what `step` makes, where it was made otherwise, and how.
    pub(super) fn differs(&self, step: &BuildStep) -> Result<Option<(String, Differs)>, Failure> {
        let BuildAction::Run { arguments, .. } = &step.action else { return Ok(None) };
        let (device, differs) = match &step.undo {
            Some(BuildUndo::StopMd { device, uuid, members }) => {
                (device.clone(), mdadm::differs(&self.sys, self.runner, uuid, members, arguments)?)
            }
            Some(BuildUndo::RemoveLv { volume }) => {
                (format!("/dev/{volume}"), lvm::differs(self.runner, volume, arguments)?)
            }
            _ => return Ok(None),
        };
        Ok(differs.map(|differs| (device, differs)))
    }

    /// Refuses to take an array or a logical volume that is there for what `step` would make, where it was made otherwise.
    pub(super) fn is_as_designed(&self, record: &Record, step: &BuildStep) -> Result<(), Failure> {
        let Some((device, Differs { property, is, wanted })) = self.differs(step)? else { return Ok(()) };
        let name = &record.desired.name;
        Err(Failure::Refused(format!(
            "{device} is on these members already: its {property} is {is}, and the design wants {wanted}. To keep it, apply the design that \
             made it. To lose it, apply that design and then `ebb undo {name} --destroy`"
        )))
    }

    /// Refuses where a group, a volume or a mapping of a name that is wanted is there, and what it should stand on is not: it is somebody's.
    /// An array that is there is compared with the design.
    pub(super) fn check_names(&self, record: &Record) -> Result<(), Failure> {
        let mut absent: Vec<&BuildUndo> = Vec::new();
        for (index, step) in record.desired.build.steps.iter().enumerate() {
            let Some(undo) = &step.undo else { continue };
            self.is_ours(record, step)?;
            self.is_as_designed(record, step)?;
            let name = match undo {
                BuildUndo::RemoveVg { name } => Some(format!("the volume group {name}")),
                BuildUndo::RemoveLv { volume } => Some(format!("the logical volume {volume}")),
                BuildUndo::CloseCrypt { name, .. } => Some(format!("/dev/mapper/{name}")),
                _ => None,
            };
            let now = self.now(record, step)?;
            let stands = now == StepState::Stands;
            if let Some(name) = name.filter(|_| stands && record.begun <= index)
                && absent.iter().any(|below| undo.stands_on(below))
            {
                return Err(Failure::Refused(format!(
                    "{name} is there already, and is not of these members: choose another --name"
                )));
            }
            if destroys(undo) && !stands && self.wake(record, step)?.is_none() {
                absent.push(undo);
            }
        }
        Ok(())
    }

    /// Refuses where what has the identity or the name of what `step` makes is somebody's. Of content that is said where it is to be made.
    pub(super) fn is_ours(&self, record: &Record, step: &BuildStep) -> Result<(), Failure> {
        let other = match step.undo {
            Some(BuildUndo::WipeContent { .. }) => None,
            _ => self.whose(record, step)?,
        };
        let name = &record.desired.name;
        match other {
            None => Ok(()),
            Some(Other { what, has_data: true }) if record.begun > 0 => Err(Failure::Refused(format!(
                "{what}. Nothing is done with it: `ebb undo {name}` takes {name} out of this host's files and leaves it as it is"
            ))),
            Some(Other { what, .. }) => Err(Failure::Refused(format!(
                "{what}. Nothing is done with it: stop it or give it another name first, or choose another --name"
            ))),
        }
    }

    /// Refuses to take away what was begun where somebody has put something on it since.
    pub(super) fn is_unused(&self, undo: &BuildUndo) -> Result<(), Failure> {
        let devices = match undo {
            BuildUndo::StopMd { uuid, .. } => mdadm::arrays(&self.sys, self.runner, uuid)?,
            BuildUndo::RemoveLv { volume } if lvm::is_there(self.runner, volume)? => vec![volume.clone()],
            _ => Vec::new(),
        };
        let carries = |name: &String| {
            let device = format!("/dev/{name}");
            let is_there = self.is_there_at(&device);
            let unseen = || Some(format!("{device} does not run, so that what it carries cannot be told"));
            if is_there { undo::carries(&self.sys, self.runner, &device) } else { unseen() }
        };
        devices.iter().find_map(carries).map_or(Ok(()), |what| Err(may_be_lost(&what)))
    }

    /// Why a boot does not go on with what another one began, where `why` is what stands against it.
    pub(super) fn left_at_boot(&self, record: &Record, step: &BuildStep, why: &Failure) -> Failure {
        let name = &record.desired.name;
        Failure::Refused(format!(
            "making {name} anew was interrupted at `{}`, and not all that it writes to is blank: {why}; `ebb apply` with its experiment makes \
             it, `ebb undo {name}` takes it out of this host",
            step.action
        ))
    }

    /// That what was made once is gone, and why it is not made again.
    fn lost(&self, record: &Record, undo: &BuildUndo, now: &StepState) -> String {
        let what = match now {
            StepState::Other(what) => what.clone(),
            _ => format!("what `{undo}` would take away is gone"),
        };
        let name = &record.desired.name;
        let remedy = match record.desired.class {
            Class::Persistent => {
                "a persistent array is never made or formatted twice: bring its members back"
            }
            Class::Ephemeral => {
                "not all of its members are blank, so it is not made anew: bring its members back"
            }
        };
        format!("{what}; {remedy}, or take it out of this host with `ebb undo {name}`")
    }
}

/// The step that makes the device at `path`.
pub(super) fn base(steps: &[BuildStep], path: &str) -> Option<usize> {
    let makes = |undo: &BuildUndo| match undo {
        BuildUndo::StopMd { device, .. } => device == path,
        BuildUndo::RemoveLv { volume } => path.strip_prefix("/dev/") == Some(volume),
        BuildUndo::CloseCrypt { name, .. } => path.strip_prefix("/dev/mapper/") == Some(name),
        _ => false,
    };
    steps.iter().position(|step| step.undo.as_ref().is_some_and(makes))
}

/// The step that makes what is on the device at `path` new: of an encrypted one that which formats what is below it.
pub(super) fn made_by(steps: &[BuildStep], path: &str) -> Option<usize> {
    let base = base(steps, path)?;
    match steps[base].undo {
        Some(BuildUndo::CloseCrypt { .. }) => formatted(steps, base),
        _ => Some(base),
    }
}

/// The step that formats what the one at `index` opens.
pub(super) fn formatted(steps: &[BuildStep], index: usize) -> Option<usize> {
    steps[..index].iter().rposition(|step| matches!(step.undo, Some(BuildUndo::WipeContent { .. })))
}

/// The command that tells whether content of `kind` on `device` is whole, and changes nothing; nothing for what is written in one piece.
fn checker(kind: &str, device: &str, made_by: &BuildAction) -> Option<(&'static str, Vec<String>)> {
    let (program, options): (_, &[&str]) = match kind {
        "xfs" => ("xfs_repair", &["-n"]),
        "ext2" | "ext3" | "ext4" => ("e2fsck", &["-f", "-n"]),
        "btrfs" => ("btrfs", &["check", "--readonly"]),
        "jfs" => ("fsck.jfs", &["-n"]),
        "crypto_LUKS" => ("cryptsetup", &["open", "--test-passphrase", "--batch-mode"]),
        _ => return None,
    };
    let mut arguments: Vec<String> = options.iter().map(|&option| option.to_owned()).collect();
    if let ("cryptsetup", BuildAction::Run { arguments: made_with, .. }) = (program, made_by) {
        let key = made_with.iter().skip_while(|word| *word != "--key-file").take(2);
        arguments.extend(key.cloned());
    }
    arguments.push(device.to_owned());
    Some((program, arguments))
}

fn may_be_lost(what: &str) -> Failure {
    Failure::Refused(format!("{what}: `ebb apply --destroy` writes over it"))
}
