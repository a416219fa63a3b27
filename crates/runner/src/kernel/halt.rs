//! For tests: `EBB_TEST_HALT=N` kills this process at boundary N of its builds (see [`Builder::kill_at`]), and
//! `EBB_TEST_HALT=built` stops it (SIGSTOP) whenever the design of a trial is built, until somebody continues it.
//!
//! [`Builder::kill_at`]: ebbtide_host::build::Builder::kill_at

const VARIABLE: &str = "EBB_TEST_HALT";

/// The boundary at which to die.
pub(super) fn boundary() -> Option<u64> {
    std::env::var(VARIABLE).ok()?.parse().ok()
}

/// The design of a trial is built.
pub(super) fn built() {
    if std::env::var_os(VARIABLE).is_some_and(|value| value == "built") {
        ebbtide_door::stop_here();
    }
}
