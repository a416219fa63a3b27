//! The store in a browser: which page an address means. Addresses carry all that a page shows, so that each can be passed on.
//!
//! | address | page |
//! | --- | --- |
//! | `/` | sessions, the newest first: `experiment=WORDS`, `before=SESSION` |
//! | `/session/ID` | the report of a session; an id, the beginning of one, or `last` |
//! | `/compare` | `session=ID` twice or more, `order=oldest-first`, and the options of `ebb compare` |
//! | `/volumes` | what was measured last of each volume; `refresh=no` |
//! | `/volume` | a volume's weeks: `id=ID`, `weeks=N` or `all`, `until=DAY` |
//! | `/api/...` | the same as JSON: `sessions`, `session/ID`, `compare`, `changes` |
//! | `/metrics` | figures of volumes for Prometheus |

mod compare;
mod pages;
mod stores;
mod volumes;

use crate::monitor::kept;
use crate::stored::{self, ended, trials};
use crate::views::{Format, render};
use ebbtide_model::shown;
use ebbtide_report::JsonOptions;
use ebbtide_report::site::{self, Listed, SessionsPage};
use ebbtide_runner::monitor::metrics::{Figures, figures};
use ebbtide_runner::store::{Store, StoreError, Summary};
use ebbtide_serve::{Handler, Policy, Request, Response};
use pages::Pages;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use stores::{NoStore, Stores};

/// Sessions on a page of the list.
const ON_A_PAGE: u32 = 50;

/// The pages of a store.
pub struct StoreSite {
    stores: Stores,
    /// Where passes over volumes are kept, where that is another.
    monitored: Option<Stores>,
    /// The file that pauses passes while it exists.
    pause_file: Option<PathBuf>,
    pages: Pages,
    changes: volumes::Known,
    policy: Policy,
}

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
enum NoPage {
    /// No address of this server's.
    #[error("There is no such page.")]
    Nowhere,
    /// What the address names is not there, or not one thing.
    #[error("{0}")]
    NotFound(String),
    /// What the address asks cannot be.
    #[error("{0}")]
    Wrong(String),
    /// The store cannot be read.
    #[error("The store cannot be read; the server's standard error says why.")]
    Store(#[source] StoreError),
}

impl From<StoreError> for NoPage {
    fn from(error: StoreError) -> NoPage {
        match error {
            // Who looks at pages may not know where the store is.
            StoreError::NoSession { which, .. } => {
                NoPage::NotFound(format!("There is no session “{which}”."))
            }
            StoreError::Ambiguous { which, ids } => NoPage::NotFound(format!(
                "“{which}” is the beginning of {} sessions; write more of it.",
                ids.len()
            )),
            error => NoPage::Store(error),
        }
    }
}

impl From<NoStore> for NoPage {
    fn from(error: NoStore) -> NoPage {
        match error {
            NoStore::NotYet => NoPage::NotFound("Nothing is stored yet.".to_owned()),
            NoStore::Failed(error) => NoPage::Store(error),
        }
    }
}

impl NoPage {
    fn status(&self) -> u16 {
        match self {
            NoPage::Nowhere | NoPage::NotFound(_) => 404,
            NoPage::Wrong(_) => 400,
            NoPage::Store(_) => 500,
        }
    }
}

/// What an address means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Route<'a> {
    Sessions,
    Session(&'a str),
    Compare,
    Volumes,
    Volume,
    Changes,
    Metrics,
}

impl Route<'_> {
    fn of(path: &[String]) -> Option<(Route<'_>, bool)> {
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        let (json, path) = match path.split_first() {
            Some((&"api", rest)) => (true, rest),
            _ => (false, path.as_slice()),
        };
        let route = match (json, path) {
            (false, []) | (true, ["sessions"]) => Route::Sessions,
            (_, ["session", id]) => Route::Session(id),
            (_, ["compare"]) => Route::Compare,
            (false, ["volumes"]) => Route::Volumes,
            (false, ["volume"]) => Route::Volume,
            (true, ["changes"]) => Route::Changes,
            (false, ["metrics"]) => Route::Metrics,
            _ => return None,
        };
        Some((route, json))
    }

    fn is_of_volumes(&self) -> bool {
        matches!(self, Route::Volumes | Route::Volume | Route::Changes | Route::Metrics)
    }
}

impl StoreSite {
    /// Of the store at `path`, or the user's own, and of the passes over volumes in the store `monitored`.
    pub fn new(path: Option<PathBuf>, monitored: Option<PathBuf>) -> StoreSite {
        let pause_file = kept::pause_file(monitored.as_deref());
        StoreSite {
            monitored: (monitored != path).then(|| Stores::new(monitored)),
            stores: Stores::new(path),
            pause_file,
            pages: Pages::default(),
            changes: volumes::Known::default(),
            policy: Policy::of(&site::STYLES, &site::SCRIPTS),
        }
    }

