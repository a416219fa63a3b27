//! Throughput over time: the array above, its members below on a common scale, a card for each design.

use super::chart::{Curve, Plot, Quantity, Scale, curves};
use super::{design_class, key};
use crate::model::{Report, ResultView, SeriesPoint, TrialFigures};
use crate::words;
use ebbtide_analysis::Unit;
use ebbtide_model::metric::Metric;
use maud::{Markup, html};

/// Members that are drawn; more would make the page long without saying more.
const MOST_MEMBERS: usize = 16;
/// Points of a curve; longer series are thinned by averaging, so that the file stays small.
const MOST_POINTS: usize = 120;
/// Trials that are drawn faintly beside the median one.
pub(crate) const MOST_TRIALS: usize = 12;

pub(super) fn section(report: &Report) -> Option<Markup> {
    let drawn = |view: &ResultView| median(report, view).is_some_and(|figures| figures.series.len() > 1);
    if !report.results.iter().any(drawn) {
        return None;
    }
    Some(html! {
        p.sub {
            "The strong line is the median trial, the faint ones are the other trials. Below: each member of the median \
             trial, all on one scale for the workload."
        }
        p { label { input #others type="checkbox" checked; " show the other trials" } }
        @for (index, workload) in report.workloads.iter().enumerate() {
            @let views: Vec<&ResultView> = report.results_of(index).filter(|v| drawn(v)).collect();
            @if !views.is_empty() {
                h3 { (workload.name) }
                div.panels { (cards(report, &views)) }
            }
        }
    })
}

fn median<'a>(report: &'a Report, view: &ResultView) -> Option<&'a TrialFigures> {
    report.trials.get(view.median_trial?)?.outcome.as_ref().ok()
}

/// Series of every finished trial behind `view` but the median one.
fn others(report: &Report, view: &ResultView) -> Vec<(u32, Vec<SeriesPoint>)> {
    report
        .trials_of(view)
        .filter(|(position, _)| Some(*position) != view.median_trial)
        .filter_map(|(_, t)| Some((t.round, thinned(&t.outcome.as_ref().ok()?.series))))
        .take(MOST_TRIALS)
        .collect()
}

/// At most [`MOST_POINTS`] points, each the mean of the intervals that it stands for.
fn thinned(series: &[SeriesPoint]) -> Vec<SeriesPoint> {
    let group = series.len().div_ceil(MOST_POINTS).max(1);
    series
        .chunks(group)
        .map(|chunk| {
            let n = chunk.len() as f64;
            let mean = |value: &dyn Fn(&SeriesPoint) -> f64| chunk.iter().map(value).sum::<f64>() / n;
            SeriesPoint {
                end_s: chunk.last().map_or(0.0, |p| p.end_s),
                bytes_per_second: mean(&|p| p.bytes_per_second),
                ops_per_second: mean(&|p| p.ops_per_second),
                members: (0..chunk.first().map_or(0, |p| p.members.len()))
                    .map(|m| mean(&|p| p.members.get(m).copied().unwrap_or(0.0)))
                    .collect(),
            }
        })
        .collect()
}

/// Points of a series in [`data`].
const FEW_POINTS: usize = 60;

/// The series of the array in the trial in the middle of each result, as JSON of numbers alone: design, workload, seconds,
/// kB/s of each interval.
pub(super) fn data(report: &Report) -> String {
    let of = |view: &ResultView| {
        let series = &median(report, view)?.series;
        let rate = |points: &[SeriesPoint]| {
            let sum: f64 = points.iter().map(|point| point.bytes_per_second).sum();
            format!("{:.0}", sum / points.len() as f64 / 1e3)
        };
        let rates: Vec<String> = series.chunks(series.len().div_ceil(FEW_POINTS).max(1)).map(rate).collect();
        let seconds = series.last()?.end_s;
        Some(format!("[{},{},{seconds},[{}]]", view.design, view.workload, rates.join(",")))
    };
    let all: Vec<String> = report.results.iter().filter_map(of).collect();
    format!("[{}]", all.join(","))
}

