//! What arrays that stay are like now: one model, as text, as JSON (`ebbtide.status/1`), and for Prometheus.

use crate::attached::{Attached, Link};
use crate::export::Exported;
use crate::hosts::{self, HostStatus};
use crate::member::{MemberSeen, MemberState, MemberStatus};
use crate::monitor::MonitorState;
use crate::remedy::{lost, remedies};
use crate::{AtWork, Record};
use ebbtide_model::shown::{Exposition, Shown, columns};
use ebbtide_model::units::format_count;
use serde::{Deserialize, Serialize};
use std::fmt::Write;
use std::path::PathBuf;
use strum::{AsRefStr, VariantArray};

/// How an array is, the worst last.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, AsRefStr, VariantArray,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum State {
    /// All is as `ebb apply` left it.
    Healthy,
    /// It runs, and something of it or of the host's files is not as it should be.
    Drifted,
    /// It runs with less redundancy than it has members for, or a member reports trouble.
    Degraded,
    /// It, or something of it that holds data, is not there.
    Missing,
}

/// Work that an array does beside its own.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Activity {
    /// `resync`, `recover`, `reshape`, `check`, as md calls it.
    pub action: String,
    /// How much of it is done, from 0 to 1, where that can be told.
    pub done: Option<f64>,
}

/// What was seen of an array that stays.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ArraySeen {
    /// Each member, in the record's order.
    pub members: Vec<MemberSeen>,
    /// What its arrays do beside.
    pub doing: Vec<Activity>,
    /// What is not as it should be, in words.
    pub drift: Vec<String>,
    /// Something that holds data is not there.
    pub missing: bool,
    /// Its data are on devices that the design does not name, too, or only there.
    pub elsewhere: bool,
    /// It is of another level or geometry than the design says.
    pub differs: bool,
    /// How many members it lacks there.
    pub short: u64,
    /// Who is at work on it.
    pub at_work: Option<AtWork>,
}

/// How an array that stays is.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Array {
    /// Name of the array.
    pub name: String,
    /// Path of the array's device.
    pub path: String,
    /// Where it is mounted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mountpoint: Option<PathBuf>,
    /// What becomes of it when its members come back empty.
    pub class: String,
    /// State of the array.
    pub state: State,
    /// States of its members, in the array's order.
    pub members: Vec<MemberStatus>,
    /// How many more members may fail, whichever they are, before data are lost; nothing where they are lost or cannot be reached.
    pub can_lose: Option<usize>,
    /// The hosts that its members are on, where the experiment says.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<HostStatus>,
    /// How many more hosts may be lost, whichever they are, before data are; nothing where they are lost or cannot be reached, or no member says
    /// its host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub can_lose_hosts: Option<usize>,
    /// Whether its data are on devices that the design does not name.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub elsewhere: bool,
    /// What it does beside its own work.
    pub doing: Vec<Activity>,
    /// What is not as it should be.
    pub drift: Vec<String>,
    /// What brings back members that are not in use, in words; nothing for those that come back by themselves, and those of a host that is out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remedies: Vec<String>,
    /// Who is at work on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_work: Option<AtWork>,
}

/// How everything that stays on a host is.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Status {
    /// Name and version of the form: [`Status::SCHEMA`].
    pub schema: &'static str,
    /// Each array, by name.
    pub arrays: Vec<Array>,
    /// Each volume of another host that is attached, by name.
    pub attached: Vec<Attached>,
    /// Each volume that another host was given, by name.
    pub exports: Vec<Exported>,
    /// How the monitor goes, where it is installed.
    pub monitor: Option<MonitorState>,
}

