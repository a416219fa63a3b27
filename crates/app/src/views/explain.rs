//! The reasoning behind what a log of iostat shows, as text.

use ebbtide_analysis::observe::outlier::{Difference, MemberFigures, Outlier};
use ebbtide_formats::iostat::{Explanation, Group, Grouping, SingleDevice, State};
use ebbtide_model::shown::aligned;
use ebbtide_model::units::format_count;
use std::fmt::Write;

/// What `ebb watch --log` prints for people.
pub fn iostat(explanation: &Explanation) -> String {
    let mut text = format!("Compared over {}", format_count(explanation.reports as u64, "report"));
    text.push_str(match (explanation.first_left_out, explanation.reports) {
        (true, _) => {
            ". The first one was left out: it holds the means since boot, unless iostat ran with -y \
             (then say --all-reports).\n"
        }
        (false, 1) => ". If it is iostat's first and iostat ran without -y, it holds the means since boot.\n",
        (false, _) => ".\n",
    });
    for note in &explanation.notes {
        let _ = writeln!(text, "Note: {note}.");
    }
    for (volume, array) in &explanation.stands_on {
        let _ = writeln!(text, "{volume} stands on {array}: what it moved is what {array} moved.");
    }
    for array in &explanation.arrays_without_members {
        let _ = match explanation.carried_by_one.get(array) {
            Some(device) => writeln!(
                text,
                "All that {array} moved went to {device} alone: it lies on that device only, or is linear, or the others are idle."
            ),
            None => writeln!(text, "{array} was active, but no devices' bytes add up to its own."),
        };
    }
    if explanation.groups.is_empty() {
        // What is wrong with a device is the answer, where there is one.
        if !explanation.devices.is_empty() {
            text.push_str(&alone(explanation));
        }
        text.push_str("No members of an array were found in the log; name them with --members a,b,...\n");
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

/// Where a limit may be, and how it is found.
const LIMITS: &str = "of the volume (what was ordered), of the host (`cat /sys/fs/cgroup/**/io.max`, the hypervisor), or of the load itself \
                      (fio's rate_iops). More of the load tells: where requests wait longer and no more complete, it is a limit.";

/// What is to be said of devices by themselves.
fn alone(explanation: &Explanation) -> String {
    let mut text = String::new();
    for device in explanation.devices.iter().take(MOST_ALONE) {
        let _ = writeln!(text, "{}", of_device(device, explanation.reports));
    }
    if let more @ 1.. = explanation.devices.len().saturating_sub(MOST_ALONE) {
        let _ = writeln!(text, "... and {more} more; --json lists them all.");
    }
    text
}

fn of_device(device: &SingleDevice, reports: usize) -> String {
    let MemberFigures { name, requests_per_second: rate, queue, .. } = &device.figures;
    let wait = device.figures.await_ms.unwrap_or_default();
    let busy =
        device.figures.util.map(|util| format!("busy {:.0}% of the time with ", util.min(1.0) * 100.0));
    let busy = busy.unwrap_or_default();
    let seen =
        if reports > 1 { format!(" (in {} of {reports} reports)", device.in_reports) } else { String::new() };
    let mut text = match device.state {
        State::Saturated => format!(
            "{name} is saturated: {busy}{queue:.1} requests queued{seen}. It completes one every {} ms, \
             yet each takes {wait:.1} ms: most of that is waiting, and more requests would only wait longer.",
            if device.each_ms < 1.0 {
                format!("{:.3}", device.each_ms)
            } else {
                format!("{:.1}", device.each_ms)
            }
        ),
        State::NeverIdle => format!(
            "{name} is never idle, with {queue:.1} requests queued that take {wait:.2} ms each{seen}, {rate:.0} per second. \
             The log does not show whether it could take more: a device that serves several requests at once is 100% busy long before it is saturated."
        ),
        State::Slow => format!(
            "{name} takes {wait:.1} ms for a request with hardly any other queued (queue {queue:.2}){seen}: each request is slow \
             on its own, as on a disk that seeks far, or behind a network or a throttle."
        ),
        State::Steady => format!("{name} has {queue:.1} requests in flight that take {wait:.2} ms each."),
    };
    if let Some((short, long)) = device.whatever_queue {
        let _ = write!(text, " Its rate is the same with {short:.1} and with {long:.1} requests queued.");
    }
    if device.same_rate {
        let _ = write!(
            text,
            " It does {rate:.0} requests/s in every report, which suggests a set limit: {}",
            match device.state {
                State::Saturated => "of the volume, or what somebody set for it.",
                _ => LIMITS,
            }
        );
    }
    text
}

fn of_group(group: &Group, reports: usize) -> String {
    let names: Vec<&str> = group.members.iter().map(|m| m.name.as_str()).collect();
    let names = names.join(", ");
    let why = match &group.grouping {
        Grouping::Given => format!("{names} (as given)"),
        Grouping::AddUp(array) => {
            format!("{names} are assumed to be the members of {array}: their bytes add up to its own")
        }
        Grouping::Copies(array) => format!(
            "{names} are assumed to be the members of {array}, which has each write on two of them: they write twice what it does"
        ),
        Grouping::Mirror(array) => {
            format!("{names} are assumed to be mirrors in {array}: each writes as much as it does")
        }
        Grouping::Assumed => format!(
            "{names} are assumed to be members of one array: they do about equal work \
             (if that is wrong, name the members with --members)"
        ),
    };
    let figure = |v: Option<f64>, digits: usize| v.map_or("-".to_owned(), |v| format!("{v:.digits$}"));
    let mut rows = vec![["device", "requests/s", "MB/s", "await ms", "queue", "%util"].map(str::to_owned)];
    rows.extend(group.members.iter().map(|member| {
        let mark = if group.outliers.iter().any(|o| o.name == member.name) { "!" } else { "" };
        [
            format!("{}{mark}", member.name),
            figure(Some(member.requests_per_second), 1),
            figure(Some(member.bytes_per_second / 1e6), 2),
            figure(member.await_ms, 2),
            figure(Some(member.queue), 2),
            figure(member.util.map(|u| u * 100.0), 1),
        ]
    }));
    let mut text = format!("{why}.\n\n{}", aligned(&rows, 2, &[1, 2, 3, 4, 5]));
    if !group.idle.is_empty() {
        let names = group.idle.join(", ");
        let _ = writeln!(
            text,
            "  {names} did nothing and {} not compared (part of a linear array, or not of this array at all).",
            if group.idle.len() == 1 { "is" } else { "are" },
        );
    }
    text.push('\n');
    if let Some(rate) = group.same_rate {
        let _ = writeln!(
            text,
            "Each does {rate:.0} requests/s in every report, which suggests a set limit: {LIMITS}"
        );
    }
    for (outlier, seen) in group.outliers.iter().zip(&group.in_reports) {
        text.push_str(&of_outlier(outlier, *seen, reports));
    }
    for spared in &group.spared {
        let _ = writeln!(
            text,
            "{} waits longer ({}; median of its siblings), but does not count as slow: {}.",
            spared.name,
            spared.reason(),
            spared.because.join("; ")
        );
    }
    if !group.spared.is_empty() {
        text.push_str(
            "What would tell: more reports (`iostat -xy 1 60`); the sizes of requests (rareq-sz, wareq-sz) beside those that the program asks \
             for, and merges; the same devices under another load (`ebb blame` measures each alone).\n",
        );
    }
    if group.outliers.is_empty() && group.spared.is_empty() {
        text.push_str(
            "No member stands out: none waits three times as long as its siblings and at least 1 ms longer, or does \
             three times their work.\n",
        );
    }
    text
}

fn of_outlier(outlier: &Outlier, seen: usize, reports: usize) -> String {
    let name = &outlier.name;
    let often =
        if reports > 1 { format!(" This holds in {seen} of {reports} reports.") } else { String::new() };
    let reason = outlier.reason();
    match outlier.difference {
        Difference::Slow => format!(
            "{name} is the slow member: {reason} (median of its siblings).{often}\n\
             It does no more work than they do but takes longer for each request, and the array waits for it.\n\
             {}\n",
            if reports > 1 {
                "Replace the volume, or remove it and measure the array without it."
            } else {
                "One report is a moment or a mean since boot: record `iostat -xy 1 60` while it is slow. If it is the same one, replace \
                 the volume, or remove it and measure the array without it."
            }
        ),
        Difference::Busy => format!(
            "{name} does most of the work: {reason} (median of its siblings).{often}\n\
             The layout is linear, one region is hot, or the others are spares or no members of it. Striping would spread what is linear or hot.\n"
        ),
    }
}
