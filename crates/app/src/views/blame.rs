//! Whose fault it is, as text.

use super::plan::wrapped;
use ebbtide_analysis::attribution::{
    ArrayResult, Attribution, Basis, Effect, Finding, Gain, SessionData, Spread,
};
use ebbtide_analysis::evidence::value_of;
use ebbtide_model::metric::Metric;
use ebbtide_model::shown::aligned;
use ebbtide_model::units::{format_count, format_iops, format_throughput};
use std::fmt::Write;

/// Of more volumes than this only the slowest are shown.
const MOST_ROWS: usize = 24;

/// What `ebb blame` prints for people.
pub fn attribution(
    sessions: usize,
    read: &SessionData,
    attribution: &Attribution,
    gains: &[(usize, Gain)],
) -> String {
    let mut text = String::new();
    wrapped(&mut text, &headline(attribution), 0);
    let _infallible = writeln!(
        text,
        "\n{} on {}, {}, {} of single volumes ({}).\nSpeeds are those against the median of the others; all intervals hold together \
         with {:.0}%.\nWho is slower by more than {:.0}%, with the whole interval, is at fault.",
        format_count(attribution.volumes.len() as u64, "volume"),
        format_count(attribution.hosts.len() as u64, "host"),
        format_count(sessions as u64, "session"),
        format_count(attribution.trials as u64, "trial"),
        read.workloads.join(", "),
        attribution.level * 100.0,
        attribution.margin * 100.0,
    );
    effects(&mut text, "volume", &attribution.volumes);
    effects(&mut text, "host", &attribution.hosts);
    varies(&mut text, attribution);
    if !gains.is_empty() {
        text.push_str("\nWhat an array would gain\n");
    }
    for (number, gain) in gains {
        let reached: Vec<String> = read.arrays[*number].reached.iter().map(reached).collect();
        let now = if reached.is_empty() { String::new() } else { format!(" Now: {}.", reached.join(", ")) };
        let line = format!(
            "{} ({} volumes): {:.2} times as fast ({:.2}–{:.2}) with {} replaced by {}, as long as nothing but its \
             volumes limits it.{now}",
            gain.array,
            gain.members,
            gain.ratio,
            gain.ci_low,
            gain.ci_high,
            list(&gain.replaced),
            if gain.replaced.len() == 1 { "a typical volume" } else { "typical volumes" },
        );
        wrapped(&mut text, &line, 2);
    }
    if !attribution.needs.is_empty() {
        text.push_str("\nWhat these data do not tell\n");
    }
    for need in &attribution.needs {
        wrapped(&mut text, &format!("{}.", need.what), 2);
        wrapped(&mut text, &format!("To tell: {}.", need.measure), 4);
    }
    text
}

/// The answer in a sentence or two.
pub fn headline(attribution: &Attribution) -> String {
    let named = |of: &[Effect], is: &dyn Fn(&Effect) -> bool| -> Vec<String> {
        of.iter().filter(|effect| effect.accused && is(effect)).map(|effect| effect.name.clone()).collect()
    };
    let again = named(&attribution.volumes, &|volume| volume.visits > 1);
    let once = named(&attribution.volumes, &|volume| volume.visits < 2);
    let hosts = named(&attribution.hosts, &|_| true);
    let hosts_cleared =
        attribution.hosts.len() > 1 && attribution.hosts.iter().all(|host| host.finding == Finding::Cleared);
    let words =
        |names: &[String]| if names.len() == 1 { ("is", "was", "it") } else { ("are", "were", "them") };
    let mut sentences = Vec::new();
    if !again.is_empty() {
        let (are, _, them) = words(&again);
        let place = if hosts_cleared { " wherever measured" } else { "" };
        sentences.push(format!("{} {are} slow{place}: replace {them}.", list(&again)));
    }
    if !once.is_empty() {
        let (_, were, them) = words(&once);
        sentences.push(format!(
            "{} {were} slow in the one session that measured {them}, which may have been a bad day: measure {them} again on another \
             before you replace {them}.",
            list(&once)
        ));
    }
    if !hosts.is_empty() {
        let are = if hosts.len() == 1 { "is" } else { "are" };
        sentences.push(format!("{} {are} slow whatever volumes are attached.", list(&hosts)));
    } else if !sentences.is_empty() && attribution.hosts.len() > 1 {
        let cleared = if hosts_cleared {
            "No host is at fault."
        } else {
            "No host is accused, but not every one is cleared."
        };
        sentences.push(cleared.to_owned());
    }
    if sentences.is_empty() {
        sentences.push(match (attribution.is_told(), attribution.hosts.len()) {
            (true, 0 | 1) => "No volume is at fault.".to_owned(),
            (true, _) => "Nobody is at fault: all volumes and hosts are within the margin.".to_owned(),
            (false, _) => "Nobody is accused, and these data do not clear everybody.".to_owned(),
        });
    }
    sentences.join(" ")
}

