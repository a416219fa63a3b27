//! One run of one workload, as `ebb bench` shows it.

use super::below;
use super::table::{Cell, Table};
use super::wrap::wrap;
use super::{LEAST_WIDTH, WIDEST_PROSE};
use crate::words;
use ebbtide_analysis::Verdict;
use ebbtide_analysis::below::arrays;
use ebbtide_model::per_op::PerOp;
use ebbtide_model::samples::{Count, Execution, Histogram, MemberSamples, OpSamples, TrialSamples};
use ebbtide_model::shown::{Paint, Styled, one_line};
use ebbtide_model::units::{Nanos, format_iops, format_latency, format_throughput};
use ebbtide_model::workload::{Access, Arrival, IoEngine, Mix, OpKind, Stop, Workload};

/// Up to this many members have a line each.
const MOST_MEMBERS: usize = 32;

/// From this share of the time on, in thousandths, a thread's wait for a processor is told.
const WAITED: u32 = 50;

/// One run of one workload on one target.
#[derive(Debug, Clone, Copy)]
pub struct Single<'a> {
    /// What it ran on, in words.
    pub target: &'a str,
    /// What was run.
    pub workload: &'a Workload,
    /// What was measured.
    pub samples: &'a TrialSamples,
    /// What limits it, the best supported cause first.
    pub verdicts: &'a [Verdict],
    /// What the reader must know beside the notes in the samples.
    pub notes: &'a [String],
}

/// How the kernel was asked, in words: as `execution` says, where it does, else as the workload asks for it.
fn engine_words(workload: &Workload, execution: &Execution) -> String {
    let asked = match execution.ioengine.unwrap_or(workload.ioengine) {
        IoEngine::IoUring => "io_uring",
        IoEngine::Psync => "psync",
    };
    match execution.threads {
        0 | 1 => asked.to_owned(),
        threads => format!("{asked} on {threads} threads per job"),
    }
}

/// What was run in words: `randread, bs 4KiB, iodepth 32, 1 job, O_DIRECT, io_uring`.
pub fn workload_words(workload: &Workload, execution: &Execution) -> String {
    let mut parts = vec![match (workload.access, workload.mix) {
        (Access::Sequential, Mix::Read) => "read".to_owned(),
        (Access::Sequential, Mix::Write) => "write".to_owned(),
        (Access::Random, Mix::Read) => "randread".to_owned(),
        (Access::Random, Mix::Write) => "randwrite".to_owned(),
        (Access::Sequential, Mix::Rewrite) => "rewrite".to_owned(),
        (Access::Random, Mix::Rewrite) => "random rewrite".to_owned(),
        (Access::Sequential, Mix::Mixed { read_percent }) => format!("rw ({read_percent}% reads)"),
        (Access::Random, Mix::Mixed { read_percent }) => format!("randrw ({read_percent}% reads)"),
    }];
    parts.push(format!("bs {}", workload.bs));
    parts.push(format!("iodepth {}", workload.iodepth));
    parts.push(words::count(workload.numjobs.into(), "job"));
    parts.push(if workload.direct { "O_DIRECT" } else { "buffered" }.to_owned());
    if workload.sync {
        parts.push("O_SYNC".to_owned());
    }
    parts.push(engine_words(workload, execution));
    parts.extend(options(workload));
    match workload.arrival {
        Arrival::Closed => {}
        Arrival::Fixed { iops } => parts.push(format!("{} operations/s arrive evenly", format_iops(iops))),
        Arrival::Poisson { iops } => {
            parts.push(format!("{} operations/s arrive at random (Poisson)", format_iops(iops)));
        }
    }
    if let Some(rate) = workload.rate {
        parts.push(format!("at most {}", format_throughput(rate.0 as f64)));
    }
    if workload.think_time.0 > 0 {
        parts.push(format!("thinktime {}", workload.think_time));
    }
    if workload.end_fsync {
        parts.push("fsync at the end".to_owned());
    }
    parts.join(", ")
}

