//! One program for all targets: each of its own would be linked with the same code.
#![no_main]

use ebbtide_fuzz::{TARGETS, Target};
use std::sync::OnceLock;

/// The one that the environment names.
fn target() -> &'static Target {
    static WANTED: OnceLock<&Target> = OnceLock::new();
    WANTED.get_or_init(|| {
        let name = std::env::var("EBB_FUZZ_TARGET").unwrap_or_default();
        let found = TARGETS.iter().find(|target| target.name == name);
        found.expect("EBB_FUZZ_TARGET is the name of a target")
    })
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| target().look(bytes));
