use super::pack::{Cell, pack, unpack};
use super::*;
use ebbtide_model::monitor::Counted;
use ebbtide_model::monitor::events::EventKind;
use ebbtide_model::units::Bytes;
use std::path::PathBuf;

fn temporary() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("store.sqlite");
    (directory, path)
}

/// A day that begins a row of hours: 768 hours have 32 days.
const BEGIN: u64 = 640 * 32 * DAY_S;
const QUARTER: u64 = 900;

fn pass(volume: u64, at: u64, values: Vec<(Measure, f64)>) -> Pass {
    let (id, name) = (format!("vol-{volume:04}"), format!("nvme{volume}n1"));
    let at = UnixTime::from_secs(at);
    let counted = Some(Counted { at, ops: at.0, bytes: 2, ms: 3, exceeded: None });
    Pass { volume: Watched { id, name, host: "h".to_owned() }, at, values, counted, found: None }
}

/// Values from 0 to 1 without a pattern.
fn noise(number: u64) -> f64 {
    let mixed = (number ^ (number >> 7)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed >> 40) as f64 / (1u64 << 24) as f64
}

#[test]
fn what_is_packed_is_right_to_half_a_thousandth() {
    let cells: Vec<Cell> = (0..768)
        .step_by(3)
        .map(|place| {
            let median = 1e-6 * (noise(place) * 55.0).exp();
            let count = place as u32 % 7;
            Cell { place: place as u16, median, min: median * noise(place + 9), max: median * 1.7, count }
        })
        .chain([Cell { place: 767, median: 0.0, min: 0.0, max: 12.0, count: 4_000_000 }])
        .collect();
    let read = unpack(&pack(&cells)).expect("reads");
    assert_eq!(read.len(), cells.len());
    let near = |one: f64, other: f64| (one - other).abs() <= 0.00051 * one;
    for (wrote, read) in cells.iter().zip(&read) {
        assert_eq!((wrote.place, wrote.count.min(65_535)), (read.place, read.count));
        assert!(near(wrote.median, read.median) && near(wrote.min, read.min), "{wrote:?} {read:?}");
        assert!(near(wrote.max, read.max), "{wrote:?} {read:?}");
    }
    assert_eq!(unpack(&pack(&[])), Ok(Vec::new()));
    for bad in [&b""[..], b"\x02abc", b"\x01\xff\xff\xff", &pack(&cells)[..40]] {
        assert!(unpack(bad).is_err());
    }
}

#[test]
fn values_are_read_back_at_the_resolution_that_is_kept() {
    let (_directory, path) = temporary();
    let mut store = Store::open(Some(&path)).expect("opens");
    let days = 45;
    let passes = |from: u64, to: u64| -> Vec<Pass> {
        let every = (from * 96..to * 96).map(|quarter| {
            let values = vec![(Measure::Seeks, 100.0 + (quarter % 4) as f64), (Measure::LoadWait, 0.0)];
            pass(1, BEGIN + quarter * QUARTER, values)
        });
        every.collect()
    };
    store.add_passes(&passes(0, 20)).expect("adds");
    store.add_passes(&passes(20, days)).expect("adds");
    store.add_passes(&[]).expect("nothing to do");
    let monitored = store.monitored().expect("reads");
    let [volume] = monitored.as_slice() else { panic!("{monitored:?}") };
    let last = UnixTime::from_secs(BEGIN + days * DAY_S - QUARTER);
    assert_eq!((volume.last_unix, volume.counted().map(|counted| counted.at)), (Some(last), Some(last)));
    let values = store.values(volume, Measure::Seeks).expect("reads");
    // The last pass is 15 minutes before the end of day 45: ten days are hours, and what follows is as it was.
    let hours = 24 * (days - SINGLE_DAYS - 1);
    let (rolled, single) = values.split_at(hours as usize);
    assert!(rolled.iter().all(|value| value.span == Nanos::from_secs(3600) && value.count == 4));
    assert!(
        rolled.iter().all(|value| (value.median - 101.5).abs() < 0.06 && (value.max - 103.0).abs() < 0.06)
    );
    assert!(single.iter().all(|value| value.span == Nanos(0) && value.count == 1));
    assert_eq!(single.len() as u64, 96 * days - 4 * hours);
    assert!(values.is_sorted_by_key(|value| value.at));
    assert_eq!((values[0].at, single[1].median), (UnixTime::from_secs(BEGIN), 101.0));
    assert_eq!(store.values(volume, Measure::LoadWait).expect("reads")[3].max, 0.0);
    assert_eq!(store.values(volume, Measure::Throughput).expect("reads"), []);

    // Three years later the hours are days, and only what is new is single.
    store.add_passes(&[pass(1, BEGIN + 1100 * DAY_S, vec![(Measure::Seeks, 50.0)])]).expect("adds");
    let values = store.values(volume, Measure::Seeks).expect("reads");
    let spans: Vec<u64> = values.iter().map(|value| value.span.0 / Nanos::from_secs(3600).0).collect();
    assert_eq!(spans, [vec![24; days as usize], vec![0]].concat());
    assert_eq!(values[0].count, 96);
    assert!((values[9].min - 100.0).abs() < 0.06 && (values[9].max - 103.0).abs() < 0.06);
}

