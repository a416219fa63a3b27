//! A cache whose disk came back blank, as instance store does: one that loses nothing is made anew, with the array as it was.

use super::{Failure, Keeper};
use crate::build::{lvm, run};
use ebbtide_model::plan::build::{BuildAction, BuildUndo, LASTING_LVM_CONFIG};
use ebbtide_model::stack::Cache;
use ebbtide_provision::{Member, Phase, Record};

/// What is to be done before a cache can be attached anew.
#[derive(Debug, Default)]
pub(super) struct LostCache<'a> {
    /// The commands, in order; those of an apply that was ended are left out.
    pub(super) commands: Vec<Vec<String>>,
    /// Members that they write to.
    members: Vec<&'a Member>,
}

impl Keeper<'_> {
    /// What is lost of the cache of an array that was made, where its disks are there, and the array can do without what it held.
    pub(super) fn lost_cache<'a>(&self, record: &'a Record) -> Result<LostCache<'a>, Failure> {
        let mut lost = LostCache::default();
        let Some(cache) = record.desired.cache.as_ref().filter(|cache| !cache.loses()) else {
            return Ok(lost);
        };
        let steps = &record.desired.build.steps;
        let volume = steps.iter().find_map(|step| match &step.undo {
            Some(BuildUndo::Uncache { volume }) => Some(volume),
            _ => None,
        });
        let extend = steps.iter().take(record.done).find_map(|step| match &step.action {
            BuildAction::Run { program, arguments } if program == "vgextend" => Some(arguments),
            _ => None,
        });
        let Some((volume, extend)) = volume.zip(extend).filter(|_| record.phase != Phase::Undoing) else {
            return Ok(lost);
        };
        let (group, _) = lvm::parts(volume);
        let Some(known) = record.lvm.get(group) else { return Ok(lost) };
        let there = lvm::physical(self.runner)?;
        let (found, missing): (Vec<_>, Vec<_>) = there
            .iter()
            .filter(|pv| pv.group_uuid == *known)
            .partition(|pv| pv.device.starts_with('/') && self.is_there_at(&pv.device));
        let of_cache = |member: &&Member| cache.members.contains(&member.volume);
        let mut owned: Vec<&str> = Vec::new();
        let mut absent: Vec<String> = Vec::new();
        for member in record.desired.members.iter().filter(of_cache) {
            let step = steps.iter().find_map(|step| match (&step.undo, &step.action) {
                (Some(BuildUndo::RemovePv { device, uuid }), BuildAction::Run { program, arguments })
                    if *device == member.path =>
                {
                    Some((uuid, std::iter::once(program).chain(arguments).cloned().collect()))
                }
                _ => None,
            });
            let Some((uuid, pvcreate)) = step else { continue };
            owned.push(uuid);
            let mut own =
                there.iter().filter(|pv| pv.uuid == *uuid && self.is_same(&pv.device, &member.path));
            match own.next() {
                Some(pv) if pv.group_uuid == *known => continue,
                Some(pv) if pv.group.is_empty() => {}
                // Somebody else's, or not there.
                Some(_) => return Ok(LostCache::default()),
                None if !self.leads(&member.path) => return Ok(LostCache::default()),
                None => {
                    lost.commands.push(pvcreate);
                    lost.members.push(member);
                }
            }
            absent.push(member.path.clone());
        }
        let is_only_cache = missing.iter().all(|pv| owned.contains(&pv.uuid.as_str()));
        if absent.is_empty() || found.is_empty() || !is_only_cache {
            return Ok(LostCache::default());
        }
        let words = |program: &str, rest: &[&str]| -> Vec<String> {
            [program, "--config", LASTING_LVM_CONFIG, "--yes"]
                .iter()
                .chain(rest)
                .map(|&word| word.to_owned())
                .collect()
        };
        let mut first = Vec::new();
        if let Some(found) = lvm::cache_of(self.runner, volume)? {
            // Somebody made it hold what the array has not.
            if !found.is_writethrough {
                return Ok(LostCache::default());
            }
            first.push(words("lvconvert", &["--uncache", "--force", volume]));
        }
        if !missing.is_empty() {
            first.push(words("vgreduce", &["--removemissing", group]));
        }
        lost.commands.splice(0..0, first);
        let is_new = |word: &&String| !word.starts_with("/dev/") || absent.contains(word);
        lost.commands.push(
            std::iter::once("vgextend")
                .map(str::to_owned)
                .chain(extend.iter().filter(is_new).cloned())
                .collect(),
        );
        Ok(lost)
    }

    /// The commands by which what is lost of the cache is made anew: none where nothing is. Refused where somebody uses what they write to.
    pub(super) fn to_renew_cache(&self, record: &Record, destroy: bool) -> Result<Vec<Vec<String>>, Failure> {
        let LostCache { commands, members } = self.lost_cache(record)?;
        self.host.may_build(&members, destroy).map_err(Failure::Refused)?;
        Ok(commands)
    }

    /// Makes anew what is lost of the cache; how many commands that took.
    pub(super) fn renew_cache(&self, record: &Record, destroy: bool) -> Result<usize, Failure> {
        let commands = self.to_renew_cache(record, destroy)?;
        for words in &commands {
            self.next()?;
            (self.tell)(&words.join(" "));
            let arguments: Vec<&str> = words[1..].iter().map(String::as_str).collect();
            run(self.runner, &words[0], &arguments)?;
            (self.boundary)();
        }
        Ok(commands.len())
    }
}

/// That the logical volume `volume` is not activated because disks of its `cache` are missing, and what can be done.
pub(super) fn without_cache(record: &Record, cache: &Cache, volume: &str, what: &str) -> Failure {
    let (name, group) = (&record.desired.name, lvm::parts(volume).0);
    let on = if cache.loses() {
        format!(
            "What was written last may be there alone. Or take {name} out of this host with `ebb undo {name}`"
        )
    } else {
        format!(
            "A blank disk at its place does, too: the cache is made anew, and nothing is lost. Or go on without: \
             `lvconvert --yes --uncache --force {volume}`, `vgreduce --removemissing {group}`, `lvchange --activate y {volume}`"
        )
    };
    Failure::Refused(format!(
        "/dev/{volume} is not activated: of its cache, {what}. Bring it back and run this again. {on}"
    ))
}
