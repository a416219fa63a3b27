//! A volume's weeks: what each pass measured, and since when it is another.

use super::dates::{DAY, ticks};
use super::volumes::{figure, name};
use super::{PageContext, address, simple};
use crate::html::chart::{Curve, Plot, Quantity, Scale};
use crate::html::{Section, answer, bar, scrolling};
use ebbtide_analysis::Unit;
use ebbtide_analysis::changes::Change;
use ebbtide_analysis::estimate::median;
use ebbtide_model::civil::Civil;
use ebbtide_model::monitor::{Measure, Value, Watched};
use ebbtide_model::units::UnixTime;
use maud::{Markup, html};

/// Points of a curve at most.
const POINTS: u64 = 360;
/// Spans of time that are a click away, in weeks.
const SPANS: [u32; 5] = [1, 4, 8, 26, 104];
/// A line is interrupted where nothing is known for as many times the usual time between two values.
const GAP: u64 = 6;

/// A lasting change, in words.
#[derive(Debug, Clone)]
pub struct ToldChange {
    /// The volume that changed.
    pub volume: Watched,
    /// The measure that changed.
    pub measure: Measure,
    /// Its levels and its moment.
    pub change: Change,
    /// The change in a sentence.
    pub sentence: String,
    /// Its levels, its ratio with the interval.
    pub figures: String,
}

/// Something that happened to the volume.
#[derive(Debug, Clone)]
pub struct ToldEvent {
    /// When, or the first pass that saw it.
    pub at: UnixTime,
    /// What, as a noun.
    pub what: String,
}

/// What is known of a volume over some weeks.
#[derive(Debug, Clone)]
pub struct VolumePage {
    /// The volume that the page is about.
    pub volume: Watched,
    /// How many weeks; all that is known where there is no number.
    pub weeks: Option<u32>,
    /// The last day that was asked for, where one was.
    pub until: Option<String>,
    /// What is shown: whole days.
    pub from: UnixTime,
    /// The end of it.
    pub to: UnixTime,
    /// What was measured then, the earliest first.
    pub series: Vec<(Measure, Vec<Value>)>,
    /// Its lasting changes of all times, the earliest first.
    pub changes: Vec<ToldChange>,
    /// What happened to it at all times, the earliest first.
    pub events: Vec<ToldEvent>,
    /// Whether there is enough for changes to be told.
    pub enough: bool,
}

pub(super) fn html(shown: &VolumePage) -> String {
    let volume = &shown.volume;
    let within = |told: &&ToldChange| (shown.from..=shown.to).contains(&told.change.at);
    let mut told: Vec<String> =
        shown.changes.iter().rev().filter(within).map(|told| told.sentence.clone()).collect();
    if told.is_empty() {
        told.push(if shown.enough {
            format!("{}: no lasting change of 5% or more in this time", volume.name)
        } else {
            format!("{}: known for less than a week, too short to tell of changes", volume.name)
        });
    }
    let header = html! { header {
        (bar(&html! { span.name { (volume.name) } " · " (volume.host) " · " code { (volume.id) } }))
        (answer(&told))
        (spans(shown))
    } };
    let sections = [
        Section::new("measured", "What it can do", measured),
        Section::new("load", "What the host asked of it", load),
        Section::new("changes", "Lasting changes", changes),
        Section::new("events", "What happened", events),
    ];
    simple(shown, &sections, &volume.name, &header, PageContext::default())
}

/// Links to other spans of time.
fn spans(shown: &VolumePage) -> Markup {
    let to = |weeks: Option<u32>, until: Option<&str>| {
        let weeks = weeks.map_or("all".to_owned(), |weeks| weeks.to_string());
        let mut query = vec![("id", shown.volume.id.as_str()), ("weeks", weeks.as_str())];
        query.extend(until.map(|until| ("until", until)));
        address("/volume", &query)
    };
    let until = shown.until.as_deref();
    let day = |seconds: u64| Civil::from_unix(UnixTime::from_secs(seconds)).day();
    let (from, end) = (seconds(shown.from), seconds(shown.to));
    let earlier = shown.weeks.and(from.checked_sub(DAY)).map(day);
    let last_day = day(end.saturating_sub(1));
    html! {
        p.sub { (day(from)) " to " (last_day) ", in UTC" }
        p.pages {
            @for weeks in SPANS {
                a href=(to(Some(weeks), until)) aria-current=[(shown.weeks == Some(weeks)).then_some("true")] { (crate::words::count(weeks.into(), "week")) }
            }
            a href=(to(None, None)) aria-current=[shown.weeks.is_none().then_some("true")] { "all" }
            @if let Some(earlier) = &earlier { a href=(to(shown.weeks, Some(earlier))) rel="prev" { "earlier" } }
            @if until.is_some() { a href=(to(shown.weeks, None)) { "up to now" } }
            @else { a href=(to(shown.weeks, Some(&last_day))) { "a link to just this time" } }
        }
    }
}

