//! Starting an array that stays from those of its members that are there.

use super::cache::without_cache;
use super::copies::on_host;
use super::whose::Other;
use super::{Failure, Keeper};
use crate::build::{lvm, mdadm, undo};
use ebbtide_model::plan::build::{BuildStep, BuildUndo};
use ebbtide_model::stack::Cache;
use ebbtide_provision::copies::{Superblock, apart};
use ebbtide_provision::{Class, Member, Record, can_lose};

impl Keeper<'_> {
    /// The members that the array with `uuid`, which `step` makes, is started from; none where none carries it.
    ///
    /// # Errors
    /// When one is missing that was in use when the others were last written to: which, and both ways on.
    pub(super) fn to_start<'a>(
        &self,
        record: &Record,
        step: &BuildStep,
        device: &str,
        uuid: &str,
        members: &'a [String],
    ) -> Result<Vec<&'a str>, Failure> {
        let there = mdadm::carriers(&self.sys, self.runner, uuid, members)?;
        let is_missing =
            |member: &&Member| members.contains(&member.path) && !there.contains(&member.path.as_str());
        let missing: Vec<&Member> = record.desired.members.iter().filter(is_missing).collect();
        let index = record.desired.build.steps.iter().position(|other| other == step);
        let is_cut_off = index.is_some_and(|index| record.begun > index && record.done <= index);
        let found = self.superblocks(&there)?;
        if let Some(apart) = sides(device, uuid, &found) {
            return Err(Failure::Refused(format!(
                "{device} is not started: {apart}. After that run this again; what only the other has is not in the array then"
            )));
        }
        has_enough(record, device, uuid, &there, &found)?;
        // Arrays that are members are started before this one.
        let are_all_told = there.len() + missing.len() == members.len();
        if there.is_empty() || missing.is_empty() || is_cut_off || !are_all_told || are_all_in_use(&found) {
            return Ok(there);
        }
        let what: Vec<String> = missing.iter().map(|member| self.why_missing(member)).collect();
        let behind = behind(&found);
        let is_behind = |path: &str| behind.iter().any(|(behind, _)| *behind == path);
        let works = |volume: usize| {
            let mut of_it = record.desired.members.iter().filter(|member| member.volume == volume);
            missing.iter().all(|member| member.volume != volume)
                && !of_it.any(|member| is_behind(&member.path))
        };
        let is_enough = can_lose(&record.desired.layout, &works).is_some();
        // One that waits for its members has those that are there.
        let waiting = mdadm::arrays(&self.sys, self.runner, uuid)?;
        let stop: String = waiting.iter().map(|array| format!("mdadm --stop /dev/{array} && ")).collect();
        let members: Vec<&str> = there.iter().filter(|path| !is_behind(path)).copied().collect();
        let command = format!("{stop}mdadm --assemble --run {device} --uuid={uuid} {}", members.join(" "));
        let on = ways_on(record, is_enough, &command);
        Err(Failure::Refused(format!(
            "{device} is not started: {}{}. Bring {} back and run this again. {on}",
            what.join(", and "),
            missed(&behind),
            if missing.len() == 1 { "it" } else { "them" }
        )))
    }

    /// Refuses to activate the logical volume `volume` without a member of its group: LVM would run a copy that missed what the other has, and later write it
    /// over the other.
    pub(super) fn has_all_volumes(&self, record: &Record, volume: &str) -> Result<(), Failure> {
        let there = lvm::physical(self.runner)?;
        let is_missing = |member: &&Member| {
            record.desired.build.steps.iter().any(|step| match &step.undo {
                Some(BuildUndo::RemovePv { device, uuid }) => {
                    *device == member.path
                        && there
                            .iter()
                            .all(|volume| volume.uuid != *uuid || !self.is_a_device(&volume.device))
                }
                _ => false,
            })
        };
        let missing: Vec<&Member> = record.desired.members.iter().filter(is_missing).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let what: Vec<String> = missing.iter().map(|member| self.why_missing(member)).collect();
        let is_of = |cache: &&Cache| missing.iter().any(|member| cache.members.contains(&member.volume));
        if let Some(cache) = record.desired.cache.as_ref().filter(is_of) {
            return Err(without_cache(record, cache, volume, &what.join(", and ")));
        }
        let works = |volume: usize| missing.iter().all(|member| member.volume != volume);
        let can_lose = can_lose(&record.desired.layout, &works);
        if can_lose.is_none() && missing.iter().all(|member| self.is_there_at(&member.path)) {
            // LVM starts nothing of it: its data are lost.
            return Ok(());
        }
        let on = ways_on(
            record,
            can_lose.is_some(),
            &format!("lvchange --activate y --activationmode degraded {volume}"),
        );
        Err(Failure::Refused(format!(
            "/dev/{volume} is not activated: {}. Bring {} back and run this again. {on}",
            what.join(", and "),
            if missing.len() == 1 { "it" } else { "them" }
        )))
    }

    /// Whether LVM names a device that is there.
    fn is_a_device(&self, path: &str) -> bool {
        path.starts_with('/') && self.is_there_at(path)
    }

    /// Of arrays whose members were run without each other: the step, and both sides in words. What only one side has is nowhere else.
    pub(super) fn halves(
        &self,
        record: &Record,
        others: &[Option<Other>],
    ) -> Result<Vec<(usize, String)>, Failure> {
        let mut halves = Vec::new();
        for (index, step) in record.desired.build.steps.iter().enumerate() {
            let (Some(BuildUndo::StopMd { device, uuid, members }), None) = (&step.undo, &others[index])
            else {
                continue;
            };
            // What a host has that was taken out on purpose was given up.
            let is_out = |path: &&str| {
                let mut members = record.desired.members.iter();
                let member = members.find(|member| member.path == **path);
                member.and_then(|member| member.host.as_ref()).is_some_and(|host| record.is_out(host))
            };
            let mut there = mdadm::carriers(&self.sys, self.runner, uuid, members)?;
            there.retain(|path| !is_out(path));
            let found = self.superblocks(&there)?;
            halves.extend(sides(device, uuid, &found).map(|apart| (index, format!("{device}: {apart}"))));
        }
        Ok(halves)
    }

    /// What mdadm finds on each of these members.
    fn superblocks<'a>(&self, there: &[&'a str]) -> Result<Vec<(&'a str, Superblock)>, Failure> {
        let mut found = Vec::new();
        for path in there {
            found.extend(self.superblock(path)?.map(|superblock| (*path, superblock)));
        }
        Ok(found)
    }

    fn why_missing(&self, member: &Member) -> String {
        let Member { name, path, .. } = member;
        let why = match undo::carries(&self.sys, self.runner, path) {
            _ if !self.is_there_at(path) => format!("there is no {path}"),
            Some(what) => format!("{what}, and nothing of the array"),
            None => format!("{path} is blank"),
        };
        format!("volume {name}{} is missing ({why})", on_host(member))
    }
}

