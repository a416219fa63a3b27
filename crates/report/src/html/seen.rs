//! What was seen around the trials: the host, the disks, and who else was at work.

use super::{key, scrolling};
use crate::model::{Report, ResultView};
use crate::seen::SeenView;
use crate::words;
use ebbtide_model::units::{Bytes, format_iops, format_latency, format_throughput};
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
        h3 { "Others at work on these disks" }
        @if seen.iter().all(|(_, seen)| seen.others.is_empty()) {
            p { "Nobody was seen." }
        } @else {
            (scrolling("Others at work", others(report, &seen)))
        }
    })
}

fn share(value: Option<f64>) -> String {
    value.map_or("–".to_owned(), words::percent)
}

fn rate(value: Option<f64>) -> String {
    value.map_or("–".to_owned(), format_throughput)
}

fn bytes(value: Option<u64>) -> String {
    value.map_or("–".to_owned(), words::bytes)
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
                td.n { (share(seen.busiest_core)) }
                td.n { (share(seen.stolen)) }
                td.n { (seen.load_cores.map_or("–".to_owned(), words::ratio)) }
                td.n { (share(seen.load_thread)) }
                td.n { (bytes(seen.memory_available)) }
                td.n { (share(seen.memory_waits)) }
                td.n { (bytes(seen.dirty_after)) }
            } } }
        }
    }
}

fn disks(report: &Report, seen: &[(&ResultView, &SeenView)]) -> Markup {
    html! {
        table {
            thead { tr {
                th { "design" } th { "workload" } th { "disk" } th.n { "busy" } th.n { "read" } th.n { "written" }
                th.n { "requests" } th.n { "a request took" } th.n { "request size" }
            } }
            tbody { @for (view, seen) in seen { @for disk in &seen.disks { tr {
                th scope="row" { (key(report, view.design)) }
                td { (view.result.workload) }
                td { (disk.name) }
                td.n { (share(disk.busy)) }
                td.n { (rate(disk.bytes_per_second.read)) }
                td.n { (rate(disk.bytes_per_second.write)) }
                td.n { (disk.requests_per_second.map_or("–".to_owned(), |r| format!("{} /s", format_iops(r)))) }
                td.n { (disk.wait.map_or("–".to_owned(), format_latency)) }
                td.n { (disk.request_size.map_or("–".to_owned(), |size| format!("{:.1} KiB", size / Bytes::KIB as f64))) }
            } } } }
        }
    }
}

fn network(report: &Report, seen: &[(&ResultView, &SeenView)]) -> Markup {
    html! {
        table {
            thead { tr {
                th { "design" } th { "workload" } th { "interface" } th.n { "received" } th.n { "sent" } th.n { "speed" }
            } }
            tbody { @for (view, seen) in seen { @for interface in &seen.network { tr {
                th scope="row" { (key(report, view.design)) }
                td { (view.result.workload) }
                td { (interface.interface) }
                td.n { (rate(interface.received)) }
                td.n { (rate(interface.sent)) }
                td.n { (rate(interface.speed)) }
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
                td.n { (bytes(other.bytes.map(|b| b.read))) }
                td.n { (bytes(other.bytes.map(|b| b.write))) }
                td.n { (other.trials) }
                td { (key(report, view.design)) }
                td { (view.result.workload) }
            } } } }
        }
    }
}
