//! What was seen around the trials: the host, the disks, and who else was at work.

use super::{key, scrolling};
use crate::model::{Report, ResultView};
use crate::seen::SeenView;
use crate::words::{or_dash, percent, ratio};
use ebbtide_model::units::{Bytes, format_bytes, format_iops, format_latency, format_throughput};
use maud::{Markup, html};

pub(super) fn section(report: &Report) -> Option<Markup> {
    let seen = report.seen();
    if seen.is_empty() {
        return None;
    }
    Some(html! {
        p.sub {
            "What was seen around the trials: medians over those of each design under each workload; memory is that of the trial with the least, and \
             waits for memory and dirty pages those of the trial with the most. A dash is what could not be seen."
        }
        (scrolling("The host around the trials", host(report, &seen)))
        details {
            summary { "Disks below the members" }
            (scrolling("Disks below the members", disks(report, &seen)))
        }
        @if seen.iter().any(|(_, seen)| !seen.network.is_empty()) {
            h3 { "Network" }
            (scrolling("Network", network(report, &seen)))
        }
        h3 { "Other activity on these disks" }
        @if seen.iter().all(|(_, seen)| seen.others.is_empty()) {
            p { "None was seen." }
        } @else {
            (scrolling("Other activity", others(report, &seen)))
        }
    })
}

fn whole_bytes(bytes: u64) -> String {
    format_bytes(bytes as f64)
}

fn host(report: &Report, seen: &[(&ResultView, &SeenView)]) -> Markup {
    html! {
        table {
            thead { tr {
                th { "design" } th { "workload" } th.n { "busiest core" } th.n { "stolen" } th.n { "load, cores" }
                th.n { "busiest load thread" } th.n { "memory available" } th.n { "waited for memory" }
                th.n { "dirty after" }
            } }
            tbody { @for (view, seen) in seen { tr {
                th scope="row" { (key(report, view.design)) }
                td { (view.result.workload) }
                td.n { (or_dash(seen.busiest_core, percent)) }
                td.n { (or_dash(seen.stolen, percent)) }
                td.n { (or_dash(seen.load_cores, ratio)) }
                td.n { (or_dash(seen.load_thread, percent)) }
                td.n { (or_dash(seen.memory_available, whole_bytes)) }
                td.n { (or_dash(seen.memory_waits, percent)) }
                td.n { (or_dash(seen.dirty_after, whole_bytes)) }
            } } }
        }
    }
}

fn disks(report: &Report, seen: &[(&ResultView, &SeenView)]) -> Markup {
    html! {
        table {
            thead { tr {
                th { "design" } th { "workload" } th { "disk" } th.n { "busy" } th.n { "read" } th.n { "written" }
                th.n { "requests" } th.n { "time per request" } th.n { "request size" }
            } }
            tbody { @for (view, seen) in seen { @for disk in &seen.disks { tr {
                th scope="row" { (key(report, view.design)) }
                td { (view.result.workload) }
                td { (disk.shown_name()) }
                td.n { (or_dash(disk.busy, percent)) }
                td.n { (or_dash(disk.bytes_per_second.read, format_throughput)) }
                td.n { (or_dash(disk.bytes_per_second.write, format_throughput)) }
                td.n { (or_dash(disk.requests_per_second, |r| format!("{} /s", format_iops(r)))) }
                td.n { (or_dash(disk.wait, format_latency)) }
                td.n { (or_dash(disk.request_size, |size| format!("{:.1} KiB", size / Bytes::KIB as f64))) }
            } } } }
        }
    }
}

fn network(report: &Report, seen: &[(&ResultView, &SeenView)]) -> Markup {
    html! {
        table {
            thead { tr {
                th { "design" } th { "workload" } th { "interface" } th.n { "received" } th.n { "sent" } th.n { "speed" }
                th.n { "sent again" } th.n { "round trip" }
            } }
            tbody { @for (view, seen) in seen { @for interface in &seen.network { tr {
                th scope="row" { (key(report, view.design)) }
                td { (view.result.workload) }
                td { (interface.interface) }
                td.n { (or_dash(interface.received, format_throughput)) }
                td.n { (or_dash(interface.sent, format_throughput)) }
                td.n { (or_dash(interface.speed, format_throughput)) }
                td.n { (or_dash(seen.sent_again, |share| format!("{:.2}%", share * 100.0))) }
                td.n { (or_dash(seen.round_trip, format_latency)) }
            } } } }
        }
    }
}

fn others(report: &Report, seen: &[(&ResultView, &SeenView)]) -> Markup {
    html! {
        table {
            thead { tr {
                th { "who" } th { "disk" } th.n { "read" } th.n { "written" } th.n { "trials" } th { "design" } th { "workload" }
            } }
            tbody { @for (view, seen) in seen { @for other in &seen.others { tr {
                th scope="row" { (other.who) }
                td { (other.device.as_deref().unwrap_or("–")) }
                td.n { (or_dash(other.bytes.map(|b| b.read), whole_bytes)) }
                td.n { (or_dash(other.bytes.map(|b| b.write), whole_bytes)) }
                td.n { (other.trials) }
                td { (key(report, view.design)) }
                td { (view.result.workload) }
            } } } }
        }
    }
}
