//! `ebb layout`: what each level makes of given members, and which bytes of which members hold what.

use super::geometry::MemberArgs;
use super::locate;
use crate::cli::globals::Globals;
use crate::error::CliError;
use crate::views;
use clap::{Args, Subcommand};
use ebbtide_model::layout::compare::{Figures, MEMBERS_MAX, Row, compare};
use ebbtide_model::shown::columns;
use ebbtide_model::stack::CacheMode;
use ebbtide_model::units::Bytes;
use serde_json::json;
use std::fmt::Write;
use std::process::ExitCode;

/// Compare RAID levels, or find which bytes lie where
#[derive(Debug, Args)]
pub struct LayoutArgs {
    #[command(subcommand)]
    command: LayoutCommand,
}

#[derive(Debug, Subcommand)]
enum LayoutCommand {
    Compare(CompareArgs),
    Where(locate::WhereArgs),
}

/// Compare RAID levels over given members: capacity, losses survived, fan-out, cost of small writes
#[derive(Debug, Args)]
struct CompareArgs {
    #[command(flatten)]
    members: MemberArgs,
    /// Bytes on one member before the next member follows
    #[arg(long, default_value = "512KiB", value_name = "SIZE")]
    chunk: Bytes,
}

/// The caches of the language, in words.
const CACHES: [(&str, CacheMode); 3] = [
    ("writethrough", CacheMode::Writethrough),
    ("writeback", CacheMode::Writeback),
    ("writecache", CacheMode::Writeback),
];

/// Runs `ebb layout`.
///
/// # Errors
/// Members that are missing or too many to compare, an array that cannot be, or an extent outside it: status 2.
pub fn run(args: &LayoutArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    match &args.command {
        LayoutCommand::Compare(args) => all(args, globals),
        LayoutCommand::Where(args) => locate::run(args, globals),
    }
}

/// Prints the table of all levels.
fn all(args: &CompareArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let sizes = args.members.sizes()?;
    let rows = compare(&sizes, args.chunk).map_err(|n| {
        CliError::Usage(format!("{n} members are too many to try every loss of; write at most {MEMBERS_MAX}"))
    })?;
    if rows.iter().all(|r| r.figures.is_none()) {
        let why = rows.iter().find_map(|r| r.impossible.clone()).unwrap_or_default();
        return Err(CliError::Usage(format!("no layout is possible over these members: {why}")));
    }
    let caches =
        CACHES.map(|(cache, mode)| json!({ "cache": cache, "loses": mode.loses(), "lost": mode.loss() }));
    let value = json!({ "member_sizes": sizes, "chunk": args.chunk, "layouts": rows, "caches": caches });
    views::answer(globals.json(), &value, &text(&sizes, args.chunk, &rows))
}

fn text(sizes: &[Bytes], chunk: Bytes, rows: &[Row]) -> String {
    let equal = sizes.chunk_by(|a, b| a == b);
    let given: Vec<String> = equal.map(|each| format!("{} x {}", each.len(), each[0].short())).collect();
    let mut lines = vec![
        ["", "", "least", "may be lost", "", "members used by a run", "", "4KiB write"].map(str::to_owned),
        ["layout", "capacity", "members", "always", "at best", "read", "written", "costs"].map(str::to_owned),
    ];
    lines.extend(
        rows.iter()
            .filter_map(|row| Some((row, row.figures.as_ref()?)))
            .map(|(row, figures)| cells(row, figures)),
    );
    let mut text = format!("{}, chunk {chunk}\n\n{}", given.join(" + "), columns(&lines, 2));
    let mut missing = rows.iter().filter(|r| r.impossible.is_some()).peekable();
    if missing.peek().is_some() {
        text.push('\n');
    }
    for row in missing {
        let why = row.impossible.as_deref().unwrap_or_default();
        let _infallible = writeln!(text, "  {}: not possible: {why}", name(row));
    }
    text += "\nWith a `cache` in front of an array of LVM's:\n";
    for (cache, mode) in CACHES {
        let _infallible = writeln!(text, "  {cache}: {}", mode.loss());
    }
    text
}

fn name(row: &Row) -> String {
    match (row.copies, row.arrangement) {
        (Some(copies), Some(arrangement)) => {
            format!("{} {} {copies}", row.layout, format!("{arrangement:?}").to_lowercase())
        }
        _ => row.layout.to_owned(),
    }
}

fn cells(row: &Row, figures: &Figures) -> [String; 8] {
    let plural = |n: u64, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    let writes = plural(figures.small_write_writes, "write");
    let cost = match figures.small_write_reads {
        0 => writes,
        reads => format!("{} + {writes}", plural(reads, "read")),
    };
    [
        name(row),
        figures.capacity.short(),
        row.least_members.to_string(),
        figures.losses_guaranteed.to_string(),
        figures.losses_best.to_string(),
        figures.read_fan_out.to_string(),
        figures.write_fan_out.to_string(),
        cost,
    ]
}
