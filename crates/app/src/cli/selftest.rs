//! `ebb self-test`: what the tool itself costs, so that a result can be told from its limit.

use crate::cli::globals::Globals;
use crate::error::CliError;
use crate::views;
use ebbtide_engine::{Ceiling, SelfTest, self_test};
use ebbtide_host::hostinfo::host_info;
use ebbtide_host::sys::Sys;
use ebbtide_model::units::{format_iops, format_latency};
use serde_json::json;
use std::process::ExitCode;

/// Runs `ebb self-test`.
///
/// # Errors
/// When standard output cannot be written.
pub fn run(globals: &Globals) -> Result<ExitCode, CliError> {
    let test = self_test();
    let host = host_info(&Sys::host());
    let ceiling = |ceiling: Option<Ceiling>| {
        ceiling.map(|c| json!({ "iops": c.iops, "cpu_ns_per_io": c.cpu_ns_per_io }))
    };
    let value = json!({
        "schema": "ebbtide.self-test/1",
        "version": env!("CARGO_PKG_VERSION"),
        "host": host,
        "clock": {
            "source": test.clock_source,
            "cost_ns": test.clock_cost_ns,
            "resolution_ns": test.clock_resolution_ns,
        },
        "null_write": ceiling(test.null_write),
        "nop": ceiling(test.nop),
        "notes": test.notes,
    });
    views::answer(globals.json(), &value, &text(&test, host.cores))
}

fn text(test: &SelfTest, cores: u32) -> String {
    let ceiling =
        |c: Ceiling| format!("{} IOPS, {} of CPU each", format_iops(c.iops), format_latency(c.cpu_ns_per_io));
    let mut facts = vec![(
        "clock",
        format!(
            "{}: {:.1} ns per reading, two readings of each operation; smallest step {} ns",
            test.clock_source, test.clock_cost_ns, test.clock_resolution_ns
        ),
    )];
    if let Some(null) = test.null_write {
        facts.push((
            "engine",
            format!(
                "{} per job: 4 KiB writes to /dev/null, iodepth 128, every operation recorded",
                ceiling(null)
            ),
        ));
        let most = format_iops(null.iops * 0.8);
        let what = format!(
            "a result above {most} IOPS per job (at most {cores} jobs count) measures the tool, not the device"
        );
        facts.push(("", what));
    }
    let nop = |nop| format!("{}: empty operations through a ring, nothing recorded", ceiling(nop));
    facts.extend(test.nop.map(|c| ("kernel", nop(c))));
    facts.extend(test.notes.iter().map(|note| ("note", note.clone())));
    if cfg!(debug_assertions) {
        let slow = "this is a debug build: the engine is several times slower than in a release build";
        facts.push(("note", slow.to_owned()));
    }
    facts.iter().map(|(name, fact)| format!("{name:<10}{fact}\n")).collect()
}
