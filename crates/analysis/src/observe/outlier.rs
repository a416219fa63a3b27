//! Which member of an array differs from its siblings, with the figures that make it differ.
//!
//! A striped array gives every member the same share of the work, so a slow member does not do less than its
//! siblings: it holds requests longer, and more of them. A linear array, or a hot spot, shows the other way round:
//! one member does the work at an ordinary await.

use super::rates::DiskRates;
use crate::estimate::median;
use serde::Serialize;

/// A member's await or queue this many times its siblings' median is no chance. Were service times exponential
/// (relative spread 1), the mean of [`LEAST_REQUESTS`] of them would have a relative standard error of 1/sqrt(30) =
/// 18%, the logarithm of a ratio of two such means one of 26%: ln 3 = 1.1 is four of those.
pub const SLOW_RATIO: f64 = 3.0;
/// A difference of await below this is the scheduling of the host, not the member.
pub const LEAST_AWAIT_DIFFERENCE_MS: f64 = 1.0;
/// A difference in requests in flight below this says nothing.
pub const LEAST_QUEUE_DIFFERENCE: f64 = 1.0;
/// Fewer requests than this in the span are too few to compare.
pub const LEAST_REQUESTS: f64 = 30.0;
/// A member that did more requests than its siblings' median by more than this many standard deviations of a Poisson
/// count (its square root) has more work: its queue is its load. Equal disks at their limit under random requests do
/// so in turn, because each is at work without a pause while the queue is with it, and its siblings are not.
pub const SAME_WORK_DEVIATIONS: f64 = 1.5;
/// A member that moves this many times its siblings' median does their work.
pub const BUSY_RATIO: f64 = 3.0;
/// Bytes that a member moved over its siblings' median up to which they are as many: with more requests they come in smaller ones.
const SAME_BYTES: f64 = 1.1;

/// Figures of one member that are compared with those of its siblings.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MemberFigures {
    /// Kernel name of the member's device.
    pub name: String,
    /// Requests completed per second.
    pub requests_per_second: f64,
    /// Bytes moved per second.
    pub bytes_per_second: f64,
    /// Mean time of a request in milliseconds; nothing when none completed.
    pub await_ms: Option<f64>,
    /// Mean requests in flight.
    pub queue: f64,
    /// Share of the time with a request in flight, 0 to 1.
    pub util: Option<f64>,
}

impl MemberFigures {
    /// From a device's rates.
    pub fn new(name: &str, rates: &DiskRates) -> MemberFigures {
        MemberFigures {
            name: name.to_owned(),
            requests_per_second: rates.requests_per_second(),
            bytes_per_second: rates.bytes_per_second(),
            await_ms: rates.await_ms(),
            queue: rates.queue,
            util: Some(rates.util),
        }
    }
}

/// How a member differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Difference {
    /// It holds requests longer, at no more work than its siblings.
    Slow,
    /// It does most of the work.
    Busy,
}

/// A figure of the member beside its siblings' median.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// What is compared: `await`, `queue`, `util`, `throughput`, `requests`.
    pub what: &'static str,
    /// What the member has, in `unit`.
    pub value: f64,
    /// Median of its siblings.
    pub siblings: f64,
    /// Unit of the member's figure and of its siblings'.
    pub unit: &'static str,
}

/// A member that differs from its siblings.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outlier {
    /// Index among the members given.
    pub member: usize,
    /// The member's device name.
    pub name: String,
    /// Whether it is slow or busy.
    pub difference: Difference,
    /// The figures, the telling one first.
    pub figures: Vec<Comparison>,
}

impl Outlier {
    /// The reason in one line: "await 483 ms against 34.1 ms, queue 149 against 10.5".
    pub fn reason(&self) -> String {
        in_words(&self.figures)
    }
}

impl Spared {
    /// Its figures in one line, as in [`Outlier::reason`].
    pub fn reason(&self) -> String {
        in_words(&self.figures)
    }
}

