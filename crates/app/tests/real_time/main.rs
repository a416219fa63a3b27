//! Loads in real time whose figures are judged: one after the other, as two of them would be each other's background.
//!
//! `cargo xtask` has the scheduler run them ahead of all other programs: a load that waits for a processor has that for its verdict, and
//! nothing else. By hand, on a busy machine: `chrt --rr 1 ionice -c 2 cargo test -p ebbtide --test real_time` (root).
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod agreement;
#[path = "../common/mod.rs"]
mod common;
mod verdicts;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Held by a test for as long as its loads run.
fn one_at_a_time() -> MutexGuard<'static, ()> {
    static RUNS: Mutex<()> = Mutex::new(());
    RUNS.lock().unwrap_or_else(PoisonError::into_inner)
}