/// What can be done but bringing the missing members back: where what is there `is_enough`, `command` goes on without them.
fn ways_on(record: &Record, is_enough: bool, command: &str) -> String {
    let name = &record.desired.name;
    match (is_enough, record.desired.class) {
        (true, _) => format!(
            "Or go on without: `{command}`, and then run this again; what only the missing may have is lost then"
        ),
        (false, Class::Persistent) => format!("Or take {name} out of this host with `ebb undo {name}`"),
        (false, Class::Ephemeral) => format!(
            "It is made anew only where all members are blank. Or take {name} out of this host with `ebb undo {name}`"
        ),
    }
}

/// That members were run without each other, and how to see what each side has; nothing where they were not. mdadm would start one side, and say nothing
/// of the other.
fn sides(device: &str, uuid: &str, found: &[(&str, Superblock)]) -> Option<String> {
    let superblocks: Vec<Superblock> = found.iter().map(|(_, found)| found.clone()).collect();
    let (one, other) = apart(&superblocks)?;
    let [one, other] = [one, other].map(|at| &found[at]);
    // With whom each was in use last.
    let side = |(_, of): &(&str, Superblock)| {
        let with = found.iter().filter(|(_, found)| !of.denies(found) && !found.denies(of));
        with.map(|(path, _)| *path).collect::<Vec<_>>().join(" ")
    };
    Some(format!(
        "{} and {} were both run without the other, and neither has all. See what each has: \
         `mdadm --assemble --readonly --run /dev/md/apart --uuid={uuid} {}`, and stop it again. To go on with one of them: \
         `mdadm --assemble --run {device} --uuid={uuid} {}`",
        told(one),
        told(other),
        side(other),
        side(one)
    ))
}

