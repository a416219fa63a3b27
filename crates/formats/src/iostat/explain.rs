//! Groups devices of a log into arrays and compares their members.

use super::device::{self, SingleDevice};
use super::{IostatReport, IostatRow};
use ebbtide_analysis::observe::outlier::{LEAST_REQUESTS, MemberFigures, Outlier, Spared, outliers, spared};
use serde::Serialize;
use std::collections::BTreeMap;

/// Figures of one log, and what stands out in them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explanation {
    /// Reports of iostat that were compared.
    pub reports: usize,
    /// The first report was left out: without -y it holds the time since boot.
    pub first_left_out: bool,
    /// Groups of members that were compared with one another.
    pub groups: Vec<Group>,
    /// Arrays that did something, whose members were not found.
    pub arrays_without_members: Vec<String>,
    /// Of these, those all of whose bytes went to one device, with it.
    pub carried_by_one: BTreeMap<String, String>,
    /// Devices of which the log says something by themselves, the longest queue first.
    pub devices: Vec<SingleDevice>,
}

/// Members of an array, or devices taken for them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Group {
    /// Why these belong together.
    pub grouping: Grouping,
    /// Means over the reports.
    pub members: Vec<MemberFigures>,
    /// Members that were named and did nothing, which are not compared with those that worked.
    pub idle: Vec<String>,
    /// Members that stand out, by the means.
    pub outliers: Vec<Outlier>,
    /// For each outlier, in how many reports it also stands out by itself.
    pub in_reports: Vec<usize>,
    /// Members that wait far longer than their siblings and are not called slow, with what speaks against it.
    pub spared: Vec<Spared>,
}

/// Why devices are taken for members of one array.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Grouping {
    /// The user said so.
    Given,
    /// Their bytes add up to those of this array.
    AddUp(String),
    /// Each writes as much as this array: a mirror.
    Mirror(String),
    /// No array's members were found; these, the busiest, do about equal work.
    Assumed,
}

/// Members' bytes agree with the array's within this: the kernel counts an array's requests when they begin and a
/// member's when they end, and iostat rounds.
const ADD_UP: f64 = 0.03;
/// Members of a striped array do equal work within this.
const EQUAL: f64 = 0.25;

/// Devices of equal work do at least this share of what the median of those does that add up.
const PEER: f64 = 0.5;
/// Mean requests in flight below which a device is idle.
const IDLE_QUEUE: f64 = 0.05;
/// Share of the time with a request in flight below which it is.
const IDLE_UTIL: f64 = 0.02;

/// Explains a log. `members` names the members of the array where the user knows them; a log that was recorded with
/// -y has `every_report` compared, any other all but the first of several.
pub fn explain(reports: &[IostatReport], members: &[String], every_report: bool) -> Explanation {
    let first_left_out = reports.len() > 1 && !every_report;
    let compared = if first_left_out { &reports[1..] } else { reports };
    let means = means(compared);
    // An interval of iostat is at least one second.
    let seconds = compared.len() as f64;
    let groups: Vec<Group> = groups(&means, members, seconds)
        .into_iter()
        .map(|(grouping, indices)| {
            let all: Vec<MemberFigures> = indices.iter().map(|i| means[*i].figures()).collect();
            let (members, idle) = working(all, seconds);
            let outliers = outliers(&members, seconds);
            let in_reports = outliers.iter().map(|o| reports_with(compared, &members, o)).collect();
            let spared = spared(&members, seconds);
            Group { grouping, members, idle, outliers, in_reports, spared }
        })
        .collect();
    let found = |name: &str| {
        groups.iter().any(|g| match &g.grouping {
            Grouping::Given => true,
            Grouping::AddUp(array) | Grouping::Mirror(array) => array == name,
            Grouping::Assumed => false,
        })
    };
    let active = means.iter().filter(|r| is_array(&r.device) && r.requests() > 0.0);
    let without: Vec<&IostatRow> = active.filter(|r| !found(&r.device)).collect();
    let leaves: Vec<usize> = (0..means.len()).filter(|i| is_leaf(&means, *i)).collect();
    let carried = |array: &&IostatRow| Some((array.device.clone(), carrier(&means, array, &leaves)?));
    let carried_by_one = without.iter().filter_map(carried).collect();
    let arrays_without_members = without.iter().map(|r| r.device.clone()).collect();
    let mut devices: Vec<SingleDevice> =
        leaves.iter().filter_map(|i| device::judge(&means[*i], compared)).collect();
    // An array gives its members the same number of requests, whatever holds them back.
    devices.iter_mut().for_each(|device| device.same_rate &= !shares_rate(&groups, &device.figures));
    devices.sort_by(|a, b| b.figures.queue.total_cmp(&a.figures.queue));
    Explanation {
        reports: compared.len(),
        first_left_out,
        groups,
        arrays_without_members,
        carried_by_one,
        devices,
    }
}

