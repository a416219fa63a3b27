//! One run of one workload, as `ebb bench` shows it.

use super::below;
use super::table::{Cell, Table};
use super::wrap::paragraph;
use super::{LEAST_WIDTH, WIDEST_PROSE};
use crate::words;
use ebbtide_analysis::Verdict;
use ebbtide_analysis::below::arrays;
use ebbtide_analysis::latency_target::DepthSearch;
use ebbtide_model::samples::{Count, DepthFound, Execution, Histogram, MemberSamples, TrialSamples};
use ebbtide_model::shown::{Paint, Styled, one_line};
use ebbtide_model::units::{Nanos, format_iops, format_latency, format_throughput};
use ebbtide_model::workload::{IoEngine, Moment, SteadyResult, SteadyState, Stop, Workload};

/// Up to this many members have a line each.
const MOST_MEMBERS: usize = 32;

/// From this share of the time on, in thousandths, a thread's wait for a processor is told.
const WAITED: u32 = 50;

/// One run of one workload on one target.
#[derive(Debug, Clone, Copy)]
pub struct Single<'a> {
    /// What it ran on, in words.
    pub target: &'a str,
    /// The workload of the trial.
    pub workload: &'a Workload,
    /// Samples of the run that is shown.
    pub samples: &'a TrialSamples,
    /// What limits it, the best supported cause first.
    pub verdicts: &'a [Verdict],
    /// The search for the most load that keeps a latency, which has come to this run.
    pub search: Option<&'a DepthSearch>,
    /// What the reader must know beside the notes in the samples.
    pub notes: &'a [String],
}

/// What was run in words, on the engine that `execution` says, where it does, else that the workload asks for.
pub fn workload_words(workload: &Workload, execution: &Execution) -> String {
    let engine = match execution.ioengine.unwrap_or(workload.ioengine) {
        IoEngine::IoUring => "io_uring",
        IoEngine::Psync => "psync",
    };
    match execution.threads {
        0 | 1 => workload.in_words_on(engine),
        threads => workload.in_words_on(&format!("{engine} on {threads} threads per job")),
    }
}

/// The run for a terminal of `width` columns, with colours when `color`. Lines end in `\n`.
pub fn single(run: &Single<'_>, width: usize, color: bool) -> Styled {
    let width = width.max(LEAST_WIDTH);
    let mut lines = Vec::new();
    let (samples, workload) = (run.samples, run.workload);
    lines.push(Paint::Strong.apply(&one_line(run.target), color));
    prose(&mut lines, &workload_words(workload, &samples.execution), "", width, Paint::Faint, color);
    let after = workload.before_in_words().map(|after| format!(" {after}")).unwrap_or_default();
    let whole = match workload.stop {
        Stop::Runtime(_) => String::new(),
        Stop::Size(size) => format!(" for {size}"),
    };
    lines.push(Paint::Faint.apply(&format!("{:.2} s{whole}{after}", samples.elapsed.as_secs_f64()), color));
    lines.push(Styled::default());
    lines.extend(figures(samples).lines(width, color));
    if let Some(search) = run.search {
        lines.push(Styled::default());
        lines.extend(depths(search).lines(width, color));
        let found = matches!(search.conclusion(), DepthFound::Found(_));
        let paint = if found { Paint::Strong } else { Paint::Bad };
        prose(&mut lines, &depth_found(search, workload), "  depth    ", width, paint, color);
    }
    if let (Some(asked), Some(seen)) = (&workload.conditions.steady, &samples.execution.steady) {
        let paint = if seen.attained { Paint::Strong } else { Paint::Caution };
        lines.push(Styled::default());
        for text in steady(asked, seen, samples.elapsed) {
            prose(&mut lines, &text, "  steady   ", width, paint, color);
        }
    }
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
        let text = format!("{}: {}", verdict.limited_by(), verdict.sentence);
        prose(&mut lines, &text, "  limit    ", width, Paint::Caution, color);
    }
    let own = [failed(samples), waits_for_a_slot(samples), unfinished(samples)];
    for note in own.iter().flatten().chain(&samples.notes).chain(run.notes) {
        prose(&mut lines, note, "  note     ", width, Paint::Caution, color);
    }
    Styled::lines(&lines)
}

