//! Arrays whose members are on different hosts: started only from what can have everything, brought up to date only by proof, and let go of a
//! host on purpose. What is judged is in `ebbtide_provision::copies`; here is what is asked and done.

use super::{Failure, Keeper};
use crate::build::{insist, mdadm, run};
use crate::sys;
use ebbtide_model::plan::build::{BuildAction, BuildStep, BuildUndo, MemberFlags};
use ebbtide_provision::copies::{Known, NotProven, Superblock, Unsure, newest, stood_still};
use ebbtide_provision::{Member, Record, TakenOut, can_lose_hosts};
use std::path::Path;

/// An array across hosts, as a step of the build makes it.
struct Copies<'a> {
    /// Its device.
    device: &'a str,
    uuid: &'a str,
    /// Its members by their places in it.
    members: Vec<&'a Member>,
    /// The command that makes it.
    command: &'a [String],
}

impl<'a> Copies<'a> {
    fn of(record: &'a Record, step: &'a BuildStep) -> Option<Copies<'a>> {
        let desired = &record.desired;
        let (Some(BuildUndo::StopMd { device, uuid, members }), BuildAction::Run { arguments, .. }) =
            (&step.undo, &step.action)
        else {
            return None;
        };
        if !desired.is_across_hosts(step) {
            return None;
        }
        // The places are in the order in which mdadm was given the members.
        let given = arguments.iter().filter(|argument| members.contains(argument));
        let member = |path: &String| desired.members.iter().find(|member| member.path == *path);
        Some(Copies { device, uuid, members: given.filter_map(member).collect(), command: arguments })
    }
}

/// What brings a member back into an array that runs.
pub(super) struct Return<'a> {
    copies: Copies<'a>,
    place: usize,
    member: &'a Member,
    /// What it says of itself, where it was of this array.
    superblock: Option<Superblock>,
    /// Whether it stood still while it was away, or why that is not known.
    proof: Result<(), NotProven>,
    /// Those that are in use now, by their places.
    running: Vec<usize>,
}

impl Return<'_> {
    /// Whether it is of the array and proven to have stood still, so that what it missed is all that it lacks.
    fn stood_still(&self) -> bool {
        self.superblock.is_some() && self.proof.is_ok()
    }

    /// Commands that people are shown.
    pub(super) fn commands(&self) -> Vec<String> {
        let (device, path) = (self.copies.device, &self.member.path);
        if self.stood_still() {
            return vec![format!("mdadm {device} --re-add {path}")];
        }
        let wipe = self.superblock.is_some().then(|| format!("mdadm --zero-superblock {path}"));
        wipe.into_iter().chain([format!("mdadm {device} --add {path}")]).collect()
    }
}

