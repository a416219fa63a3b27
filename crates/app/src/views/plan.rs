//! Plans and the table of instance types as text for a terminal of 100 columns.

use ebbtide_model::catalog::VolumeOrder;
use ebbtide_model::need::Need;
use ebbtide_model::shown::{Shown, columns, one_line};
use ebbtide_model::units::{
    Nanos, format_alike, format_hours, format_iops, format_latency, format_throughput, format_waiting,
};
use ebbtide_model::volume::{Limit, LinkShape};
use ebbtide_plan::bounds::{Bound, together};
use ebbtide_plan::table::{Cells, Direction, Rate, Row};
use ebbtide_plan::{Answer, ExistingVolumes, Interval, Plan, Volumes};
use std::fmt::Write;
use std::path::PathBuf;

/// Columns of a line of text.
const WIDTH: usize = 98;

/// What comes of a need; `files` are those of the plans' experiments, where they were written.
pub fn plans(need: &Need, answer: &Answer, files: Option<&[PathBuf]>) -> String {
    let mut text = format!("{}: {}\n", one_line(&need.name), asked(need));
    let _infallible = writeln!(
        text,
        "{} designs considered, {} pass by arithmetic, {} simulated\n",
        answer.considered, answer.passed, answer.simulated
    );
    if answer.plans.is_empty() {
        text.push_str("Nothing does what is needed.\n");
    } else {
        text.push_str(&ranked(need, &answer.plans));
        text.push('\n');
        for plan in &answer.plans {
            text.push_str(&detail(need, plan, files.and_then(|files| files.get(plan.rank - 1))));
        }
        if files.is_none() {
            text.push_str("\n`-o DIR` writes each plan's experiment; `--json` has it as `experiment`.\n");
        }
    }
    let outgrown: Vec<String> =
        answer.outgrown.iter().map(|row| format!("{} ({})", row.because, row.source)).collect();
    section(&mut text, "What has outgrown md over hosts", &outgrown);
    section(&mut text, "What to take instead", &answer.instead);
    section(&mut text, "How far the first plan goes", &answer.reach);
    section(&mut text, "What would change the answer", &answer.changes);
    let have: Vec<String> = answer.have.iter().map(owned).collect();
    section(&mut text, "What is there", &have);
    if !answer.rejected.is_empty() {
        text.push_str("\nRejected\n");
        for rejected in &answer.rejected {
            let _infallible = writeln!(text, "{:>7}  {}", rejected.count, rejected.why);
            wrapped(&mut text, &format!("nearest: {}", rejected.nearest), 9);
        }
    }
    section(&mut text, "Notes", &answer.notes);
    section(&mut text, "Sources", &answer.sources);
    text
}

/// The need in a sentence.
fn asked(need: &Need) -> String {
    let mut words = vec![need.capacity.short()];
    let reads = format!("{}% reads", need.read_percent);
    words.extend(need.iops.map(|rate| format!("{} IOPS of {} ({reads})", format_iops(rate), need.bs)));
    words.extend(need.throughput.map(|rate| format!("{} sequential ({reads})", format_throughput(rate))));
    words.extend(need.lat_p99.map(|time| format!("p99 at most {}", format_latency(time.0 as f64))));
    if let Some(over) = need.over {
        words.push(format!("{} copies over {} hosts", over.copies, over.hosts));
    } else if need.may_lose > 0 {
        words.push(format!("any {} may be lost", volumes(need.may_lose)));
    }
    if need.hours_a_day < 24.0 {
        words.push(format!("{} a day", format_hours(need.hours_a_day)));
    }
    words.extend(need.budget_month.map(|budget| format!("at most ${budget} a month")));
    words.join(", ")
}

fn volumes(count: u32) -> String {
    ebbtide_model::units::format_count(count.into(), "volume")
}

