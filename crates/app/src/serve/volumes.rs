//! Volumes that are monitored: as they were last measured, and over weeks.

use super::{NoPage, StoreSite};
use crate::views::changes::{figures, sentence};
use crate::views::events::noun;
use ebbtide_model::civil::Civil;
use ebbtide_model::monitor::events::Event;
use ebbtide_model::monitor::{Measure, Value};
use ebbtide_model::units::{Nanos, UnixTime};
use ebbtide_report::site::{self, ToldChange, ToldEvent, VolumeLine, VolumePage, VolumesPage};
use ebbtide_runner::clock;
use ebbtide_runner::monitor::changes::{Changes, OfVolume, changes};
use ebbtide_runner::store::{Monitored, Store, StoreError};
use ebbtide_serve::Request;
use std::sync::{Arc, Mutex, PoisonError};

/// Weeks that are shown unless others are asked for.
const WEEKS: u32 = 8;
/// A century: more than any store has.
const MOST_WEEKS: u32 = 5200;
const DAY_S: u64 = 86_400;

/// What was found of lasting changes, until a pass is stored that may add one.
#[derive(Debug, Default)]
pub struct Known(Mutex<Option<(String, Arc<Changes>)>>);

impl Known {
    /// The lasting changes that `store` knows. Several requests wait for one look.
    pub fn of(&self, store: &Store) -> Result<Arc<Changes>, StoreError> {
        // A change is told by hours: what is new within one adds none.
        let hour = |volume: &Monitored| volume.last_unix.map_or(0, |last| last.0 / Nanos::PER_SECOND / 3600);
        let seen =
            store.monitored()?.iter().map(|v| format!("{} {}", v.volume.id, hour(v))).collect::<Vec<_>>();
        let stamp = format!("{} {seen:?}", store.path().to_string_lossy());
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*known {
            Some((of, found)) if *of == stamp => Ok(found.clone()),
            _ => {
                let found = Arc::new(changes(store)?);
                *known = Some((stamp, found.clone()));
                Ok(found)
            }
        }
    }
}

fn told(of: &OfVolume) -> ToldChange {
    ToldChange {
        volume: of.volume.clone(),
        measure: of.measure,
        change: of.change,
        sentence: sentence(of),
        figures: figures(of),
    }
}

fn happened(event: &Event) -> ToldEvent {
    ToldEvent { at: event.at, what: noun(&event.what) }
}

/// The page of no volumes, where there is no store yet.
pub fn none(request: &Request) -> String {
    page(Vec::new(), Vec::new(), request)
}

fn page(volumes: Vec<VolumeLine>, changes: Vec<ToldChange>, request: &Request) -> String {
    let refresh = request.get("refresh") != Some("no");
    site::volumes(&VolumesPage { volumes, changes, now: clock::now(), refresh })
}

impl StoreSite {
    pub(super) fn volumes(&self, store: &Store, request: &Request) -> Result<String, NoPage> {
        let line = |known: Monitored| {
            let newest = store.newest(&known)?;
            let newest = newest.into_iter().map(|(measure, (at, value))| (measure, at, value)).collect();
            Ok(VolumeLine { last: known.last_unix, volume: known.volume, newest })
        };
        let volumes: Result<Vec<VolumeLine>, StoreError> = store.monitored()?.into_iter().map(line).collect();
        let changes = self.changes.of(store)?;
        Ok(page(volumes?, changes.told.iter().rev().map(told).collect(), request))
    }