/// Whether a sibling of the device in one of these groups does as many requests per second.
fn shares_rate(groups: &[Group], device: &MemberFigures) -> bool {
    let near = |member: &&MemberFigures| {
        member.name != device.name
            && (member.requests_per_second - device.requests_per_second).abs()
                <= EQUAL * device.requests_per_second
    };
    groups.iter().any(|group| {
        group.members.iter().any(|m| m.name == device.name) && group.members.iter().any(|m| near(&m))
    })
}

/// The one device that carries all of an array's bytes, where no other does.
fn carrier(rows: &[IostatRow], array: &IostatRow, leaves: &[usize]) -> Option<String> {
    let mut alike = leaves.iter().map(|i| &rows[*i]).filter(|row| same_bytes(row.bytes(), array.bytes()));
    alike.next().filter(|_| alike.next().is_none()).map(|row| row.device.clone())
}

/// Whether bytes are the same as far as iostat tells.
fn same_bytes(a: f64, b: f64) -> bool {
    (a - b).abs() <= ADD_UP * b.max(1.0)
}

/// Those that worked, and the names of those that did nothing, where at least two worked: beside many that are idle each that
/// works stands out, and the slow one among them does not. Where one does all the work, that it does is the answer.
fn working(all: Vec<MemberFigures>, seconds: f64) -> (Vec<MemberFigures>, Vec<String>) {
    // One that hangs completes nothing either, but has a queue.
    let is_idle = |m: &MemberFigures| {
        m.requests_per_second * seconds < LEAST_REQUESTS
            && m.queue < IDLE_QUEUE
            && m.util.is_none_or(|util| util < IDLE_UTIL)
    };
    if all.iter().filter(|m| !is_idle(m)).count() < 2 {
        return (all, Vec::new());
    }
    let (idle, members): (Vec<MemberFigures>, Vec<MemberFigures>) = all.into_iter().partition(is_idle);
    (members, idle.into_iter().map(|m| m.name).collect())
}

/// In how many reports a member stands out in the same way.
fn reports_with(reports: &[IostatReport], members: &[MemberFigures], outlier: &Outlier) -> usize {
    let stands_out = |report: &&IostatReport| {
        let find = |name: &str| report.devices.iter().find(|d| d.device == name).map(IostatRow::figures);
        let figures: Vec<MemberFigures> = members.iter().filter_map(|m| find(&m.name)).collect();
        outliers(&figures, 1.0).iter().any(|o| o.name == outlier.name && o.difference == outlier.difference)
    };
    reports.iter().filter(stands_out).count()
}