/// What was asked of the host and of the target beyond the usual.
fn options(workload: &Workload) -> Vec<String> {
    let (engine, details) = (&workload.engine, &workload.details);
    let mut parts = Vec::new();
    for (given, what) in [
        (engine.hipri, "polled completions"),
        (engine.sqthread_poll, "a kernel thread submits"),
        (engine.huge_pages, "huge pages"),
    ] {
        if given {
            parts.push(what.to_owned());
        }
    }
    if let Some(nice) = engine.nice {
        parts.push(format!("nice {nice}"));
    }
    if !engine.cpus_allowed.is_empty() {
        let cpus: Vec<String> = engine.cpus_allowed.iter().map(u32::to_string).collect();
        parts.push(format!("CPUs {}", cpus.join(",")));
    }
    if details.offset.0 > 0 {
        parts.push(format!("from offset {}", details.offset));
    }
    for (every, what) in [(details.fsync_every, "fsync"), (details.fdatasync_every, "fdatasync")] {
        if let Some(every) = every {
            parts.push(format!("{what} after {}", words::count(every.into(), "write")));
        }
    }
    parts
}

/// The run for a terminal of `width` columns, with colours when `color`. Lines end in `\n`.
pub fn single(run: &Single<'_>, width: usize, color: bool) -> Styled {
    let width = width.max(LEAST_WIDTH);
    let mut lines = Vec::new();
    let (samples, workload) = (run.samples, run.workload);
    lines.push(Paint::Strong.apply(&one_line(run.target), color));
    prose(&mut lines, &workload_words(workload, &samples.execution), "", width, Paint::Faint, color);
    let after = if workload.warm_up.0 > 0 {
        format!(" after {:.1} s of warm-up", workload.warm_up.as_secs_f64())
    } else {
        String::new()
    };
    let whole = match workload.stop {
        Stop::Runtime(_) => String::new(),
        Stop::Size(size) => format!(" for {size}"),
    };
    lines.push(Paint::Faint.apply(&format!("{:.2} s{whole}{after}", samples.elapsed.as_secs_f64()), color));
    lines.push(Styled::default());
    lines.extend(figures(samples).lines(width, color));
    if samples.members.len() > 1 {
        lines.push(Styled::default());
        lines.extend(members(samples).lines(width, color));
        let left = samples.members.len().saturating_sub(MOST_MEMBERS);
        if left > 0 {
            lines.push(format!("  and {left} more; --json has them all").into());
        }
    }
    for table in below::tables(&arrays(&[samples])) {
        lines.push(Styled::default());
        lines.extend(table.lines(width, color));
    }
    lines.push(Styled::default());
    if let [alone] = samples.members.as_slice()
        && !alone.errors.is_empty()
    {
        prose(&mut lines, &errors(alone), "  errors   ", width, Paint::Bad, color);
    }
    prose(&mut lines, &cpu(samples), "  CPU      ", width, Paint::Plain, color);
    if let Some(text) = over_time(samples) {
        prose(&mut lines, &text, "  varied   ", width, Paint::Plain, color);
    }
    for verdict in run.verdicts.iter().take(2) {
        let text = format!("{}: {}", verdict.kind.name(), verdict.sentence);
        prose(&mut lines, &text, "  limit    ", width, Paint::Caution, color);
    }
    if let Some(text) = waits_for_a_slot(samples) {
        prose(&mut lines, &text, "  note     ", width, Paint::Caution, color);
    }
    if let Some(text) = unfinished(samples) {
        prose(&mut lines, &text, "  note     ", width, Paint::Caution, color);
    }
    for note in samples.notes.iter().chain(run.notes) {
        prose(&mut lines, note, "  note     ", width, Paint::Caution, color);
    }
    Styled::lines(&lines)
}