fn in_words(figures: &[Comparison]) -> String {
    let shown = figures.iter().map(|c| {
        let (value, siblings) = (plain(c.value), plain(c.siblings));
        let space = if c.unit.is_empty() || c.unit == "%" { "" } else { " " };
        format!("{} {value}{space}{} against {siblings}{space}{}", c.what, c.unit, c.unit)
    });
    shown.collect::<Vec<String>>().join(", ")
}

/// Three significant digits without an exponent.
fn plain(value: f64) -> String {
    match value.abs() {
        v if v >= 99.95 => format!("{value:.0}"),
        v if v >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// A member that waits far longer than its siblings and is not called slow all the same.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Spared {
    /// The member's device name.
    pub name: String,
    /// The figures, the telling one first.
    pub figures: Vec<Comparison>,
    /// What speaks against it, each with its figures.
    pub because: Vec<String>,
}

/// Members that differ from their siblings over a span of `seconds`.
pub fn outliers(members: &[MemberFigures], seconds: f64) -> Vec<Outlier> {
    let mut found = Vec::new();
    for (index, member, siblings) in beside_siblings(members) {
        let difference = if objections(member, &siblings, seconds).is_empty() {
            Difference::Slow
        } else if is_busy(member, &siblings) && !too_few(member, seconds) {
            Difference::Busy
        } else {
            continue;
        };
        let figures = figures(member, &siblings, difference);
        found.push(Outlier { member: index, name: member.name.clone(), difference, figures });
    }
    // The members that stand out most are the cause; a difference in half of the members or more is none of one.
    if found.len() * 2 > members.len() { Vec::new() } else { found }
}

/// Members that wait far longer than their siblings over a span of `seconds`, but are not among the outliers.
pub fn spared(members: &[MemberFigures], seconds: f64) -> Vec<Spared> {
    let named = outliers(members, seconds);
    let others = beside_siblings(members).filter(|(index, ..)| !named.iter().any(|o| o.member == *index));
    others
        .filter(|(_, member, siblings)| waits_longer(member, siblings))
        .map(|(_, member, siblings)| {
            let mut because = objections(member, &siblings, seconds);
            if because.is_empty() {
                because.push("as many members stand out as do not".to_owned());
            }
            let figures = figures(member, &siblings, Difference::Slow);
            Spared { name: member.name.clone(), figures, because }
        })
        .collect()
}

/// Whether the member at `index` shows a difference by the telling figure alone: its await, or its work.
pub fn shows(members: &[MemberFigures], index: usize, difference: Difference) -> bool {
    beside_siblings(members).any(|(at, member, siblings)| {
        at == index
            && match difference {
                Difference::Slow => waits_longer(member, &siblings),
                Difference::Busy => is_busy(member, &siblings),
            }
    })
}

fn beside_siblings(members: &[MemberFigures]) -> impl Iterator<Item = (usize, &MemberFigures, Siblings<'_>)> {
    let compared = if members.len() < 2 { &[] } else { members };
    compared.iter().enumerate().map(move |(without, m)| (without, m, Siblings { members, without }))
}

fn too_few(member: &MemberFigures, seconds: f64) -> bool {
    member.requests_per_second * seconds < LEAST_REQUESTS
}

fn waits_longer(member: &MemberFigures, siblings: &Siblings<'_>) -> bool {
    member
        .await_ms
        .zip(siblings.median(|m| m.await_ms))
        .is_some_and(|(own, theirs)| own >= theirs * SLOW_RATIO && own - theirs >= LEAST_AWAIT_DIFFERENCE_MS)
}

/// What speaks against calling a member slow; nothing when it is.
fn objections(member: &MemberFigures, siblings: &Siblings<'_>, seconds: f64) -> Vec<String> {
    let mut found = Vec::new();
    if too_few(member, seconds) {
        let requests = member.requests_per_second * seconds;
        found.push(format!("{} requests are fewer than {LEAST_REQUESTS:.0}", plain(requests)));
    }
    let queue = siblings.median(|m| Some(m.queue)).unwrap_or_default();
    if !waits_longer(member, siblings) {
        found.push(format!(
            "its await is not {SLOW_RATIO:.0} times and {LEAST_AWAIT_DIFFERENCE_MS:.0} ms more"
        ));
    }
    // A longer await with an idle queue may be a few large requests.
    if member.queue < queue * SLOW_RATIO || member.queue - queue < LEAST_QUEUE_DIFFERENCE {
        found.push(format!(
            "its queue of {} against {} is not {SLOW_RATIO:.0} times and {LEAST_QUEUE_DIFFERENCE:.0} request more",
            plain(member.queue),
            plain(queue)
        ));
    }
    // A longer await and queue may be more work.
    let requests = siblings.median(|m| Some(m.requests_per_second)).unwrap_or_default();
    let most = requests + SAME_WORK_DEVIATIONS * (requests / seconds).sqrt();
    if member.requests_per_second > most {
        let bytes = siblings.median(|m| Some(m.bytes_per_second)).unwrap_or_default();
        let how = match member.bytes_per_second <= bytes * SAME_BYTES {
            true => ", for as many bytes: how they are split and merged above it makes them",
            false => "",
        };
        let (own, theirs) = (plain(member.requests_per_second), plain(requests));
        found.push(format!("it does more work: {own} requests/s against {theirs}{how}"));
    }
    found
}

struct Siblings<'a> {
    members: &'a [MemberFigures],
    without: usize,
}

