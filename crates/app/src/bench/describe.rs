//! What is told of a benchmark: for people, and in fio's shape for programs.

use ebbtide_analysis::below::arrays;
use ebbtide_analysis::latency_target::DepthSearch;
use ebbtide_formats::fio;
use ebbtide_model::civil::Civil;
use ebbtide_model::per_op::PerOp;
use ebbtide_model::samples::OpSamples;
use ebbtide_model::session::Rung;
use ebbtide_model::shown::Styled;
use ebbtide_report::{Single, single};
use ebbtide_runner::bench::{Done, Early, Results};
use ebbtide_runner::clock;
use serde_json::{Value, json};

/// All jobs as text for a terminal.
pub fn text(results: &Results, seed: u64, columns: usize, color: bool) -> Styled {
    let many = results.done.len() > 1;
    let blocks: Vec<Styled> = results
        .done
        .iter()
        .enumerate()
        .map(|(index, done)| {
            let target =
                if many { format!("{}, {}", done.job.name, done.target) } else { done.target.clone() };
            // What is known of the volumes is told once.
            let mut notes = done.job.notes.clone();
            notes.extend(results.notes.iter().filter(|_| index == 0).cloned());
            let view = Single {
                target: &target,
                workload: &done.job.workload,
                samples: &done.samples,
                verdicts: &done.verdicts,
                search: done.search.as_ref(),
                notes: &notes,
            };
            single(&view, columns, color)
        })
        .collect();
    // An empty line between them; the last one ends with the seed.
    let between = |text: Styled, block: &Styled| {
        if text.is_empty() { block.clone() } else { text.then(&"\n".into()).then(block) }
    };
    blocks.iter().fold(Styled::default(), between).then(&format!("  seed     {seed}\n").into())
}

/// All jobs in fio's shape.
pub fn json(results: &Results, seed: u64) -> Value {
    let more: Vec<Value> = results.done.iter().map(|done| more(done, results, seed)).collect();
    let jobs: Vec<fio::Job<'_>> = results
        .done
        .iter()
        .zip(&more)
        .map(|(done, more)| fio::Job {
            name: &done.job.name,
            group: done.job.group,
            options: &done.job.options,
            workload: &done.job.workload,
            samples: &done.samples,
            error: done.failed.as_ref().map_or_else(
                || done.samples.execution.first_error.unwrap_or(0),
                |(_, errno)| errno.unwrap_or(1),
            ),
            usage: done.used,
            more,
        })
        .collect();
    let ended = results.done.last().map_or_else(clock::now, |done| done.ended);
    let mut value = fio::document(
        concat!("ebbtide-", env!("CARGO_PKG_VERSION")),
        ended,
        &Civil::from_unix(ended).to_string(),
        &jobs,
    );
    if let Some(Early::Failed(why)) = &results.ended_early {
        value["error"] = json!(why);
    }
    value
}

/// What fio has no place for.
fn more(done: &Done, results: &Results, seed: u64) -> Value {
    let samples = &done.samples;
    let seconds = samples.elapsed.as_secs_f64();
    let op = |op: &OpSamples| {
        json!({
            "ios": op.count.ops,
            "bytes": op.count.bytes,
            "lat_mean_ns": op.latency.mean(),
            "lat_p50_ns": op.latency.percentile(50.0),
            "lat_p99_ns": op.latency.percentile(99.0),
            "lat_max_ns": op.latency.max(),
        })
    };
    let bytes = |ops: &PerOp<OpSamples>| ops.read.count.bytes + ops.write.count.bytes;
    let total: u64 = samples.members.iter().map(|member| bytes(&member.ops)).sum();
    let members: Vec<Value> = samples
        .members
        .iter()
        .map(|member| {
            json!({
                "name": member.name,
                "share": (total > 0).then(|| bytes(&member.ops) as f64 / total as f64),
                "read": op(&member.ops.read),
                "write": op(&member.ops.write),
                "errors": member.errors,
            })
        })
        .collect();
    let (late, slots) = (&samples.execution.lateness, &samples.execution.slot_waits);
    let service = |op: &OpSamples| op.service.as_ref().map(fio::with_percentiles);
    let notes: Vec<&String> = results.notes.iter().chain(&done.job.notes).chain(&samples.notes).collect();
    json!({
        "schema": "ebbtide.bench/1",
        "target": done.target,
        "seed": seed,
        "workload": done.job.workload,
        "elapsed_seconds": seconds,
        "latency_counts_from":
            if done.job.workload.is_open_loop() { "intended start" } else { "submission" },
        // What the target itself took; in a closed loop that is the latency.
        "service_ns": { "read": service(&samples.array.read), "write": service(&samples.array.write) },
        // How much later than it could the tool submitted; part of the latency and not of the service time.
        "lateness_ns": (!late.is_empty()).then(|| fio::with_percentiles(late)),
        // How long it waited for a place among the iodepth before that; part of the latency too.
        "slot_wait_ns": (!slots.is_empty()).then(|| fio::with_percentiles(slots)),
        "mean_in_flight": samples.mean_in_flight,
        "members": members,
        "below": arrays(&[samples]),
        "failed": samples.execution.failed,
        "unfinished": samples.execution.unfinished,
        "ioengine": samples.execution.ioengine,
        "threads_per_job": samples.execution.threads,
        "error": done.failed.as_ref().map(|(why, _)| why),
        "verdicts": done.verdicts,
        "ruled_out": done.ruled_out,
        "latency_search": done.search.as_ref().map(search),
        "ladder": done.rungs.iter().map(rung).collect::<Vec<_>>(),
        "notes": notes,
    })
}

/// A rung of the ladder after a job.
fn rung(rung: &Rung) -> Value {
    let latency = rung.samples.latency();
    json!({
        "in_flight": rung.in_flight,
        "bs": rung.bs,
        "elapsed_seconds": rung.samples.elapsed.as_secs_f64(),
        "iops": rung.iops(),
        "bytes_per_second": rung.throughput(),
        "lat_mean_ns": latency.mean(),
    })
}

/// The search for the most load that keeps a latency.
fn search(search: &DepthSearch) -> Value {
    let goal = search.goal();
    let mut value = json!({
        "target_ns": goal.target,
        "window_ns": goal.window,
        "percentile": goal.percentile,
        "iodepth_most": search.most(),
        "steps": search.steps(),
        "rest": search.rest(),
    });
    if let (Value::Object(fields), Value::Object(found)) = (&mut value, json!(search.conclusion())) {
        fields.extend(found);
    }
    value
}