    pub(super) fn volume(&self, store: &Store, request: &Request) -> Result<String, NoPage> {
        let id =
            request.get("id").ok_or_else(|| NoPage::Wrong("Which volume? Its id is wanted.".to_owned()))?;
        let weeks = weeks(request.get("weeks"))?;
        let until = request.get("until").map(until).transpose()?;
        let known = store.monitored()?.into_iter().find(|known| known.volume.id == id);
        let known = known.ok_or_else(|| NoPage::NotFound(format!("No volume “{id}” was monitored.")))?;
        let changes = self.changes.of(store)?;
        let mut series = Vec::new();
        for measure in Measure::ALL {
            series.push((measure, store.values(&known, measure)?));
        }
        let all = || series.iter().flat_map(|(_, values)| values.iter().map(|value| value.at));
        let last = known.last_unix.unwrap_or_else(clock::now);
        let (from, to) = span(weeks, until, all().min(), last);
        let within = |value: &Value| (from..to).contains(&value.at);
        let series = series
            .iter()
            .map(|(measure, values)| (*measure, values.iter().copied().filter(within).collect()))
            .collect();
        let of_this = |of: &&OfVolume| of.volume.id == id;
        Ok(site::volume(&VolumePage {
            enough: changes.known.iter().any(|of| of.volume.id == id && of.enough),
            changes: changes.told.iter().filter(of_this).map(told).collect(),
            events: store.events(&known)?.iter().map(happened).collect(),
            volume: known.volume,
            weeks,
            until: until.map(|end| Civil::from_unix(UnixTime(end.0 - 1)).day()),
            from,
            to,
            series,
        }))
    }
}

/// How many weeks; all where there is no number.
fn weeks(asked: Option<&str>) -> Result<Option<u32>, NoPage> {
    match asked {
        None => Ok(Some(WEEKS)),
        Some("all") => Ok(None),
        Some(text) => match text.parse() {
            Ok(weeks) if (1..=MOST_WEEKS).contains(&weeks) => Ok(Some(weeks)),
            _ => Err(NoPage::Wrong(format!("weeks: write 1 to {MOST_WEEKS}, or all."))),
        },
    }
}

/// The end of the day `text`.
fn until(text: &str) -> Result<UnixTime, NoPage> {
    let day = Civil::of_day(text).map(|day| day.unix().0.saturating_add(DAY_S * Nanos::PER_SECOND));
    day.map(UnixTime).ok_or_else(|| NoPage::Wrong("until: write a day, such as 2026-03-12.".to_owned()))
}

/// Whole days: `weeks` to the end of `until` or of the last day, and no more than there is.
fn span(
    weeks: Option<u32>,
    until: Option<UnixTime>,
    first: Option<UnixTime>,
    last: UnixTime,
) -> (UnixTime, UnixTime) {
    let day = |at: UnixTime| at.0 / Nanos::PER_SECOND / DAY_S;
    let end = until.map_or(day(last) + 1, day);
    let known = first.map_or(end.saturating_sub(1), day).min(end.saturating_sub(1));
    let begin = weeks.map_or(known, |weeks| end.saturating_sub(u64::from(weeks) * 7).max(known));
    (UnixTime::from_secs(begin * DAY_S), UnixTime::from_secs(end * DAY_S))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_has_whole_days_and_no_more_than_is_known() {
        let at = |day: u64, rest: u64| UnixTime::from_secs(day * DAY_S + rest);
        let days = |(from, to): (UnixTime, UnixTime)| {
            assert_eq!((from.0 % (DAY_S * Nanos::PER_SECOND), to.0 % (DAY_S * Nanos::PER_SECOND)), (0, 0));
            (from.0 / Nanos::PER_SECOND / DAY_S, to.0 / Nanos::PER_SECOND / DAY_S)
        };
        let (first, last) = (Some(at(1000, 5)), at(1100, 7));
        assert_eq!(days(span(Some(1), None, first, last)), (1094, 1101));
        assert_eq!(days(span(Some(100), None, first, last)), (1000, 1101));
        assert_eq!(days(span(None, None, first, last)), (1000, 1101));
        assert_eq!(days(span(Some(1), Some(at(1050, 0)), first, last)), (1043, 1050));
        assert_eq!(days(span(Some(1), Some(at(500, 0)), first, last)), (499, 500));
        assert_eq!(days(span(None, None, None, last)), (1100, 1101));
    }
}
