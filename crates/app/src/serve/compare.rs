//! Sessions beside one another, as an address asks for them.

use super::{NoPage, StoreSite, stamp};
use crate::stored::{CompareError, beside, tables};
use crate::values::{INDIFFERENCE, ValueError, metric, share};
use ebbtide_model::metric::Metric;
use ebbtide_model::shown;
use ebbtide_report::{Asked, site};
use ebbtide_runner::store::{Store, Summary};
use ebbtide_serve::{Request, Response};

/// Sessions that are compared at most.
const MOST: usize = 32;
/// As in `ebb compare`.
const THRESHOLD: f64 = 0.05;

impl StoreSite {
    pub(super) fn compared(&self, store: &Store, request: &Request, json: bool) -> Result<Response, NoPage> {
        let asked = asked(request)?;
        let mut which: Vec<(Summary, String)> = Vec::new();
        for name in request.all("session") {
            let (id, design) = name.split_once(':').map_or((name, None), |(id, design)| (id, Some(design)));
            let summary = store.summary(id)?;
            let full = design.map_or_else(|| summary.id.clone(), |design| format!("{}:{design}", summary.id));
            which.push((summary, full));
            if which.len() > MOST {
                return Err(NoPage::Wrong(format!("At most {MOST} sessions are compared.")));
            }
        }
        if which.len() < 2 {
            return Err(NoPage::Wrong(
                "Choose two sessions or more: the others are compared with the first.".to_owned(),
            ));
        }
        match request.get("order") {
            None => {}
            Some("oldest-first") => which.sort_by_key(|(summary, _)| summary.started_unix),
            Some(_) => {
                return Err(NoPage::Wrong("The order is oldest-first, or as sessions are named.".to_owned()));
            }
        }
        let stamps: Vec<String> = which.iter().map(|(summary, _)| stamp(summary)).collect();
        let names: Vec<String> = which.into_iter().map(|(_, name)| name).collect();
        let key = format!("{}compare {names:?} {asked:?}", if json { "json " } else { "" });
        let made = self.pages.get(key, &format!("{stamps:?}"), || {
            let compared = beside(store, &names, &asked).map_err(|error| match error {
                CompareError::Store(error) => NoPage::from(error),
                CompareError::Beside(error) => NoPage::Wrong(format!("{error}.")),
            })?;
            Ok::<_, NoPage>(if json { shown::json(&compared.json()) } else { site::comparison(&compared) })
        })?;
        Ok(if json { Response::json(200, made) } else { Response::page(200, made) })
    }
}

/// What is asked of the sessions, with the words of `ebb compare`.
fn asked(request: &Request) -> Result<Asked, NoPage> {
    let percent = |name: &str| {
        let text = request.get(name)?;
        let whole = if text.ends_with('%') { text.to_owned() } else { format!("{text}%") };
        Some(share(&whole).map_err(|why| NoPage::Wrong(format!("{name}: {why}."))))
    };
    let threshold = percent("threshold").transpose()?.unwrap_or(THRESHOLD);
    let indifference = percent("indifference").transpose()?.unwrap_or(INDIFFERENCE.min(threshold));
    if indifference > threshold {
        return Err(NoPage::Wrong("The indifference is more than the threshold.".to_owned()));
    }
    let names = request.all("metric").flat_map(|names| names.split(','));
    let metrics: Result<Vec<Metric>, ValueError> = names.map(metric).collect();
    let mut metrics = metrics.map_err(|why| NoPage::Wrong(format!("metric: {why}.")))?;
    metrics.sort_unstable();
    metrics.dedup();
    Ok(Asked { tables: tables(request.all("workload")), metrics, indifference, threshold })
}