/// `text` after `lead`, later lines below its beginning.
fn prose(lines: &mut Vec<Styled>, text: &str, lead: &str, width: usize, paint: Paint, color: bool) {
    let columns = width.min(WIDEST_PROSE).saturating_sub(lead.len());
    for (index, line) in wrap(&one_line(text), columns, 0).iter().enumerate() {
        let before = if index == 0 { lead.to_owned() } else { " ".repeat(lead.len()) };
        lines.push(Styled::plain(&before).then(&paint.apply(line, color)));
    }
}

const LATENCIES: [&str; 5] = ["mean", "p50", "p99", "p99.9", "max"];

fn latency_cells(histogram: &Histogram) -> Vec<Cell> {
    let percentile = |p: f64| histogram.percentile(p).map(|ns| ns as f64);
    [
        histogram.mean(),
        percentile(50.0),
        percentile(99.0),
        percentile(99.9),
        histogram.max().map(|ns| ns as f64),
    ]
    .into_iter()
    .map(|value| Cell::plain(&value.map_or_else(String::new, format_latency)))
    .collect()
}

fn rates(count: Count, elapsed: Nanos) -> [Cell; 2] {
    let seconds = elapsed.as_secs_f64();
    if seconds <= 0.0 {
        return [Cell::plain(""), Cell::plain("")];
    }
    [
        Cell::new(&format_iops(count.ops as f64 / seconds), Paint::Strong),
        Cell::new(&format_throughput(count.bytes as f64 / seconds), Paint::Strong),
    ]
}

/// Rates and latencies of each operation kind that was used.
fn figures(samples: &TrialSamples) -> Table {
    let header = ["", "IOPS", "throughput"].into_iter().chain(LATENCIES).map(str::to_owned).collect();
    let mut rows = Vec::new();
    for (name, op) in [("read", &samples.array.read), ("write", &samples.array.write)] {
        if op.count.ops == 0 {
            continue;
        }
        let mut row = vec![Cell::plain(name)];
        row.extend(rates(op.count, samples.elapsed));
        row.extend(latency_cells(&op.latency));
        rows.push(row);
        // Above, latency counts from the intended start; the service time counts from the submission.
        if let Some(service) = &op.service {
            let mut row = vec![Cell::new("  of it service", Paint::Faint), Cell::plain(""), Cell::plain("")];
            row.extend(latency_cells(service));
            rows.push(row);
        }
    }
    // With the service time these make up the latency, of reads and writes together.
    let execution = &samples.execution;
    for (name, part) in
        [("  of it slot wait", &execution.slot_waits), ("  of it lateness", &execution.lateness)]
    {
        if !part.is_empty() {
            let mut row = vec![Cell::new(name, Paint::Faint), Cell::plain(""), Cell::plain("")];
            row.extend(latency_cells(part));
            rows.push(row);
        }
    }
    let syncs = &samples.execution.syncs;
    if !syncs.is_empty() {
        let mut row = vec![Cell::plain("sync")];
        row.extend(rates(Count { ops: syncs.count(), bytes: 0 }, samples.elapsed));
        row[2] = Cell::plain("");
        row.extend(latency_cells(syncs));
        rows.push(row);
    }
    if rows.is_empty() {
        rows.push(vec![Cell::plain("nothing completed")]);
    }
    Table { header, rows }
}

/// A line for each member: its share of the bytes, rates, latencies.
fn members(samples: &TrialSamples) -> Table {
    let all = |ops: &PerOp<OpSamples>| Count {
        ops: ops.read.count.ops + ops.write.count.ops,
        bytes: ops.read.count.bytes + ops.write.count.bytes,
    };
    let total: u64 = samples.members.iter().map(|member| all(&member.ops).bytes).sum();
    let header =
        ["member", "share", "IOPS", "throughput", "mean", "p99", "errors"].map(str::to_owned).to_vec();
    let rows = samples
        .members
        .iter()
        .take(MOST_MEMBERS)
        .map(|member| {
            let count = all(&member.ops);
            let mut latency = member.ops.get(OpKind::Read).latency.clone();
            latency.merge(&member.ops.get(OpKind::Write).latency);
            let share =
                if total > 0 { words::percent(count.bytes as f64 / total as f64) } else { String::new() };
            let mut row = vec![Cell::plain(&member.name), Cell::plain(&share)];
            row.extend(rates(count, samples.elapsed));
            for value in [latency.mean(), latency.percentile(99.0).map(|ns| ns as f64)] {
                row.push(Cell::plain(&value.map_or_else(String::new, format_latency)));
            }
            row.push(Cell::new(&errors(member), Paint::Bad));
            row
        })
        .collect();
    Table { header, rows }
}