struct Drawn<'a> {
    view: &'a ResultView,
    figures: &'a TrialFigures,
    median: Vec<SeriesPoint>,
    others: Vec<(u32, Vec<SeriesPoint>)>,
}

fn cards(report: &Report, views: &[&ResultView]) -> Markup {
    let drawn: Vec<Drawn> = views
        .iter()
        .filter_map(|view| {
            let figures = median(report, view)?;
            Some(Drawn { view, figures, median: thinned(&figures.series), others: others(report, view) })
        })
        .collect();
    let all = |d: &Drawn| -> Vec<SeriesPoint> {
        d.median.iter().chain(d.others.iter().flat_map(|(_, series)| series)).cloned().collect()
    };
    let most = |value: &dyn Fn(&SeriesPoint) -> f64| {
        drawn.iter().flat_map(&all).map(|p| value(&p)).fold(0.0, f64::max)
    };
    let array = Scale::from_zero(Quantity::In(Unit::BytesPerSecond), most(&|p| p.bytes_per_second), 4);
    let member = Scale::from_zero(
        Quantity::In(Unit::BytesPerSecond),
        most(&|p| p.members.iter().copied().fold(0.0, f64::max)),
        2,
    );
    let time = Scale::exact(Quantity::In(Unit::Seconds), 0.0, most(&|p| p.end_s));
    html! { @for d in &drawn { (card(report, d, (&time, &array, &member))) } }
}

fn card(report: &Report, drawn: &Drawn, (time, array, member): (&Scale, &Scale, &Scale)) -> Markup {
    let class = design_class(report, drawn.view.design);
    let line = |series: &[SeriesPoint]| over_intervals(series, |p| p.bytes_per_second);
    let mut lines: Vec<Curve> = drawn
        .others
        .iter()
        .map(|(round, series)| Curve {
            name: format!("round {}", round + 1),
            class: format!("{class} other"),
            points: line(series),
            filled: false,
        })
        .collect();
    lines.push(Curve {
        name: "median trial".to_owned(),
        class: format!("{class} main"),
        points: line(&drawn.median),
        filled: false,
    });
    let plot = Plot {
        label: format!(
            "Throughput of {} over time under {}",
            drawn.view.result.design, drawn.view.result.workload
        ),
        height: 130,
        x: *time,
        y: *array,
        x_ticks: None,
        curves: lines,
    };
    let hidden = drawn.figures.members.len().saturating_sub(MOST_MEMBERS);
    html! {
        figure.card.time {
            figcaption {
                (key(report, drawn.view.design))
                @if let Some(value) = drawn.figures.value(Metric::Throughput) { " " span.faint { "median trial " (words::value(Metric::Throughput, value)) } }
            }
            (plot.render())
            p.sub { "members, each from 0 to " (member.top()) @if hidden > 0 { "; " (hidden) " more are in the tables" } }
            div.strips {
                @for (index, name) in drawn.figures.members.iter().take(MOST_MEMBERS).enumerate() {
                    @let points = over_intervals(&drawn.median, |p| p.members.get(index).copied().unwrap_or(0.0));
                    @let share = drawn.view.result.members.iter().find(|m| m.name == *name).and_then(|m| m.share);
                    div.strip {
                        span.name title=(name) { (name) }
                        div.lane data-x=(time.data()) data-y=(member.data()) role="img" aria-label={ (name) " over time" } {
                            (curves(time, member, 18, &[Curve { name: name.clone(), class: class.clone(), points, filled: true }]))
                        }
                        span.share { (share.map_or("–".to_owned(), words::percent)) }
                    }
                }
            }
        }
    }
}

/// A rate belongs to its whole interval: it is drawn at the middle, and out to the ends of the series.
fn over_intervals(series: &[SeriesPoint], value: impl Fn(&SeriesPoint) -> f64) -> Vec<(f64, f64)> {
    let mut points = Vec::with_capacity(series.len() + 2);
    let mut start = 0.0;
    for point in series {
        if points.is_empty() {
            points.push((0.0, value(point)));
        }
        points.push(((start + point.end_s) / 2.0, value(point)));
        start = point.end_s;
    }
    points.extend(series.last().map(|point| (point.end_s, value(point))));
    points
}
