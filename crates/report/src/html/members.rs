//! Who did the work: share, rates and latency of each member.

use super::{key, meter, scrolling};
use crate::model::{Report, ResultView};
use crate::words;
use ebbtide_model::units::{format_iops, format_latency, format_throughput};
use maud::{Markup, html};

pub(super) fn section(report: &Report) -> Option<Markup> {
    let designs: Vec<(usize, Vec<&ResultView>)> = (0..report.designs.len())
        .map(|design| {
            let views = report
                .results
                .iter()
                .filter(|view| view.design == design && view.result.members.iter().any(|m| m.share.is_some()))
                .collect::<Vec<_>>();
            (design, views)
        })
        .filter(|(_, views)| !views.is_empty())
        .collect();
    if designs.is_empty() {
        return None;
    }
    Some(html! {
        p.sub { "Each member's share of the bytes that all members moved, over all trials." }
        @for (design, views) in &designs {
            h3 { (key(report, *design)) }
            @if let Some(facts) = report.designs.get(*design) { p.sub { (facts.layout) } }
            (scrolling(&format!("Shares of the members of {}", report.design_name(*design)), shares(views)))
            details {
                summary { "Rates and latencies of each member" }
                (scrolling(&format!("Members of {}", report.design_name(*design)), details(views)))
            }
            @if views.iter().any(|view| !view.result.below.is_empty()) {
                p.sub { "Arrays that were there before the trials, below these members: their devices as the kernel counted them." }
                (scrolling(&format!("Arrays below the members of {}", report.design_name(*design)), below(views)))
            }
        }
    })
}

/// A row for each member, a column for each workload.
fn shares(views: &[&ResultView]) -> Markup {
    let mut names: Vec<&str> = Vec::new();
    for member in views.iter().flat_map(|view| &view.result.members) {
        if !names.contains(&member.name.as_str()) {
            names.push(&member.name);
        }
    }
    html! {
        table.shares {
            thead { tr { th { "member" } @for view in views { th { (view.result.workload) } } } }
            tbody { @for name in names { tr {
                th scope="row" { (name) }
                @for view in views {
                    @let share = view.result.members.iter().find(|m| m.name == name).and_then(|m| m.share);
                    td { @match share {
                        Some(share) => {
                            (meter(share))
                            span.share { (words::percent(share)) }
                        }
                        None => "–",
                    } }
                }
            } } }
        }
    }
}

fn below(views: &[&ResultView]) -> Markup {
    html! {
        table {
            thead { tr {
                th { "workload" } th { "array" } th { "device" } th.n { "share" } th.n { "throughput" } th.n { "requests/s" }
                th.n { "time per request" } th.n { "in flight" } th.n { "busy" }
            } }
            tbody { @for view in views { @for array in &view.result.below { @for device in &array.devices { tr {
                td { (view.result.workload) }
                td { (array.name) ", " (array.join.in_words(array.devices.len(), array.missing)) }
                th scope="row" { (device.name) }
                td.n { (words::or_dash(device.share, words::percent)) }
                td.n { (format_throughput(device.throughput)) }
                td.n { (format_iops(device.iops)) }
                td.n { (words::or_dash(device.wait, format_latency)) }
                td.n { (words::or_dash(device.in_flight, words::ratio)) }
                td.n { (words::or_dash(device.busy, words::percent)) }
            } } } } }
        }
    }
}

fn details(views: &[&ResultView]) -> Markup {
    html! {
        table {
            thead { tr {
                th { "workload" } th { "member" } th.n { "throughput" } th.n { "IOPS" } th.n { "p50" } th.n { "p99" }
                th.n { "in flight" } th.n { "errors" }
            } }
            tbody { @for view in views { @for member in &view.result.members { tr {
                td { (view.result.workload) }
                th scope="row" { (member.name) }
                td.n { (format_throughput(member.throughput)) }
                td.n { (format_iops(member.iops)) }
                td.n { (words::or_dash(member.lat_p50, format_latency)) }
                td.n { (words::or_dash(member.lat_p99, format_latency)) }
                td.n { (words::or_dash(member.in_flight, words::ratio)) }
                td.n { (member.errors) }
            } } } }
        }
    }
}
