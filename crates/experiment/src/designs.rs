//! `[designs.NAME]`: the candidate arrays.

use super::array::RawArray;
use super::error::Mistake;
use super::names;
use super::read::{Given, Named, required};
use super::stack;
use super::volumes::Volumes;
use super::walk::Walk;
use crate::problems::{Problems, Span};
use ebbtide_model::experiment::Design;
use ebbtide_model::units::Bytes;

/// Checks the designs but the one called `left_out`; each with its capacity where the file says the size of all its volumes.
pub(super) fn resolve(
    raw: &Given<Named<RawArray>>,
    left_out: Option<&str>,
    volumes: &Volumes,
    file_start: &Span,
    problems: &mut Problems,
) -> Vec<(Design, Option<Bytes>)> {
    let mut designs = Vec::new();
    let section = ("the experiment", file_start);
    let Some((Named(entries), span)) = required(raw, "designs", "[designs.stripe-8]", section, problems)
    else {
        return designs;
    };
    if entries.is_empty() {
        let remedy = "write a table `[designs.NAME]` with `layout` and `members`";
        problems.report(span, Mistake::Nothing("there are no designs".to_owned()), remedy);
    }
    for entry in entries {
        names::check(&entry.name, "a design", &entry.span, problems);
        let Some(array) = entry.value.as_ref().filter(|_| left_out != Some(entry.name.as_str())) else {
            continue;
        };
        designs.extend(design(&entry.name, &entry.name, array, &entry.span, volumes, problems));
    }
    designs
}

/// Checks one design, which messages call `told`; with its capacity where the file says the size of all its volumes.
pub(super) fn design(
    name: &str,
    told: &str,
    array: &RawArray,
    place: &Span,
    volumes: &Volumes,
    problems: &mut Problems,
) -> Option<(Design, Option<Bytes>)> {
    let mut walk = Walk::new(told, volumes, problems);
    let layout = walk.array(array, &format!("design `{told}`"), place);
    let cache = walk.cache(array);
    let swap = walk.swap(&array.swap);
    let stack = stack::stack(array, std::mem::take(&mut walk.arrays), (cache, swap), problems);
    let layout = layout?;
    let capacity = layout.capacity(&volumes.sizes);
    Some((Design { name: name.to_owned(), layout, stack }, capacity))
}
