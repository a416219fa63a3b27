//! What the data cannot tell, and which measurement would.

use super::cells::Cells;
use super::fit::Part;
use super::judge::hosts_of;
use super::observed::Observed;
use super::outcome::{Effect, Finding, Unanswered};

/// More names than this are counted.
const MOST_NAMES: usize = 4;

impl Unanswered {
    fn new(what: impl Into<String>, measure: impl Into<String>) -> Unanswered {
        Unanswered { what: what.into(), measure: measure.into() }
    }
}

/// Names in a sentence.
fn names<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let all: Vec<&str> = names.into_iter().collect();
    match all.len() {
        0 => String::new(),
        1 => all[0].to_owned(),
        2..=MOST_NAMES => format!("{} and {}", all[..all.len() - 1].join(", "), all[all.len() - 1]),
        more => format!("{} and {} others", all[..MOST_NAMES - 1].join(", "), more - MOST_NAMES + 1),
    }
}

/// The names of those of `effects` for which `of` holds, where there are any.
fn names_of(effects: &[Effect], of: fn(&Effect) -> bool) -> Option<String> {
    let mut found = effects.iter().filter(|effect| of(effect)).map(|effect| effect.name.as_str()).peekable();
    found.peek().is_some().then(|| names(found))
}

/// All that these data cannot tell.
pub(super) fn needs(
    observed: &Observed,
    cells: &Cells,
    parts: &[Part],
    volumes: &[Effect],
    hosts: &[Effect],
) -> Vec<Unanswered> {
    let mut needs = Vec::new();
    if parts.is_empty() {
        needs.push(match cells.visits.is_empty() {
            true => Unanswered::new(
                "no trial measured a volume alone, and the members of an array wait for each other",
                "give each volume a design of its own, with one member",
            ),
            false => Unanswered::new(
                "no volume was measured under a workload that all sessions have",
                "run the same workloads in every session, or name one that they share",
            ),
        });
        return needs;
    }
    if !cells.left_out.is_empty() {
        let of = cells.left_out.iter().map(|volume| observed.volumes[*volume].name.as_str());
        needs.push(Unanswered::new(
            format!("{}: not measured under every workload in some session, and left out of it", names(of)),
            "run that session again",
        ));
    }
    of_volumes(volumes, &mut needs);
    of_hosts(observed, cells, parts, hosts, &mut needs);
    needs
}

fn of_volumes(volumes: &[Effect], needs: &mut Vec<Unanswered>) {
    let which = |of: fn(&Effect) -> bool| names_of(volumes, of);
    if let Some(missing) = which(|effect| effect.visits == 0) {
        needs.push(Unanswered::new(
            format!("{missing}: no trial alone that counts"),
            "see with `ebb show` why its trials failed, and run them again",
        ));
    }
    if let Some(alone) = which(|effect| effect.visits > 0 && effect.others == 0) {
        needs.push(Unanswered::new(
            format!("{alone}: never measured beside another volume of the same kind on the same host in one session"),
            "attach another volume to that host, and measure both in one session",
        ));
    }
    if let Some(few) = which(|effect| effect.others > 0 && effect.finding == Finding::Untold) {
        needs.push(Unanswered::new(
            format!("{few}: too few rounds to know how sure the difference is"),
            "run more rounds (`trials_min` in [answer])",
        ));
    }
    if let Some(open) = which(|effect| effect.finding == Finding::Open) {
        needs.push(Unanswered::new(
            format!("{open}: the interval lies on both sides of the margin"),
            "run more rounds, or the same in another session",
        ));
    }
    if let Some(once) = which(|effect| effect.accused && effect.visits < 2) {
        needs.push(Unanswered::new(
            format!("{once}: seen in one session, so that a bad day is not told from a bad volume"),
            "run the same again on another day, and give both sessions",
        ));
    }
}

fn of_hosts(
    observed: &Observed,
    cells: &Cells,
    parts: &[Part],
    hosts: &[Effect],
    needs: &mut Vec<Unanswered>,
) {
    let slowest = |part: &Part| {
        let places = part.volumes.iter().zip(&part.of_volumes);
        let slowest = places.min_by(|a, b| a.1.total_cmp(b.1));
        slowest.map_or(String::new(), |(volume, _)| observed.volumes[*volume].name.clone())
    };
    if let [only] = &observed.hosts[..] {
        needs.push(Unanswered::new(
            format!("{only}: whether the host itself is slow, as no other was measured"),
            format!(
                "attach {} to another host, and measure it beside volumes of that host, in two sessions on each",
                parts.first().map_or(String::new(), slowest)
            ),
        ));
        return;
    }
    // The part in which hosts are compared.
    let Some(main) = parts.iter().min_by_key(|part| std::cmp::Reverse(hosts_of(part, cells).len())) else {
        return;
    };
    let compared = hosts_of(main, cells);
    let Some(one) = compared.keys().next() else { return };
    for (host, name) in observed.hosts.iter().enumerate().filter(|(host, _)| !compared.contains_key(host)) {
        let there = cells.visits.iter().any(|(_, of)| *of == host);
        let measure =
            format!("attach {} to {name} and measure it beside {name}'s own volumes", slowest(main));
        if there {
            let what = format!(
                "{name}: no volume was measured both there and on {}, so that volumes and hosts cannot be told apart",
                observed.hosts[*one]
            );
            needs.push(Unanswered::new(what, measure));
        } else {
            needs.push(Unanswered::new(format!("{name}: no volume was measured there"), measure));
        }
    }
    let which = |of: fn(&Effect) -> bool| names_of(hosts, of);
    if let Some(once) = which(|effect| effect.others > 0 && effect.finding == Finding::Untold) {
        needs.push(Unanswered::new(
            format!(
                "{once}: measured in one session, or compared with a host that was, so that a bad day is not told from a bad host"
            ),
            "measure each host in two sessions or more, best on different days",
        ));
    }
    if let Some(open) = which(|effect| effect.finding == Finding::Open) {
        needs.push(Unanswered::new(
            format!("{open}: the interval lies on both sides of the margin"),
            "measure each host in more sessions, with the same volumes on several of them",
        ));
    }
}
