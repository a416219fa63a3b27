//! Pages that were made, for as long as what they show stays the same: many readers of one session cost one report.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of pages that are kept.
const MOST: usize = 64 << 20;

/// Pages by what they show.
#[derive(Debug, Default)]
pub struct Pages {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    pages: HashMap<String, Page>,
    bytes: usize,
    /// Counts what is asked.
    clock: u64,
}

#[derive(Debug)]
struct Page {
    stamp: String,
    body: Arc<str>,
    /// When it was asked for last.
    asked: u64,
}

impl Kept {
    fn find(&mut self, key: &str, stamp: &str) -> Option<Arc<str>> {
        self.clock += 1;
        let page = self.pages.get_mut(key).filter(|page| page.stamp == stamp)?;
        page.asked = self.clock;
        Some(page.body.clone())
    }

    fn keep(&mut self, key: String, page: Page) {
        self.bytes += page.body.len();
        let before = self.pages.insert(key, page);
        self.bytes -= before.map_or(0, |before| before.body.len());
        while self.bytes > MOST {
            let oldest = self.pages.iter().min_by_key(|(_, page)| page.asked).map(|(key, _)| key.clone());
            let Some(gone) = oldest.and_then(|oldest| self.pages.remove(&oldest)) else { break };
            self.bytes -= gone.body.len();
        }
    }
}

impl Pages {
    /// The page `key` as it is at `stamp`, made where it is not there.
    ///
    /// # Errors
    /// What `make` fails with.
    pub fn get<E>(
        &self,
        key: String,
        stamp: &str,
        make: impl FnOnce() -> Result<String, E>,
    ) -> Result<Arc<str>, E> {
        let kept = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(body) = kept().find(&key, stamp) {
            return Ok(body);
        }
        let body: Arc<str> = make()?.into();
        let mut kept = kept();
        let asked = kept.clock;
        kept.keep(key, Page { stamp: stamp.to_owned(), body: body.clone(), asked });
        Ok(body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    #[test]
    fn a_page_is_made_again_when_it_would_differ() {
        let pages = Pages::default();
        let get = |key: &str, stamp: &str, body: &str| {
            let made: Result<_, Infallible> = pages.get(key.to_owned(), stamp, || Ok(body.to_owned()));
            made.map_or_else(|never| match never {}, |body| body.to_string())
        };
        assert_eq!(get("a", "1", "one"), "one");
        assert_eq!(get("a", "1", "two"), "one");
        assert_eq!(get("a", "2", "two"), "two");
        assert_eq!(get("b", "2", "three"), "three");
        assert_eq!(pages.kept.lock().unwrap().bytes, 8);
        let failed: Result<_, &str> = pages.get("c".to_owned(), "1", || Err("no"));
        assert_eq!(failed, Err("no"));
        assert_eq!(get("c", "1", "four"), "four");
    }

    #[test]
    fn what_was_not_asked_for_goes_first() {
        let pages = Pages::default();
        let large = |key: &str| {
            let made: Result<_, Infallible> = pages.get(key.to_owned(), "", || Ok("x".repeat(MOST / 3)));
            made.map_or_else(|never| match never {}, |body| body.len())
        };
        for key in ["a", "b", "c", "a", "d"] {
            large(key);
        }
        let kept = pages.kept.lock().unwrap();
        assert!(kept.bytes <= MOST);
        assert!(kept.pages.contains_key("a") && !kept.pages.contains_key("b"));
    }
}