impl VolumePage {
    /// What happened in the time that is shown, the earliest first.
    fn happened(&self) -> impl DoubleEndedIterator<Item = &ToldEvent> {
        self.events.iter().filter(|event| (self.from..self.to).contains(&event.at))
    }
}

fn seconds(at: UnixTime) -> u64 {
    at.0 / 1_000_000_000
}

fn measured(shown: &VolumePage) -> Option<Markup> {
    let charts = charts(shown, |measure| measure.is_of_volume())?;
    Some(html! {
        p.sub {
            "The line is the median of what passes measured, between the faint lines of the lowest and highest value. The dark step is the level that is believed "
            "to last, the dashed line the moment of a lasting change"
            @if shown.happened().next().is_some() { ", a dotted line that of what " a href="#events" { "happened" } }
            "."
        }
        (charts)
    })
}

fn load(shown: &VolumePage) -> Option<Markup> {
    charts(shown, |measure| !measure.is_of_volume())
}

fn charts(shown: &VolumePage, wanted: impl Fn(Measure) -> bool) -> Option<Markup> {
    let some: Vec<&(Measure, Vec<Value>)> =
        shown.series.iter().filter(|(measure, values)| wanted(*measure) && !values.is_empty()).collect();
    (!some.is_empty()).then(|| {
        html! { @for (measure, values) in some { (chart(shown, *measure, values)) } }
    })
}

fn quantity(measure: Measure) -> Quantity {
    match measure {
        Measure::Seeks | Measure::LoadIops => Quantity::In(Unit::OpsPerSecond),
        Measure::Throughput | Measure::LoadThroughput => Quantity::In(Unit::BytesPerSecond),
        Measure::LoadWait => Quantity::In(Unit::Nanoseconds),
        Measure::VolumeExceeded | Measure::InstanceExceeded => Quantity::In(Unit::Share),
    }
}

/// `value` in the unit of its axis.
fn drawn(measure: Measure, value: f64) -> f64 {
    if measure == Measure::LoadWait { value * 1e9 } else { value }
}

/// What is known of a stretch of the axis.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Stretch {
    at: f64,
    median: f64,
    least: f64,
    most: f64,
}

/// `values` in at most [`POINTS`] stretches of the same length, each at its middle.
fn stretches(values: &[Value], from: u64, to: u64) -> Vec<Stretch> {
    let length = (to.saturating_sub(from)).div_ceil(POINTS).max(1);
    let number = |value: &Value| {
        let middle = seconds(value.at) + value.span.0 / 2_000_000_000;
        middle.saturating_sub(from) / length
    };
    let of_stretch = |values: &[Value]| {
        let medians: Vec<f64> = values.iter().map(|value| value.median).collect();
        let at = match values {
            [one] => seconds(one.at) + one.span.0 / 2_000_000_000,
            _ => from + number(&values[0]) * length + length / 2,
        };
        Some(Stretch {
            at: at as f64,
            median: median(&medians)?,
            least: values.iter().map(|value| value.min).fold(f64::INFINITY, f64::min),
            most: values.iter().map(|value| value.max).fold(0.0, f64::max),
        })
    };
    values.chunk_by(|one, next| number(one) == number(next)).filter_map(of_stretch).collect()
}

/// The points of a curve, interrupted where nothing was measured.
fn points(stretches: &[Stretch], value: impl Fn(&Stretch) -> f64) -> Vec<(f64, f64)> {
    let between: Vec<f64> = stretches.windows(2).map(|pair| pair[1].at - pair[0].at).collect();
    let longest = median(&between).map_or(f64::INFINITY, |usual| usual * GAP as f64);
    let mut points = Vec::with_capacity(stretches.len());
    let mut before: Option<f64> = None;
    for stretch in stretches {
        if before.is_some_and(|before| stretch.at - before > longest) {
            points.push((stretch.at, f64::NAN));
        }
        points.push((stretch.at, value(stretch)));
        before = Some(stretch.at);
    }
    points
}

/// The steps between levels from `from` to `to`; none where nothing changed.
fn levels(changes: &[&Change], from: f64, to: f64) -> Vec<(f64, f64)> {
    let Some(first) = changes.first() else { return Vec::new() };
    let mut level = first.before;
    let mut steps = vec![(from, level)];
    for change in changes {
        let at = seconds(change.at) as f64;
        if at > to {
            break;
        }
        if at <= from {
            (level, steps) = (change.after, vec![(from, change.after)]);
            continue;
        }
        steps.extend([(at, level), (at, change.after)]);
        level = change.after;
    }
    steps.push((to, level));
    steps
}

