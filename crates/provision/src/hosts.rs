//! What an array that stays looks like by the hosts that its members are on: they are lost and come back as a whole.

use crate::member::{MemberState, MemberStatus};
use crate::{Record, can_lose_hosts};
use ebbtide_model::shown::Exposition;
use ebbtide_model::units::format_count;
use serde::Serialize;
use strum::AsRefStr;

/// How a host is, for one array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, AsRefStr)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum HostState {
    /// All its members are in use.
    InUse,
    /// Members of it are being brought up to date, and the others are in use.
    Returning,
    /// Some of its members are not in use.
    Partial,
    /// None of its members answers.
    Gone,
    /// All its members are there, and the array does not use them.
    Unused,
    /// It was taken out on purpose.
    Out,
}

/// A host of an array's members.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HostStatus {
    /// Its name in the experiment.
    pub name: String,
    /// Whether its members are there, and whether the array uses them.
    pub state: HostState,
    /// Members that are on it.
    pub members: usize,
    /// Those of them that are in use.
    pub in_use: usize,
}

/// The hosts of the members of `record`, in the order in which the experiment names them, and how many more of them may be lost; nothing where no
/// volume says its host.
pub(crate) fn hosts(
    record: &Record,
    members: &[MemberStatus],
    missing: bool,
) -> (Vec<HostStatus>, Option<usize>) {
    let desired = &record.desired;
    let mut names: Vec<&str> = Vec::new();
    for host in desired.members.iter().filter_map(|member| member.host.as_deref()) {
        if !names.contains(&host) {
            names.push(host);
        }
    }
    let of = |name: &&str| {
        let own =
            desired.members.iter().zip(members).filter(|(member, _)| member.host.as_deref() == Some(name));
        let states: Vec<MemberState> = own.map(|(_, status)| status.state).collect();
        let count = |which: &[MemberState]| states.iter().filter(|state| which.contains(state)).count();
        let in_use = count(&[MemberState::InUse]);
        let state = match () {
            () if record.is_out(name) => HostState::Out,
            () if in_use == states.len() => HostState::InUse,
            () if count(&[MemberState::Missing, MemberState::Unreachable]) == states.len() => HostState::Gone,
            () if count(&[MemberState::InUse, MemberState::Resyncing]) == states.len() => {
                HostState::Returning
            }
            () if count(&[MemberState::Unused, MemberState::Faulty, MemberState::Inactive])
                == states.len() =>
            {
                HostState::Unused
            }
            () => HostState::Partial,
        };
        HostStatus { name: (*name).to_owned(), state, members: states.len(), in_use }
    };
    let hosts: Vec<HostStatus> = names.iter().map(of).collect();
    let works = |volume: usize| {
        let at = desired.members.iter().position(|member| member.volume == volume);
        at.and_then(|at| members.get(at)).is_some_and(|member| member.state == MemberState::InUse)
    };
    let can_lose = match hosts.is_empty() || missing {
        true => None,
        false => can_lose_hosts(&desired.layout, &works, &|volume| desired.host_of(volume)),
    };
    (hosts, can_lose)
}

/// What is said of them to people, a sentence each; nothing where there are none.
pub(crate) fn sentences(hosts: &[HostStatus], can_lose: Option<usize>) -> Vec<String> {
    if hosts.is_empty() {
        return Vec::new();
    }
    let all: usize = hosts.iter().map(|host| host.members).sum();
    let whole = hosts.iter().all(|host| host.state == HostState::InUse);
    let more = if whole { "" } else { "more " };
    let lose = match can_lose {
        None => "its data cannot be reached".to_owned(),
        Some(0) => format!("no {more}host may be lost"),
        Some(1) => format!("you can lose one {more}host"),
        Some(count) => format!("you can lose {count} {more}hosts"),
    };
    if whole {
        return vec![format!(
            "{} on {}; {lose}",
            format_count(all as u64, "member"),
            format_count(hosts.len() as u64, "host")
        )];
    }
    let troubled: Vec<&HostStatus> = hosts.iter().filter(|host| host.state != HostState::InUse).collect();
    troubled
        .iter()
        .enumerate()
        .map(|(index, host)| {
            let of = format!("{} of {all} members", host.members);
            let told = match host.state {
                HostState::InUse => "is in use".to_owned(),
                HostState::Gone => format!("is gone: {of}"),
                HostState::Returning => format!("is back, and is brought up to date: {of}"),
                HostState::Unused => format!("is there and not in use: {of}, which `ebb apply` brings back"),
                HostState::Out => format!("is out, as asked: {of}, which `ebb apply` brings back"),
                HostState::Partial => {
                    format!(
                        "has {} of its {} not in use",
                        host.members - host.in_use,
                        format_count(host.members as u64, "member")
                    )
                }
            };
            // Once, with the last of them.
            let lose = if index + 1 == troubled.len() { format!("; {lose}") } else { String::new() };
            format!("host {} {told}{lose}", host.name)
        })
        .collect()
}