#[test]
fn what_happened_between_passes_is_kept_and_two_in_one_second_are_two() {
    let (_directory, path) = temporary();
    let mut store = Store::open(Some(&path)).expect("opens");
    let seen = |at: u64, bytes: Option<u64>| {
        let of = |bytes| VolumeContext {
            host: "h".to_owned(),
            bytes: Some(Bytes(bytes)),
            ..VolumeContext::default()
        };
        Pass { found: bytes.map(of), ..pass(1, at, vec![(Measure::Seeks, 9.0)]) }
    };
    // A pass that finds nothing out, as those of earlier versions, is no event.
    let passes =
        [seen(BEGIN, None), seen(BEGIN + 1, Some(5)), seen(BEGIN + 1, None), seen(BEGIN + 900, Some(7))];
    for pass in passes {
        store.add_passes(&[pass]).expect("adds");
    }
    let volume = &store.monitored().expect("reads")[0];
    let (at, since) = (UnixTime::from_secs(BEGIN + 900), UnixTime::from_secs(BEGIN + 1));
    let what = EventKind::Resized { before: Bytes(5), after: Bytes(7) };
    assert_eq!(store.events(volume).expect("reads"), [Event { at, since, what }]);
    assert_eq!(volume.passes, 4);
    let newest = store.newest(volume).expect("reads");
    assert_eq!(newest.get(&Measure::Seeks), Some(&(at, 9.0)));
}

#[test]
fn two_years_of_200_volumes_take_less_than_100_mb() {
    // As many volumes as take seconds to write; each has rows of its own.
    const VOLUMES: u64 = 4;
    let (_directory, path) = temporary();
    let mut store = Store::open(Some(&path)).expect("opens");
    let values = |number: u64| {
        let vary = |measure: Measure| {
            let salt = number.wrapping_mul(8).wrapping_add(measure.number().into());
            // Hours in which limits are exceeded are few where anybody looks.
            let factor = match measure {
                Measure::VolumeExceeded | Measure::InstanceExceeded if noise(salt + 3) < 0.9 => 0.0,
                _ => 5000.0,
            };
            (measure, factor * (0.4 * noise(salt)).exp())
        };
        Measure::ALL.map(vary).to_vec()
    };
    let begin = BEGIN + (HOURS_DAYS + 40) * DAY_S;
    let singles: Vec<Pass> = (0..VOLUMES)
        .flat_map(|volume| {
            let quarters = SINGLE_DAYS * 96;
            (0..quarters).map(move |quarter| (volume, quarter))
        })
        .map(|(volume, quarter)| {
            pass(volume, begin + quarter * QUARTER, values(volume * 1_000_000 + quarter))
        })
        .collect();
    store.add_passes(&singles).expect("adds");
    let keys: Vec<i64> = store.monitored().expect("reads").iter().map(|volume| volume.key).collect();
    store
        .write(|connection| {
            let all = connection.unchecked_transaction()?;
            for key in keys {
                for measure in Measure::ALL {
                    let first = begin / 3600 - HOURS_DAYS * 24;
                    let cells: Vec<(u64, Cell)> = (first..begin / 3600)
                        .map(|hour| {
                            let four: Vec<f64> = (0..4)
                                .map(|value| values(hour * 4 + value)[usize::from(measure.number()) - 1].1)
                                .collect();
                            (hour, cell(&four, 4).expect("values"))
                        })
                        .collect();
                    merge(&all, key, measure.number(), HOUR, &cells)?;
                }
            }
            all.commit()
        })
        .expect("writes");
    // A year of days has less than a row of hours.
    store
        .write(|connection| connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)"))
        .expect("checkpoints");
    let bytes = std::fs::metadata(&path).expect("is there").len();
    let of_200 = bytes as f64 / VOLUMES as f64 * 200.0 / 1e6;
    assert!(of_200 < 100.0, "{of_200:.1} MB");
}