/// `3 EAGAIN, 1 short`.
fn errors(member: &MemberSamples) -> String {
    let errors: Vec<String> =
        member.errors.iter().map(|error| format!("{} {}", error.count, error.name)).collect();
    errors.join(", ")
}

/// From this share of the mean latency on, the wait for a slot is explained.
const SLOT_WAIT: f64 = 0.1;

/// That operations of an open loop waited for a place among the `iodepth`, where that is a part of their latency to speak of.
fn waits_for_a_slot(samples: &TrialSamples) -> Option<String> {
    let (wait, all) = (samples.execution.slot_waits.mean()?, samples.latency().mean()?);
    (wait >= SLOT_WAIT * all).then(|| {
        format!(
            "{} of the mean latency is slot wait: operations whose time had come waited because as many as iodepth allows were in \
             flight; fewer operations/s, or a larger iodepth where the target can serve more",
            words::percent(wait / all)
        )
    })
}

/// Operations under way at the end, where they are a hundredth of the others or more.
fn unfinished(samples: &TrialSamples) -> Option<String> {
    let ops = samples.array.read.count.ops + samples.array.write.count.ops;
    let unfinished = samples.execution.unfinished;
    (unfinished > 0 && unfinished >= ops / 100).then(|| {
        format!(
            "{} {} under way at the end and not in the figures",
            words::count(unfinished, "operation"),
            if unfinished == 1 { "was" } else { "were" }
        )
    })
}

fn cpu(samples: &TrialSamples) -> String {
    let seconds = samples.elapsed.as_secs_f64();
    if seconds <= 0.0 {
        return "not measured".to_owned();
    }
    let share = |time: Nanos| words::percent(time.as_secs_f64() / seconds);
    let cpu = &samples.cpu;
    let ops = samples.array.read.count.ops + samples.array.write.count.ops;
    let mut text = format!(
        "{} user, {} system, of one core ({})",
        share(cpu.load_user),
        share(cpu.load_system),
        words::count(cpu.cores.into(), "core"),
    );
    if ops > 0 {
        let each = (cpu.load_user.0 + cpu.load_system.0) as f64 / ops as f64;
        text.push_str(&format!("; {} of CPU per operation", format_latency(each)));
    }
    if let Some(busiest) = cpu.busiest_thread_permille {
        text.push_str(&format!("; the busiest job thread {}", words::percent(f64::from(busiest) / 1000.0)));
    }
    if let Some(waited) = cpu.most_waiting_permille.filter(|waited| *waited >= WAITED) {
        let share = words::percent(f64::from(waited) / 1000.0);
        text.push_str(&format!("; one waited {share} of the time for a processor"));
    }
    text
}

/// Least and most throughput of an interval, where there are several full ones.
fn over_time(samples: &TrialSamples) -> Option<String> {
    let mut start = Nanos(0);
    let mut values = Vec::new();
    for interval in &samples.series {
        let span = interval.end.since(start);
        start = interval.end;
        if span.0 * 2 >= samples.interval.0 && span.0 > 0 {
            let ops = interval.array.read.ops + interval.array.write.ops;
            values.push(ops as f64 / span.as_secs_f64());
        }
    }
    if values.len() < 3 {
        return None;
    }
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(0.0, f64::max);
    Some(format!(
        "{} to {} IOPS over {} intervals of {}",
        format_iops(least),
        format_iops(most),
        values.len(),
        format_latency(samples.interval.0 as f64),
    ))
}
