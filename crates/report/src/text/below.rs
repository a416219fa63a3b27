//! Arrays that were there before the trials, below the members: what their devices did.

use super::Page;
use super::table::{Cell, Table};
use crate::model::Report;
use crate::names::Labels;
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
    let rows = array.devices.iter().take(MOST_DEVICES).map(|device| {
        vec![
            Cell::plain(&device.name),
            Cell::plain(&words::or_dash(device.share, words::percent)),
            Cell::new(&format_iops(device.iops), Paint::Strong),
            Cell::new(&format_throughput(device.throughput), Paint::Strong),
            Cell::plain(&words::or_dash(device.wait, format_latency)),
            Cell::plain(&words::or_dash(device.in_flight, words::ratio)),
            Cell::plain(&words::or_dash(device.busy, words::percent)),
        ]
    });
    Table { header, rows: rows.collect() }
}

impl Page {
    /// What is below the members of each result.
    pub(super) fn below(&mut self, report: &Report, labels: &Labels) {
        let views = || report.results.iter().filter(|view| !view.result.below.is_empty());
        if views().next().is_none() {
            return;
        }
        self.heading("Below the members", HEADING);
        for view in views() {
            let subject = format!("  {}, {}", labels.name(view.design), view.result.workload);
            self.prose(&subject, 4, Paint::Faint);
            for table in tables(&view.result.below) {
                self.lines.extend(table.lines(self.width, self.color));
            }
        }
    }
}