/// The latency and the rate that it is of stand together, the most that there can be apart from them.
fn ranked(need: &Need, plans: &[Plan]) -> String {
    let at = need
        .iops
        .map_or_else(|| "p99 of one".to_owned(), |rate| format!("p99 at {} IOPS", format_iops(rate)));
    let mut rows =
        vec![["", "design", "$/month", &at, "most IOPS", "sequential", "limited by"].map(str::to_owned)];
    rows.extend(plans.iter().map(|plan| {
        let marked = |name, figure: String| match plan.in_burst.contains(&name) {
            true => format!("{figure}*"),
            false => figure,
        };
        // Of one unit, which is written once.
        let span = |of: &Interval, words: &dyn Fn(f64) -> String, unit: Option<&str>| {
            let alike = |unit| format_alike(of.ci_low, of.ci_high, unit);
            let (low, high) = unit.map_or_else(|| (words(of.ci_low), words(of.ci_high)), alike);
            if low == high { words(of.median) } else { format!("{} to {high}", without_unit(&high, &low)) }
        };
        [
            plan.rank.to_string(),
            format!("{} {}", plan.layout, kind(&plan.volumes)),
            price(plan),
            marked("lat_p99", span(&plan.lat_p99, &format_latency, None)),
            marked("iops", span(&plan.iops, &format_iops, Some(""))),
            marked("throughput", span(&plan.throughput, &format_throughput, Some("B/s"))),
            plan.limited_by.clone(),
        ]
    }));
    columns(&rows, 0)
}

/// Names of the volumes' types.
fn kind(volumes: &[Volumes]) -> String {
    let names: Vec<&str> = volumes
        .iter()
        .map(|one| match one.r#type.trim_start_matches("aws:") {
            "instance-store" => "local",
            name => name,
        })
        .collect();
    names.join("+")
}

/// US dollars a month; where the instance has no price in the catalogue, that it comes to it.
fn price(plan: &Plan) -> String {
    match plan.instance_month_usd {
        Some(instance) => format!("{:.2}", plan.price_month_usd + instance),
        None if plan.price_month_usd == 0.0 => "instance not priced".to_owned(),
        None if plan.instance.is_some() => format!("{:.2} + instance", plan.price_month_usd),
        None => format!("{:.2}", plan.price_month_usd),
    }
}

