//! Groups devices of a log into arrays and compares their members.

use super::device::{self, SingleDevice};
use super::grouping::{self, EQUAL, Found, is_leaf};
use super::{IostatReport, IostatRow, Log};
use ebbtide_analysis::observe::outlier::{
    Difference, LEAST_REQUESTS, MemberFigures, Outlier, Spared, outliers, spared,
};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

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
    /// Volumes that stand on another array, with it.
    pub stands_on: BTreeMap<String, String>,
    /// Devices of which the log says something by themselves, the longest queue first.
    pub devices: Vec<SingleDevice>,
    /// What of the log was skipped or cannot be right.
    pub notes: Vec<String>,
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
    /// Requests per second that each member completed in every report.
    pub same_rate: Option<f64>,
}

/// Why devices are taken for members of one array.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Grouping {
    /// The user said so.
    Given,
    /// Their bytes add up to those of this array.
    AddUp(String),
    /// So do their reads, and their writes are twice those of this array, which has each on two of them.
    Copies(String),
    /// Each writes as much as this array: a mirror.
    Mirror(String),
    /// No array's members were found; these, the busiest, do about equal work.
    Assumed,
}

/// Mean requests in flight below which a device is idle.
const IDLE_QUEUE: f64 = 0.05;
/// Share of the time with a request in flight below which it is.
const IDLE_UTIL: f64 = 0.02;

/// A member that is busy for no larger share of the time than this many times its siblings' is not the one that takes longer.
const AS_BUSY: f64 = 1.1;
/// Near all of the time, that share says nothing of this.
const ALL_THE_TIME: f64 = 0.95;
/// A share of the time above this is not explained by iostat's interval, which is not quite that of the counters.
const MOST_UTIL: f64 = 1.10;

/// Explains a log. `members` names the members of the array where the user knows them; a log that was recorded with
/// -y has `every_report` compared, any other all but the first of several.
pub fn explain(log: &Log, members: &[String], every_report: bool) -> Explanation {
    let first_left_out = log.reports.len() > 1 && log.since_boot && !every_report;
    let (compared, notes) = believed(&log.reports[usize::from(first_left_out)..]);
    let compared = compared.as_slice();
    let means = means(compared);
    // An interval of iostat is at least one second.
    let seconds = compared.len() as f64;
    let leaves: Vec<usize> = (0..means.len()).filter(|i| is_leaf(&means, *i)).collect();
    let (found, groups) = groups(&means, &leaves, members, seconds);
    let of_group = |(grouping, indices): (Grouping, Vec<usize>)| {
        let all: Vec<MemberFigures> = indices.iter().map(|i| means[*i].figures()).collect();
        let (members, idle) = working(all, seconds);
        let mut spared = spared(&members, seconds);
        let mut outliers = outliers(&members, seconds);
        outliers.retain(|outlier| {
            let because = busy_no_longer(outlier);
            let figures = outlier.figures.clone();
            spared.extend(because.iter().map(|because| Spared {
                name: outlier.name.clone(),
                figures: figures.clone(),
                because: vec![because.clone()],
            }));
            because.is_none()
        });
        let in_reports = outliers.iter().map(|o| reports_with(compared, &members, o)).collect();
        let same_rate = device::same_rate(members.iter().map(|m| m.name.as_str()), compared);
        Group { grouping, members, idle, outliers, in_reports, spared, same_rate }
    };
    let groups: Vec<Group> = groups.into_iter().map(of_group).collect();
    let mut devices: Vec<SingleDevice> =
        leaves.iter().filter_map(|i| device::judge(&means[*i], compared)).collect();
    // An array gives its members the same number of requests, whatever holds them back.
    devices.iter_mut().for_each(|device| device.same_rate &= !shares_rate(&groups, &device.figures));
    devices.retain(|device| device.state != device::State::Steady || device.same_rate);
    devices.sort_by(|a, b| b.figures.queue.total_cmp(&a.figures.queue));
    Explanation {
        reports: compared.len(),
        first_left_out,
        groups,
        arrays_without_members: found.without.into_iter().chain(found.carried.keys().cloned()).collect(),
        carried_by_one: found.carried,
        stands_on: found.stands_on,
        devices,
        notes: log.notes.iter().cloned().chain(notes).collect(),
    }
}

/// The reports without what cannot be right, and what that was.
fn believed(reports: &[IostatReport]) -> (Vec<IostatReport>, Option<String>) {
    let mut reports = reports.to_vec();
    let (mut names, mut most): (BTreeSet<String>, f64) = (BTreeSet::new(), 0.0);
    for row in reports.iter_mut().flat_map(|report| &mut report.devices) {
        if let Some(util) = row.util.take_if(|util| *util > MOST_UTIL) {
            names.insert(row.device.clone());
            most = most.max(util);
        }
    }
    let note = format!(
        "%util is up to {:.1} for {}: no device is busy for more than all of the time, so the kernel's counter is wrong; it is left out, \
         and waits and queues are judged instead",
        most * 100.0,
        names.into_iter().collect::<Vec<_>>().join(", ")
    );
    (reports, (most > 0.0).then_some(note))
}

/// Why a member that waits longer is not the one that takes longer: it is busy for the same share of the time, and that is no
/// more than its siblings need for the same work. Were each request longer, fewer would fit in.
fn busy_no_longer(outlier: &Outlier) -> Option<String> {
    let util = outlier.figures.iter().find(|figure| figure.what == "util")?;
    let same = util.value < ALL_THE_TIME * 100.0 && util.value <= util.siblings * AS_BUSY;
    (outlier.difference == Difference::Slow && same).then(|| {
        format!(
            "it is busy no longer than they are ({:.1}% of the time against {:.1}%) for the same work, so its requests wait for each other: \
             they come in bunches, or are split above it",
            util.value, util.siblings
        )
    })
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

/// The members that are named, or what stands on what, and where that is not known those that look like members.
fn groups(
    rows: &[IostatRow],
    leaves: &[usize],
    given: &[String],
    seconds: f64,
) -> (Found, Vec<(Grouping, Vec<usize>)>) {
    if !given.is_empty() {
        let indices = given.iter().filter_map(|name| rows.iter().position(|r| r.device == *name));
        return (Found::default(), vec![(Grouping::Given, indices.collect())]);
    }
    let mut found = grouping::find(rows);
    let mut groups = std::mem::take(&mut found.groups);
    if groups.is_empty() || !found.without.is_empty() {
        let busy = |i: &usize| rows[*i].requests() * seconds >= LEAST_REQUESTS && rows[*i].bytes() > 0.0;
        let is_taken = |i: &usize| groups.iter().any(|(_, members)| members.contains(i));
        let busy: Vec<usize> = leaves.iter().copied().filter(|i| busy(i) && !is_taken(i)).collect();
        groups.extend(grouping::alike(rows, &busy).map(|equal| (Grouping::Assumed, equal)));
    }
    (found, groups)
}
