//! What was seen around the trials, as a table with a row for each result.

use super::Page;
use super::table::{Cell, Table};
use crate::model::{Report, ResultView};
use crate::names::Labels;
use crate::seen::SeenView;
use crate::words;
use ebbtide_model::shown::Paint;
use ebbtide_model::units::{format_bytes, format_latency, format_throughput};

/// What the columns are.
const HEADING: &str = "medians of the busiest core, the load's busiest thread, the busiest disk and the time of its \
     requests; waits for memory in the worst trial";
/// Up to this many others have a line.
const MOST_OTHERS: usize = 4;

impl Page {
    /// Cores, load threads, disks, memory and network of each result, and who else was at work.
    pub(super) fn seen(&mut self, report: &Report, labels: &Labels) {
        let seen = report.seen();
        if seen.is_empty() {
            return;
        }
        self.heading("What else was happening", HEADING);
        self.lines.extend(table(labels, &seen).lines(self.width, self.color));
        let others = SeenView::others_of(seen.iter().map(|(_, seen)| *seen));
        for other in others.iter().take(MOST_OTHERS) {
            let on = other.device.as_ref().map_or(String::new(), |device| format!(" on {device}"));
            let moved = other.bytes.map_or(String::new(), |bytes| {
                format!(
                    ", read {}, wrote {}",
                    format_bytes(bytes.read as f64),
                    format_bytes(bytes.write as f64)
                )
            });
            let trials = words::count(other.trials.into(), "trial");
            self.prose(&format!("  also active: {}{on}{moved}, in {trials}", other.who), 4, Paint::Caution);
        }
        if let more @ 1.. = others.len().saturating_sub(MOST_OTHERS) {
            self.prose(
                &format!("  and {more} more were active; the HTML report names them"),
                4,
                Paint::Caution,
            );
        }
    }
}

fn table(labels: &Labels, seen: &[(&ResultView, &SeenView)]) -> Table {
    let remote = seen.iter().any(|(_, seen)| !seen.network.is_empty());
    let mut header =
        ["design", "workload", "core", "thread", "disk", "await", "memory waits"].map(str::to_owned).to_vec();
    if remote {
        header.push("network".to_owned());
    }
    let share = |value: Option<f64>| Cell::plain(&words::or_dash(value, words::percent));
    let row = |(view, seen): &(&ResultView, &SeenView)| {
        let disk = seen.busiest_disk();
        let mut row = vec![
            Cell::plain(&labels.name(view.design)),
            Cell::plain(&view.result.workload),
            share(seen.busiest_core),
            share(seen.load_thread),
            Cell::plain(&words::or_dash(
                disk.and_then(|d| Some((d.shown_name(), d.busy?))),
                |(name, busy)| format!("{name} {}", words::percent(busy)),
            )),
            Cell::plain(&words::or_dash(disk.and_then(|d| d.wait), format_latency)),
            share(seen.memory_waits),
        ];
        if remote {
            let told = seen.network.iter().filter_map(|n| {
                let (received, sent) = (format_throughput(n.received?), format_throughput(n.sent?));
                Some(format!("{} in {received}, out {sent}", n.interface))
            });
            let again = seen.sent_again.filter(|share| *share > 0.0);
            let again = again.map(|share| format!("sent again {:.2}%", share * 100.0));
            let round_trip = seen.round_trip.map(|time| format!("round trip {}", format_latency(time)));
            let told: Vec<String> = told.chain(again).chain(round_trip).collect();
            row.push(Cell::plain(&told.join("; ")));
        }
        row
    };
    Table { header, rows: seen.iter().map(row).collect() }
}