/// `4 x gp3 of 512GiB, 3.00 k IOPS, 131 MB/s each`.
fn ordered(volumes: &Volumes) -> String {
    let rates = [
        volumes.iops.map(|rate| format!("{} IOPS", format_iops(rate))),
        volumes.throughput.map(format_throughput),
    ];
    let rates: Vec<String> = rates.into_iter().flatten().collect();
    let each = if volumes.count > 1 { " each" } else { "" };
    format!("{} x {} of {}, {}{each}", volumes.count, volumes.r#type, volumes.size.short(), rates.join(", "))
}

fn detail(need: &Need, plan: &Plan, file: Option<&PathBuf>) -> String {
    let mut text = String::new();
    let volumes: Vec<String> = plan.volumes.iter().map(ordered).collect();
    let on = match (&plan.instance, plan.hosts) {
        (Some(instance), None) => format!(" on {instance}"),
        (Some(instance), Some(hosts)) => {
            format!(" on {hosts} storage hosts, which as the client are each {instance}")
        }
        (None, Some(hosts)) => format!(" on {hosts} storage hosts"),
        (None, None) => String::new(),
    };
    wrapped(&mut text, &format!("{}. {}: {}{on}", plan.rank, plan.design, volumes.join("; ")), 0);
    let of = |bounds: &[Bound], words: &dyn Fn(f64) -> String| {
        let least = |is_volumes: bool| {
            let own = together(bounds.iter().filter(|bound| bound.what.is_volumes() == is_volumes))?;
            let burst = own.burst.map_or(String::new(), |(burst, seconds)| {
                format!(" ({} in a burst of {})", words(burst), format_waiting(Nanos::from_secs_f64(seconds)))
            });
            let whose = if is_volumes { "volumes" } else { "instance" };
            Some(format!("{whose} {}{burst}", words(own.sustained)))
        };
        [least(true), least(false)].into_iter().flatten().collect::<Vec<_>>().join(", ")
    };
    let operations = of(&plan.iops_limits, &|rate| format!("{} IOPS", format_iops(rate)));
    let sequential = of(&plan.throughput_limits, &format_throughput);
    wrapped(&mut text, &format!("limits: {operations}; sequential: {sequential}"), 3);
    if let Some(hours) = plan.burst_hours_a_day {
        let line =
            format!("burst: what is needed comes from credits, which last {} a day", format_hours(hours));
        wrapped(&mut text, &line, 3);
    }
    if !plan.in_burst.is_empty() {
        let names = plan.in_burst.iter().map(|name| match *name {
            "iops" => "IOPS",
            "throughput" => "sequential",
            _ => "p99",
        });
        let names: Vec<&str> = names.collect();
        let line = format!("* {}: for {} a day", names.join(", "), format_hours(need.hours_a_day));
        wrapped(&mut text, &line, 3);
    }
    plan.remarks.iter().for_each(|remark| wrapped(&mut text, remark, 3));
    if let Some(instance) = plan.instance_month_usd {
        let whose = if plan.hosts.is_some() { "the hosts and the client" } else { "the instance" };
        let dollars = format!("${:.2} for the volumes, ${instance:.2} for {whose}", plan.price_month_usd);
        wrapped(&mut text, &dollars, 3);
    }
    if let Some(file) = file {
        let _infallible = writeln!(text, "   experiment: {}", file.shown());
    }
    text
}

fn owned(have: &ExistingVolumes) -> String {
    let volumes: Vec<String> = have.volumes.iter().map(ordered).collect();
    let costs = have.price_month_usd.map_or(String::new(), |price| format!(" (${price:.2} a month)"));
    let does = match have.short_of.as_slice() {
        [] => "does what is needed, by arithmetic".to_owned(),
        short => short.join("; "),
    };
    format!("{}{costs} as {}: {does}", volumes.join("; "), have.design)
}

/// `lines` below `title`; nothing where there are none.
fn section(text: &mut String, title: &str, lines: &[String]) {
    if lines.is_empty() {
        return;
    }
    let _infallible = writeln!(text, "\n{title}");
    lines.iter().for_each(|line| wrapped(text, line, 2));
}

/// `line` in lines of [`WIDTH`] columns, the first indented by `indent`, the others by two more.
pub(super) fn wrapped(text: &mut String, line: &str, indent: usize) {
    let mut length = 0;
    for word in one_line(line).split(' ') {
        let width = ebbtide_model::shown::width(word);
        if length == 0 {
            text.push_str(&" ".repeat(indent));
            length = indent;
        } else if length + 1 + width > WIDTH {
            text.push('\n');
            text.push_str(&" ".repeat(indent + 2));
            length = indent + 2;
        } else {
            text.push(' ');
            length += 1;
        }
        text.push_str(word);
        length += width;
    }
    text.push('\n');
}

/// Instance types side by side.
pub fn table(rows: &[Row], volume: &str, order: &VolumeOrder, count: u32, sources: &[&str]) -> String {
    let mut text = format!(
        "One {} of {} and {count} of them in RAID0, sustained (in a burst)\n\n",
        volume,
        order.size.short()
    );
    let heading =
        ["instance", "volumes", "read", "write", "read IOPS", "write IOPS", "limited by"].map(str::to_owned);
    let mut lines = vec![heading];
    for row in rows {
        let own = row.disks.iter().map(|cells| (cells, true));
        for (number, (cells, is_own)) in row.volumes.iter().map(|cells| (cells, false)).chain(own).enumerate()
        {
            let name = if number == 0 { row.instance.clone() } else { String::new() };
            lines.push(cells_of(name, cells, is_own));
        }
    }
    text.push_str(&columns(&lines, 0));
    text.push_str("\nEach instance towards all its volumes (EBS-optimized)\n");
    let heading = ["instance", "baseline", "", "burst", "", "lasts"].map(str::to_owned);
    let limits: Vec<[String; 6]> = std::iter::once(heading).chain(rows.iter().map(limits)).collect();
    text.push_str(&columns(&limits, 0));
    let sources: Vec<String> = sources.iter().map(|source| (*source).to_owned()).collect();
    section(&mut text, "Sources", &sources);
    text
}

/// An instance's limits: what it always has, and what for how long.
fn limits(row: &Row) -> [String; 6] {
    let none = String::new;
    let Some(LinkShape { throughput: Some(bytes), iops: Some(operations), .. }) = &row.link else {
        return [row.instance.clone(), "not known".to_owned(), none(), none(), none(), none()];
    };
    let iops = |rate| format!("{} IOPS", format_iops(rate));
    let time = bytes.burst_rate.or(operations.burst_rate).map_or_else(none, |_| {
        let seconds = |of: &Limit| Some(of.burst_credits / (of.burst_rate? - of.rate));
        seconds(bytes).or(seconds(operations)).map_or_else(none, |s| format_waiting(Nanos::from_secs_f64(s)))
    });
    [
        row.instance.clone(),
        format_throughput(bytes.rate),
        iops(operations.rate),
        bytes.burst_rate.map_or_else(none, format_throughput),
        operations.burst_rate.map_or_else(none, iops),
        time,
    ]
}

/// `other` without its unit where that is the one of `rate`: `81.2 MB/s` and `131 MB/s` give `131`.
fn without_unit<'a>(rate: &str, other: &'a str) -> &'a str {
    match (rate.split_once(' '), other.split_once(' ')) {
        (Some((_, unit)), Some((number, same))) if unit == same => number,
        _ => other,
    }
}

