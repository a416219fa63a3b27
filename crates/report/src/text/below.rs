//! Arrays that were there before the trials, below the members: what their devices did.

use super::Page;
use super::table::{Cell, Table};
use crate::model::Report;
use crate::words;
use ebbtide_analysis::ArrayBelow;
use ebbtide_model::shown::Paint;
use ebbtide_model::units::{format_iops, format_latency, format_throughput};

/// Up to this many arrays of a result are shown; the others are in the JSON.
const MOST_ARRAYS: usize = 4;
/// Up to this many devices of an array have a line.
const MOST_DEVICES: usize = 32;

/// What the columns are.
const HEADING: &str = "devices of arrays that were there before, as the kernel counted them: share of the bytes, medians of requests, \
     time of a request, queue and use";

/// A table for each array.
pub(super) fn tables(arrays: &[ArrayBelow]) -> Vec<Table> {
    arrays.iter().take(MOST_ARRAYS).map(table).collect()
}

fn table(array: &ArrayBelow) -> Table {
    let title = format!("{} ({})", array.name, array.join.in_words(array.devices.len(), array.missing));
    let mut header = vec![title];
    header.extend(["share", "IOPS", "throughput", "await", "queue", "busy"].map(str::to_owned));
    let or_dash = |text: Option<String>| Cell::plain(&text.unwrap_or_else(|| "–".to_owned()));
    let rows = array.devices.iter().take(MOST_DEVICES).map(|device| {
        vec![
            Cell::plain(&device.name),
            or_dash(device.share.map(words::percent)),
            Cell::new(&format_iops(device.iops), Paint::Strong),
            Cell::new(&format_throughput(device.throughput), Paint::Strong),
            or_dash(device.wait.map(format_latency)),
            or_dash(device.in_flight.map(words::ratio)),
            or_dash(device.busy.map(words::percent)),
        ]
    });
    Table { header, rows: rows.collect() }
}

impl Page {
    /// What is below the members of each result.
    pub(super) fn below(&mut self, report: &Report) {
        let views = || report.results.iter().filter(|view| !view.result.below.is_empty());
        if views().next().is_none() {
            return;
        }
        self.heading("Below the members", HEADING);
        for view in views() {
            self.prose(&format!("  {}, {}", view.result.design, view.result.workload), 4, Paint::Faint);
            for table in tables(&view.result.below) {
                self.lines.extend(table.lines(self.width, self.color));
            }
        }
    }
}