/// Figures of the hosts of each array, by its name.
pub(crate) fn figures(text: &mut Exposition, arrays: &[(&str, &[HostStatus], Option<usize>)]) {
    let number = |count: usize| u32::try_from(count).map_or(f64::from(u32::MAX), f64::from);
    let mut of_hosts = |name: &str, help: &str, value: fn(&HostStatus) -> usize| {
        let samples: Vec<([(&str, &str); 2], f64)> = arrays
            .iter()
            .flat_map(|(array, hosts, _)| {
                hosts
                    .iter()
                    .map(move |host| ([("array", *array), ("host", host.name.as_str())], number(value(host))))
            })
            .collect();
        if !samples.is_empty() {
            text.gauge(name, help, samples.iter().map(|(labels, value)| (&labels[..], *value)));
        }
    };
    of_hosts("ebbtide_array_host_members", "Members of an array that are on a host.", |host| host.members);
    of_hosts("ebbtide_array_host_members_in_use", "Members of an array on a host that work.", |host| {
        host.in_use
    });
    let lose: Vec<([(&str, &str); 1], f64)> = arrays
        .iter()
        .filter(|(_, hosts, _)| !hosts.is_empty())
        .map(|(array, _, lose)| ([("array", *array)], lose.map_or(-1.0, number)))
        .collect();
    if !lose.is_empty() {
        text.gauge(
            "ebbtide_array_can_lose_hosts",
            "Hosts that may still be lost, whichever they are; -1 where data cannot be reached.",
            lose.iter().map(|(labels, value)| (&labels[..], *value)),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str, state: HostState, in_use: usize) -> HostStatus {
        HostStatus { name: name.to_owned(), state, members: 2, in_use }
    }

    #[test]
    fn hosts_are_told_in_a_sentence_each() {
        let mut hosts = vec![
            host("storage-a", HostState::InUse, 2),
            host("storage-b", HostState::InUse, 2),
            host("storage-c", HostState::InUse, 2),
        ];
        assert_eq!(sentences(&hosts, Some(2)), ["6 members on 3 hosts; you can lose 2 hosts"]);
        hosts[1] = host("storage-b", HostState::Gone, 0);
        assert_eq!(
            sentences(&hosts, Some(1)),
            ["host storage-b is gone: 2 of 6 members; you can lose one more host"]
        );
        hosts[2] = host("storage-c", HostState::Partial, 1);
        assert_eq!(
            sentences(&hosts, Some(0)),
            [
                "host storage-b is gone: 2 of 6 members",
                "host storage-c has 1 of its 2 members not in use; no more host may be lost"
            ]
        );
        hosts[2] = host("storage-c", HostState::Out, 0);
        assert!(sentences(&hosts, None)[1].ends_with("brings back; its data cannot be reached"));
        assert_eq!(sentences(&[], None), Vec::<String>::new());
    }

    #[test]
    fn figures_of_hosts_are_these() {
        let hosts = [host("storage-a", HostState::InUse, 2), host("storage-b", HostState::Gone, 0)];
        let mut text = Exposition::default();
        figures(&mut text, &[("data", &hosts, Some(0)), ("plain", &[], None)]);
        let text = text.finish();
        let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(
            samples,
            [
                "ebbtide_array_host_members{array=\"data\",host=\"storage-a\"} 2",
                "ebbtide_array_host_members{array=\"data\",host=\"storage-b\"} 2",
                "ebbtide_array_host_members_in_use{array=\"data\",host=\"storage-a\"} 2",
                "ebbtide_array_host_members_in_use{array=\"data\",host=\"storage-b\"} 0",
                "ebbtide_array_can_lose_hosts{array=\"data\"} 0",
            ]
        );
    }
}
