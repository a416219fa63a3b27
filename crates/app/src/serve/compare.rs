//! Sessions beside one another, as an address asks for them.

use super::{NoPage, StoreSite, stamp};
use crate::stored::{self, CompareError, beside, session_and_design};
use crate::values::{THRESHOLD, ValueError, metric, share};
use ebbtide_model::metric::Metric;
use ebbtide_model::shown;
use ebbtide_report::{CompareRequest, site};
use ebbtide_runner::store::{Store, Summary};
use ebbtide_serve::{Request, Response};

/// Sessions that are compared at most.
const MOST: usize = 32;

impl StoreSite {
    pub(super) fn compared(&self, store: &Store, request: &Request, json: bool) -> Result<Response, NoPage> {
        let asked = asked(request)?;
        let mut which: Vec<(Summary, String)> = Vec::new();
        for name in request.all("session") {
            let (id, design) = session_and_design(name);
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
fn asked(request: &Request) -> Result<CompareRequest, NoPage> {
    let percent = |name: &str, text: &str| {
        let whole = if text.ends_with('%') { text.to_owned() } else { format!("{text}%") };
        share(&whole).map_err(|why| NoPage::Wrong(format!("{name}: {why}.")))
    };
    let threshold = percent("threshold", request.get("threshold").unwrap_or(THRESHOLD))?;
    let indifference = request.get("indifference").map(|text| percent("indifference", text)).transpose()?;
    let names = request.all("metric").flat_map(|names| names.split(','));
    let metrics: Result<Vec<Metric>, ValueError> = names.map(metric).collect();
    let metrics = metrics.map_err(|why| NoPage::Wrong(format!("metric: {why}.")))?;
    stored::asked(request.all("workload"), metrics, threshold, indifference)
        .ok_or_else(|| NoPage::Wrong("The indifference is more than the threshold.".to_owned()))
}
