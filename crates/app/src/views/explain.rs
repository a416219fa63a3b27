//! The reasoning behind verdicts and behind what a log of iostat shows, as text.

use ebbtide_analysis::observe::outlier::{Difference, MemberFigures, Outlier};
use ebbtide_analysis::{DesignResult, Evidence, RuledOut, Verdict};
use ebbtide_formats::iostat::{Alone, Explanation, Group, Grouping, State};
use ebbtide_model::units::format_count;
use ebbtide_report::evidence_text;
use std::fmt::Write;

/// Why each result got its verdicts: every figure, what it was compared with, and what was looked for in vain.
pub fn results(results: &[&DesignResult]) -> String {
    let mut text = String::new();
    for result in results {
        let trials = format_count(result.trials.into(), "trial");
        let _ = writeln!(text, "{} under {} ({trials})", result.design, result.workload);
        for (metric, estimate) in &result.metrics {
            let interval =
                estimate.interval.map_or("no interval: too few trials".to_owned(), |(low, high)| {
                    format!("{} to {}", evidence_text(low, metric.unit()), evidence_text(high, metric.unit()))
                });
            let _ = writeln!(
                text,
                "  {:<12} {} ({interval})",
                metric.name(),
                evidence_text(estimate.median, metric.unit())
            );
        }
        for (at, verdict) in result.verdicts.iter().enumerate() {
            of_verdict(at + 1, verdict, &mut text);
        }
        text.push_str("\n  looked for in vain:\n");
        for RuledOut { kind, why, evidence } in &result.ruled_out {
            let _ = writeln!(text, "   {}: {why}", kind.name());
            figures(evidence, &mut text);
        }
        text.push('\n');
    }
    text
}

fn of_verdict(rank: usize, verdict: &Verdict, text: &mut String) {
    let _ = writeln!(
        text,
        "\n  {rank}. {} (confidence {:.0}%, explains {:.0}% of the gap to the next limit)\n     {}",
        verdict.kind.name(),
        verdict.confidence * 100.0,
        verdict.explains * 100.0,
        verdict.sentence
    );
    figures(&verdict.evidence, text);
}

fn figures(evidence: &[Evidence], text: &mut String) {
    for figure in evidence {
        let against = figure.reference.map(|r| format!(", against {}", evidence_text(r, &figure.unit)));
        let value = evidence_text(figure.value, &figure.unit);
        let _ = writeln!(text, "     - {}: {value}{}", figure.what, against.unwrap_or_default());
    }
}

/// The whole answer.
pub fn iostat(explanation: &Explanation) -> String {
    let plural = if explanation.reports == 1 { "" } else { "s" };
    let mut text = format!("Compared over {} report{plural}", explanation.reports);
    text.push_str(match (explanation.first_left_out, explanation.reports) {
        (true, _) => {
            ". The first one was left out: it holds the means since boot, unless iostat ran with -y \
             (then say --all-reports).\n"
        }
        (false, 1) => ". If it is iostat's first and iostat ran without -y, it holds the means since boot.\n",
        (false, _) => ".\n",
    });
    for array in &explanation.arrays_without_members {
        let _ = writeln!(text, "{array} was at work in it, but no devices' bytes add up to its bytes.");
    }
    if explanation.groups.is_empty() {
        // What is wrong with a device is the answer, where there is one.
        if !explanation.devices.is_empty() {
            text.push_str(&alone(explanation));
        }
        text.push_str("No members of one array were found in it; name them with --members a,b,...\n");
    }
    for group in &explanation.groups {
        text.push('\n');
        text.push_str(&of_group(group, explanation.reports));
    }
    if !explanation.groups.is_empty() && !explanation.devices.is_empty() {
        text.push('\n');
        text.push_str(&alone(explanation));
    }
    text
}

/// Up to this many devices have a sentence of their own.
const MOST_ALONE: usize = 8;

/// What is to be said of devices by themselves.
fn alone(explanation: &Explanation) -> String {
    let mut text = String::new();
    for device in explanation.devices.iter().take(MOST_ALONE) {
        let _ = writeln!(text, "{}", of_device(device, explanation.reports));
    }
    if let more @ 1.. = explanation.devices.len().saturating_sub(MOST_ALONE) {
        let _ = writeln!(text, "... and {more} more; --json has them all.");
    }
    text
}

