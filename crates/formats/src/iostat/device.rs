//! What a log says of one device by itself: full, never idle, or slow without a queue.

use super::{IostatReport, IostatRow};
use ebbtide_analysis::observe::outlier::{LEAST_REQUESTS, MemberFigures};
use serde::Serialize;

/// Share of the time with a request in flight from which on a device is never idle: iostat's interval and its own clock
/// disagree by some percent.
const NEVER_IDLE: f64 = 0.95;
/// Requests in flight from which on most of them wait for others.
const QUEUE: f64 = 2.0;
/// A request that takes this long with a queue in front waits: no device that serves many at once needs as long for one.
const WAITS_MS: f64 = 10.0;
/// A request that takes this long with nothing in front is slow by itself: a spinning disk's is 5 to 15 ms.
const SLOW_MS: f64 = 30.0;
/// Fewer requests in flight than this leave nothing to wait for.
const ALONE: f64 = 1.5;
/// Requests per second that differ by less than this share from report to report are the same.
const SAME_RATE: f64 = 0.02;
/// Of a device that is not busy all the time, they are when they differ by less than this.
const SET_RATE: f64 = 0.01;
/// Fewer requests per second are the same by chance.
const LEAST_RATE: f64 = 20.0;
/// Requests per second hardly grow below this share, however long the queue is.
const NO_GAIN: f64 = 0.10;
/// The longest queue over the shortest from which on it is another queue.
const OTHER_QUEUE: f64 = 1.5;
/// Fewest reports whose rates are compared.
const LEAST_REPORTS: usize = 3;

/// What is the matter with a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Busy all the time, with requests that wait for each other: more of them only wait longer.
    Saturated,
    /// Busy all the time, with short waits: it may serve more at once.
    NeverIdle,
    /// Each request takes long, although hardly one is in front of it.
    Slow,
    /// Nothing by itself, but that it completes the same requests per second in every report.
    Steady,
}

/// A device of which the log says something by itself.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SingleDevice {
    /// Means over the reports.
    pub figures: MemberFigures,
    /// What is the matter.
    pub state: State,
    /// In how many of the reports it is so.
    pub in_reports: usize,
    /// Milliseconds from one completed request to the next, while it was busy.
    pub each_ms: f64,
    /// Whether it completed the same requests per second in every report, as a limit that somebody set makes it.
    pub same_rate: bool,
    /// The shortest and the longest queue of the reports, where the requests per second were nearly the same with both.
    pub whatever_queue: Option<(f64, f64)>,
}

/// What is to be said of the device with these means, from the reports that were compared.
pub(super) fn judge(mean: &IostatRow, reports: &[IostatReport]) -> Option<SingleDevice> {
    let rows = || reports.iter().filter_map(|r| r.devices.iter().find(|d| d.device == mean.device));
    let busy: Vec<MemberFigures> = rows().map(IostatRow::figures).filter(never_idle).collect();
    let rates = || busy.iter().map(|figures| figures.requests_per_second);
    let (least, most) = (rates().fold(f64::INFINITY, f64::min), rates().fold(0.0, f64::max));
    let compared = busy.len() >= LEAST_REPORTS && most > 0.0;
    let queues = || busy.iter().map(|figures| figures.queue);
    let (short, long) = (queues().fold(f64::INFINITY, f64::min), queues().fold(0.0, f64::max));
    let flat = compared && long >= OTHER_QUEUE * short && most - least <= NO_GAIN * most;
    let whatever_queue = flat.then_some((short, long));

    let figures = mean.figures();
    let set = same_rate([mean.device.as_str()], reports).is_some();
    let state = state(&figures, reports.len() as f64, flat).or(set.then_some(State::Steady))?;
    let alike = |row: &&IostatRow| self::state(&row.figures(), reports.len() as f64, flat) == Some(state);
    Some(SingleDevice {
        state,
        in_reports: if state == State::Steady { rows().count() } else { rows().filter(alike).count() },
        each_ms: figures.util.unwrap_or(1.0).min(1.0) * 1000.0 / figures.requests_per_second,
        same_rate: set || compared && most - least <= SAME_RATE * most,
        whatever_queue,
        figures,
    })
}

/// The requests per second that each of these devices completed in every report, within a hundredth.
pub(super) fn same_rate<'a>(
    names: impl IntoIterator<Item = &'a str>,
    reports: &[IostatReport],
) -> Option<f64> {
    let (mut least, mut most) = (f64::INFINITY, 0.0_f64);
    for name in names {
        for report in reports {
            let rate = report.devices.iter().find(|device| device.device == name)?.requests();
            (least, most) = (least.min(rate), most.max(rate));
        }
    }
    let enough = reports.len() >= LEAST_REPORTS && least >= LEAST_RATE;
    (enough && most - least <= SET_RATE * most).then_some((least + most) / 2.0)
}

fn never_idle(figures: &MemberFigures) -> bool {
    // Where the share of the time is not known, a queue stands for it.
    figures.util.is_none_or(|util| util >= NEVER_IDLE) && figures.queue >= QUEUE
}

fn state(figures: &MemberFigures, seconds: f64, flat: bool) -> Option<State> {
    let wait = figures.await_ms?;
    if never_idle(figures) {
        return match figures.util {
            _ if wait >= WAITS_MS || flat => Some(State::Saturated),
            Some(_) => Some(State::NeverIdle),
            None => None,
        };
    }
    let enough = figures.requests_per_second * seconds >= LEAST_REQUESTS;
    (enough && wait >= SLOW_MS && figures.queue < ALONE).then_some(State::Slow)
}
