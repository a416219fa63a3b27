//! What was seen around the trials, as a table with a row for each result.

use super::Page;
use super::table::{Cell, Table};
use crate::model::{Report, ResultView};
use crate::seen::SeenView;
use crate::words;
use ebbtide_model::shown::Paint;
use ebbtide_model::units::{format_latency, format_throughput};

/// What the columns are.
const HEADING: &str = "medians of the busiest core, the load's busiest thread, the busiest disk and the time of its \
     requests; waits for memory in the worst trial";
/// Up to this many others have a line.
const MOST_OTHERS: usize = 4;

impl Page {
    /// Cores, load threads, disks, memory and network of each result, and who else was at work.
    pub(super) fn seen(&mut self, report: &Report) {
        let seen = report.seen();
        if seen.is_empty() {
            return;
        }
        self.heading("Seen around the trials", HEADING);
        self.lines.extend(table(&seen).lines(self.width, self.color));
        let others = SeenView::others_of(seen.iter().map(|(_, seen)| *seen));
        for other in others.iter().take(MOST_OTHERS) {
            let on = other.device.as_ref().map_or(String::new(), |device| format!(" on {device}"));
            let moved = other.bytes.map_or(String::new(), |bytes| {
                format!(", read {}, wrote {}", words::bytes(bytes.read), words::bytes(bytes.write))
            });
            let trials = words::count(other.trials.into(), "trial");
            self.prose(&format!("  at work too: {}{on}{moved}, in {trials}", other.who), 4, Paint::Caution);
        }
        if let more @ 1.. = others.len().saturating_sub(MOST_OTHERS) {
            self.prose(&format!("  and {more} more at work; the HTML report names them"), 4, Paint::Caution);
        }
    }
}

fn table(seen: &[(&ResultView, &SeenView)]) -> Table {
    let remote = seen.iter().any(|(_, seen)| !seen.network.is_empty());
    let mut header =
        ["design", "workload", "core", "thread", "disk", "await", "memory waits"].map(str::to_owned).to_vec();
    if remote {
        header.push("network".to_owned());
    }
    let share = |value: Option<f64>| Cell::plain(&value.map_or("–".to_owned(), words::percent));
    let row = |(view, seen): &(&ResultView, &SeenView)| {
        let disk = seen.busiest_disk();
        let mut row = vec![
            Cell::plain(&view.result.design),
            Cell::plain(&view.result.workload),
            share(seen.busiest_core),
            share(seen.load_thread),
            Cell::plain(
                &disk
                    .and_then(|d| Some(format!("{} {}", d.name, words::percent(d.busy?))))
                    .unwrap_or("–".into()),
            ),
            Cell::plain(&disk.and_then(|d| d.wait).map_or("–".to_owned(), format_latency)),
            share(seen.memory_waits),
        ];
        if remote {
            let told = seen.network.iter().filter_map(|n| {
                let (received, sent) = (format_throughput(n.received?), format_throughput(n.sent?));
                Some(format!("{} in {received}, out {sent}", n.interface))
            });
            row.push(Cell::plain(&told.collect::<Vec<_>>().join("; ")));
        }
        row
    };
    Table { header, rows: seen.iter().map(row).collect() }
}
