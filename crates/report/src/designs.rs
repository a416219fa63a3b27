//! The table of designs: under each workload its figure, what the design holds and survives, what it costs, what limits it.

use super::model::{Report, ResultView};
use super::why::figure;
use super::words;
use ebbtide_model::metric::Metric;

/// What every view's table of designs says.
#[derive(Debug, Clone)]
pub(crate) struct DesignRow<'a> {
    /// Index of the design.
    pub(crate) design: usize,
    /// Its result under each workload, in the experiment's order.
    pub(crate) views: Vec<Option<&'a ResultView>>,
    /// The columns of [`DesignTable::facts`].
    pub(crate) facts: Vec<String>,
}

/// Designs beside one another.
#[derive(Debug, Clone)]
pub(crate) struct DesignTable<'a> {
    /// Names of the columns behind the figures; the last says what limits the design.
    pub(crate) facts: Vec<&'static str>,
    /// The designs that have a result, in the experiment's order.
    pub(crate) rows: Vec<DesignRow<'a>>,
}

impl Report {
    /// The designs beside one another; none for a single one, and none of a race, which has a table of its own.
    pub(crate) fn design_table(&self) -> Option<DesignTable<'_>> {
        if self.race.is_some() {
            return None;
        }
        let priced = self.designs.iter().any(|design| design.price.is_some());
        let mut facts = vec!["capacity", "survives"];
        facts.extend(priced.then_some("a month"));
        facts.push("limited by");
        let rows = (0..self.designs.len()).filter_map(|design| {
            let view = |workload| self.results_of(workload).find(|view| view.design == design);
            let views: Vec<Option<&ResultView>> = (0..self.workloads.len()).map(view).collect();
            let of = self.designs.get(design).filter(|_| views.iter().any(Option::is_some))?;
            let mut facts = vec![words::or_dash(of.capacity, |size| size.short()), survives(of.survives)];
            facts.extend(priced.then(|| words::or_dash(of.price, |price| format!("${price:.2}"))));
            facts.push(limits(&views));
            Some(DesignRow { design, views, facts })
        });
        let rows: Vec<DesignRow<'_>> = rows.collect();
        (rows.len() > 1).then_some(DesignTable { facts, rows })
    }
}

/// The median with its interval, `11.8 k IOPS (11.8–11.9 k)`; without the interval where it is not to be told.
pub(crate) fn cell(view: &ResultView, metric: Metric, interval: bool) -> String {
    let Some(estimate) = view.result.metric(metric) else { return "–".to_owned() };
    let median = figure(&view.result, metric, estimate.median);
    match estimate.interval.filter(|_| interval) {
        Some((low, high)) => {
            format!("{median} ({})", words::range(metric, low, high).trim_end_matches(" IOPS"))
        }
        None => median,
    }
}

fn survives(losses: usize) -> String {
    match losses {
        0 => "no loss".to_owned(),
        1 => "any 1 loss".to_owned(),
        n => format!("any {n} losses"),
    }
}

/// The first verdict under each workload, once where it is the same under all.
fn limits(views: &[Option<&ResultView>]) -> String {
    let first = |view: &Option<&ResultView>| {
        words::or_dash(view.and_then(|view| view.result.verdicts.first()), |verdict| {
            verdict.limited_by().to_owned()
        })
    };
    let mut limits: Vec<String> = views.iter().map(first).collect();
    if limits.iter().all(|limit| Some(limit) == limits.first()) {
        limits.truncate(1);
    }
    limits.join(", ")
}
