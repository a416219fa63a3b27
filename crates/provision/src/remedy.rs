//! How members that an array does without come back.

use crate::Record;
use crate::hosts::{HostState, HostStatus};
use crate::member::{Carried, MemberSeen, MemberState, MemberStatus};
use ebbtide_model::plan::build::{BuildStep, BuildUndo};
use ebbtide_model::shown::Shown;

/// What to do where an array of `record` has thrown out more members than it can lose, and all of them are there: no member comes back by itself then.
pub(crate) fn lost(record: &Record, members: &[MemberStatus]) -> Option<String> {
    let of_step = |step: &BuildStep| match &step.undo {
        Some(BuildUndo::StopMd { device, uuid, members }) => {
            Some((device.clone(), uuid.clone(), members.clone()))
        }
        _ => None,
    };
    let state = |path: &String| members.iter().find(|member| member.path == *path).map(|member| member.state);
    let is_thrown_out = |path: &String| state(path) == Some(MemberState::Faulty);
    let steps = record.desired.build.steps.iter().filter(|step| !record.desired.is_across_hosts(step));
    let (device, uuid, paths) =
        steps.filter_map(of_step).find(|(.., paths)| paths.iter().any(is_thrown_out))?;
    if !paths.iter().all(|path| {
        matches!(state(path), Some(MemberState::InUse | MemberState::Faulty | MemberState::Unused))
    }) {
        return None;
    }
    let unmount = record
        .desired
        .build
        .mountpoint
        .as_ref()
        .map_or_else(String::new, |at| format!("`umount {}`, ", at.shown()));
    Some(format!(
        "{device} has thrown out more members than it can lose. See why (cables, a controller, `dmesg`) first. Then {unmount}`mdadm --stop {device}` \
         and `mdadm --assemble --force {device} --uuid={uuid} {}`. That takes members with different states for one: what was written after \
         the first one was out may be damaged. Check the file system before you mount it, and copy what matters first",
        paths.join(" ")
    ))
}

/// The members of the array that `path` is in which were run without those in use: it may not run without the others.
fn ran_with(record: &Record, seen: &[MemberSeen], path: &str) -> String {
    let of_array = record.desired.build.steps.iter().find_map(|step| match &step.undo {
        Some(BuildUndo::StopMd { members, .. }) if members.iter().any(|member| member == path) => {
            Some(members)
        }
        _ => None,
    });
    let is_apart = |seen: &MemberSeen| matches!(seen.carries, Some(Carried::Apart(_)));
    let members = record.desired.members.iter().zip(seen).filter(|(_, seen)| is_apart(seen));
    let paths = members.map(|(member, _)| member.path.as_str());
    let of_it =
        paths.filter(|path| of_array.is_some_and(|of_array| of_array.iter().any(|other| other == path)));
    of_it.collect::<Vec<_>>().join(" ")
}

/// What to do for the `members` of `record` that are not in use and do not come back by themselves: a sentence for each, one for all those of a host
/// that is gone. Those of a host that was taken out on purpose need nothing. The array itself is not running where it is `missing`.
pub(crate) fn remedies(
    record: &Record,
    members: &[MemberStatus],
    seen: &[MemberSeen],
    hosts: &[HostStatus],
    missing: bool,
) -> Vec<String> {
    let host_is =
        |name: &str, state: HostState| hosts.iter().any(|host| host.name == name && host.state == state);
    let gone = hosts.iter().filter(|host| host.state == HostState::Gone);
    let mut remedies: Vec<String> = gone
        .map(|host| {
            format!(
                "host {}: attach its volumes again with the same `ebb attach`, and then run the same `ebb apply`",
                host.name
            )
        })
        .collect();
    let name = &record.desired.name;
    for (position, (member, status)) in record.desired.members.iter().zip(members).enumerate() {
        let of_host = member.host.as_deref();
        if of_host.is_some_and(|name| host_is(name, HostState::Gone) || host_is(name, HostState::Out)) {
            continue;
        }
        let path = &member.path;
        let there = match status.state {
            // What starts the array takes them into use.
            MemberState::InUse | MemberState::Resyncing | MemberState::Inactive => continue,
            MemberState::Unused | MemberState::Faulty if missing => continue,
            MemberState::Unused => None,
            MemberState::Faulty => Some("see why the array has thrown it out".to_owned()),
            MemberState::Unreachable => Some(format!("see why {path} does not answer")),
            MemberState::Missing => Some(format!("there is no {path}; connect it again")),
        };
        let array = record.desired.build.steps.iter().find_map(|step| match &step.undo {
            Some(BuildUndo::StopMd { device, members, .. }) if members.contains(path) => Some((step, device)),
            _ => None,
        });
        let back = match array {
            Some((step, device)) if !missing && !record.desired.is_across_hosts(step) => {
                let carries = seen.get(position).and_then(|seen| seen.carries.as_ref());
                let add = match seen.get(position).is_some_and(|seen| seen.has_bitmap) {
                    true => "--re-add",
                    false => "--add",
                };
                match (status.state, carries) {
                    (MemberState::Faulty, _) => {
                        format!("`mdadm {device} --remove {path}` and `mdadm {device} {add} {path}`")
                    }
                    (_, Some(Carried::Apart(when))) => format!(
                        "it was run without the members in use, last on {when}, so each side has data that the other has not. Compare them before \
                         anything else: `mdadm --examine {path}`; and when {device} is stopped (`ebb undo {name}`), `mdadm --assemble --readonly --run /dev/md/apart {}` shows what it has",
                        ran_with(record, seen, path)
                    ),
                    (_, Some(Carried::Own)) => format!("`mdadm {device} {add} {path}`"),
                    (_, Some(Carried::Nothing)) => format!("`mdadm {device} --add {path}`"),
                    (_, Some(Carried::Other(what))) => format!("{what}, and nothing of {device}"),
                    // What comes back is told when it is there.
                    (_, None) => "see `ebb status`".to_owned(),
                }
            }
            _ => "the same `ebb apply`".to_owned(),
        };
        let there = there.map_or_else(String::new, |there| format!("{there}, and then "));
        let on = of_host.map_or_else(String::new, |name| format!(" on host {name}"));
        remedies.push(format!("volume {}{on}: {there}{back}", member.name));
    }
    remedies
}
