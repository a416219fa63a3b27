//! `cargo xtask plans`: what `ebb plan` predicts beside what files do that are held to the same limits: writes the table of docs/plan.md.

use crate::pages::{between, read, root, write};
use crate::run::{Step, cargo, said};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Each need and the plans of it that are measured, by rank.
const NEEDS: [(&str, &[u64]); 3] = [("postgres", &[1, 2]), ("heroku-database", &[1]), ("scratch", &[4])];
/// All limits and rates are scaled by this: what a small machine carries.
const SCALE: &str = "1/20";
/// Length of a trial and of its warm-up, which the scale makes longer, and size of the files.
const INSTEAD: [(&str, &str); 4] = [
    ("runtime = ", "\"100ms\""),
    ("ramp_time = ", "\"25ms\""),
    ("size = ", "\"64MiB\""),
    ("budget = ", "\"140s\""),
];
const PAGE: &str = "docs/plan.md";
const SCRATCH: &str = "target/plans";
/// What each workload is judged by.
const FIGURES: [(&str, &str); 3] = [("random", "iops"), ("sequential", "throughput"), ("latency", "lat_p99")];

/// Measures, and writes the page.
pub fn run() -> Result<(), String> {
    crate::run::run_all(&[Step::new("the program", &cargo(), &["build", "--release", "-p", "ebbtide"])])?;
    let scratch = root().join(SCRATCH);
    std::fs::create_dir_all(&scratch).map_err(|error| format!("{SCRATCH}: {error}"))?;
    let mut rows = Vec::new();
    for (need, ranks) in NEEDS {
        let file = root().join(format!("experiments/needs/{need}.toml"));
        let answer = ebb(&scratch, &["plan", &file.to_string_lossy()])?;
        for rank in ranks {
            let plan = answer["plans"].as_array().into_iter().flatten().find(|plan| plan["rank"] == *rank);
            let plan = plan.ok_or_else(|| format!("{need} has no plan {rank}"))?;
            rows.extend(measured(&scratch, need, plan)?);
        }
    }
    let heading = format!(
        "| need | design | | predicted, at {SCALE} | measured on files | measured / predicted |\n| --- | --- | --- | ---: | ---: | ---: |\n"
    );
    let page = root().join(PAGE);
    let table = heading + &rows.join("\n") + "\n";
    write(&page, &between(&read(&page)?, "plans", None, &table)?)?;
    println!("{table}");
    Ok(())
}

/// What `ebb` prints as JSON.
fn ebb(scratch: &Path, arguments: &[&str]) -> Result<Value, String> {
    let program: PathBuf = root().join("target/release/ebb");
    let output = Command::new(&program)
        .args(arguments)
        .args(["--json", "--quiet"])
        .env("TMPDIR", scratch)
        .current_dir(scratch)
        .output()
        .map_err(|error| format!("{}: {error}", program.display()))?;
    // A session that is not as precise as asked has its figures all the same.
    if !matches!(output.status.code(), Some(0 | 3)) {
        return Err(format!("ebb {}: {}", arguments.join(" "), said(&output)));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| format!("ebb {}: {error}", arguments.join(" ")))
}

/// The experiment with trials and files that are small.
fn small(text: &str) -> String {
    let line = |line: &str| {
        let instead = INSTEAD.iter().find(|(key, _)| line.starts_with(key));
        instead.map_or_else(|| line.to_owned(), |(key, value)| format!("{key}{value}"))
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n") + "\n"
}

fn measured(scratch: &Path, need: &str, plan: &Value) -> Result<Vec<String>, String> {
    let name = plan["design"].as_str().unwrap_or_default();
    let text = plan["experiment"].as_str().ok_or("a plan without an experiment")?;
    let file = scratch.join(format!("{name}.toml"));
    write(&file, &small(text))?;
    let file = file.to_string_lossy();
    let on = |backend| {
        println!("== {name} on {backend}");
        ebb(scratch, &["run", &file, "--on", backend, "--scale", SCALE, "--seed", "1", "--no-save"])
    };
    let (predicted, measured) = (on("sim")?, on("files")?);
    let row = |(workload, metric): (&str, &str)| {
        let (expected, found) = (figure(&predicted, workload, metric)?, figure(&measured, workload, metric)?);
        let words = |(median, low, high): (f64, f64, f64)| {
            format!("{} ({} to {})", number(metric, median), number(metric, low), number(metric, high))
        };
        let ratio = found.0 / expected.0;
        Ok(format!("| {need} | {name} | {metric} | {} | {} | {ratio:.2} |", words(expected), words(found)))
    };
    FIGURES.into_iter().map(row).collect()
}

/// A median and its interval.
fn figure(report: &Value, workload: &str, metric: &str) -> Result<(f64, f64, f64), String> {
    let results = report["results"].as_array().into_iter().flatten();
    let found = results.into_iter().find(|of| of["workload"] == workload && of["metric"] == metric);
    let of = |key: &str| found.and_then(|found| found[key].as_f64());
    match (of("median"), of("ci_low"), of("ci_high")) {
        (Some(median), Some(low), Some(high)) => Ok((median, low, high)),
        _ => Err(format!("no figure of {metric} under {workload}: {}", report["warnings"])),
    }
}

fn number(metric: &str, value: f64) -> String {
    match metric {
        "throughput" => format!("{:.1} MB/s", value / 1e6),
        "iops" => format!("{value:.0}"),
        _ => format!("{:.2} ms", value / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::small;

    #[test]
    fn only_lengths_and_files_become_smaller() {
        let text = "[volumes.vol]\nsize = \"256MiB\"          # of the file\nprovisioned_size = \"1GiB\"\nruntime = \"4s\"\nrate_iops = 3\n";
        let expected = "[volumes.vol]\nsize = \"64MiB\"\nprovisioned_size = \"1GiB\"\nruntime = \"100ms\"\nrate_iops = 3\n";
        assert_eq!(small(text), expected);
    }
}