fn list(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

/// A table of volumes or hosts, the slowest first.
fn effects(text: &mut String, what: &str, effects: &[Effect]) {
    if effects.is_empty() {
        return;
    }
    let mut order: Vec<&Effect> = effects.iter().collect();
    let speed = |effect: &Effect| effect.effect.unwrap_or(f64::MAX);
    order.sort_by(|a, b| speed(a).total_cmp(&speed(b)));
    let head = [what, "speed", "95% interval", "sessions", ""].map(str::to_owned);
    let row = |effect: &&Effect| {
        let interval = effect.ci_low.zip(effect.ci_high);
        [
            effect.name.clone(),
            effect.effect.map_or("-".to_owned(), |effect| format!("{effect:.2}")),
            interval.map_or("-".to_owned(), |(low, high)| format!("{low:.2}–{high:.2}")),
            effect.visits.to_string(),
            match effect.finding {
                Finding::Accused => "slow",
                Finding::Cleared => "",
                Finding::Open => "not decided",
                Finding::Untold => "cannot be told",
            }
            .to_owned(),
        ]
    };
    let rows: Vec<[String; 5]> = std::iter::once(head).chain(order.iter().take(MOST_ROWS).map(row)).collect();
    let _infallible = write!(text, "\n{}", aligned(&rows, 2, &[1, 2, 3]));
    if let more @ 1.. = order.len().saturating_sub(MOST_ROWS) {
        let _infallible = writeln!(text, "  ... and {more} more, faster than these; --json lists them all.");
    }
}

/// The components of variance.
fn varies(text: &mut String, attribution: &Attribution) {
    let rows = [
        ("from volume to volume", attribution.volume_spread),
        ("from host to host", attribution.host_spread),
        ("from session to session", attribution.time.sessions),
        ("from round to round, all volumes together", attribution.time.rounds),
        ("the rest, from trial to trial", attribution.residual),
    ];
    let shown = |(what, spread): (&str, Option<Spread>)| {
        let percent = |share: f64| format!("{:.1}", share * 100.0);
        let spread = spread?;
        let interval = spread.ci_low.zip(spread.ci_high);
        let interval =
            interval.map_or(String::new(), |(low, high)| format!("{}–{}%", percent(low), percent(high)));
        Some([what.to_owned(), format!("{}%", percent(spread.sd)), interval])
    };
    let found: Vec<[String; 3]> = rows.into_iter().filter_map(shown).collect();
    if found.is_empty() {
        return;
    }
    let head = ["how speeds vary", "std dev", "95% interval"].map(str::to_owned);
    let rows: Vec<[String; 3]> = std::iter::once(head).chain(found).collect();
    let _infallible = write!(text, "\n{}", aligned(&rows, 2, &[1, 2]));
    let basis = match attribution.basis {
        Basis::Sessions => "Intervals of volumes rest on how they differ between sessions",
        Basis::Rounds => "Intervals of volumes rest on how they differ between rounds",
    };
    let correlated = match attribution.time.correlation {
        r if r > 0.0 => format!("; neighbouring rounds correlate by {r:.2}"),
        _ => String::new(),
    };
    let _infallible = writeln!(text, "  {basis}{correlated}.");
}

fn reached(reached: &ArrayResult) -> String {
    let value = match reached.metric {
        Metric::Throughput => format_throughput(reached.median),
        Metric::Iops => format!("{} IOPS", format_iops(reached.median)),
        metric => format!("{} {}", value_of(metric, reached.median), metric.name()),
    };
    format!("{value} under {}", reached.workload)
}
