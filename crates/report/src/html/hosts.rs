//! What each host did, and how far apart they began.

use super::{key, scrolling};
use crate::model::Report;
use crate::words::{self, or_dash};
use ebbtide_analysis::Estimate;
use ebbtide_model::metric::Metric;
use ebbtide_model::units::format_latency;
use maud::{Markup, html};

pub(super) fn section(report: &Report) -> Option<Markup> {
    let views = report.on_hosts();
    if views.is_empty() {
        return None;
    }
    let value = |metric: Metric, estimate: &Option<Estimate>| {
        or_dash(estimate.as_ref(), |of| words::value(metric, of.median))
    };
    let interval = |estimate: &Option<Estimate>| {
        or_dash(estimate.as_ref().and_then(|of| of.interval), |(low, high)| {
            words::range(Metric::Iops, low, high)
        })
    };
    Some(html! {
        p.sub {
            "Medians over the trials of what each host did while all were at work, with the "
            (words::level(report.ci_level)) " interval of its operations per second. A dash is a host that had no job."
        }
        (scrolling("Hosts", html! { table {
            thead { tr {
                th { "design" } th { "workload" } th { "host" } th.n { "jobs" } th.n { "operations" } th.n { "interval" }
                th.n { "throughput" } th.n { "p50" } th.n { "p99" } th.n { "at work after" }
            } }
            tbody { @for (view, hosts) in &views { @for row in &hosts.rows { tr {
                th scope="row" { (key(report, view.design)) }
                td { (view.result.workload) }
                td { (row.name) }
                td.n { (row.jobs) }
                td.n { (value(Metric::Iops, &row.iops)) }
                td.n { (interval(&row.iops)) }
                td.n { (value(Metric::Throughput, &row.throughput)) }
                td.n { (value(Metric::LatP50, &row.lat_p50)) }
                td.n { (value(Metric::LatP99, &row.lat_p99)) }
                td.n { (or_dash(row.late, format_latency)) }
            } } } }
        } }))
        @if let Some(sentence) = report.skew_in_words() { p { (sentence) } }
        @if !report.session.hosts.is_empty() {
            h3 { "What they are" }
            (scrolling("What the hosts are", html! { table {
                thead { tr { th { "host" } th { "name" } th { "machine" } th { "kernel" } th { "CPU" } th.n { "cores" } } }
                tbody { @for named in &report.session.hosts { tr {
                    th scope="row" { (named.name) }
                    td { (named.host.hostname) }
                    td { (named.host.machine.as_deref().unwrap_or("–")) }
                    td { (named.host.kernel) }
                    td { (named.host.cpu_model) }
                    td.n { (named.host.cores) }
                } } }
            } }))
        }
    })
}
