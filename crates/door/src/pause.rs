//! Points at which a test may hold this process, to change the world between a check and its use.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Names the point at which the process stops itself (SIGSTOP), once; for tests.
const VARIABLE: &str = "EBB_TEST_PAUSE";

/// Stops this process until a test sends SIGCONT; for tests.
pub fn stop_here() {
    ebbtide_sys::task::stop();
}

/// Stops this process where `EBB_TEST_PAUSE` names `point`; a test sends SIGCONT.
pub fn pause_at(point: &str) {
    static WANTED: OnceLock<Option<String>> = OnceLock::new();
    static PAUSED: AtomicBool = AtomicBool::new(false);
    let wanted = WANTED.get_or_init(|| std::env::var(VARIABLE).ok());
    if wanted.as_deref() == Some(point) && !PAUSED.swap(true, Ordering::Relaxed) {
        stop_here();
    }
}
