//! Members by name, by range `vol[0..7]` and by glob `vol*`.

use super::error::{Mistake, Problem};
use super::names::nearest;
use super::volumes::{Group, Volumes};

/// The volumes that `text` stands for, in order. `Err(None)` when they are of a heading whose own mistake
/// has been reported.
pub(super) fn resolve_names(text: &str, volumes: &Volumes) -> Result<Vec<usize>, Option<Problem>> {
    if let Some(index) = volumes.index.get(text) {
        return Ok(vec![*index]);
    }
    if text.contains(['*', '?']) {
        return glob(text, volumes);
    }
    if text.contains(['[', '{']) || text.contains("..") {
        return range(text, volumes);
    }
    Err(unknown(text, volumes))
}

fn glob(pattern: &str, volumes: &Volumes) -> Result<Vec<usize>, Option<Problem>> {
    let matched: Vec<usize> =
        (0..volumes.list.len()).filter(|index| matches(pattern, &volumes.list[*index].name)).collect();
    if !matched.is_empty() {
        return Ok(matched);
    }
    if volumes.groups.iter().any(|group| group.volumes.is_none()) {
        return Err(None);
    }
    let remedy = format!("write a pattern that matches some of {}", overview(volumes));
    Err(Some(Mistake::UnknownName { what: "volume that matches", name: pattern.to_owned() }.with(remedy)))
}

/// Whether `name` matches `pattern`, in which `*` is any text and `?` any character.
fn matches(pattern: &str, name: &str) -> bool {
    // Iterative, with one step back to the last `*`: no input makes it slow or deep.
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        if p < pattern.len() && pattern[p] == '*' {
            star = Some((p, n));
            p += 1;
        } else if p < pattern.len() && (pattern[p] == '?' || pattern[p] == name[n]) {
            p += 1;
            n += 1;
        } else if let Some((star_p, star_n)) = star {
            p = star_p + 1;
            n = star_n + 1;
            star = Some((star_p, n));
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

/// `NAME[FIRST..LAST]`, both ends included.
fn range(text: &str, volumes: &Volumes) -> Result<Vec<usize>, Option<Problem>> {
    let parsed = text.strip_suffix(']').and_then(|text| text.split_once('[')).and_then(|(name, inside)| {
        let (first, last) = inside.split_once("..")?;
        Some((name, first.parse::<u32>().ok()?, last.parse::<u32>().ok()?))
    });
    let Some((name, first, last)) = parsed else {
        let mistake = Mistake::WrongUnit { found: text.to_owned(), expected: "a range of volumes" };
        return Err(Some(mistake.with("write a range as \"vol[0..7]\", both ends included")));
    };
    if first > last {
        let remedy =
            format!("write \"{name}[{last}..{first}]\", or name the volumes one by one in the order wanted");
        let mistake = Mistake::WrongUnit { found: text.to_owned(), expected: "a range that ascends" };
        return Err(Some(mistake.with(remedy)));
    }
    // Ends at the first number that no volume has, however long the range is.
    let mut indices = Vec::new();
    for number in first..=last {
        match volumes.index.get(&format!("{name}{number}")) {
            Some(index) => indices.push(*index),
            None => {
                let group = volumes.groups.iter().find(|group| group.name == name);
                return Err(match group {
                    Some(Group { volumes: None, .. }) => None,
                    Some(group) if group.counted => Some(beyond(name, number, first, group)),
                    _ => unknown(&format!("{name}{number}"), volumes),
                });
            }
        }
    }
    Ok(indices)
}

/// The volume `number` is beyond what the heading's `count` makes.
fn beyond(name: &str, number: u32, first: u32, group: &Group) -> Problem {
    let count = group.volumes.as_ref().map_or(0, Vec::len) as u32;
    let remedy = match first < count {
        true => format!(
            "`count = {count}` makes {name}0 to {name}{}: write \"{name}[{first}..{}]\"",
            count - 1,
            count - 1
        ),
        false => format!("`count = {count}` makes {name}0 to {name}{}", count.saturating_sub(1)),
    };
    Mistake::UnknownName { what: "volume", name: format!("{name}{number}") }.with(remedy)
}

/// No volume has this name.
fn unknown(name: &str, volumes: &Volumes) -> Option<Problem> {
    let group = volumes.groups.iter().find(|group| group.name == name);
    if volumes.groups.iter().any(|group| group.volumes.is_none() && name.starts_with(&group.name)) {
        return None;
    }
    let remedy = match group {
        Some(group) => format!("`[volumes.{name}]` makes {}: write {}", span_of(group), all_of(group)),
        None => match nearest(name, volumes.index.keys().map(String::as_str)) {
            Some(nearest) => format!("write \"{nearest}\"; the volumes are {}", overview(volumes)),
            None if volumes.index.is_empty() => format!("write a table `[volumes.{name}]`"),
            None => format!("the volumes are {}", overview(volumes)),
        },
    };
    Some(Mistake::UnknownName { what: "volume", name: name.to_owned() }.with(remedy))
}

/// `vol0 to vol7`.
fn span_of(group: &Group) -> String {
    match group.volumes.as_deref() {
        Some([first, .., last]) => format!("{first} to {last}"),
        Some([only]) => only.clone(),
        _ => group.name.clone(),
    }
}

/// The text that stands for all volumes of a heading.
fn all_of(group: &Group) -> String {
    match group.volumes.as_deref() {
        Some([_, .., last]) => format!("\"{0}[0..{1}]\"", group.name, last[group.name.len()..].to_owned()),
        _ => format!("\"{}\"", span_of(group)),
    }
}

/// All volumes in short.
fn overview(volumes: &Volumes) -> String {
    let groups: Vec<String> = volumes.groups.iter().take(8).map(span_of).collect();
    let more = if volumes.groups.len() > 8 { ", ..." } else { "" };
    groups.join(", ") + more
}