/// Means of each device over the reports that have it; waits are weighted by requests.
fn means(reports: &[IostatReport]) -> Vec<IostatRow> {
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    let mut devices: Vec<Vec<&IostatRow>> = Vec::new();
    for row in reports.iter().flat_map(|r| &r.devices) {
        let place = *places.entry(&row.device).or_insert_with(|| {
            devices.push(Vec::new());
            devices.len() - 1
        });
        devices[place].push(row);
    }
    devices
        .into_iter()
        .map(|rows| {
            let mean = |figure: fn(&IostatRow) -> Option<f64>| {
                let values: Vec<f64> = rows.iter().filter_map(|r| figure(r)).collect();
                (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
            };
            let requests: f64 = rows.iter().map(|r| r.requests()).sum();
            let waited: f64 = rows.iter().filter_map(|r| Some(r.wait()? * r.requests())).sum();
            IostatRow {
                device: rows.first().map(|r| r.device.clone()).unwrap_or_default(),
                reads: mean(|r| r.reads),
                writes: mean(|r| r.writes),
                read_bytes: mean(|r| r.read_bytes),
                write_bytes: mean(|r| r.write_bytes),
                read_await: None,
                write_await: None,
                all_await: (requests > 0.0).then(|| waited / requests),
                queue: mean(|r| r.queue),
                util: mean(|r| r.util),
            }
        })
        .collect()
}

fn is_array(name: &str) -> bool {
    ["md", "dm-", "drbd"].iter().any(|prefix| name.starts_with(prefix))
}

fn groups(rows: &[IostatRow], given: &[String], seconds: f64) -> Vec<(Grouping, Vec<usize>)> {
    if !given.is_empty() {
        let indices = given.iter().filter_map(|name| rows.iter().position(|r| r.device == *name));
        return vec![(Grouping::Given, indices.collect())];
    }
    let leaves: Vec<usize> = (0..rows.len()).filter(|i| is_leaf(rows, *i)).collect();
    let mut found: Vec<(Grouping, Vec<usize>)> = Vec::new();
    for array in rows.iter().filter(|r| is_array(&r.device) && r.bytes() > 0.0) {
        if let Some(group) = members_of(rows, array, &leaves) {
            found.push(group);
        }
    }
    if found.is_empty() {
        // Unrelated disks are seldom equally busy, and idle ones always are.
        let busy = |i: &usize| rows[*i].requests() * seconds >= LEAST_REQUESTS && rows[*i].bytes() > 0.0;
        let busy: Vec<usize> = leaves.iter().copied().filter(busy).collect();
        let most = busy.iter().map(|i| rows[*i].bytes()).fold(0.0, f64::max);
        let near = |value: f64, of: f64| (value - of).abs() <= of * EQUAL;
        let equal_to = |centre: &usize| -> Vec<usize> {
            let (bytes, requests) = (rows[*centre].bytes(), rows[*centre].requests());
            let equal = |i: &usize| near(rows[*i].bytes(), bytes) && near(rows[*i].requests(), requests);
            busy.iter().copied().filter(equal).collect()
        };
        // Another disk may happen to move as many bytes: the most that are alike count.
        let centres = busy.iter().filter(|i| rows[**i].bytes() >= PEER * most);
        if let Some(equal) = centres.map(equal_to).max_by_key(Vec::len).filter(|equal| equal.len() > 1) {
            found.push((Grouping::Assumed, equal));
        }
    }
    found
}

/// Not an array, and not a whole disk whose partitions are in the log too.
fn is_leaf(rows: &[IostatRow], index: usize) -> bool {
    let Some(row) = rows.get(index).filter(|r| !is_array(&r.device)) else { return false };
    let is_partition_of = |part: &str| {
        let rest = part.strip_prefix(row.device.as_str()).map(|r| r.strip_prefix('p').unwrap_or(r));
        // `sdi1` and `sdi2` are no partitions of each other; nvme1n1 is none of nvme1.
        rest.is_some_and(|r| !r.is_empty() && r.bytes().all(|b| b.is_ascii_digit()))
            && (part[row.device.len()..].starts_with('p')
                || !row.device.ends_with(|c: char| c.is_ascii_digit()))
    };
    !rows.iter().any(|r| is_partition_of(&r.device))
}

/// Devices whose bytes add up to the array's, reads and writes each: the fewest that do, among equally busy ones, and others
/// that do as much as these. What moves a few bytes beside them, a root's partition, would add up as well.
fn members_of(rows: &[IostatRow], array: &IostatRow, leaves: &[usize]) -> Option<(Grouping, Vec<usize>)> {
    let adds_up = |members: &[usize]| {
        let sum = |of: fn(&IostatRow) -> Option<f64>| {
            members.iter().filter_map(|i| of(&rows[*i])).sum::<f64>() - of(array).unwrap_or(0.0)
        };
        sum(|r| r.read_bytes).abs() + sum(|r| r.write_bytes).abs() <= ADD_UP * array.bytes().max(1.0)
    };
    let mut busy: Vec<usize> = leaves.iter().copied().filter(|i| rows[*i].bytes() > 0.0).collect();
    busy.sort_by(|a, b| rows[*b].bytes().total_cmp(&rows[*a].bytes()));
    let windows = (2..=busy.len()).flat_map(|count| busy.windows(count));
    let best = windows.into_iter().find(|members| adds_up(members));
    // A device that carries all of an array's bytes alone is what it rests on (dm-0 on sda3); any other beside it that
    // moves next to nothing would add up as well.
    let alone = carrier(rows, array, leaves).is_some();
    if let Some(best) = best.filter(|_| !alone) {
        let mut members = best.to_vec();
        let usual = rows[best[best.len() / 2]].bytes();
        for index in busy.iter().filter(|index| !best.contains(index)) {
            members.push(*index);
            if rows[*index].bytes() < PEER * usual || !adds_up(&members) {
                members.pop();
            }
        }
        members.sort_unstable();
        return Some((Grouping::AddUp(array.device.clone()), members));
    }
    let writes = array.write_bytes.filter(|w| *w > 0.0)?;
    let mirrored: Vec<usize> = leaves
        .iter()
        .copied()
        .filter(|i| rows[*i].write_bytes.is_some_and(|w| same_bytes(w, writes)))
        .collect();
    (mirrored.len() > 1).then(|| (Grouping::Mirror(array.device.clone()), mirrored))
}
