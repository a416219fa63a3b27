//! What came of the cases, as a line each and as the table of docs/explanation/verdict-accuracy.md.

use super::draw::CLASSES;
use super::judge::{Counted, Judged, Outcome};
use ebbtide_analysis::VerdictKind;
use std::fmt::Write as _;

/// The command in the page's markers.
pub const COMMAND: &str = "verdicts --real";

fn names(kinds: &[VerdictKind]) -> String {
    kinds.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(" ")
}

fn gains(judged: &Judged) -> String {
    let each = judged.case.causes.iter().zip(&judged.gains);
    let each = each.map(|(cause, gain)| format!(" [without {}: x{gain:.2}]", cause.kind().name()));
    each.chain(judged.ahead.then(|| " [ahead of others]".to_owned())).collect()
}

/// A case and what came of it, on a line.
pub fn line(judged: &Judged) -> String {
    let case = &judged.case;
    let came = match &judged.outcome {
        Outcome::Counted(counted) => {
            let how = if counted.is_right() {
                "right"
            } else if counted.is_wrong() {
                "WRONG"
            } else {
                "UNKNOWN"
            };
            let invented = if counted.invented { " INVENTED" } else { "" };
            let want =
                if counted.is_right() { String::new() } else { format!(" for {}", names(&counted.right)) };
            let unnamed: Vec<VerdictKind> =
                counted.there.iter().copied().filter(|kind| !counted.named.contains(kind)).collect();
            let without = match unnamed.as_slice() {
                [_, ..] if counted.is_right() => format!(" without {}", names(&unnamed)),
                _ => String::new(),
            };
            let says = if counted.is_right() { String::new() } else { format!(": {}", counted.sentence) };
            let why_not: String = counted.why_not.iter().map(|why| format!("\n        not {why}")).collect();
            let is = counted.figures.iter().filter(|_| !counted.is_right());
            let is: String = is.map(|figures| format!("\n        is {figures}")).collect();
            let says = says + &is + &why_not;
            format!("{how}{invented} {}{without}{want}{says}", names(&counted.named))
        }
        Outcome::Void(why) => format!("void: {why}"),
        Outcome::Moved(rate) => {
            format!("disturbed: others moved {:.0} MB/s on the disk", rate / 1e6)
        }
        Outcome::Stole(share) => {
            format!("disturbed: the hypervisor took {:.0}% of the processors' time", share * 100.0)
        }
        Outcome::Failed(why) => format!("FAILED: {why}"),
    };
    format!(
        "{} {} ({case}): {came}{} (others {:.0}%)",
        case.class,
        case.seed,
        gains(judged),
        judged.others * 100.0
    )
}

/// The table with its sums, and what was not right.
pub fn table(judged: &[Judged]) -> String {
    let mut out = String::from(
        "| class | cases | right | unknown | wrong | named first |\n| --- | ---: | ---: | ---: | ---: | --- |\n",
    );
    for (class, ..) in CLASSES {
        let row: Vec<&Counted> = counted(judged, class).collect();
        if row.is_empty() {
            continue;
        }
        let right = row.iter().filter(|case| case.is_right()).count();
        let wrong = row.iter().filter(|case| case.is_wrong()).count();
        let _ = writeln!(
            out,
            "| {class} | {} | {right} | {} | {wrong} | {} |",
            row.len(),
            row.len() - right - wrong,
            firsts(&row)
        );
    }
    let all: Vec<&Counted> = CLASSES.iter().flat_map(|(class, ..)| counted(judged, class)).collect();
    let share = |count: usize| format!("{count} ({:.1}%)", count as f64 / all.len().max(1) as f64 * 100.0);
    let right = all.iter().filter(|case| case.is_right()).count();
    let wrong = all.iter().filter(|case| case.is_wrong()).count();
    let invented = all.iter().filter(|case| case.invented).count();
    let _ = writeln!(
        out,
        "\n{} cases: the first verdict is right in {}, names another cause in {} and none in {}. Any verdict, also below the\n\
         first, names a cause that is not there in {}.",
        all.len(),
        share(right),
        share(wrong),
        share(all.len() - right - wrong),
        share(invented)
    );
    let of_several = judged.iter().filter(|one| one.case.causes.len() > 1);
    let mixed: Vec<&Counted> = of_several.filter_map(Judged::counted).collect();
    if !mixed.is_empty() {
        let both: Vec<&&Counted> = mixed.iter().filter(|counted| counted.there.len() > 1).collect();
        let all_named = |counted: &&&&Counted| counted.there.iter().all(|kind| counted.named.contains(kind));
        let named = both.iter().filter(all_named).count();
        let _ = writeln!(
            out,
            "Two causes were made in {} cases, and both held the load back in {}: of these both are named in {named}.",
            mixed.len(),
            both.len()
        );
    }
    let number = |of: fn(&Outcome) -> bool| judged.iter().filter(|one| of(&one.outcome)).count();
    let void = number(|outcome| matches!(outcome, Outcome::Void(_)));
    let moved = number(|outcome| matches!(outcome, Outcome::Moved(_)));
    let stolen = number(|outcome| matches!(outcome, Outcome::Stole(_)));
    let failed = number(|outcome| matches!(outcome, Outcome::Failed(_)));
    let ahead = judged.iter().filter(|one| one.ahead).count();
    let mut others: Vec<f64> = judged.iter().map(|one| one.others).collect();
    others.sort_by(f64::total_cmp);
    let middle = others.get(others.len() / 2).copied().unwrap_or(0.0);
    let _ = writeln!(
        out,
        "Not counted: {void} whose cause turned out not to be there, {moved} during which others moved more than 100 MB/s on\n\
         the disk, {stolen} during which the hypervisor took more than 5% of the processors' time, {failed} that could not be run. Others used {:.0}% of the processors around the case in the middle; {ahead} cases ran\n\
         ahead of them.",
        middle * 100.0
    );
    let missed: Vec<&Judged> =
        judged.iter().filter(|one| one.counted().is_some_and(|c| !c.is_right() || c.invented)).collect();
    if !missed.is_empty() {
        out.push_str("\n| not right | truth | verdicts |\n| --- | --- | --- |\n");
        for (one, counted) in missed.iter().filter_map(|one| Some((one, one.counted()?))) {
            let case = &one.case;
            let (right, named) = (names(&counted.right), names(&counted.named));
            let _ = writeln!(out, "| {} {}: {case} | {right} | {named} |", case.class, case.seed);
        }
    }
    out
}

impl Judged {
    fn counted(&self) -> Option<&Counted> {
        match &self.outcome {
            Outcome::Counted(counted) => Some(counted),
            _ => None,
        }
    }
}

fn counted<'a>(judged: &'a [Judged], class: &'a str) -> impl Iterator<Item = &'a Counted> {
    judged.iter().filter(move |one| one.case.class == class).filter_map(Judged::counted)
}

/// Which verdicts came first, the most frequent one first.
fn firsts(row: &[&Counted]) -> String {
    let mut found = std::collections::BTreeMap::<&str, usize>::new();
    row.iter()
        .filter_map(|case| case.named.first())
        .for_each(|kind| *found.entry(kind.name()).or_default() += 1);
    let mut found: Vec<_> = found.into_iter().collect();
    found.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    found.iter().map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ")
}
