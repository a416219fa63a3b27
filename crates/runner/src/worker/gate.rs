//! Where a worker's trial waits for the other hosts.

use super::Replies;
use ebbtide_engine::Clock;
use ebbtide_lab::backend::talk::Word;
use ebbtide_model::backend::Gate;
use ebbtide_model::hosts::Window;
use ebbtide_model::units::{Instant, Nanos};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// How often it is asked whether the trial was stopped meanwhile.
const TICK: Duration = Duration::from_millis(50);

/// Opens when the other side says so.
pub(super) struct RemoteGate {
    replies: Arc<Replies>,
    said: Mutex<Said>,
    news: Condvar,
}

/// What the other side has said of the trial that runs.
#[derive(Default)]
struct Said {
    begin: Option<Instant>,
    counts: Option<Window>,
}

impl RemoteGate {
    pub(super) fn new(replies: Arc<Replies>) -> RemoteGate {
        RemoteGate { replies, said: Mutex::default(), news: Condvar::new() }
    }

    /// Nothing is said yet of the trial that comes.
    pub(super) fn close(&self) {
        *self.said.lock().unwrap_or_else(PoisonError::into_inner) = Said::default();
    }

    /// The trial begins at `instant`.
    pub(super) fn begin_at(&self, instant: Instant) {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).begin = Some(instant);
        self.news.notify_all();
    }

    /// `window` of the trial counts.
    pub(super) fn count(&self, window: Window) {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).counts = Some(window);
        self.news.notify_all();
    }

    fn wait<T>(&self, stopped: &dyn Fn() -> bool, of: impl Fn(&Said) -> Option<T>) -> Option<T> {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(news) = of(&said) {
                return Some(news);
            }
            if stopped() {
                return None;
            }
            said = self.news.wait_timeout(said, TICK).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Gate for RemoteGate {
    fn begin(&self, stopped: &dyn Fn() -> bool) -> Option<Instant> {
        self.replies.say(&Word::Ready).ok()?;
        let at = self.wait(stopped, |said| said.begin)?;
        let clock = Clock::get();
        loop {
            match at - clock.now() {
                Nanos(0) => return Some(at),
                left => std::thread::sleep(Duration::from_nanos(left.0).min(TICK)),
            }
            if stopped() {
                return None;
            }
        }
    }

    fn counts(&self, ran: Window, late: Nanos, stopped: &dyn Fn() -> bool) -> Option<Window> {
        self.replies.say(&Word::Worked { ran, late }).ok()?;
        self.wait(stopped, |said| said.counts)
    }
}