impl Keeper<'_> {
    /// What mdadm finds on the device at `path`.
    pub(super) fn superblock(&self, path: &str) -> Result<Option<Superblock>, Failure> {
        let output = self.runner.run("mdadm", &["--examine", path]).map_err(super::BuildError::from)?;
        Ok(if output.status == Some(0) { Superblock::parse(&output.text()) } else { None })
    }

    /// Whether the storage behind a device answers, as far as the kernel says; nothing is asked of it.
    pub(super) fn answers(&self, name: &str) -> bool {
        let Ok(place) = std::fs::canonicalize(self.sys.sys.join("class/block").join(name)) else {
            return false;
        };
        // A partition is below its disk.
        let device =
            [place.join("device"), place.join("../device")].into_iter().find(|device| device.is_dir());
        let Some(device) = device else { return true };
        if let Some(state) = sys::word(&device.join("state")) {
            return is_there(&state);
        }
        // With multipath the device is that of all connections to it, of which one has to be there.
        let states: Vec<String> = sys::names(&device)
            .iter()
            .filter(|name| name.starts_with("nvme"))
            .filter_map(|name| sys::word(&device.join(name).join("state")))
            .collect();
        states.is_empty() || states.iter().any(|state| is_there(state))
    }

    /// The command that starts the array that `step` makes from its members on different hosts; nothing where the step makes no such array, or none
    /// of its members is there.
    ///
    /// # Errors
    /// When those that are there are not known to have all that was acknowledged.
    pub(super) fn start_across_hosts(
        &self,
        record: &Record,
        step: &BuildStep,
    ) -> Result<Option<Vec<String>>, Failure> {
        let Some(copies) = Copies::of(record, step) else { return Ok(None) };
        let mut there: Vec<(&Member, Superblock)> = Vec::new();
        let mut left_out: Vec<(&Member, Superblock)> = Vec::new();
        for member in &copies.members {
            if !self.kernel_name(&member.path).is_some_and(|name| self.answers(&name)) {
                continue;
            }
            if let Some(found) = self.superblock(&member.path)?.filter(|found| found.array == copies.uuid) {
                let out = member.host.as_ref().is_some_and(|host| record.is_out(host));
                if out { &mut left_out } else { &mut there }.push((member, found));
            }
        }
        if there.is_empty() {
            return Ok(None);
        }
        let given_up = |place: usize| {
            let host = copies.members.get(place).and_then(|member| member.host.as_deref());
            host.is_some_and(|host| record.is_out(host))
        };
        let found: Vec<Superblock> = there.iter().map(|(_, found)| found.clone()).collect();
        let newest = newest(&found, &given_up).map_err(|unsure| unsure_of(&copies, &there, &unsure))?;
        // To give up what may be lost is one thing, to take what is known to be old another.
        for at in &newest {
            let ahead = left_out.iter().find(|(_, left_out)| left_out.went_on_without(&there[*at].1));
            if let Some((ahead, _)) = ahead {
                let (member, device) = (there[*at].0, Path::new(copies.device));
                return Err(Failure::Refused(format!(
                    "{} is not started without {}{}, which is there and was written to when {}{} was away: run this without --without first, and take it \
                     out when the others are up to date (`ebb status`); or disconnect it, if what only it has may be lost",
                    device.file_name().map_or(copies.device.into(), |name| name.to_string_lossy()),
                    ahead.name,
                    on_host(ahead),
                    member.name,
                    on_host(member)
                )));
            }
        }
        let mut words: Vec<String> =
            ["mdadm", "--assemble", copies.device, &format!("--uuid={}", copies.uuid), "--run", "--quiet"]
                .map(str::to_owned)
                .to_vec();
        words.extend(newest.iter().map(|at| there[*at].0.path.clone()));
        Ok(Some(words))
    }

    /// Notes which hosts are to be left out from now on; whether that is another choice than before.
    pub(super) fn note_without(&self, record: &mut Record, hosts: &[String]) -> Result<bool, Failure> {
        if let Some(unknown) = hosts
            .iter()
            .find(|host| record.desired.members.iter().all(|member| member.host.as_ref() != Some(*host)))
        {
            let mut known: Vec<&str> =
                record.desired.members.iter().filter_map(|member| member.host.as_deref()).collect();
            known.sort_unstable();
            known.dedup();
            let known = if known.is_empty() { "none has a `host`".to_owned() } else { known.join(", ") };
            return Err(Failure::Refused(format!(
                "no member of {} is on a host {unknown}; hosts: {known}",
                record.desired.name
            )));
        }
        let before = record.without.clone();
        for out in &mut record.without {
            out.stays_out = hosts.contains(&out.host);
        }
        record.without.retain(|out| out.stays_out || !out.left.is_empty());
        for host in hosts {
            if !record.is_out(host) {
                record.without.push(TakenOut { host: host.clone(), stays_out: true, left: Vec::new() });
            }
        }
        Ok(record.without != before)
    }

    /// Names of the members that the array uses and that are in sync, by the kernel; with those that it has thrown out.
    pub(super) fn in_sync(&self, array: &str) -> (Vec<String>, Vec<String>) {
        let md = self.sys.sys.join("block").join(array).join("md");
        let (mut in_sync, mut faulty) = (Vec::new(), Vec::new());
        for name in sys::names(&md).iter().filter_map(|name| name.strip_prefix("dev-")) {
            let state = sys::word(&md.join(format!("dev-{name}/state"))).unwrap_or_default();
            let has = |word: &str| state.split(',').any(|part| part == word);
            if has("faulty") {
                faulty.push(name.to_owned());
            } else if has("in_sync") {
                in_sync.push(name.to_owned());
            }
        }
        (in_sync, faulty)
    }

    /// Members that are there, and that arrays across hosts run without.
    pub(super) fn returns<'a>(&self, record: &'a Record) -> Result<Vec<Return<'a>>, Failure> {
        let mut returns = Vec::new();
        for step in &record.desired.build.steps {
            let Some(copies) = Copies::of(record, step) else { continue };
            let Some(array) = mdadm::arrays(&self.sys, self.runner, copies.uuid)?.into_iter().next() else {
                continue;
            };
            let (in_sync, faulty) = self.in_sync(&array);
            let (mut running, mut away) = (Vec::new(), Vec::new());
            for (place, member) in copies.members.iter().enumerate() {
                let Some(name) = self.kernel_name(&member.path).filter(|name| self.answers(name)) else {
                    continue;
                };
                let is_part = self.sys.sys.join("block").join(&array).join(format!("md/dev-{name}")).is_dir();
                if in_sync.contains(&name) {
                    running.extend(self.superblock(&member.path)?.map(|found| (place, found)));
                } else if !is_part || faulty.contains(&name) {
                    away.push((place, *member));
                }
            }
            let known = record.copies.get(copies.uuid).cloned().unwrap_or_default();
            let superblocks: Vec<Superblock> = running.iter().map(|(_, found)| found.clone()).collect();
            for (place, member) in away {
                if member.host.as_ref().is_some_and(|host| record.is_out(host)) || running.is_empty() {
                    continue;
                }
                let superblock = self.superblock(&member.path)?.filter(|found| found.array == copies.uuid);
                let left = record.left(&member.path);
                let proof = superblock
                    .as_ref()
                    .map_or(Ok(()), |found| stood_still(found, &superblocks, &known, left));
                let Some(copies) = Copies::of(record, step) else { continue };
                let running = running.iter().map(|(place, _)| *place).collect();
                returns.push(Return { copies, place, member, superblock, proof, running });
            }
        }
        Ok(returns)
    }

    /// Brings back the members that are there again: by what they missed where it is proven that they stood still, as a whole where they are new or
    /// may be overwritten; how many commands changed something.
    ///
    /// # Errors
    /// The first that may not be overwritten, after the others were brought back.
    pub(super) fn bring_back(&self, record: &mut Record, destroy: bool) -> Result<usize, Failure> {
        let snapshot = record.clone();
        let (mut count, mut refused) = (0, None);
        let returns = self.returns(&snapshot)?;
        let mut forked: Vec<&str> = Vec::new();
        for back in &returns {
            self.next()?;
            if let Err(why) = self.may_return(back, destroy) {
                refused.get_or_insert(why);
                continue;
            }
            let Return { copies, member, proof, running, .. } = back;
            // What the kernel still calls a member of the array under a name that it had before is let go.
            for gone in ["failed", "detached"] {
                let _ = self.runner.run("mdadm", &[copies.device, "--remove", gone]);
            }
            count += 1;
            if back.stood_still() {
                (self.tell)(&format!("mdadm {} --re-add {}: it stood still", copies.device, member.path));
                if run(self.runner, "mdadm", &[copies.device, "--re-add", &member.path]).is_ok() {
                    record.came_back(&member.path);
                    self.write(record)?;
                    self.settle();
                    continue;
                }
                (self.tell)("what it missed is not known any more: all of it is copied");
            }
            if proof.is_err() && !forked.contains(&copies.uuid) {
                // Those that stood still are of the same past, whatever comes of the others.
                let of_it = returns.iter().filter(|other| other.copies.uuid == copies.uuid);
                let proven = of_it.filter(|other| other.stood_still()).map(|other| other.place);
                let kept: Vec<usize> = running.iter().copied().chain(proven).collect();
                let known = record.copies.entry(copies.uuid.to_owned()).or_default();
                known.fork(&kept, copies.members.len());
                forked.push(copies.uuid);
                self.write(record)?;
            }
            self.add_whole(record, back)?;
        }
        self.note_copies(record)?;
        match refused {
            Some(why) => Err(Failure::Refused(why)),
            None => Ok(count),
        }
    }

    /// Whether the member may be brought back; in words why not.
    pub(super) fn may_return(&self, back: &Return<'_>, destroy: bool) -> Result<(), String> {
        let member = back.member;
        match (&back.superblock, back.proof) {
            (Some(_), Err(why)) if !destroy => Err(format!(
                "volume {}{} is not brought back: {why}. It stays as it is; --destroy overwrites it with what the array holds, and what only it has is lost",
                member.name,
                on_host(member)
            )),
            (Some(_), _) => Ok(()),
            (None, _) => self.host.may_build(&[member], destroy),
        }
    }

    fn add_whole(&self, record: &mut Record, back: &Return<'_>) -> Result<(), Failure> {
        let (copies, path) = (&back.copies, back.member.path.as_str());
        if back.superblock.is_some() {
            run(self.runner, "mdadm", &["--zero-superblock", "--quiet", path])?;
            (self.boundary)();
        }
        let flags = MemberFlags::in_command(copies.command, path).options(MemberFlags::default());
        let arguments: Vec<&str> = [copies.device, "--add"].into_iter().chain(flags).chain([path]).collect();
        (self.tell)(&format!("mdadm {}: all of it is copied", arguments.join(" ")));
        run(self.runner, "mdadm", &arguments)?;
        (self.boundary)();
        self.settle();
        if let Some(found) = self.superblock(path)? {
            let known = record.copies.entry(copies.uuid.to_owned()).or_default();
            known.renewed(back.place, &found.member);
            record.came_back(path);
            self.write(record)?;
        }
        Ok(())
    }

    /// Notes the members of arrays that have all of them in use, and lets go what was noted of hosts that are back.
    pub(super) fn note_copies(&self, record: &mut Record) -> Result<(), Failure> {
        let snapshot = record.clone();
        let mut changed = false;
        for step in &snapshot.desired.build.steps {
            let Some(copies) = Copies::of(&snapshot, step) else { continue };
            let Some(array) = mdadm::arrays(&self.sys, self.runner, copies.uuid)?.into_iter().next() else {
                continue;
            };
            let (in_sync, _) = self.in_sync(&array);
            let mut found = Vec::new();
            for member in &copies.members {
                if self.kernel_name(&member.path).is_some_and(|name| in_sync.contains(&name)) {
                    found.extend(self.superblock(&member.path)?);
                }
            }
            let known = record.copies.entry(copies.uuid.to_owned()).or_default();
            let before: Known = known.clone();
            if found.len() == copies.members.len() {
                known.together(&found);
            }
            changed |= *known != before;
        }
        if changed { self.write(record) } else { Ok(()) }
    }

    /// Notes that arrays which were started without hosts that may have been newer go on from another past than theirs.
    pub(super) fn note_fork(
        &self,
        record: &mut Record,
        step: &BuildStep,
        words: &[String],
    ) -> Result<(), Failure> {
        let snapshot = record.clone();
        let Some(copies) = Copies::of(&snapshot, step) else {
            return Ok(());
        };
        let running: Vec<usize> =
            (0..copies.members.len()).filter(|place| words.contains(&copies.members[*place].path)).collect();
        let known = record.copies.entry(copies.uuid.to_owned()).or_default();
        known.fork(&running, copies.members.len());
        self.write(record)
    }

    /// Whether starting with `words` gives up what hosts may have that were asked to be left out.
    pub(super) fn gives_up(&self, record: &Record, step: &BuildStep) -> Result<bool, Failure> {
        if record.without.iter().all(|out| !out.stays_out) {
            return Ok(false);
        }
        let kept = Record { without: Vec::new(), ..record.clone() };
        Ok(self.start_across_hosts(&kept, step).is_err())
    }

    /// Members of hosts that are to be left out, in arrays that run, each with its array.
    ///
    /// # Errors
    /// When data would be lost with them.
    pub(super) fn to_take_out<'a>(&self, record: &'a Record) -> Result<Vec<(&'a str, &'a Member)>, Failure> {
        let desired = &record.desired;
        let mut wanted = Vec::new();
        let mut away: Vec<usize> = Vec::new();
        for step in &desired.build.steps {
            let Some(copies) = Copies::of(record, step) else { continue };
            let Some(array) = mdadm::arrays(&self.sys, self.runner, copies.uuid)?.into_iter().next() else {
                continue;
            };
            let (in_sync, _) = self.in_sync(&array);
            for member in &copies.members {
                let name = self.kernel_name(&member.path);
                let part = name.as_ref().is_some_and(|name| {
                    self.sys.sys.join("block").join(&array).join(format!("md/dev-{name}")).is_dir()
                });
                let out = member.host.as_ref().is_some_and(|host| record.is_out(host));
                if out && part {
                    wanted.push((copies.device, *member));
                }
                if out || !name.is_some_and(|name| in_sync.contains(&name)) {
                    away.push(member.volume);
                }
            }
        }
        let works = |volume: usize| !away.contains(&volume);
        let lives = can_lose_hosts(&desired.layout, &works, &|volume| desired.host_of(volume)).is_some();
        if !wanted.is_empty() && !lives {
            let hosts: Vec<&str> =
                record.without.iter().filter(|out| out.stays_out).map(|out| out.host.as_str()).collect();
            return Err(Failure::Refused(format!(
                "without {} some data have no copy in use: bring the other members back first (`ebb status` names them)",
                hosts.join(", ")
            )));
        }
        Ok(wanted)
    }

    /// Takes the members of hosts that are to be left out from arrays that run: how many.
    ///
    /// # Errors
    /// When data would be lost with them.
    pub(super) fn take_out(&self, record: &mut Record) -> Result<usize, Failure> {
        let snapshot = record.clone();
        let wanted = self.to_take_out(&snapshot)?;
        for (device, member) in &wanted {
            self.next()?;
            let path = member.path.as_str();
            (self.tell)(&format!("mdadm {device} --fail {path} --remove {path}"));
            run(self.runner, "mdadm", &[device, "--fail", path])?;
            insist(self.runner, || run(self.runner, "mdadm", &[device, "--remove", path]).map(drop))?;
            (self.boundary)();
            if let Some(left) = self.superblock(path)?
                && let Some(out) =
                    record.without.iter_mut().find(|out| Some(&out.host) == member.host.as_ref())
            {
                out.left.retain(|(known, _)| known != path);
                out.left.push((path.to_owned(), left));
            }
            self.write(record)?;
        }
        Ok(wanted.len())
    }
}

