//! Every trial's figure with mean and standard deviation, for who sets them beside a write-up that prints those.

use super::Page;
use crate::model::{Report, ResultView};
use crate::words;
use ebbtide_model::shown::Paint;

impl Page {
    /// One paragraph for each result, in the order of the rounds; what failed is a dash.
    pub(super) fn trials(&mut self, report: &Report) {
        self.heading("Every trial", "mean, standard deviation of single trials, and the figures by round");
        for view in &report.results {
            self.prose(&told(report, view), 4, Paint::Plain);
        }
    }
}

fn told(report: &Report, view: &ResultView) -> String {
    let metric = view.result.primary;
    let figures: Vec<Option<f64>> = report.trials_of(view).map(|(_, trial)| trial.value(metric)).collect();
    let values: Vec<f64> = figures.iter().copied().flatten().collect();
    let each: Vec<String> =
        figures.iter().map(|value| words::or_dash(*value, |value| words::value(metric, value))).collect();
    let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
    let deviation = match values.len() {
        0 | 1 => String::new(),
        n => {
            let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
            let deviation = (squares / (n - 1) as f64).sqrt();
            let share =
                if mean > 0.0 { format!(" ({})", words::percent(deviation / mean)) } else { String::new() };
            format!(", standard deviation {}{share}", words::value(metric, deviation))
        }
    };
    format!(
        "  {}, {}: {} of {}: mean {}{deviation}: {}",
        view.result.design,
        view.result.workload,
        metric.in_words(),
        words::count(values.len() as u64, "trial"),
        words::value(metric, mean),
        each.join(", ")
    )
}