    fn page(&self, request: &Request) -> Result<Response, NoPage> {
        let (route, json) = Route::of(&request.path).ok_or(NoPage::Nowhere)?;
        let stores = self.monitored.as_ref().filter(|_| route.is_of_volumes()).unwrap_or(&self.stores);
        match stores.with(|store| self.of(store, route, json, request)) {
            // A store that is not there yet is an empty one.
            Err(NoStore::NotYet) if route == Route::Sessions && !json => {
                Ok(Response::page(200, site::sessions(&of_nothing())))
            }
            Err(NoStore::NotYet) if route == Route::Volumes => {
                Ok(Response::page(200, volumes::none(request)))
            }
            Err(NoStore::NotYet) if route == Route::Metrics => {
                Ok(Response::figures(Figures::default().text()))
            }
            made => made?,
        }
    }

    /// What `route` means, read from `store`.
    fn of(&self, store: &Store, route: Route<'_>, json: bool, request: &Request) -> Result<Response, NoPage> {
        let page = |page: Arc<str>| Response::page(200, page);
        match (route, json) {
            (Route::Sessions, false) => Ok(page(sessions(store, request)?.into())),
            (Route::Sessions, true) => {
                let listing = store.some(request.get("experiment"), request.get("before"), ON_A_PAGE)?;
                Ok(as_json(&json!({ "schema": "ebbtide.sessions/1", "sessions": listing.sessions })))
            }
            (Route::Session(which), json) => self.session(store, which, json),
            (Route::Compare, json) => self.compared(store, request, json),
            (Route::Volumes, _) => Ok(page(self.volumes(store, request)?.into())),
            (Route::Volume, _) => Ok(page(self.volume(store, request)?.into())),
            (Route::Changes, _) => {
                let changes = self.changes.of(store)?;
                Ok(as_json(&crate::views::changes::json(&changes)))
            }
            (Route::Metrics, _) => {
                let paused = self.pause_file.as_ref().is_some_and(|file| file.exists());
                let figures = figures(store, &*self.changes.of(store)?, paused)?;
                Ok(Response::figures(figures.text()))
            }
        }
    }

    fn session(&self, store: &Store, which: &str, json: bool) -> Result<Response, NoPage> {
        let summary = store.summary(which)?;
        let format = if json { Format::Json(JsonOptions::default()) } else { Format::Html };
        let key = format!("{}session {}", if json { "json " } else { "" }, summary.id);
        let made = self.pages.get(key, &stamp(&summary), || -> Result<String, NoPage> {
            let report = stored::report(store, &summary.id, format)?;
            Ok(if json { render(&report, format) } else { site::session(&report) })
        })?;
        Ok(if json { Response::json(200, made) } else { Response::page(200, made) })
    }
}

/// What changes when a session does.
fn stamp(summary: &Summary) -> String {
    format!("{} {} {:?}", summary.trials, summary.failed, summary.ending)
}

fn as_json(value: &Value) -> Response {
    Response::json(200, shown::json(value))
}

fn of_nothing() -> SessionsPage {
    SessionsPage { sessions: Vec::new(), all: 0, asked: None, newer: false, older: false }
}

fn sessions(store: &Store, request: &Request) -> Result<String, NoPage> {
    let asked = request.get("experiment").map(str::trim).filter(|asked| !asked.is_empty());
    let before = request.get("before");
    let listing = store.some(asked, before, ON_A_PAGE)?;
    let listed = |session: Summary| Listed {
        trials: trials(&session),
        ended: ended(&session).to_owned(),
        id: session.id,
        started: session.started_unix,
        experiment: session.experiment,
        backend: session.backend,
        headline: session.headline,
    };
    Ok(site::sessions(&SessionsPage {
        sessions: listing.sessions.into_iter().map(listed).collect(),
        all: listing.all,
        asked: asked.map(str::to_owned),
        newer: before.is_some(),
        older: listing.older,
    }))
}

impl Handler for StoreSite {
    fn answer(&self, request: &Request) -> Response {
        self.page(request).unwrap_or_else(|error| {
            if let NoPage::Store(cause) = &error {
                tracing::warn!("{cause}");
            }
            let (status, said) = (error.status(), error.to_string());
            if request.path.first().is_some_and(|first| first == "api") {
                return Response::json(status, shown::json(&json!({ "error": said })));
            }
            Response::page(status, self.refused(&said))
        })
    }

    fn refused(&self, why: &str) -> String {
        site::message("Nothing to show", why)
    }

    fn policy(&self) -> &Policy {
        &self.policy
    }
}
