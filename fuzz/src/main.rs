//! One program for all targets: each of its own would be linked with the same code. `cargo xtask fuzz` builds and runs it.
#![no_main]

mod aws;
mod catalog;
mod experiment;
mod import;
mod iostat;
mod job_file;
mod log_page;
mod need;
mod shown;
mod sysfs;
mod tables;

use std::sync::OnceLock;

/// What a target looks at.
enum Target {
    Text(fn(&str)),
    Bytes(fn(&[u8])),
}

const TARGETS: &[(&str, Target)] = &[
    ("aws", Target::Text(aws::target)),
    ("catalog", Target::Text(catalog::target)),
    ("experiment", Target::Text(experiment::target)),
    ("import", Target::Text(import::target)),
    ("iostat", Target::Text(iostat::target)),
    ("job_file", Target::Text(job_file::target)),
    ("log_page", Target::Bytes(log_page::target)),
    ("need", Target::Text(need::target)),
    ("shown", Target::Text(shown::target)),
    ("sysfs", Target::Text(sysfs::target)),
    ("tables", Target::Text(tables::target)),
];

/// The one that the environment names.
fn target() -> &'static Target {
    static WANTED: OnceLock<&Target> = OnceLock::new();
    WANTED.get_or_init(|| {
        let name = std::env::var("EBB_FUZZ_TARGET").unwrap_or_default();
        let found = TARGETS.iter().find(|(target, _)| *target == name);
        &found.expect("EBB_FUZZ_TARGET is the name of a target").1
    })
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    match target() {
        Target::Bytes(look) => look(bytes),
        Target::Text(look) => {
            // What follows the first byte that is no text is left out.
            let whole = bytes.utf8_chunks().next().map_or("", |chunk| chunk.valid());
            look(whole);
        }
    }
});
