//! `ebb bench --self-test`: what the tool itself costs, so that a result can be told from its limit.

use crate::cli::globals::Globals;
use crate::error::CliError;
use crate::views;
use ebbtide_engine::{Ceiling, SelfTest, self_test};
use ebbtide_host::hostinfo::host_info;
use ebbtide_host::sys::Sys;
use ebbtide_model::units::{format_iops, format_latency};
use serde_json::{Value, json};
use std::fmt::Write;
use std::process::ExitCode;

/// Measures and prints.
pub(super) fn run(globals: &Globals) -> Result<ExitCode, CliError> {
    let test = self_test();
    let host = host_info(&Sys::host());
    if globals.json {
        let ceiling = |ceiling: Option<Ceiling>| {
            ceiling.map(|c| json!({ "iops": c.iops, "cpu_ns_per_io": c.cpu_ns_per_io }))
        };
        let value: Value = json!({
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
        views::print_json(&value)?;
    } else {
        views::print(&text(&test, host.cores))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn text(test: &SelfTest, cores: u32) -> String {
    let mut text = format!(
        "clock     {}: {:.1} ns per reading, two readings of each operation; smallest step {} ns\n",
        test.clock_source, test.clock_cost_ns, test.clock_resolution_ns
    );
    let ceiling =
        |c: Ceiling| format!("{} IOPS, {} of CPU each", format_iops(c.iops), format_latency(c.cpu_ns_per_io));
    // Writing to a string cannot fail.
    if let Some(null) = test.null_write {
        let _ = writeln!(
            text,
            "engine    {} per job: 4 KiB writes to /dev/null, iodepth 128, every operation recorded",
            ceiling(null)
        );
        let _ = writeln!(
            text,
            "          a result above {} IOPS per job (at most {cores} jobs count) measures the tool, not the device",
            format_iops(null.iops * 0.8)
        );
    }
    if let Some(nop) = test.nop {
        let _ =
            writeln!(text, "kernel    {}: empty operations through a ring, nothing recorded", ceiling(nop));
    }
    for note in &test.notes {
        let _ = writeln!(text, "note      {note}");
    }
    if cfg!(debug_assertions) {
        text.push_str(
            "note      this is a debug build: the engine is several times slower than in a release build\n",
        );
    }
    text
}
