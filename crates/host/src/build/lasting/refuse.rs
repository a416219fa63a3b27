//! What an apply or a boot does not write over: members, content and names that may be somebody's by now.

use super::look::{destroys, written};
use super::{Failure, Keeper, StepState};
use crate::build::{mdadm, run, undo};
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
        let now = self.now(step)?;
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

    /// Refuses to make what was made once and is gone, and to write over what somebody put in its place.
    pub(super) fn may_be_made(
        &self,
        record: &Record,
        index: usize,
        undo: &BuildUndo,
        now: &StepState,
        destroy: bool,
    ) -> Result<(), Failure> {
        if record.done > index {
            return Err(Failure::Refused(self.lost(record, undo, now)));
        }
        let content = matches!(undo, BuildUndo::WipeContent { .. });
        match now {
            _ if destroy => Ok(()),
            StepState::Other(what) if content || record.begun <= index => Err(may_be_lost(what)),
            _ if record.begun > index => self.is_unused(undo),
            _ => Ok(()),
        }
    }

    /// Refuses to write to members that may be somebody's by now, and to make an array over some that carry it.
    pub(super) fn may_write(
        &self,
        record: &Record,
        index: usize,
        undo: &BuildUndo,
        destroy: bool,
    ) -> Result<(), Failure> {
        let paths = written(undo);
        let mut strangers = Vec::new();
        for member in record.desired.members.iter().filter(|member| paths.contains(&member.path.as_str())) {
            let own = match undo {
                BuildUndo::StopMd { uuid, .. } => {
                    mdadm::is_on(&self.sys, self.runner, uuid, std::slice::from_ref(&member.path))?
                }
                _ => false,
            };
            if !own {
                strangers.push(member);
            }
        }
        match undo {
            BuildUndo::StopMd { device, members, .. }
                if record.begun <= index && strangers.len() < members.len() =>
            {
                Err(Failure::Refused(format!(
                    "some members of {device} carry it already, and mdadm does not start it from them: see `mdadm --examine` of each; \
                     nothing is made over them"
                )))
            }
            _ => (self.may_build)(&strangers, destroy).map_err(Failure::Refused),
        }
    }

    /// Refuses where a group, a volume or a mapping of a name that is wanted is there, and what it should stand on is not: it is somebody's.
    pub(super) fn check_names(&self, record: &Record) -> Result<(), Failure> {
        let mut absent: Vec<&BuildUndo> = Vec::new();
        for (index, step) in record.desired.build.steps.iter().enumerate() {
            let Some(undo) = &step.undo else { continue };
            let name = match undo {
                BuildUndo::RemoveVg { name } => Some(format!("the volume group {name}")),
                BuildUndo::RemoveLv { volume } => Some(format!("the logical volume {volume}")),
                BuildUndo::CloseCrypt { name } => Some(format!("/dev/mapper/{name}")),
                _ => None,
            };
            let stands = self.now(step)? == StepState::Stands;
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

    /// Refuses to take away what was begun where somebody has put something on it since.
    pub(super) fn is_unused(&self, undo: &BuildUndo) -> Result<(), Failure> {
        let devices = match undo {
            BuildUndo::StopMd { uuid, .. } => mdadm::arrays(&self.sys, self.runner, uuid)?,
            BuildUndo::RemoveLv { volume } => vec![volume.clone()],
            _ => Vec::new(),
        };
        let carries = |name: &String| undo::carries(&self.sys, self.runner, &format!("/dev/{name}"));
        devices.iter().find_map(carries).map_or(Ok(()), |what| Err(may_be_lost(&what)))
    }

    /// Refuses to go on at boot where a member that is written to is not blank: it may be somebody's since the boot that was interrupted.
    pub(super) fn is_blank(
        &self,
        record: &Record,
        undo: &BuildUndo,
        step: &BuildStep,
    ) -> Result<(), Failure> {
        let paths = written(undo);
        let members: Vec<&Member> =
            record.desired.members.iter().filter(|member| paths.contains(&member.path.as_str())).collect();
        (self.may_build)(&members, false).map_err(|why| {
            let name = &record.desired.name;
            Failure::Refused(format!(
                "making {name} anew was interrupted at `{}`, and not all of its members are blank: {why}; `ebb apply` with its experiment makes \
                 it, `ebb undo {name}` takes it out of this host",
                step.action
            ))
        })
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