/// Whether a device in this state answers, as SCSI (`scsi_sysfs.c`) and NVMe (`nvme/host/sysfs.c`) call it.
fn is_there(state: &str) -> bool {
    matches!(state, "running" | "live" | "quiesce" | "created" | "resetting" | "new")
}

pub(super) fn on_host(member: &Member) -> String {
    member.host.as_ref().map_or_else(String::new, |host| format!(" on host {host}"))
}

/// Why nothing is started, and what to do.
fn unsure_of(copies: &Copies<'_>, there: &[(&Member, Superblock)], unsure: &Unsure) -> Failure {
    let device = Path::new(copies.device);
    let name = device.file_name().map_or(copies.device.into(), |name| name.to_string_lossy());
    let told = |place: &usize| {
        copies
            .members
            .get(*place)
            .map_or_else(String::new, |member| format!("{}{}", member.name, on_host(member)))
    };
    Failure::Refused(match unsure {
        Unsure::Absent(places) => {
            let absent: Vec<String> = places.iter().map(told).collect();
            let host =
                places.first().and_then(|place| copies.members.get(*place)?.host.clone()).unwrap_or_default();
            format!(
                "{name} is not started: {} was in use when the members that are there were last written to, and may have been written to since. \
                 Bring it back and run this again; or give up what only it has with --without {host}",
                absent.join(" and ")
            )
        }
        Unsure::Apart(one, other) => {
            let tell = |at: usize| {
                let (member, found) = &there[at];
                format!(
                    "{}{} (last written to {}, {} changes)",
                    member.name,
                    on_host(member),
                    found.updated,
                    found.events
                )
            };
            let host = there[*other].0.host.clone().unwrap_or_default();
            format!(
                "{name} is not started: {} and {} were both run without the other, and neither has all. Give one of them up with --without HOST, \
                 for example --without {host}; what only that one has is lost when it is brought back with --destroy",
                tell(*one),
                tell(*other)
            )
        }
    })
}
