//! The optional traits of `[volumes.NAME.shape]`: what makes a volume behave unlike another of the same limits.

use super::limits::positive;
use super::names;
use super::problems::{Problems, Span};
use super::read::{Fraction, Given, Named, entries, required, valid};
use super::volume_keys::{RawCosts, RawFailure, RawMood, RawOneWay, RawSeek, RawShape};
use ebbtide_model::per_op::PerOp;
use ebbtide_model::units::{Bytes, Nanos, format_number};
use ebbtide_model::volume::{
    Birth, Character, Costs, Drift, Failure, FarCache, FirstTouch, Latency, Mood, OneWay, Seek,
};

/// The limits of each direction.
pub(super) fn one_way(reads: &Given<RawOneWay>, writes: &Given<RawOneWay>) -> PerOp<OneWay> {
    let of = |raw: &Given<RawOneWay>| {
        valid(raw).map_or_else(OneWay::default, |(raw, _)| OneWay {
            iops: valid(&raw.iops).map(|(limit, _)| limit.limit),
            throughput: valid(&raw.throughput).map(|(limit, _)| limit.limit),
        })
    };
    PerOp { read: of(reads), write: of(writes) }
}

/// Smallest and largest factor that make sense.
const FACTORS: std::ops::RangeInclusive<f64> = 0.001..=1000.0;

fn factor(key: &'static str, given: &Given<f64>, problems: &mut Problems) -> Option<f64> {
    let Some((value, span)) = valid(given) else { return given.is_none().then_some(1.0) };
    if FACTORS.contains(value) {
        return Some(*value);
    }
    let range = format!("from {} to {}", FACTORS.start(), FACTORS.end());
    let remedy = format!("write for example `{key} = 0.5`");
    problems.out_of_range(span, key, format_number(*value), range, remedy);
    None
}

/// The deviation of a logarithm.
fn sigma(key: &'static str, value: f64, span: &Span, problems: &mut Problems) -> Option<f64> {
    if value <= 3.0 {
        return Some(value);
    }
    let remedy = format!("write for example `{key} = 0.1` for about 10%");
    problems.out_of_range(span, key, format_number(value), "from 0 to 3", remedy);
    None
}

fn lasting(key: &'static str, value: Nanos, span: &Span, problems: &mut Problems) -> Option<Nanos> {
    if value >= Nanos::from_millis(1) {
        return Some(value);
    }
    problems.out_of_range(span, key, value, "at least 1ms", format!("write for example `{key} = \"10s\"`"));
    None
}

/// Checks the traits; `size` is the volume's.
pub(super) fn resolve(raw: &RawShape, size: Option<Bytes>, problems: &mut Problems) -> Character {
    Character {
        merge_sequential: valid(&raw.merge_sequential).is_some_and(|(merge, _)| *merge),
        credits_at_start: valid(&raw.credits_at_start).map(|(Fraction(share), _)| *share),
        one_way: one_way(&raw.reads, &raw.writes),
        costs: valid(&raw.costs).and_then(|(costs, _)| resolve_costs(costs, problems)),
        flush_latency: valid(&raw.flush_latency).map(|(latency, _)| latency.0),
        seek: valid(&raw.seek).and_then(|(seek, span)| resolve_seek(seek, span, size, problems)),
        cache: valid(&raw.cache).and_then(|(cache, span)| {
            let example = "cache = { size = \"1GiB\", latency = \"0.3ms\" }";
            let section = ("the cache", span);
            let size = required(&cache.size, "size", example, section, problems);
            let latency = required(&cache.latency, "latency", example, section, problems);
            Some(FarCache { size: *size?.0, latency: latency?.0.0 })
        }),
        first_touch: valid(&raw.first_touch).and_then(|(touch, span)| {
            let example = "first_touch = { latency = { median = \"5ms\", p99 = \"40ms\" } }";
            let latency =
                required(&touch.latency, "latency", example, ("the first-touch penalty", span), problems);
            let block = match valid(&touch.block) {
                Some((block, span)) => positive("block", *block, span, problems)?,
                None => Bytes(512 << 10),
            };
            Some(FirstTouch { block, latency: latency?.0.0 })
        }),
        moods: resolve_moods(&raw.moods, problems),
        drift: valid(&raw.drift).and_then(|(drift, span)| {
            let example = "drift = { sigma = 0.1, timescale = \"1d\" }";
            let deviation = required(&drift.sigma, "sigma", example, ("the drift", span), problems);
            let time = required(&drift.timescale, "timescale", example, ("the drift", span), problems);
            let deviation = deviation.and_then(|(value, span)| sigma("sigma", *value, span, problems));
            let timescale = time.and_then(|(value, span)| lasting("timescale", *value, span, problems));
            Some(Drift { sigma: deviation?, timescale: timescale? })
        }),
        birth: valid(&raw.birth).and_then(|(birth, _)| {
            let mut one = |key, given: &Given<f64>| match valid(given) {
                Some((value, span)) => sigma(key, *value, span, problems),
                None => Some(0.0),
            };
            let rate_sigma = one("rate_sigma", &birth.rate_sigma);
            let latency_sigma = one("latency_sigma", &birth.latency_sigma);
            Some(Birth { rate_sigma: rate_sigma?, latency_sigma: latency_sigma? })
        }),
        failure: valid(&raw.failure).and_then(|(failure, span)| resolve_failure(failure, span, problems)),
    }
}