impl Array {
    /// Of `record`, as it was `seen`.
    pub fn of(record: &Record, seen: ArraySeen) -> Array {
        let desired = &record.desired;
        let seen_of = |position: usize| seen.members.get(position).cloned().unwrap_or_default();
        let members: Vec<MemberStatus> = desired
            .members
            .iter()
            .enumerate()
            .map(|(position, member)| {
                let MemberSeen { state, errors, troubles, .. } = seen_of(position);
                let state = state.unwrap_or(MemberState::Missing);
                MemberStatus { name: member.name.clone(), path: member.path.clone(), state, errors, troubles }
            })
            .collect();
        let works = |volume: usize| {
            let member = desired.members.iter().position(|member| member.volume == volume);
            member.is_some_and(|position| members[position].state == MemberState::InUse)
        };
        // Of those that took its members' places nothing is known but how many are missing.
        let is_moved = seen.elsewhere && members.iter().any(|member| member.state != MemberState::InUse);
        // The design says nothing of what another array can lose.
        let can_lose = if seen.missing || is_moved || seen.differs { None } else { desired.can_lose(&works) };
        let (hosts, can_lose_hosts) = hosts::hosts(record, &members, seen.missing);
        let is_out = |member: &MemberStatus| match seen.elsewhere {
            true => member.state == MemberState::Faulty,
            false => member.state != MemberState::InUse,
        };
        let troubled =
            |member: &MemberStatus| is_out(member) || member.errors > 0 || !member.troubles.is_empty();
        let state = if seen.missing {
            State::Missing
        } else if seen.short > 0 || members.iter().any(troubled) {
            State::Degraded
        } else if !seen.drift.is_empty() || seen.at_work.is_some() {
            State::Drifted
        } else {
            State::Healthy
        };
        let is_lost = !seen.missing && can_lose.is_none();
        let remedies = match lost(record, &members).filter(|_| is_lost) {
            _ if seen.elsewhere || seen.differs => Vec::new(),
            Some(lost) => vec![lost],
            None => remedies(record, &members, &seen.members, &hosts, seen.missing),
        };
        Array {
            name: desired.name.clone(),
            path: desired.build.device.clone(),
            mountpoint: desired.build.mountpoint.clone(),
            class: desired.class.as_ref().to_owned(),
            state,
            members,
            can_lose,
            hosts,
            can_lose_hosts,
            elsewhere: seen.elsewhere,
            doing: seen.doing,
            drift: seen.drift,
            remedies,
            at_work: seen.at_work,
        }
    }

    /// Whether all that should be there is there or on its way back: nobody has to bring a member or a host back.
    pub fn is_complete(&self) -> bool {
        self.state != State::Missing && self.remedies.is_empty()
    }
}

impl Status {
    /// Name and version of its form in JSON.
    pub const SCHEMA: &str = "ebbtide.status/1";

    /// The status of these arrays, and nothing else.
    pub fn of(arrays: Vec<Array>) -> Status {
        Status { schema: Status::SCHEMA, arrays, attached: Vec::new(), exports: Vec::new(), monitor: None }
    }

    /// Whether there is nothing to tell of.
    pub fn is_empty(&self) -> bool {
        self.arrays.is_empty()
            && self.attached.is_empty()
            && self.exports.is_empty()
            && self.monitor.is_none()
    }

    /// Whether monitoring need not wake anybody.
    pub fn is_healthy(&self) -> bool {
        self.arrays.iter().all(|array| array.state == State::Healthy)
            && self.attached.iter().all(Attached::is_well)
            && self.exports.iter().all(Exported::is_well)
            && self.monitor.as_ref().is_none_or(MonitorState::is_well)
    }