/// `text` after `lead`, later lines below its beginning.
fn prose(lines: &mut Vec<Styled>, text: &str, lead: &str, width: usize, paint: Paint, color: bool) {
    lines.extend(paragraph(text, lead, 0, width.min(WIDEST_PROSE), (paint, color)));
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

/// A row for a part of the latency above it.
fn part(name: &str, histogram: &Histogram) -> Vec<Cell> {
    let mut row = vec![Cell::new(name, Paint::Faint), Cell::plain(""), Cell::plain("")];
    row.extend(latency_cells(histogram));
    row
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
        rows.extend(op.service.as_ref().map(|service| part("  of which service", service)));
    }
    // With the service time these make up the latency, of reads and writes together.
    let execution = &samples.execution;
    for (name, histogram) in
        [("  of which slot wait", &execution.slot_waits), ("  of which lateness", &execution.lateness)]
    {
        if !histogram.is_empty() {
            rows.push(part(name, histogram));
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

/// A line for each depth that was tried.
fn depths(search: &DepthSearch) -> Table {
    let goal = search.goal();
    let at = if goal.percentile >= 100.0 { "max".to_owned() } else { format!("p{}", goal.percentile) };
    let header =
        vec!["iodepth".to_owned(), "IOPS".to_owned(), at, format!("within {}", goal.target), String::new()];
    let rows = search.steps().iter().chain(search.rest()).map(|step| {
        let (word, paint) = if step.kept { ("kept", Paint::Plain) } else { ("not kept", Paint::Bad) };
        vec![
            Cell::plain(&step.iodepth.to_string()),
            Cell::plain(&format_iops(step.iops)),
            Cell::plain(&step.lat_ns.map_or_else(String::new, |ns| format_latency(ns as f64))),
            Cell::plain(&step.within_percent.map_or_else(|| "nothing completed".to_owned(), share_within)),
            Cell::new(word, paint),
        ]
    });
    Table { header, rows: rows.collect() }
}

/// A percentage that is 100% only where it is all.
fn share_within(percent: f64) -> String {
    let digits = [1, 2, 3, 4, 6]
        .into_iter()
        .find(|digits| percent >= 100.0 || !format!("{percent:.*}", digits).starts_with("100"));
    if percent >= 100.0 { "100%".to_owned() } else { format!("{percent:.*}%", digits.unwrap_or(9)) }
}

/// What the search has come to.
fn depth_found(search: &DepthSearch, workload: &Workload) -> String {
    let (goal, most) = (search.goal().in_words(), search.most());
    match search.conclusion() {
        DepthFound::Found(depth) if depth == most && workload.ioengine == IoEngine::Psync => {
            format!(
                "iodepth {depth} keeps {goal}; psync keeps one operation in flight per job, and more was not tried"
            )
        }
        DepthFound::Found(depth) if depth == most => {
            format!(
                "iodepth {depth} keeps {goal}; it is the largest that was asked for, and more was not tried"
            )
        }
        DepthFound::Found(depth) => {
            let rest = search.rest().filter(|rest| !rest.kept).map(|rest| {
                format!("; over the {:.1} s that followed it did not keep it", rest.elapsed_seconds)
            });
            format!(
                "iodepth {depth} is the most that keeps {goal}, of up to {most}, twice for {}{}",
                search.goal().window,
                rest.unwrap_or_default()
            )
        }
        DepthFound::None => {
            format!("none keeps {goal}: not even one operation in flight per job; its figures are above")
        }
        DepthFound::Open(0) => format!("whether any keeps {goal} is not known: the time was over before"),
        DepthFound::Open(depth) => {
            format!(
                "iodepth {depth} keeps {goal}, and the time was over before it was known whether more does"
            )
        }
    }
}

/// Whether it became steady, and what the last window showed.
fn steady(asked: &SteadyState, seen: &SteadyResult, elapsed: Nanos) -> Vec<String> {
    let criterion = asked.criterion;
    let what = if criterion.slope { "slope" } else { "largest distance from their mean" };
    let reached = match (seen.attained, seen.criterion) {
        (true, _) => format!("reached after {:.1} s", elapsed.as_secs_f64()),
        (false, None) if seen.moments.len() < asked.measurements() => {
            format!("not reached: no window of {} was full by its end", asked.window)
        }
        (false, _) => format!("not reached in {:.1} s", elapsed.as_secs_f64()),
    };
    let held = seen.criterion.map(|value| {
        let sign = if seen.attained { "below" } else { "not below" };
        format!(
            ": of the last {} measurements of {} the {what} is {}, {sign} {}",
            seen.moments.len(),
            asked.interval,
            criterion.shown(value),
            criterion.shown(criterion.limit),
        )
    });
    let mut lines = vec![reached + &held.unwrap_or_default()];
    let all = seen.moments.iter().fold(Moment::default(), |sum, moment| sum.plus(*moment));
    let seconds = asked.interval.times(seen.moments.len() as u64).as_secs_f64();
    if all.ops > 0 {
        lines.push(format!(
            "in these {seconds} s {} IOPS, {}, mean latency {}; above are those of the whole run",
            format_iops(all.ops as f64 / seconds),
            format_throughput(all.bytes as f64 / seconds),
            format_latency(all.latency as f64 / all.ops as f64),
        ));
    }
    lines
}

/// A line for each member: its share of the bytes, rates, latencies.
fn members(samples: &TrialSamples) -> Table {
    let total: u64 = samples.members.iter().map(|member| member.ops.counts().total().bytes).sum();
    let header =
        ["member", "share", "IOPS", "throughput", "mean", "p99", "errors"].map(str::to_owned).to_vec();
    let rows = samples
        .members
        .iter()
        .take(MOST_MEMBERS)
        .map(|member| {
            let (count, latency) = (member.ops.counts().total(), member.ops.latency());
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

/// Operations that failed and did not end it.
fn failed(samples: &TrialSamples) -> Option<String> {
    let failed = samples.execution.failed;
    (failed > 0).then(|| {
        let all = samples.array.counts().total().ops.saturating_add(failed);
        format!(
            "{} of {all} failed and {} counted only as errors; the run went on",
            words::count(failed, "operation"),
            if failed == 1 { "is" } else { "are" }
        )
    })
}

/// Operations under way at the end, where they are a hundredth of the others or more.
fn unfinished(samples: &TrialSamples) -> Option<String> {
    let ops = samples.array.counts().total().ops;
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
    let cpu = &samples.cpu;
    let used = cpu.load_user.as_secs_f64() + cpu.load_system.as_secs_f64();
    // What ended at once took less time than its beginning and its end, which are counted too.
    if seconds <= 0.0 || used > seconds * f64::from(cpu.cores.max(1)) {
        return "not measured".to_owned();
    }
    let share = |time: Nanos| words::percent(time.as_secs_f64() / seconds);
    let ops = samples.array.counts().total().ops;
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
            let ops = interval.array.total().ops;
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