impl Siblings<'_> {
    /// Median of a figure over the siblings that have it.
    fn median(&self, figure: impl Fn(&MemberFigures) -> Option<f64>) -> Option<f64> {
        let others = self.members.iter().enumerate().filter(|(i, _)| *i != self.without);
        median(others.filter_map(|(_, m)| figure(m)))
    }
}

fn is_busy(member: &MemberFigures, siblings: &Siblings<'_>) -> bool {
    let bytes = siblings.median(|m| Some(m.bytes_per_second)).unwrap_or_default();
    let requests = siblings.median(|m| Some(m.requests_per_second)).unwrap_or_default();
    member.bytes_per_second >= bytes * BUSY_RATIO && member.requests_per_second >= requests * BUSY_RATIO
}

fn figures(member: &MemberFigures, siblings: &Siblings<'_>, difference: Difference) -> Vec<Comparison> {
    let row = |what, unit, factor: f64, figure: &dyn Fn(&MemberFigures) -> Option<f64>| {
        let (value, siblings) = (figure(member)? * factor, siblings.median(figure)? * factor);
        Some(Comparison { what, value, siblings, unit })
    };
    let (wait, queue) = (row("await", "ms", 1.0, &|m| m.await_ms), row("queue", "", 1.0, &|m| Some(m.queue)));
    let util = row("util", "%", 100.0, &|m| m.util);
    let throughput = row("throughput", "MB/s", 1e-6, &|m| Some(m.bytes_per_second));
    let requests = row("requests", "/s", 1.0, &|m| Some(m.requests_per_second));
    let order = match difference {
        Difference::Slow => [wait, queue, util, requests, throughput],
        Difference::Busy => [throughput, requests, util, queue, wait],
    };
    order.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str, requests: f64, mb: f64, await_ms: f64, queue: f64) -> MemberFigures {
        MemberFigures {
            name: name.to_owned(),
            requests_per_second: requests,
            bytes_per_second: mb * 1e6,
            await_ms: Some(await_ms),
            queue,
            util: None,
        }
    }

    fn found(members: &[MemberFigures]) -> Vec<(&str, Difference)> {
        let outliers = outliers(members, 1.0);
        outliers.iter().map(|o| (members[o.member].name.as_str(), o.difference)).collect()
    }

    /// With the data of studies/slow-member-iostat.csv.
    #[test]
    fn the_slow_member_of_the_bad_week() {
        let members =
            [member("sdi1", 307.41, 12.71, 483.2, 148.55), member("sdi2", 307.6, 12.71, 34.1, 10.49)];
        assert_eq!(found(&members), [("sdi1", Difference::Slow)]);
        let reason = outliers(&members, 240.0)[0].reason();
        assert!(reason.starts_with("await 483 ms against 34.1 ms, queue 149 against 10.5"), "{reason}");
    }

    /// One disk of eight does the work, as in the write-up on linear volumes.
    #[test]
    fn a_linear_volume_uses_one_disk() {
        let mut members: Vec<_> = (0..8).map(|i| member(&format!("sd{i}"), 0.0, 0.0, 0.0, 0.0)).collect();
        members[2] = member("sd2", 900.0, 440.0, 2.0, 1.8);
        assert_eq!(found(&members), [("sd2", Difference::Busy)]);
    }

    #[test]
    fn equal_members_and_small_differences_are_none() {
        assert_eq!(found(&[member("a", 500.0, 2.0, 1.0, 0.5), member("b", 480.0, 2.0, 1.4, 0.7)]), []);
        // Five times the await, but 0.05 ms against 0.01 ms is the host.
        assert_eq!(found(&[member("a", 500.0, 2.0, 0.05, 0.1), member("b", 500.0, 2.0, 0.01, 0.02)]), []);
        // Too few requests to tell.
        assert_eq!(found(&[member("a", 20.0, 2.0, 90.0, 9.0), member("b", 20.0, 2.0, 1.0, 0.1)]), []);
        assert_eq!(found(&[member("a", 500.0, 2.0, 90.0, 9.0)]), []);
    }

    /// Seen on a healthy array of four equal disks under random reads: the queue is with the disk that does more.
    #[test]
    fn a_member_that_does_more_requests_is_loaded_not_slow() {
        let mut members = vec![
            member("vdb", 272.0, 4.5, 0.84, 0.3),
            member("vdc", 301.0, 5.1, 39.5, 12.0),
            member("vdd", 270.0, 4.4, 0.9, 0.3),
        ];
        let spared_names = |members: &[MemberFigures]| {
            spared(members, 1.0).iter().map(|s| (s.name.clone(), s.because.clone())).collect::<Vec<_>>()
        };
        assert_eq!(found(&members), []);
        let because = vec!["it does more work: 301 requests/s against 271".to_owned()];
        assert_eq!(spared_names(&members), [("vdc".to_owned(), because)]);
        members[1].requests_per_second = 272.0;
        assert_eq!(found(&members), [("vdc", Difference::Slow)]);
        assert_eq!(spared_names(&members), []);
    }

    /// A mirror whose second disk waits 138 times as long but is hardly used.
    #[test]
    fn what_spared_a_member_is_said_with_its_figures() {
        let members = [member("vdb", 74.0, 1.0, 0.27, 0.02), member("vdc", 18.0, 0.4, 37.16, 0.67)];
        assert_eq!(found(&members), []);
        let spared = spared(&members, 1.0);
        assert_eq!(spared.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(), ["vdc"]);
        assert!(spared[0].reason().starts_with("await 37.2 ms against 0.27 ms"), "{}", spared[0].reason());
        let because = [
            "18.0 requests are fewer than 30",
            "its queue of 0.67 against 0.02 is not 3 times and 1 request more",
        ];
        assert_eq!(spared[0].because, because);
    }

    #[test]
    fn two_slow_members_of_eight_are_both_named() {
        let mut members: Vec<_> = (0..8).map(|i| member(&format!("m{i}"), 100.0, 10.0, 2.0, 0.2)).collect();
        members[1] = member("m1", 100.0, 10.0, 40.0, 4.0);
        members[6] = member("m6", 98.0, 10.0, 50.0, 5.0);
        assert_eq!(found(&members), [("m1", Difference::Slow), ("m6", Difference::Slow)]);
    }
}