/// A member with what its superblock says of its age.
fn told((path, superblock): &(&str, Superblock)) -> String {
    format!("{path} (last written to {}, {} changes)", superblock.updated, superblock.events)
}

/// Those that missed what the newest has: md takes none into use that the newest calls out of use, or that is more than one change behind (Linux
/// `drivers/md/md.c`, `super_1_validate`).
fn behind<'a>(found: &[(&'a str, Superblock)]) -> Vec<(&'a str, Superblock)> {
    let Some((_, newest)) = found.iter().max_by_key(|(_, superblock)| superblock.events) else {
        return Vec::new();
    };
    let is_behind = |superblock: &Superblock| {
        superblock.events + 1 < newest.events
            || found.iter().any(|(_, other)| other.went_on_without(superblock))
    };
    found.iter().filter(|(_, superblock)| is_behind(superblock)).cloned().collect()
}

/// That these members are there and do not count.
fn missed(behind: &[(&str, Superblock)]) -> String {
    if behind.is_empty() {
        return String::new();
    }
    let are = if behind.len() == 1 { "is there, but missed" } else { "are there, but missed" };
    format!("; {} {are} what was written since", behind.iter().map(told).collect::<Vec<_>>().join(" and "))
}

/// Refuses to start the array where it has thrown out more members than it can lose: mdadm starts it where it is told to alone.
fn has_enough(
    record: &Record,
    device: &str,
    uuid: &str,
    there: &[&str],
    found: &[(&str, Superblock)],
) -> Result<(), Failure> {
    let Some((_, newest)) = found.iter().max_by_key(|(_, superblock)| superblock.events) else {
        return Ok(());
    };
    let is_out = |role: Option<usize>| role.is_some_and(|role| newest.in_use.get(role) == Some(&false));
    let out: Vec<&str> =
        found.iter().filter(|(_, superblock)| is_out(superblock.role)).map(|(path, _)| *path).collect();
    let works = |volume: usize| {
        let mut members = record.desired.members.iter();
        !members.any(|member| member.volume == volume && out.contains(&member.path.as_str()))
    };
    if can_lose(&record.desired.layout, &works).is_some() {
        return Ok(());
    }
    Err(Failure::Refused(format!(
        "{device} is not started: it has thrown out {}, which is more than it can lose. See why (cables, a controller) first. Then \
         `mdadm --assemble --force {device} --uuid={uuid} {}` takes back the last ones that it threw out. What was written after the first \
         one was out may be damaged: check what is on it, and then run this again",
        out.join(" and "),
        there.join(" ")
    )))
}

/// Whether the newest of these members knows of no other that was in use: mdadm starts the array from them.
fn are_all_in_use(found: &[(&str, Superblock)]) -> bool {
    let is_there = |place: usize| found.iter().any(|(_, superblock)| superblock.role == Some(place));
    let newest = found.iter().max_by_key(|(_, superblock)| superblock.events);
    newest.is_some_and(|(_, newest)| {
        newest.in_use.iter().enumerate().all(|(place, in_use)| !in_use || is_there(place))
    })
}
