//! Latency: percentiles out into the tail, and the distribution, designs over each other.

use super::chart::{Curve, Plot, Quantity, Scale};
use super::{design_class, key};
use crate::model::{LatencyView, Report};
use ebbtide_analysis::Unit;
use ebbtide_model::workload::OpKind;
use maud::{Markup, html};

/// Nines that are drawn at most: p99.999.
const MOST_NINES: f64 = 5.0;

/// A design's index and its latency.
type OfDesign<'a> = (usize, &'a LatencyView);

pub(super) fn section(report: &Report) -> Option<Markup> {
    let panels: Vec<(usize, OpKind, Vec<OfDesign>)> = (0..report.workloads.len())
        .flat_map(|workload| [(workload, OpKind::Read), (workload, OpKind::Write)])
        .filter_map(|(workload, op)| {
            let of_designs: Vec<OfDesign> = report
                .results_of(workload)
                .filter_map(|view| Some((view.design, view.latency.get(op).as_ref()?)))
                .filter(|(_, latency)| latency.bins.len() > 1 || latency.percentiles.len() > 1)
                .collect();
            (!of_designs.is_empty()).then_some((workload, op, of_designs))
        })
        .collect();
    if panels.is_empty() {
        return None;
    }
    Some(html! {
        p.sub {
            "All trials of a design together. Left: the latency that the given share of operations stays below. \
             Right: how the operations are spread over latencies. Both latency axes are logarithmic."
        }
        @for (workload, op, designs) in &panels {
            h3 { (report.workload_name(*workload)) ", " (plural(*op)) }
            p.legend { @for (design, _) in designs { (key(report, *design)) " " } }
            div.panels {
                (percentiles(report, *workload, *op, designs))
                (distribution(report, *workload, *op, designs))
            }
        }
    })
}

fn plural(op: OpKind) -> &'static str {
    match op {
        OpKind::Read => "reads",
        OpKind::Write => "writes",
    }
}

/// Latency on y, share of operations on x with each further nine as wide as the one before.
fn percentiles(report: &Report, workload: usize, op: OpKind, designs: &[(usize, &LatencyView)]) -> Markup {
    let nines = |q: f64| -libm::log10(1.0 - q);
    let kept = |latency: &LatencyView| -> Vec<(f64, f64)> {
        latency.percentiles.iter().filter(|(q, _)| *q < 1.0).map(|&(q, ns)| (nines(q), ns)).collect()
    };
    let all: Vec<(f64, f64)> = designs.iter().flat_map(|(_, latency)| kept(latency)).collect();
    let low = all.iter().map(|p| p.1).fold(f64::INFINITY, f64::min);
    let high = all.iter().map(|p| p.1).fold(0.0, f64::max);
    let most = all.iter().map(|p| p.0).fold(1.0, f64::max).min(MOST_NINES);
    let x = Scale::exact(Quantity::Nines, 0.0, most);
    let ticks = [0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999]
        .into_iter()
        .map(nines)
        .filter(|n| *n <= most + 1e-9)
        .map(|n| (n, Quantity::Nines.label(n)))
        .collect();
    let plot = Plot {
        label: format!("Latency percentiles of {} under {}", plural(op), report.workload_name(workload)),
        height: 200,
        x,
        y: Scale::log(Quantity::In(Unit::Nanoseconds), low, high),
        x_ticks: Some(ticks),
        curves: designs
            .iter()
            .map(|(design, latency)| Curve {
                name: report.design_name(*design).to_owned(),
                class: format!("{} main", design_class(report, *design)),
                points: kept(latency),
                filled: false,
            })
            .collect(),
    };
    html! { figure.card { figcaption { "percentiles" } (plot.render()) } }
}

/// Share of operations in each bin, as steps.
fn distribution(report: &Report, workload: usize, op: OpKind, designs: &[(usize, &LatencyView)]) -> Markup {
    let bins = || designs.iter().flat_map(|(_, latency)| latency.bins.iter());
    let low = bins().map(|b| b.0).fold(f64::INFINITY, f64::min);
    let high = bins().map(|b| b.1).fold(0.0, f64::max);
    let most = designs
        .iter()
        .flat_map(|(_, latency)| latency.bins.iter().map(|b| b.2 as f64 / latency.count.max(1) as f64))
        .fold(0.0, f64::max);
    let plot = Plot {
        label: format!(
            "Distribution of the latency of {} under {}",
            plural(op),
            report.workload_name(workload)
        ),
        height: 200,
        x: Scale::log(Quantity::In(Unit::Nanoseconds), low, high),
        y: Scale::from_zero(Quantity::In(Unit::Share), most, 4),
        x_ticks: None,
        curves: designs
            .iter()
            .map(|(design, latency)| Curve {
                name: report.design_name(*design).to_owned(),
                class: format!("{} main soft", design_class(report, *design)),
                points: steps(latency),
                filled: true,
            })
            .collect(),
    };
    html! { figure.card { figcaption { "distribution: share of operations in each bin" } (plot.render()) } }
}

/// The outline of the histogram; it falls to 0 between bins that do not touch.
fn steps(latency: &LatencyView) -> Vec<(f64, f64)> {
    let mut points = Vec::with_capacity(latency.bins.len() * 2 + 2);
    let mut edge = 0.0;
    for &(low, high, count) in &latency.bins {
        if low > edge * 1.001 {
            if edge > 0.0 {
                points.push((edge, 0.0));
            }
            points.push((low, 0.0));
        }
        let share = count as f64 / latency.count.max(1) as f64;
        points.extend([(low, share), (high, share)]);
        edge = high;
    }
    points.push((edge, 0.0));
    points
}
