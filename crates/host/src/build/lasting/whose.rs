//! Whose something is that has an identity or a name of ours. Uuids are copied with disks and names are given anew: ours is only what is on the
//! very devices that the record names, and nothing but them.

use super::super::{blank, identity, lvm, mdadm, undo};
use super::look::kind_made;
use super::refuse::base;
use super::{Failure, Keeper};
use crate::probe::{Content, signature, tables};
use crate::sys;
use ebbtide_model::plan::build::{BuildAction, BuildStep, BuildUndo};
use ebbtide_provision::Record;
use std::collections::BTreeSet;
use std::path::Path;

/// Something that has an identity or a name of ours, and is not what was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Other {
    /// What it is, in words, with the devices.
    pub(super) what: String,
    /// Whether it has the data of what was made all the same.
    pub(super) has_data: bool,
}

impl Other {
    fn new(what: String) -> Option<Other> {
        Some(Other { what, has_data: false })
    }
}

impl Keeper<'_> {
    /// What is in the place of what `step` made and is not that; nothing where it is that, or nothing is there.
    pub(super) fn whose(&self, record: &Record, step: &BuildStep) -> Result<Option<Other>, Failure> {
        let Some(undo) = &step.undo else { return Ok(None) };
        match undo {
            BuildUndo::StopMd { device, uuid, members } => {
                match self.whose_array(step, device, uuid, members)? {
                    None => {}
                    other => return Ok(other),
                }
                if let Some(is) = mdadm::other_at(&self.sys, self.runner, (device, uuid), members)? {
                    return Ok(Other::new(format!("{device} is an array of somebody's: its UUID is {is}")));
                }
                self.in_front(record, device, uuid, members)
            }
            BuildUndo::RemovePv { device, uuid } => self.whose_physical(record, device, uuid),
            BuildUndo::RemoveVg { name } => self.whose_group(record, name),
            BuildUndo::RemoveLv { volume } => self.whose_volume(record, volume),
            BuildUndo::WipeContent { device, label, .. } => {
                Ok(self.whose_content(record, step, (device, label)))
            }
            BuildUndo::CloseCrypt { name, of } => {
                let other = identity::other_mapping(&self.sys, name, of.as_ref());
                Ok(other.and_then(|other| Other::new(other.what)))
            }
            BuildUndo::SwapOff { device, label } => {
                let other = self.swaps(label).into_iter().find(|swap| !self.is_same(swap, device));
                Ok(other
                    .and_then(|other| Other::new(format!("{other} is a copy of the swap space {device}"))))
            }
            _ => Ok(None),
        }
    }

    /// For each step, whose its place is where that is not ours, or what it stands on is not. Content alone makes nothing somebody's: it is on our
    /// device.
    pub(super) fn others(&self, record: &Record) -> Result<Vec<Option<Other>>, Failure> {
        let steps = &record.desired.build.steps;
        let mut others: Vec<Option<Other>> = Vec::new();
        for step in steps {
            let below = step.undo.as_ref().and_then(|undo| {
                let stands_on = |below: &BuildStep| match (undo, &below.undo) {
                    (BuildUndo::RestoreQueue { set, .. }, Some(_)) => {
                        base(steps, &set.device).is_some_and(|base| steps[base] == *below)
                    }
                    (undo, Some(below)) => undo.stands_on(below),
                    (_, None) => false,
                };
                steps
                    .iter()
                    .zip(&others)
                    .find(|(below, other)| other.is_some() && stands_on(below))?
                    .1
                    .clone()
            });
            let is_content = matches!(step.undo, Some(BuildUndo::WipeContent { .. }));
            others.push(match below {
                Some(below) => Some(below),
                None if is_content => None,
                None => self.whose(record, step)?,
            });
        }
        Ok(others)
    }

    /// Whether `device` leads to a device that is there.
    pub(super) fn leads(&self, device: &str) -> bool {
        self.kernel_name(device).is_some()
    }

    /// Whether two paths lead to one device that is there.
    pub(super) fn is_same(&self, one: &str, other: &str) -> bool {
        let name = self.kernel_name(one);
        name.is_some() && name == self.kernel_name(other)
    }

    fn whose_array(
        &self,
        step: &BuildStep,
        device: &str,
        uuid: &str,
        members: &[String],
    ) -> Result<Option<Other>, Failure> {
        let arrays = mdadm::arrays(&self.sys, self.runner, uuid)?.into_iter();
        let arrays: Vec<(String, Vec<String>)> = arrays
            .map(|array| {
                let strangers = mdadm::strangers(&self.sys, &array, members);
                (array, strangers)
            })
            .collect();
        let has_own = arrays.iter().any(|(_, strangers)| strangers.is_empty());
        // A copy that runs beside it, under another name, is in nobody's way.
        let is_other = |(array, strangers): &&(String, Vec<String>)| {
            !strangers.is_empty() && (!has_own || self.kernel_name(device).as_ref() == Some(array))
        };
        let Some((array, strangers)) = arrays.iter().find(is_other) else { return Ok(None) };
        let md = self.sys.sys.join("block").join(array).join("md");
        let is_in = |path: &String| {
            self.kernel_name(path).is_some_and(|name| md.join(format!("dev-{name}")).exists())
        };
        let (inside, outside): (Vec<&String>, Vec<&String>) = members.iter().partition(|path| is_in(path));
        let mut known = Vec::new();
        for path in outside {
            known.extend(self.superblock(path)?.map(|found| found.member));
        }
        let paths: Vec<String> = strangers.iter().map(|name| format!("/dev/{name}")).collect();
        let (mut is_copy, mut is_told) = (false, true);
        for path in &paths {
            let found = self.superblock(path)?;
            is_told &= found.is_some();
            is_copy |= found.is_some_and(|found| known.contains(&found.member));
        }
        let has_data = !inside.is_empty() || is_told && !is_copy;
        let paths = paths.join(", ");
        let what = match () {
            () if is_copy => format!(
                "/dev/{array} has the uuid of {device} and stands on {paths}: copies of its members, which the design does not name"
            ),
            () => format!(
                "/dev/{array} has the uuid of {device} and stands on {paths}, which the design does not name"
            ),
        };
        let shrink = match &step.action {
            BuildAction::Run { arguments, .. }
                if sys::number(&md.join("raid_disks")).is_some_and(|count: usize| count > members.len())
                    && inside.len() == members.len()
                    && arguments.iter().any(|word| word == "--level=1") =>
            {
                let out: Vec<String> =
                    strangers.iter().map(|name| format!("--fail /dev/{name} --remove /dev/{name}")).collect();
                format!(
                    "; `mdadm {device} {}` and `mdadm --grow {device} --raid-devices={}` make it what it was",
                    out.join(" "),
                    members.len()
                )
            }
            _ => String::new(),
        };
        Ok(Some(Other { what: what + &shrink, has_data }))
    }

    /// That somebody has put something in front of the array's superblock on a member, which outlives that.
    fn in_front(
        &self,
        record: &Record,
        device: &str,
        uuid: &str,
        members: &[String],
    ) -> Result<Option<Other>, Failure> {
        for path in members.iter().filter(|path| record.desired.is_member(path)) {
            if mdadm::is_on(&self.sys, self.runner, uuid, std::slice::from_ref(path))?
                && let Some(at) = mdadm::in_front(&self.sys, self.runner, path)?
            {
                let what = format!(
                    "{path} has something in front of the superblock of {device}, as a partition table is (byte {at} is not zero): somebody may use \
                     it. If nobody does, `dd if=/dev/zero of={path} bs={} count=1 conv=notrunc` takes that away",
                    mdadm::FRONT
                );
                return Ok(Some(Other { what, has_data: true }));
            }
        }
        Ok(None)
    }

    fn whose_physical(&self, record: &Record, device: &str, uuid: &str) -> Result<Option<Other>, Failure> {
        let all = lvm::physical(self.runner)?;
        let known = record.desired.build.steps.iter().find_map(|step| match &step.undo {
            Some(BuildUndo::RemoveVg { name }) => {
                let is_in = self.physical_of(record, name).iter().any(|(_, own)| *own == uuid);
                is_in.then(|| record.lvm.get(name)).flatten()
            }
            _ => None,
        });
        let other =
            all.iter().filter(|pv| pv.uuid == uuid && self.leads(&pv.device)).find_map(|pv| match known {
                _ if !self.is_same(&pv.device, device) => {
                    Some(format!("the physical volume of {device} is on {}, which is no member", pv.device))
                }
                Some(known) if !pv.group.is_empty() && pv.group_uuid != *known => {
                    Some(format!("{device} belongs to the volume group {} now, which is another", pv.group))
                }
                _ => None,
            });
        let has_data = all.iter().any(|pv| known == Some(&pv.group_uuid));
        Ok(other.map(|what| Other { what, has_data }))
    }

    /// The physical volumes that the group `name` was made of: devices and uuids.
    fn physical_of<'a>(&self, record: &'a Record, name: &str) -> Vec<(&'a str, &'a str)> {
        let mut own = Vec::new();
        for undo in record.desired.build.steps.iter().filter_map(|step| step.undo.as_ref()) {
            match undo {
                BuildUndo::RemovePv { device, uuid } => own.push((device.as_str(), uuid.as_str())),
                BuildUndo::RemoveVg { name: made } if made == name => break,
                BuildUndo::RemoveVg { .. } => own.clear(),
                _ => {}
            }
        }
        own
    }

    fn whose_group(&self, record: &Record, name: &str) -> Result<Option<Other>, Failure> {
        let all = lvm::physical(self.runner)?;
        let own = self.physical_of(record, name);
        let has_uuid = |pv: &lvm::Physical| own.iter().any(|(_, uuid)| pv.uuid == *uuid);
        let is_own = |pv: &&lvm::Physical| {
            let of = own.iter().find(|(_, uuid)| pv.uuid == *uuid);
            of.is_some_and(|(device, _)| !self.leads(&pv.device) || self.is_same(&pv.device, device))
        };
        let (named, elsewhere): (Vec<_>, Vec<_>) = all.iter().partition(|pv| pv.group == name);
        let uuids: BTreeSet<&str> = named.iter().map(|pv| pv.group_uuid.as_str()).collect();
        let known = record.lvm.get(name).map(String::as_str);
        let devices =
            |pvs: &[&lvm::Physical]| pvs.iter().map(|pv| pv.device.clone()).collect::<Vec<_>>().join(", ");
        let strangers: Vec<&lvm::Physical> = named.iter().copied().filter(|pv| !is_own(pv)).collect();
        let is_its = known.is_some_and(|known| uuids.contains(known));
        let renamed: Vec<&lvm::Physical> = elsewhere
            .into_iter()
            .filter(|pv| !pv.group.is_empty() && (has_uuid(pv) || known == Some(pv.group_uuid.as_str())))
            .collect();
        let renamed = renamed.first().map_or_else(String::new, |pv| match known {
            Some(known) if known != pv.group_uuid => {
                format!("{} belong to the volume group {} now", devices(&renamed), pv.group)
            }
            _ => format!(
                "the volume group on {} is called {} now (`vgrename {} {name}`)",
                devices(&renamed),
                pv.group,
                pv.group
            ),
        });
        let and = if renamed.is_empty() { String::new() } else { format!("; {renamed}") };
        Ok(match named.is_empty() {
            true if renamed.is_empty() => None,
            true => Other::new(renamed),
            false if uuids.len() > 1 => {
                Other::new(format!("there is more than one volume group {name}: on {}{and}", devices(&named)))
            }
            false if strangers.iter().any(|pv| !own.iter().any(|(own, _)| self.is_same(&pv.device, own))) => {
                Some(Other {
                    what: format!(
                        "the volume group {name} stands on {}, which the design does not name{and}",
                        devices(&strangers)
                    ),
                    has_data: is_its,
                })
            }
            false if known.is_some() && !is_its => Other::new(format!(
                "the volume group {name} on {} is not the one that was made: its UUID is another",
                devices(&named)
            )),
            false => None,
        })
    }

    fn whose_volume(&self, record: &Record, volume: &str) -> Result<Option<Other>, Failure> {
        let (group, name) = lvm::parts(volume);
        if let Some(other) = self.whose_group(record, group)? {
            return Ok(Some(other));
        }
        let Some(known) = record.lvm.get(volume) else { return Ok(None) };
        let all = lvm::logical(self.runner, group)?;
        let is_named = all.iter().any(|found| found.name == name);
        let made = all.iter().find(|found| found.uuid == *known);
        Ok(match made {
            Some(found) if found.name == name => None,
            Some(found) => Other::new(format!(
                "the logical volume {volume} is called {group}/{0} now (`lvrename {group} {0} {name}`)",
                found.name
            )),
            None if is_named => Other::new(format!(
                "the logical volume {volume} is not the one that was made: its UUID is another"
            )),
            None => None,
        })
    }

    /// Notes by which uuid LVM knows what `step` has made, where that is not noted yet; whether that is new.
    pub(super) fn note_uuid(&self, record: &mut Record, step: &BuildStep) -> Result<bool, Failure> {
        let (name, uuid) = match &step.undo {
            Some(BuildUndo::RemoveVg { name }) if !record.lvm.contains_key(name) => {
                let found = lvm::physical(self.runner)?.into_iter().find(|pv| pv.group == *name);
                (name, found.map(|pv| pv.group_uuid))
            }
            Some(BuildUndo::RemoveLv { volume }) if !record.lvm.contains_key(volume) => {
                let (group, name) = lvm::parts(volume);
                let found = lvm::logical(self.runner, group)?.into_iter().find(|found| found.name == name);
                (volume, found.map(|found| found.uuid))
            }
            _ => return Ok(false),
        };
        let uuid = uuid.filter(|uuid| !uuid.is_empty());
        Ok(uuid.map(|uuid| record.lvm.insert(name.clone(), uuid)).is_some())
    }

    /// Content with the label of what `step` makes and another UUID.
    fn whose_content(
        &self,
        record: &Record,
        step: &BuildStep,
        (device, label): (&str, &str),
    ) -> Option<Other> {
        let wanted = uuid_made(&step.action)?;
        if kind_made(&step.action) == Some("btrfs")
            && let Some(spread) = self.spread(record, device, (label, wanted))
        {
            return Some(spread);
        }
        let found = match undo::to_wipe(&self.sys, self.runner, device, label, None) {
            Ok(found) => found,
            Err(undo::Outcome::Left(what)) => return self.relabelled(device, (label, wanted), what),
            Err(_) => return None,
        };
        let is = found.uuid?;
        if is.eq_ignore_ascii_case(wanted) {
            return None;
        }
        let kind = &found.kind;
        let command = match kind.as_str() {
            "ext2" | "ext3" | "ext4" => Some(format!("e2fsck -fp {device} && tune2fs -U")),
            "xfs" => Some("xfs_admin -U".to_owned()),
            "btrfs" => Some("btrfstune -U".to_owned()),
            "swap" => Some("swaplabel -U".to_owned()),
            _ => None,
        };
        let mend = command.as_ref().map_or_else(String::new, |command| {
            format!(
                "; the line of /etc/fstab does not find it at boot. Where it is that very {kind}, `{command} {wanted} {device}` gives it its UUID back, while nothing uses it"
            )
        });
        Some(Other {
            what: format!(
                "{device} carries {kind} with the label {label}, the UUID {is} and not {wanted}{mend}"
            ),
            has_data: command.is_some(),
        })
    }

    /// That what is on `device` has its own UUID, and lost its label; `what` says what it carries.
    fn relabelled(&self, device: &str, (label, uuid): (&str, &str), what: String) -> Option<Other> {
        let Content::Signature(found) = signature::read(self.runner, &self.sys.at(Path::new(device))) else {
            return None;
        };
        if !found.uuid?.eq_ignore_ascii_case(uuid) {
            return None;
        }
        let command = match found.kind.as_str() {
            "ext2" | "ext3" | "ext4" => format!("e2label {device} {label}"),
            "xfs" => format!("xfs_admin -L {label} {device}"),
            "btrfs" => format!("btrfs filesystem label {device} {label}"),
            "swap" => format!("swaplabel -L {label} {device}"),
            "crypto_LUKS" => format!("cryptsetup config --label {label} {device}"),
            _ => return None,
        };
        let what = format!("{what} and the UUID that was made: `{command}` gives it its label back");
        Some(Other { what, has_data: true })
    }

    /// Devices of swap spaces with `label` that are on.
    pub(super) fn swaps(&self, label: &str) -> Vec<String> {
        let carries = |path: &String| {
            let content = signature::read(self.runner, &self.sys.at(Path::new(path)));
            matches!(content, Content::Signature(found) if found.label.as_deref() == Some(label))
        };
        tables::swaps_of(&self.sys).into_iter().map(|swap| swap.path).filter(carries).collect()
    }

    /// Putting `undo`'s step back on the devices that it names, and on no others.
    pub(super) fn put_back_here(&self, undo: &BuildUndo) -> Result<undo::Outcome, Failure> {
        let (sys, runner) = (&self.sys, self.runner);
        Ok(match undo {
            BuildUndo::StopMd { device, uuid, members } => {
                match mdadm::stop(sys, runner, (device, uuid), members, mdadm::Reach::Listed)? {
                    true => undo::Outcome::Done,
                    false => undo::Outcome::Before,
                }
            }
            BuildUndo::SwapOff { device, label }
                if !self.swaps(label).iter().any(|swap| self.is_same(swap, device)) =>
            {
                undo::Outcome::Before
            }
            BuildUndo::RemovePv { device, .. } | BuildUndo::WipeContent { device, .. } => {
                // What is on a device that was made goes with that.
                let is_member = device.starts_with("/dev/disk/");
                let is_own = is_member && self.is_own_content(undo)?;
                if is_own {
                    blank::erase(sys, runner, device, &blank::BEGINNING)?;
                }
                let outcome = undo::undo(sys, runner, undo)?;
                if is_own && undo::is_bare(sys, runner, device) {
                    blank::erase(sys, runner, device, &(0..0))?;
                }
                outcome
            }
            _ => undo::undo(sys, runner, undo)?,
        })
    }

    /// Whether what `undo` would erase is on its device, by its identity.
    fn is_own_content(&self, undo: &BuildUndo) -> Result<bool, Failure> {
        Ok(match undo {
            BuildUndo::WipeContent { device, label, .. } => {
                undo::to_wipe(&self.sys, self.runner, device, label, None).is_ok()
            }
            BuildUndo::RemovePv { device, uuid } => lvm::physical(self.runner)?
                .iter()
                .any(|pv| pv.uuid == *uuid && self.is_same(&pv.device, device)),
            _ => false,
        })
    }
}

/// The UUID that `action` gives to the content that it makes.
pub(super) fn uuid_made(action: &BuildAction) -> Option<&str> {
    let BuildAction::Run { arguments, .. } = action else { return None };
    let after = |option: &str| arguments.iter().skip_while(|word| *word != option).nth(1).map(String::as_str);
    let of_xfs = || arguments.iter().find_map(|word| word.strip_prefix("uuid="));
    after("--uuid").or_else(|| after("-U")).or_else(of_xfs)
}
