//! What each host did, as a table, and how far apart they began.

use super::table::{Cell, Table};
use super::{Page, interval_cell};
use crate::hosts::{HostRow, HostsView};
use crate::model::{Report, ResultView};
use crate::names::Labels;
use crate::words;
use ebbtide_analysis::Estimate;
use ebbtide_model::metric::Metric;
use ebbtide_model::shown::Paint;

impl Page {
    pub(super) fn hosts(&mut self, report: &Report, labels: &Labels) {
        let views: Vec<(&ResultView, &HostsView)> = report.on_hosts();
        if views.is_empty() {
            return;
        }
        self.heading(
            "Hosts",
            &format!(
                "median over the trials of what each did while all were at work, {} interval",
                words::level(report.ci_level)
            ),
        );
        let rows =
            views.iter().flat_map(|(view, hosts)| hosts.rows.iter().map(|row| cells(labels, view, row)));
        let header = ["workload", "design", "host", "jobs", "iops", "interval", "MB/s", "p50", "p99"];
        let table = Table { header: header.map(str::to_owned).into(), rows: rows.collect() };
        self.lines.extend(table.lines(self.width, self.color));
        if let Some(sentence) = report.skew_in_words() {
            self.prose(&format!("  {sentence}"), 4, Paint::Plain);
        }
    }
}

fn cells(labels: &Labels, view: &ResultView, row: &HostRow) -> Vec<Cell> {
    let told = |metric: Metric, estimate: &Option<Estimate>| {
        Cell::plain(&words::or_dash(estimate.as_ref(), |of| words::value(metric, of.median)))
    };
    vec![
        Cell::plain(&view.result.workload),
        Cell::plain(&labels.name(view.design)),
        Cell::plain(&row.name),
        Cell::plain(&row.jobs.to_string()),
        told(Metric::Iops, &row.iops),
        interval_cell(Metric::Iops, row.iops.as_ref()),
        told(Metric::Throughput, &row.throughput),
        told(Metric::LatP50, &row.lat_p50),
        told(Metric::LatP99, &row.lat_p99),
    ]
}