fn resolve_costs(raw: &RawCosts, problems: &mut Problems) -> Option<Costs> {
    let read = factor("read", &raw.read, problems);
    let write = factor("write", &raw.write, problems);
    let min_bytes = valid(&raw.min_bytes).map_or(Bytes(1), |(bytes, _)| *bytes);
    let write_bytes = factor("write_bytes", &raw.write_bytes, problems);
    Some(Costs { read: read?, write: write?, min_bytes, write_bytes: write_bytes? })
}

fn resolve_seek(raw: &RawSeek, span: &Span, size: Option<Bytes>, problems: &mut Problems) -> Option<Seek> {
    let example =
        "seek = { track_to_track = \"0.8ms\", full_stroke = \"16ms\", rpm = 7200, transfer = \"100MB/s\" }";
    let section = ("the seek curve", span);
    let short = required(&raw.track_to_track, "track_to_track", example, section, problems);
    let long = required(&raw.full_stroke, "full_stroke", example, section, problems);
    let rpm = required(&raw.rpm, "rpm", example, section, problems);
    let transfer = required(&raw.transfer, "transfer", example, section, problems);
    let capacity = valid(&raw.capacity).map(|(capacity, _)| *capacity).or(size);
    let (short, (long, at), (rpm, rpm_at)) = (*short?.0, long?, rpm?);
    if *long < short {
        let range = format!("at least `track_to_track`, {short}");
        problems.out_of_range(at, "full_stroke", long, range, format!("write for example `{example}`"));
        return None;
    }
    if !(60.0..=1e6).contains(rpm) {
        let range = "from 60 to 1000000 rotations per minute";
        problems.out_of_range(rpm_at, "rpm", format_number(*rpm), range, "write for example `rpm = 7200`");
        return None;
    }
    let (transfer, transfer_at) = transfer?;
    if transfer.0 <= 0.0 {
        let range = "more than 0 bytes per second";
        let remedy = "write for example `transfer = \"100MB/s\"`";
        problems.out_of_range(transfer_at, "transfer", format_number(transfer.0), range, remedy);
        return None;
    }
    Some(Seek {
        track_to_track: short,
        full_stroke: *long,
        rotation: Nanos::from_secs_f64(60.0 / rpm),
        transfer: transfer.0,
        capacity: capacity.unwrap_or(Bytes(1 << 40)),
    })
}

fn resolve_moods(raw: &Given<Named<RawMood>>, problems: &mut Problems) -> Vec<Mood> {
    let mut moods = Vec::new();
    for entry in entries(raw) {
        names::check(&entry.name, "a mood", &entry.span, problems);
        let Some(mood) = &entry.value else { continue };
        let section = format!("mood `{}`", entry.name);
        let dwell = required(&mood.dwell, "dwell", "dwell = \"10m\"", (&section, &entry.span), problems)
            .and_then(|(dwell, span)| lasting("dwell", *dwell, span, problems));
        let weight = factor("weight", &mood.weight, problems);
        let rate = factor("rate", &mood.rate, problems);
        let latency = factor("latency", &mood.latency, problems);
        if let (Some(dwell), Some(weight), Some(rate), Some(latency)) = (dwell, weight, rate, latency) {
            moods.push(Mood { name: entry.name.clone(), dwell, weight, rate, latency });
        }
    }
    moods
}

fn resolve_failure(raw: &RawFailure, span: &Span, problems: &mut Problems) -> Option<Failure> {
    let example = "failure = { kind = \"freeze\", at = \"5s\", lasts = \"2s\" }";
    let kind = required(&raw.kind, "kind", example, ("the failure", span), problems);
    let at = required(&raw.at, "at", example, ("the failure", span), problems);
    Some(Failure { kind: kind?.0.0, at: *at?.0, lasts: valid(&raw.lasts).map(|(lasts, _)| *lasts) })
}

/// A latency that costs nothing, where none is given.
pub(super) const NO_LATENCY: Latency = Latency::Constant(Nanos(0));