fn chart(shown: &VolumePage, measure: Measure, values: &[Value]) -> Markup {
    let (from, to) = (seconds(shown.from), seconds(shown.to));
    let stretches = stretches(values, from, to);
    let begin = stretches.first().map_or(from as f64, |first| first.at);
    let of_measure: Vec<&Change> =
        shown.changes.iter().filter(|told| told.measure == measure).map(|told| &told.change).collect();
    let levels = levels(&of_measure, begin, to as f64);
    let in_unit = |points: Vec<(f64, f64)>| -> Vec<(f64, f64)> {
        points.into_iter().map(|(at, value)| (at, drawn(measure, value))).collect()
    };
    let curve = |name: &str, class: &str, points: Vec<(f64, f64)>| Curve {
        name: name.to_owned(),
        class: class.to_owned(),
        points: in_unit(points),
        filled: false,
    };
    let most = stretches.iter().map(|stretch| stretch.median).chain(levels.iter().map(|level| level.1));
    let highest = most.fold(0.0, f64::max);
    let y = Scale::from_zero(quantity(measure), drawn(measure, highest), 4);
    let mut curves = vec![
        curve("least", "d1 other", points(&stretches, |stretch| stretch.least)),
        curve("most", "d1 other", points(&stretches, |stretch| stretch.most)),
        curve(name(measure), "d1 main", points(&stretches, |stretch| stretch.median)),
    ];
    if !levels.is_empty() {
        curves.push(curve("level", "level", levels));
    }
    let top = stretches.iter().map(|stretch| stretch.most).fold(0.0, f64::max) * 2.0;
    for change in of_measure.iter().filter(|change| (shown.from..=shown.to).contains(&change.at)) {
        let at = seconds(change.at) as f64;
        curves.push(curve(
            "change",
            "other mark",
            vec![(at, 0.0), (at, top.max(change.before).max(change.after) * 2.0)],
        ));
    }
    let mut moments: Vec<u64> = shown.happened().map(|event| seconds(event.at)).collect();
    moments.dedup();
    curves.extend(moments.iter().map(|&at| {
        let at = at as f64;
        curve("event", "other event", vec![(at, 0.0), (at, top.max(highest) * 2.0)])
    }));
    let newest = values.last();
    let plot = Plot {
        label: format!("{} of {} over time", name(measure), shown.volume.name),
        height: 160,
        x: Scale::exact(Quantity::Date, from as f64, to as f64),
        y,
        x_ticks: Some(ticks(from, to)),
        curves,
    };
    html! {
        figure.card.weeks {
            figcaption {
                (name(measure))
                @if let Some(newest) = newest { " " span.faint { "last " (figure(measure, newest.median)) ", " (Civil::from_unix(newest.at)) } }
            }
            (plot.render())
        }
    }
}

fn changes(shown: &VolumePage) -> Option<Markup> {
    if shown.changes.is_empty() {
        return None;
    }
    Some(html! { ul.warnings { @for told in shown.changes.iter().rev() { li {
        p { (told.sentence) }
        p.sub { (told.figures) }
    } } } })
}

fn events(shown: &VolumePage) -> Option<Markup> {
    shown.happened().next()?;
    Some(html! {
        p.sub { "As passes saw it, the newest first: a pass sees what happened since the one before." }
        (scrolling("Events", html! { table.stack {
            thead { tr { th { "when" } th { "what" } } }
            tbody { @for event in shown.happened().rev() { tr {
                th scope="row" { (Civil::from_unix(event.at)) }
                td.long data-l="what" { (event.what) }
            } } }
        } }))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebbtide_model::units::Nanos;

    fn value(at: u64, median: f64) -> Value {
        Value {
            at: UnixTime::from_secs(at),
            span: Nanos(0),
            median,
            min: median / 2.0,
            max: median * 2.0,
            count: 1,
        }
    }

    #[test]
    fn many_values_become_few_points_and_gaps_stay() {
        let hours: Vec<Value> = (0..10_000)
            .filter(|hour| !(4000..6000).contains(hour))
            .map(|hour| value(hour * 3600, 100.0))
            .collect();
        let stretches = stretches(&hours, 0, 10_000 * 3600);
        assert!((200..=POINTS as usize).contains(&stretches.len()), "{}", stretches.len());
        assert!(stretches.iter().all(|s| (s.median, s.least, s.most) == (100.0, 50.0, 200.0)));
        let points = points(&stretches, |stretch| stretch.median);
        assert_eq!(points.iter().filter(|point| point.1.is_nan()).count(), 1);
    }

    #[test]
    fn levels_step_at_changes() {
        let change = |at, before, after| Change {
            at: UnixTime::from_secs(at),
            told: UnixTime::from_secs(at),
            before,
            after,
            ci: (0.9, 1.1),
        };
        let (one, other) = (change(100, 10.0, 5.0), change(200, 5.0, 8.0));
        let all = [&one, &other];
        assert_eq!(
            levels(&all, 0.0, 300.0),
            [(0.0, 10.0), (100.0, 10.0), (100.0, 5.0), (200.0, 5.0), (200.0, 8.0), (300.0, 8.0)]
        );
        assert_eq!(levels(&all, 150.0, 180.0), [(150.0, 5.0), (180.0, 5.0)]);
        assert_eq!(levels(&all, 0.0, 50.0), [(0.0, 10.0), (50.0, 10.0)]);
        assert_eq!(levels(&[], 0.0, 50.0), []);
    }
}
