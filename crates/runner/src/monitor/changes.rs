//! Lasting changes of all volumes that a store knows.

use crate::store::{Monitored, Store, StoreError};
use ebbtide_analysis::changes::{Change, Point, Series, Siblings, together};
use ebbtide_model::monitor::events::Event;
use ebbtide_model::monitor::{Measure, Value, Watched};
use ebbtide_model::units::{Nanos, UnixTime};
use std::num::NonZero;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Mutex, PoisonError};

/// Changes are looked for in single values and those of hours; what is kept of days only is too coarse for the noise of hours.
const COARSEST: Nanos = Nanos::from_secs(3600);

/// How far from a change an event may be that is told with it.
pub const AROUND: Nanos = Nanos::from_secs(2 * 3600);

/// What is known of one measure of one volume.
#[derive(Debug, Clone)]
pub struct Known {
    pub volume: Watched,
    pub measure: Measure,
    /// The first value that was looked at.
    pub from: UnixTime,
    /// The last value that was looked at.
    pub to: UnixTime,
    /// Whether there is enough for changes to be told.
    pub enough: bool,
}

/// A change, and whose it is.
#[derive(Debug, Clone)]
pub struct OfVolume {
    pub volume: Watched,
    /// What of it changed.
    pub measure: Measure,
    pub change: Change,
    /// What the other volumes of its host did; nothing where none is known.
    pub siblings: Option<Siblings>,
    /// What happened to the volume at that time ([`AROUND`]), the earliest first.
    pub events: Vec<Event>,
}

/// Something that happened to a volume.
#[derive(Debug, Clone)]
pub struct Happened {
    pub volume: Watched,
    pub event: Event,
}

/// What a store says of changes.
#[derive(Debug, Clone, Default)]
pub struct Changes {
    /// What was looked at.
    pub known: Vec<Known>,
    /// What was found, the earliest first.
    pub told: Vec<OfVolume>,
    /// What happened to the volumes, the earliest first.
    pub happened: Vec<Happened>,
}

/// The lasting changes of what the volumes of `store` can do. Volumes of one host are siblings.
///
/// # Errors
/// When the store cannot be read.
pub fn changes(store: &Store) -> Result<Changes, StoreError> {
    let volumes = store.monitored()?;
    let measures: Vec<Measure> = Measure::ALL.into_iter().filter(|measure| measure.is_of_volume()).collect();
    let examined = examine(store, &volumes, &measures)?;
    let (known, series): (Vec<Known>, Vec<Series>) = examined.into_iter().unzip();
    let happened = happened(store, &volumes)?;
    let told = together(&series).into_iter().map(|told| {
        let Known { volume, measure, .. } = &known[told.series];
        let of_volume = happened.iter().filter(|happened| happened.volume.id == volume.id);
        let events = of_volume.map(|happened| &happened.event);
        OfVolume {
            volume: volume.clone(),
            measure: *measure,
            change: told.change,
            siblings: told.siblings,
            events: events.filter(|event| is_around(event, told.change.at)).cloned().collect(),
        }
    });
    Ok(Changes { told: told.collect(), known, happened })
}

/// What happened to `volumes` of `store`, the earliest first.
///
/// # Errors
/// When the store cannot be read.
pub fn happened(store: &Store, volumes: &[Monitored]) -> Result<Vec<Happened>, StoreError> {
    let mut happened = Vec::new();
    for volume in volumes {
        let events = store.events(volume)?.into_iter();
        happened.extend(events.map(|event| Happened { volume: volume.volume.clone(), event }));
    }
    happened.sort_by_key(|happened| happened.event.at);
    Ok(happened)
}

/// Whether `event` may have to do with a change at that time: it happened between two passes, and the change is known to an hour or two.
fn is_around(event: &Event, change: UnixTime) -> bool {
    let (from, to) = (event.since.0.saturating_sub(AROUND.0), event.at.0.saturating_add(AROUND.0));
    (from..=to).contains(&change.0)
}

/// Work for a thread: the values of a series, its place and its names.
type Job = (usize, Watched, Measure, Vec<Value>);

/// Reads the series one after the other, and examines them on all processors.
fn examine(
    store: &Store,
    volumes: &[Monitored],
    measures: &[Measure],
) -> Result<Vec<(Known, Series)>, StoreError> {
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    let (sender, receiver) = sync_channel::<Job>(threads);
    let receiver = Mutex::new(receiver);
    let mut all = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(|| work(&receiver))).collect();
        let send_all = || {
            for (index, volume) in volumes.iter().enumerate() {
                for (number, measure) in measures.iter().enumerate() {
                    let values = store.values(volume, *measure)?;
                    let place = index * measures.len() + number;
                    // Nobody is there to take it only after a panic, which is passed on below.
                    let _ = sender.send((place, volume.volume.clone(), *measure, values));
                }
            }
            Ok(())
        };
        let sent: Result<(), StoreError> = send_all();
        drop(sender);
        let mut all = Vec::new();
        for worker in workers {
            all.extend(worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        sent.map(|()| all)
    })?;
    all.sort_by_key(|(place, ..)| *place);
    Ok(all.into_iter().map(|(_, known, series)| (known, series)).collect())
}

fn work(jobs: &Mutex<Receiver<Job>>) -> Vec<(usize, Known, Series)> {
    let mut done = Vec::new();
    loop {
        let next = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((place, volume, measure, values)) = next else { break done };
        let fine = values.iter().filter(|value| value.span <= COARSEST);
        let points: Vec<Point> = fine.map(|value| Point { at: value.at, value: value.median }).collect();
        let (Some(first), Some(last)) = (points.first(), points.last()) else { continue };
        let series = Series::new(format!("{}\0{}", volume.host, measure.name()), &points);
        let enough = series.is_long_enough();
        done.push((place, Known { volume, measure, from: first.at, to: last.at, enough }, series));
    }
}