    /// What `ebb status` prints for people.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for array in &self.arrays {
            let mounted =
                array.mountpoint.as_ref().map_or_else(String::new, |path| format!(" on {}", path.shown()));
            let lose = match array.can_lose {
                Some(0) => "no member may fail".to_owned(),
                Some(count) => format!("{} may fail", format_count(count as u64, "more member")),
                None if array.elsewhere => "its data are on other devices".to_owned(),
                None => "its data cannot be reached".to_owned(),
            };
            let _ = writeln!(
                text,
                "{}: {} ({}{mounted}, {}; {lose})",
                array.name,
                array.state.as_ref(),
                array.path,
                array.class
            );
            for doing in &array.doing {
                let done = doing
                    .done
                    .map_or_else(|| "not begun".to_owned(), |done| format!("{:.1}% done", done * 100.0));
                let _ = writeln!(text, "  {}: {done}", doing.action);
            }
            let rows = array.members.iter().map(|member| {
                let mut says = member.troubles.clone();
                if member.errors > 0 {
                    says.insert(0, format_count(member.errors, "error"));
                }
                vec![
                    member.name.clone(),
                    member.state.as_ref().to_owned(),
                    member.path.clone(),
                    says.join(", "),
                ]
            });
            text += &columns(&rows.collect::<Vec<_>>(), 2);
            for line in hosts::sentences(&array.hosts, array.can_lose_hosts) {
                let _ = writeln!(text, "  {line}");
            }
            if let Some(at_work) = &array.at_work {
                let _ = writeln!(text, "  {at_work}");
            }
            for line in &array.drift {
                let _ = writeln!(text, "  drift: {line}");
            }
            for line in &array.remedies {
                let _ = writeln!(text, "  to do: {line}");
            }
        }
        text.extend(self.attached.iter().map(Attached::text));
        text.extend(self.exports.iter().map(Exported::text));
        text.extend(self.monitor.iter().map(|monitor| format!("monitor: {}", monitor.text())));
        text
    }

    /// For Prometheus, its node exporter's textfile collector and what reads OpenMetrics 1.0.
    pub fn openmetrics(&self) -> String {
        let mut text = Exposition::default();
        let number = |count: usize| u32::try_from(count).map_or(f64::from(u32::MAX), f64::from);
        let states: Vec<([(&str, &str); 2], f64)> = self
            .arrays
            .iter()
            .flat_map(|array| {
                State::VARIANTS.iter().map(move |state| {
                    let labels = [("array", array.name.as_str()), ("state", state.as_ref())];
                    (labels, f64::from(u8::from(array.state == *state)))
                })
            })
            .collect();
        text.gauge(
            "ebbtide_array_state",
            "1 for the state that an array is in, 0 for the others.",
            states.iter().map(|(labels, value)| (&labels[..], *value)),
        );
        let names: Vec<[(&str, &str); 1]> =
            self.arrays.iter().map(|array| [("array", array.name.as_str())]).collect();
        let mut of_arrays = |name: &str, help: &str, value: &dyn Fn(&Array) -> f64| {
            let samples = self.arrays.iter().zip(&names);
            text.gauge(name, help, samples.map(|(array, labels)| (&labels[..], value(array))));
        };
        of_arrays("ebbtide_array_members", "Members that an array should have.", &|array| {
            number(array.members.len())
        });
        of_arrays("ebbtide_array_members_in_use", "Members that work.", &|array| {
            number(array.members.iter().filter(|member| member.state == MemberState::InUse).count())
        });
        of_arrays(
            "ebbtide_array_can_lose_members",
            "Members that may still fail, whichever they are; -1 where data cannot be reached.",
            &|array| array.can_lose.map_or(-1.0, number),
        );
        of_arrays("ebbtide_array_drift", "Things that are not as ebb apply left them.", &|array| {
            number(array.drift.len())
        });
        let syncs: Vec<([(&str, &str); 2], f64)> = self
            .arrays
            .iter()
            .flat_map(|array| {
                array.doing.iter().filter_map(move |doing| {
                    Some(([("array", array.name.as_str()), ("action", doing.action.as_str())], doing.done?))
                })
            })
            .collect();
        text.gauge(
            "ebbtide_array_sync_ratio",
            "How much of a resync, rebuild or check is done, from 0 to 1.",
            syncs.iter().map(|(labels, value)| (&labels[..], *value)),
        );
        let errors: Vec<([(&str, &str); 2], f64)> = self
            .arrays
            .iter()
            .flat_map(|array| {
                array.members.iter().map(move |member| {
                    let count = u32::try_from(member.errors).map_or(f64::from(u32::MAX), f64::from);
                    ([("array", array.name.as_str()), ("member", member.name.as_str())], count)
                })
            })
            .collect();
        text.gauge(
            "ebbtide_array_member_errors",
            "Errors that the array has counted of a member since it was assembled.",
            errors.iter().map(|(labels, value)| (&labels[..], *value)),
        );
        let of_hosts: Vec<(&str, &[HostStatus], Option<usize>)> = self
            .arrays
            .iter()
            .map(|array| (array.name.as_str(), array.hosts.as_slice(), array.can_lose_hosts))
            .collect();
        hosts::figures(&mut text, &of_hosts);
        let attached: Vec<([(&str, &str); 2], f64)> = self
            .attached
            .iter()
            .map(|one| {
                let labels = [("volume", one.name.as_str()), ("host", one.host.as_str())];
                (labels, f64::from(u8::from(one.state == Link::Connected)))
            })
            .collect();
        text.gauge(
            "ebbtide_attached_connected",
            "1 while reads and writes of a volume of another host get through.",
            attached.iter().map(|(labels, value)| (&labels[..], *value)),
        );
        let exports: Vec<([(&str, &str); 1], f64)> = self
            .exports
            .iter()
            .map(|export| ([("export", export.name.as_str())], f64::from(u8::from(export.running))))
            .collect();
        text.gauge(
            "ebbtide_export_running",
            "1 while another host can reach a volume that it was given.",
            exports.iter().map(|(labels, value)| (&labels[..], *value)),
        );
        text.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_an_array_are_these() {
        let member = |name: &str, state, errors| MemberStatus {
            name: name.to_owned(),
            path: format!("/dev/disk/by-id/{name}"),
            state,
            errors,
            troubles: Vec::new(),
        };
        let array = Array {
            name: "data\"1".to_owned(),
            path: "/dev/md/data".to_owned(),
            mountpoint: None,
            class: "kept".to_owned(),
            state: State::Degraded,
            members: vec![member("a", MemberState::InUse, 0), member("b", MemberState::Resyncing, 3)],
            can_lose: None,
            hosts: Vec::new(),
            can_lose_hosts: None,
            elsewhere: false,
            doing: vec![
                Activity { action: "recover".to_owned(), done: Some(0.25) },
                Activity { action: "check".to_owned(), done: None },
            ],
            drift: vec!["fstab".to_owned()],
            remedies: Vec::new(),
            at_work: None,
        };
        let text = Status::of(vec![array]).openmetrics();
        let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let array = r#"array="data\"1""#;
        assert_eq!(
            samples,
            [
                format!("ebbtide_array_state{{{array},state=\"healthy\"}} 0"),
                format!("ebbtide_array_state{{{array},state=\"drifted\"}} 0"),
                format!("ebbtide_array_state{{{array},state=\"degraded\"}} 1"),
                format!("ebbtide_array_state{{{array},state=\"missing\"}} 0"),
                format!("ebbtide_array_members{{{array}}} 2"),
                format!("ebbtide_array_members_in_use{{{array}}} 1"),
                format!("ebbtide_array_can_lose_members{{{array}}} -1"),
                format!("ebbtide_array_drift{{{array}}} 1"),
                format!("ebbtide_array_sync_ratio{{{array},action=\"recover\"}} 0.25"),
                format!("ebbtide_array_member_errors{{{array},member=\"a\"}} 0"),
                format!("ebbtide_array_member_errors{{{array},member=\"b\"}} 3"),
            ]
        );
        let kinds: Vec<&str> = text.lines().filter(|line| line.starts_with("# TYPE ")).collect();
        assert!(kinds.len() == 7 && kinds.iter().all(|line| line.ends_with(" gauge")), "{text}");
        assert!(text.ends_with("# EOF\n"));
    }
}
