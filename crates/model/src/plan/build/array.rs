//! Arrays: mdadm and LVM.

use super::identity::tag;
use super::{BuildAction, BuildPlanError, BuildStep, BuildUndo, Planner, QueueAttribute};
use crate::layout::{Arrangement, ArrayKind, LayoutNode};
use crate::stack::{ArrayBacking, Backing, Bitmap, CacheKind, ConsistencyPolicy, Metadata, Stack};
use crate::units::Bytes;

/// What every LVM command is told: no devices file (it may list only the system's own disks, and must not be
/// changed), no backups below /etc, and nothing on disks that the system's own configuration would hide.
pub const LVM_CONFIG: &str = "devices { use_devicesfile = 0 filter = [ \"a|.*|\" ] global_filter = [ \"a|.*|\" ] } backup { backup = 0 archive = 0 }";

/// What LVM commands are told that make or change what stays: the system's own devices file and filters hold, as at boot, but no
/// copies are left below /etc, which nobody would take away with the group.
pub const LASTING_LVM_CONFIG: &str = "backup { backup = 0 archive = 0 }";

/// LVM's default extent, said so that a site's configuration does not change the layout.
const EXTENT: &str = "4m";

/// How an array is built, where the design says.
fn backing_of(stack: &Stack, array: usize) -> ArrayBacking {
    stack.arrays.get(array).cloned().unwrap_or_default()
}

/// A single volume under `linear` without a word on what builds it is used as it is.
fn is_bare(kind: ArrayKind, members: &[LayoutNode], backing: &ArrayBacking) -> bool {
    kind == ArrayKind::Linear && members.len() == 1 && backing.backing.is_none()
}

/// How many md devices `layouts` take, whose arrays are those of `stack` in this order.
pub(super) fn md_devices<'a>(layouts: impl Iterator<Item = &'a LayoutNode>, stack: &Stack) -> usize {
    fn count(node: &LayoutNode, stack: &Stack, next: &mut usize) -> usize {
        let LayoutNode::Array { kind, members } = node else { return 0 };
        let backing = backing_of(stack, *next);
        *next += 1;
        let md = backing.backing != Some(Backing::Lvm) && !is_bare(*kind, members, &backing);
        usize::from(md) + members.iter().map(|member| count(member, stack, next)).sum::<usize>()
    }
    let mut next = 0;
    layouts.map(|layout| count(layout, stack, &mut next)).sum()
}

/// What mdadm is told of a single member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemberFlags {
    /// An error of it throws it out at once, without the retries that are meant to save a bad sector. Of a member on another host an error
    /// means that the host was waited for long enough ([`crate::remote`]).
    pub failfast: bool,
    /// It is read only when the others fail.
    pub write_mostly: bool,
}

impl MemberFlags {
    fn of(
        kind: ArrayKind,
        metadata: Metadata,
        backing: &ArrayBacking,
        members: &[LayoutNode],
        member: &LayoutNode,
    ) -> MemberFlags {
        let is_in = |volumes: &[usize], member: &LayoutNode| matches!(member, LayoutNode::Volume(volume) if volumes.contains(volume));
        let elsewhere = is_in(&backing.elsewhere, member);
        let some_here = members.iter().any(|member| !is_in(&backing.elsewhere, member));
        let chosen = is_in(&backing.write_mostly, member);
        let far = backing.write_mostly.is_empty() && elsewhere && some_here;
        MemberFlags {
            // The old metadata has no place for it.
            failfast: elsewhere && metadata != Metadata::V090,
            write_mostly: kind == ArrayKind::Mirror && (chosen || far),
        }
    }

    /// What the command with these `arguments`, which makes an array, says of its member `device`.
    pub fn in_command(arguments: &[String], device: &str) -> MemberFlags {
        let mut flags = MemberFlags::default();
        for argument in arguments.iter().take_while(|argument| *argument != device) {
            match argument.as_str() {
                "--failfast" => flags.failfast = true,
                "--nofailfast" => flags.failfast = false,
                "--write-mostly" => flags.write_mostly = true,
                "--readwrite" => flags.write_mostly = false,
                _ => {}
            }
        }
        flags
    }

    /// mdadm's options before a member of these, after one of `before`.
    pub fn options(self, before: MemberFlags) -> Vec<&'static str> {
        let mut options = Vec::new();
        if self.failfast != before.failfast {
            options.push(if self.failfast { "--failfast" } else { "--nofailfast" });
        }
        if self.write_mostly != before.write_mostly {
            options.push(if self.write_mostly { "--write-mostly" } else { "--readwrite" });
        }
        options
    }
}

