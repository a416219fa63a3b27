//! Latencies of reads and of writes with their intervals, as a table with a row for each result and kind.

use super::table::{Cell, Table};
use super::{Page, interval_cell};
use crate::model::{Report, ResultView};
use crate::names::Labels;
use crate::words;
use ebbtide_analysis::Estimate;
use ebbtide_model::metric::Metric;
use ebbtide_model::shown::Paint;

impl Page {
    /// Reads and writes apart: of a mix the one hides behind the other.
    pub(super) fn latencies(&mut self, report: &Report, labels: &Labels) {
        let rows: Vec<Vec<Cell>> = report.results.iter().flat_map(|view| rows(labels, view)).collect();
        if rows.is_empty() {
            return;
        }
        self.heading(
            "Latency",
            &format!("median over the trials of each percentile, {} interval", words::level(report.ci_level)),
        );
        let header =
            ["workload", "design", "", "p50", "interval", "p99", "interval"].map(str::to_owned).into();
        self.lines.extend(Table { header, rows }.lines(self.width, self.color));
    }
}

fn rows(labels: &Labels, view: &ResultView) -> Vec<Vec<Cell>> {
    let kinds = [("read", &view.percentiles.read), ("write", &view.percentiles.write)];
    let told = kinds.into_iter().filter_map(|(kind, percentiles)| {
        let percentiles = percentiles.as_ref()?;
        let mut row = vec![
            Cell::plain(&view.result.workload),
            Cell::plain(&labels.name(view.design)),
            Cell::new(kind, Paint::Faint),
        ];
        row.extend(cells(Metric::LatP50, &percentiles.p50));
        row.extend(cells(Metric::LatP99, &percentiles.p99));
        Some(row)
    });
    told.collect()
}

fn cells(metric: Metric, estimate: &Estimate) -> [Cell; 2] {
    [Cell::plain(&words::value(metric, estimate.median)), interval_cell(metric, Some(estimate))]
}