fn of_device(device: &Alone, reports: usize) -> String {
    let MemberFigures { name, requests_per_second: rate, queue, .. } = &device.figures;
    let wait = device.figures.await_ms.unwrap_or_default();
    let busy = device.figures.util.unwrap_or_default().min(1.0) * 100.0;
    let seen =
        if reports > 1 { format!(" (in {} of {reports} reports)", device.in_reports) } else { String::new() };
    let mut text = match device.state {
        State::Saturated => format!(
            "{name} is full: busy {busy:.0}% of the time with {queue:.1} requests in it{seen}. It completes one every {} ms, \
             and each takes {wait:.1} ms: the rest is waiting for its turn, and more requests only wait longer.",
            if device.each_ms < 1.0 {
                format!("{:.3}", device.each_ms)
            } else {
                format!("{:.1}", device.each_ms)
            }
        ),
        State::NeverIdle => format!(
            "{name} is never idle, with {queue:.1} requests in it that take {wait:.2} ms each{seen}, {rate:.0} a second. \
             Whether more would fit the log does not tell: a device that serves several at once is 100% busy long before it is full."
        ),
        State::Slow => format!(
            "{name} takes {wait:.1} ms for a request with hardly another in front of it (queue {queue:.2}){seen}: each is slow by \
             itself, as on a disk that seeks far, behind a network or a throttle."
        ),
    };
    if let Some((short, long)) = device.whatever_queue {
        let _ = write!(text, " Its rate is the same with {short:.1} and with {long:.1} in it.");
    }
    if device.same_rate {
        let _ = write!(text, " It is {rate:.0} requests/s in every report, as where somebody set a limit.");
    }
    text
}

fn of_group(group: &Group, reports: usize) -> String {
    let names: Vec<&str> = group.members.iter().map(|m| m.name.as_str()).collect();
    let names = names.join(", ");
    let why = match &group.grouping {
        Grouping::Given => format!("{names} (as given)"),
        Grouping::AddUp(array) => {
            format!("{names} are taken for members of {array}: their bytes add up to its bytes")
        }
        Grouping::Mirror(array) => {
            format!("{names} are taken for mirrors in {array}: each writes what it writes")
        }
        Grouping::Assumed => format!(
            "{names} are taken for members of one array: they do about equal work, and no others as much \
             (if they are not, name them with --members)"
        ),
    };
    let mut text = format!(
        "{why}.\n\n  {:<12} {:>10} {:>8} {:>10} {:>8} {:>6}\n",
        "device", "requests/s", "MB/s", "await ms", "queue", "%util"
    );
    for member in &group.members {
        let mark = if group.outliers.iter().any(|o| o.name == member.name) { "!" } else { "" };
        let figure = |v: Option<f64>, digits: usize| v.map_or("-".to_owned(), |v| format!("{v:.digits$}"));
        let _ = writeln!(
            text,
            "  {:<12} {:>10.1} {:>8.2} {:>10} {:>8.2} {:>6}",
            format!("{}{mark}", member.name),
            member.requests_per_second,
            member.bytes_per_second / 1e6,
            figure(member.await_ms, 2),
            member.queue,
            figure(member.util.map(|u| u * 100.0), 1),
        );
    }
    if !group.idle.is_empty() {
        let names = group.idle.join(", ");
        let _ = writeln!(
            text,
            "  {names} did nothing meanwhile and {} not compared (of a linear array, or no {} of it).",
            if group.idle.len() == 1 { "is" } else { "are" },
            if group.idle.len() == 1 { "member" } else { "members" },
        );
    }
    text.push('\n');
    for (outlier, seen) in group.outliers.iter().zip(&group.in_reports) {
        text.push_str(&of_outlier(outlier, *seen, reports));
    }
    for spared in &group.spared {
        let _ = writeln!(
            text,
            "{} waits longer ({}; median of its siblings), but is not called slow: {}.",
            spared.name,
            spared.reason(),
            spared.because.join("; ")
        );
    }
    if group.outliers.is_empty() && group.spared.is_empty() {
        text.push_str(
            "No member stands out: none waits three times as long as its siblings and 1 ms longer, or does three \
             times their work.\n",
        );
    }
    text
}

fn of_outlier(outlier: &Outlier, seen: usize, reports: usize) -> String {
    let name = &outlier.name;
    let often =
        if reports > 1 { format!(" It does so in {seen} of {reports} reports.") } else { String::new() };
    let reason = outlier.reason();
    match outlier.difference {
        Difference::Slow => format!(
            "{name} is the slow member: {reason} (median of its siblings).{often}\n\
             It does no more work than they do but holds each request longer, and the array waits for it.\n\
             Replace that volume, or take it out and measure the array without it.\n"
        ),
        Difference::Busy => format!(
            "{name} does most of the work: {reason} (median of its siblings).{often}\n\
             The layout is linear, or one region is hot; striping spreads it over all members.\n"
        ),
    }
}