impl Planner<'_> {
    /// The device of `node`, after the steps that make it.
    pub(super) fn node(&mut self, node: &LayoutNode, top: bool) -> Result<String, BuildPlanError> {
        let (kind, members) = match node {
            LayoutNode::Volume(volume) => return self.device_of(*volume),
            LayoutNode::Array { kind, members } => (*kind, members),
        };
        let number = self.arrays;
        self.arrays += 1;
        let backing = backing_of(&self.design.stack, number);
        let lvm = backing.backing == Some(Backing::Lvm);
        let mut devices = Vec::new();
        for member in members {
            let inner = self.arrays;
            if lvm
                && matches!(member, LayoutNode::Array { .. })
                && backing_of(&self.design.stack, inner).backing == Some(Backing::Lvm)
            {
                return Err(BuildPlanError::LvmOnLvm);
            }
            devices.push(self.node(member, false)?);
        }
        if is_bare(kind, members, &backing) {
            if top {
                self.notes.push("a single volume: its device is used as it is, without md or LVM".to_owned());
            }
            return devices.pop().ok_or(BuildPlanError::NoDevice { volume: 0 });
        }
        if lvm {
            let cache = if top { self.cache_devices()? } else { Vec::new() };
            Ok(self.lvm(number, kind, &devices, &cache))
        } else {
            self.md(number, kind, members, &backing, devices)
        }
    }

    fn md(
        &mut self,
        number: usize,
        kind: ArrayKind,
        members: &[LayoutNode],
        backing: &ArrayBacking,
        mut devices: Vec<String>,
    ) -> Result<String, BuildPlanError> {
        let name = self.lasting_name(number);
        let device = match &name {
            Some(name) => format!("/dev/md/{name}"),
            None => {
                let md =
                    self.site.md_numbers.get(self.mds).ok_or(BuildPlanError::NoMdNumber { array: number })?;
                self.mds += 1;
                format!("/dev/md{md}")
            }
        };
        let uuid = self.identity(&format!("md{number}")).md_uuid();
        let facts = kind.facts();
        let metadata = backing.metadata.unwrap_or(Metadata::V12);
        // --run: no questions. No home host: with one, metadata 0.90 would keep half of the uuid for its name.
        let mut arguments: Vec<String> = vec![
            "--create".into(),
            device.clone(),
            "--run".into(),
            "--quiet".into(),
            // Any: a host of another name takes the array for its own, and not for a foreign one that becomes md127.
            if name.is_some() { "--homehost=any" } else { "--homehost=<none>" }.into(),
            format!("--uuid={uuid}"),
            format!("--metadata={}", metadata.as_ref()),
            format!("--level={}", facts.md_level),
        ];
        if let Some(name) = name.filter(|_| metadata != Metadata::V090) {
            arguments.push(format!("--name={name}"));
        }
        match kind {
            ArrayKind::Raid10 { copies, arrangement, .. } => {
                let letter = match arrangement {
                    Arrangement::Near => 'n',
                    Arrangement::Far => 'f',
                    Arrangement::Offset => 'o',
                };
                arguments.push(format!("--layout={letter}{copies}"));
            }
            ArrayKind::Raid5 { .. } | ArrayKind::Raid6 { .. } => {
                arguments.push("--layout=left-symmetric".into());
            }
            ArrayKind::Linear | ArrayKind::Stripe { .. } | ArrayKind::Mirror => {}
        }
        arguments.extend(kind.chunk().map(|chunk| format!("--chunk={}K", chunk.0 / Bytes::KIB)));
        if facts.is_redundant() {
            let bitmap = backing.bitmap_or_default();
            arguments.push(format!("--bitmap={}", bitmap.as_ref()));
            let policy = backing.consistency_policy;
            arguments.extend(policy.map(|policy| format!("--consistency-policy={}", policy.as_ref())));
            if self.is_lasting() {
                self.first_sync_note();
                if bitmap == Bitmap::None && policy != Some(ConsistencyPolicy::Ppl) {
                    self.notes.push(format!(
                        "{device} has no bitmap, as the design says: after a crash all of it is compared; `bitmap = \"internal\"` \
                         compares only what was being written, and costs some writes"
                    ));
                }
            } else {
                arguments.push("--assume-clean".into());
                self.sync_note("--assume-clean");
            }
        }
        arguments.push(format!("--raid-devices={}", devices.len()));
        let is_raid5 = matches!(kind, ArrayKind::Raid5 { .. });
        if devices.len() == 1 || (is_raid5 && self.is_lasting()) {
            // mdadm takes a single member for a mistake. RAID5 it makes degraded, with a spare that is being filled: cut from power
            // before it is full, such an array does not start again.
            arguments.push("--force".into());
        }
        let flags: Vec<MemberFlags> =
            members.iter().map(|member| MemberFlags::of(kind, metadata, backing, members, member)).collect();
        let (last, first): (Vec<_>, Vec<_>) =
            devices.iter().zip(&flags).partition(|(_, flags)| flags.write_mostly);
        // An option holds for all members after it, and a mirror's members have no order.
        let mut before = MemberFlags::default();
        for (device, flags) in first.into_iter().chain(last) {
            arguments.extend(flags.options(before).into_iter().map(str::to_owned));
            arguments.push(device.clone());
            before = *flags;
        }
        devices.sort();
        let undo = BuildUndo::StopMd { device: device.clone(), uuid, members: devices };
        self.run("mdadm", &arguments, Some(undo));
        let settings = [
            (QueueAttribute::StripeCacheSize, backing.stripe_cache_size),
            (QueueAttribute::GroupThreadCnt, backing.group_thread_cnt),
        ];
        let given =
            settings.into_iter().filter_map(|(attribute, value)| Some((device.clone(), attribute, value?)));
        self.on_arrays.extend(given);
        Ok(device)
    }

    /// The first synchronisation of mirrors and parity is left out: right for an array that is thrown away after a trial.
    /// What is written is redundant all the same; blocks never written may differ between copies.
    fn sync_note(&mut self, how: &str) {
        let note = format!(
            "redundant arrays are made with {how}, without a first synchronisation: they live for one trial, and what \
             is written to them is redundant"
        );
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// What stays is synchronised, by the kernel and beside everything else.
    fn first_sync_note(&mut self) {
        let note = "redundant arrays synchronise their members first, beside all other I/O: until that is done they are slower, and \
                    `ebb status` says how far it is"
            .to_owned();
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// The devices of the design's cache.
    fn cache_devices(&self) -> Result<Vec<String>, BuildPlanError> {
        let volumes = self.design.stack.cache.iter().flat_map(|cache| &cache.members);
        volumes.map(|volume| self.device_of(*volume)).collect()
    }

    /// An array of `devices`, with a cache on those of `cache` where there are any.
    fn lvm(&mut self, number: usize, kind: ArrayKind, devices: &[String], cache: &[String]) -> String {
        let lasting = self.lasting_name(number);
        let config = if lasting.is_some() { LASTING_LVM_CONFIG } else { LVM_CONFIG };
        for (position, device) in devices.iter().chain(cache).enumerate() {
            let uuid = self.identity(&format!("pv{number}.{position}")).lvm_uuid();
            let arguments =
                ["--config", config, "--yes", "--norestorefile", "--uuid", &uuid, device.as_str()];
            let undo = BuildUndo::RemovePv { device: device.clone(), uuid: uuid.clone() };
            self.run("pvcreate", &arguments, Some(undo));
        }
        let group = match &lasting {
            Some(name) => name.clone(),
            None => format!("ebb_{}_{number}", tag(self.site.run)),
        };
        let mut arguments = vec!["--config", config, "--yes", "--physicalextentsize", EXTENT];
        if lasting.is_none() {
            // No activation by itself: after a reboot nothing must come up that nobody asked for.
            arguments.extend(["--setautoactivation", "n"]);
        }
        arguments.push(&group);
        arguments.extend(devices.iter().map(String::as_str));
        self.run("vgcreate", &arguments, Some(BuildUndo::RemoveVg { name: group.clone() }));
        if kind.chunk().is_some() {
            let action = BuildAction::EqualPvs { group: group.clone() };
            self.steps.push(BuildStep { action, undo: None });
        }
        if !cache.is_empty() {
            // After the comparison: a cache is no member.
            let arguments = ["--config", config, "--yes", group.as_str()];
            let devices = cache.iter().map(String::as_str);
            self.run("vgextend", &arguments.into_iter().chain(devices).collect::<Vec<_>>(), None);
        }

        let count = devices.len();
        let facts = kind.facts();
        // Stripes are the members that hold data; where copies can be chosen, LVM has two.
        let mirrors = kind.copies().map_or(1, |_| 2);
        let stripes = count.saturating_sub(facts.parity()) / mirrors;
        let mut arguments: Vec<String> = [
            "--config",
            config,
            "--yes",
            "--wipesignatures",
            "y",
            "--zero",
            "y",
            "--type",
            facts.lvm_segment,
        ]
        .map(str::to_owned)
        .to_vec();
        if let Some(chunk) = kind.chunk() {
            arguments.extend(["--stripes".into(), stripes.to_string()]);
            arguments.extend(["--stripesize".into(), format!("{}k", chunk.0 / Bytes::KIB)]);
        }
        match kind {
            ArrayKind::Mirror => arguments.extend(["--mirrors".into(), count.saturating_sub(1).to_string()]),
            ArrayKind::Raid10 { .. } => arguments.extend(["--mirrors".into(), "1".into()]),
            ArrayKind::Linear
            | ArrayKind::Stripe { .. }
            | ArrayKind::Raid5 { .. }
            | ArrayKind::Raid6 { .. } => {}
        }
        // LVM refuses --nosync for raid6: its Reed-Solomon parity has to be right before it is updated.
        let must_sync = matches!(kind, ArrayKind::Raid6 { .. });
        if facts.is_redundant() && lasting.is_some() {
            self.first_sync_note();
        } else if facts.is_redundant() && !must_sync {
            arguments.push("--nosync".into());
            self.sync_note("--nosync");
        }
        // The order of the members is that of the layout. One command for a linear volume over several would take the
        // largest first.
        let at_once = if kind == ArrayKind::Linear { count.min(1) } else { count };
        let (first, rest) = devices.split_at(at_once);
        let extents = if rest.is_empty() && cache.is_empty() { "100%FREE" } else { "100%PVS" };
        arguments.extend(["--extents", extents, "--name", "data", &group].map(str::to_owned));
        arguments.extend(first.iter().cloned());
        let volume = format!("{group}/data");
        self.run("lvcreate", &arguments, Some(BuildUndo::RemoveLv { volume: volume.clone() }));
        for device in rest {
            let options = ["--config", config, "--yes", "--type", facts.lvm_segment, "--extents", "+100%PVS"];
            let arguments = [&options[..], &[volume.as_str(), device.as_str()]].concat();
            self.run("lvextend", &arguments, None);
        }
        if must_sync && lasting.is_none() {
            self.steps.push(BuildStep { action: BuildAction::WaitLv { volume: volume.clone() }, undo: None });
        }
        self.attach_cache(&volume, config, cache);
        format!("/dev/{volume}")
    }

    /// Puts a cache on the `devices` of its group in front of the logical volume `volume`.
    fn attach_cache(&mut self, volume: &str, config: &str, devices: &[String]) {
        let Some(cache) = self.design.stack.cache.as_ref().filter(|_| !devices.is_empty()) else { return };
        let mut config = config.to_owned();
        if cache.kind == CacheKind::Cache {
            // lvconvert takes no mode together with devices.
            config += &format!(" allocation {{ cache_mode = \"{}\" }}", cache.mode.as_ref());
        }
        let mut arguments = vec!["--config", &config, "--yes", "--type", cache.kind.as_ref()];
        for device in devices {
            arguments.extend(["--cachedevice", device]);
        }
        arguments.push(volume);
        // What a trial has written goes with the volume: nobody waits until it is on the slow disks.
        let undo = self.is_lasting().then(|| BuildUndo::Uncache { volume: volume.to_owned() });
        self.run("lvconvert", &arguments, undo);
        self.notes.push(format!(
            "the cache ({}, {}): {}",
            cache.kind.as_ref(),
            cache.mode.as_ref(),
            cache.loss()
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_command_says_of_a_member_is_read_back() {
        let backing = ArrayBacking { elsewhere: vec![1, 2], ..ArrayBacking::default() };
        let members = [0, 1, 2].map(LayoutNode::Volume);
        let flags =
            |kind, member: &LayoutNode| MemberFlags::of(kind, Metadata::V12, &backing, &members, member);
        let mut arguments = vec!["--create".to_owned()];
        let mut before = MemberFlags::default();
        for (device, member) in ["a", "b", "c"].into_iter().zip(&members) {
            let now = flags(ArrayKind::Mirror, member);
            arguments.extend(now.options(before).into_iter().map(str::to_owned));
            arguments.push(device.to_owned());
            before = now;
        }
        assert_eq!(arguments, ["--create", "a", "--failfast", "--write-mostly", "b", "c"]);
        for (device, member) in ["a", "b", "c"].into_iter().zip(&members) {
            assert_eq!(MemberFlags::in_command(&arguments, device), flags(ArrayKind::Mirror, member));
        }
        // RAID10 reads from all, and the old metadata has no place for either.
        let raid10 = ArrayKind::Raid10 { chunk: Bytes(65536), copies: 2, arrangement: Arrangement::Offset };
        assert_eq!(flags(raid10, &members[1]), MemberFlags { failfast: true, write_mostly: false });
        assert_eq!(before.options(MemberFlags::default()).len(), 2);
        assert_eq!(MemberFlags::default().options(before), ["--nofailfast", "--readwrite"]);
        // Where all are elsewhere, none is read less than another.
        let all = ArrayBacking { elsewhere: vec![0, 1, 2], ..ArrayBacking::default() };
        let flags = MemberFlags::of(ArrayKind::Mirror, Metadata::V12, &all, &members, &members[0]);
        assert_eq!(flags, MemberFlags { failfast: true, write_mostly: false });
    }
}
