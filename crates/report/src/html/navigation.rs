//! What a page has that is one of a server's: the bar with the ways to the others, when it is loaded again.

use maud::{Markup, html};

/// A page among those of a server.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PageContext {
    /// Which of the pages in the bar it is.
    pub(super) here: Option<&'static str>,
    /// Seconds after which the page is loaded again.
    pub(super) refresh: Option<u32>,
}

/// Where the list of sessions is.
pub(super) const SESSIONS: &str = "/";
/// Where the volumes are.
pub(super) const VOLUMES: &str = "/volumes";

impl PageContext {
    /// One of the pages in the bar.
    pub(super) fn at(here: &'static str) -> PageContext {
        PageContext { here: Some(here), ..PageContext::default() }
    }

    /// Ways to the other pages.
    pub(super) fn ways(self) -> Markup {
        html! {
            nav.site aria-label="Pages" {
                @for (place, name) in [(SESSIONS, "Sessions"), (VOLUMES, "Volumes")] {
                    a href=(place) aria-current=[(self.here == Some(place)).then_some("page")] { (name) }
                }
            }
        }
    }
}