fn cells_of(name: String, cells: &Cells, is_own: bool) -> [String; 7] {
    let own = if is_own { " own" } else { "" };
    let what = match cells.layout {
        "single" => format!("1{own}"),
        layout => format!("{}{own} {layout}", cells.count),
    };
    let rate = |rate: &Option<Rate>, unit: &str| match rate {
        Some(rate) => {
            let (sustained, burst) = format_alike(rate.sustained, rate.burst.unwrap_or(rate.sustained), unit);
            match (rate.burst, burst.split_once(' ')) {
                (None, _) => sustained,
                (Some(_), Some((number, unit))) => {
                    format!("{} ({number}) {unit}", without_unit(&burst, &sustained))
                }
                (Some(_), None) => format!("{sustained} ({burst})"),
            }
        }
        None => "not known".to_owned(),
    };
    let bytes = |way: &Direction| rate(&way.throughput, "B/s");
    let operations = |way: &Direction| rate(&way.iops, "");
    let limited = cells.read.throughput.or(cells.read.iops).map_or(String::new(), |rate| {
        if rate.limited_by.is_volumes() { "volumes" } else { "instance" }.to_owned()
    });
    [
        name,
        what,
        bytes(&cells.read),
        bytes(&cells.write),
        operations(&cells.read),
        operations(&cells.write),
        limited,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebbtide_model::units::Bytes;

    #[test]
    fn long_lines_are_broken_between_words() {
        let mut text = String::new();
        wrapped(&mut text, &"word ".repeat(60), 3);
        assert!(text.lines().all(|line| line.len() <= 100 && line.starts_with("   ")), "{text}");
        assert_eq!(text.split_whitespace().count(), 60);
    }

    #[test]
    fn an_order_is_told_by_volume() {
        let one = Volumes {
            r#type: "aws:gp3".into(),
            count: 4,
            size: Bytes(512 << 30),
            iops: Some(3000.0),
            throughput: Some(131_072_000.0),
        };
        assert_eq!(ordered(&one), "4 x aws:gp3 of 512GiB, 3.00 k IOPS, 131 MB/s each");
    }
}
