//! `[designs.NAME]`: the candidate arrays.

use super::array::RawArray;
use super::error::Mistake;
use super::names;
use super::read::{Given, Named, entries, required};
use super::read::{Section, valid};
use super::stack;
use super::volumes::Volumes;
use super::walk::Walk;
use super::workloads::RawWorkload;
use crate::problems::{Problems, Span};
use ebbtide_model::experiment::{Design, Volume, VolumeSource};
use ebbtide_model::layout::LayoutNode;
use ebbtide_model::stack::Stack;
use ebbtide_model::units::Bytes;
use std::path::PathBuf;

/// The file of a directory's design, where it does not say.
const FILE_DEFAULT: Bytes = Bytes(Bytes::GIB);
/// The same where programs alone use the directory.
const FILE_UNUSED: Bytes = Bytes(1 << 20);

/// Whether `raw` has a design that is a directory.
pub(super) fn any_directory(raw: &Given<Named<RawArray>>) -> bool {
    let arrays = entries(raw).iter();
    arrays.filter_map(|entry| entry.value.as_ref()).any(|array| array.directory.is_some())
}

/// Gives each design that is a directory a volume of its own name: a file in it.
pub(super) fn add_directories(
    raw: &Given<Named<RawArray>>,
    workloads: &Given<Named<RawWorkload>>,
    volumes: &mut Volumes,
    problems: &mut Problems,
) {
    let loads = entries(workloads).iter();
    let programs_alone = loads.filter_map(|entry| entry.value.as_ref()).all(|load| load.program.is_some());
    for entry in entries(raw) {
        let Some(array) = &entry.value else { continue };
        let Some((directory, span)) = valid(&array.directory) else { continue };
        if !directory.starts_with('/') {
            let what = format!("`{directory}` is no absolute path");
            problems.report(span, Mistake::Geometry(what), "write the directory from / on");
        }
        if volumes.index.contains_key(&entry.name) {
            let mistake = Mistake::Duplicate { what: "volume", name: entry.name.clone() };
            problems.report(
                &entry.span,
                mistake,
                "a directory's file is a volume of its design's name: choose another",
            );
            continue;
        }
        let by_default = if programs_alone { FILE_UNUSED } else { FILE_DEFAULT };
        let size = valid(&array.size).map_or(by_default, |(size, _)| *size);
        let source = VolumeSource::NewFile { directory: Some(PathBuf::from(directory)) };
        volumes.index.insert(entry.name.clone(), volumes.list.len());
        volumes.sizes.push(Some(size));
        volumes.list.push(Volume::new(entry.name.clone(), source, Some(size)));
    }
}

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
    if let Some((directory, _)) = valid(&array.directory) {
        let beside = array.given().find(|(key, _)| !matches!(*key, "directory" | "size"));
        if let Some((key, span)) = beside {
            let remedy = "remove it: the directory is measured as it stands";
            problems.report(span, Mistake::Conflict { first: "directory", second: key }, remedy);
        }
        let volume = *volumes.index.get(name)?;
        let capacity = volumes.sizes.get(volume).copied().flatten();
        let directory = Some(PathBuf::from(directory));
        let layout = LayoutNode::Volume(volume);
        let stack = Stack { directory, ..Stack::default() };
        return Some((Design { name: name.to_owned(), layout, stack }, capacity));
    }
    if let Some(size) = &array.size {
        problems.pointless(&size.span, "size", "the members have sizes", "remove it, or write `directory`");
    }
    let mut walk = Walk::new(told, volumes, problems);
    let layout = walk.array(array, &format!("design `{told}`"), place);
    let cache = walk.cache(array);
    let swap = walk.swap(&array.swap);
    let stack = stack::stack(array, std::mem::take(&mut walk.arrays), (cache, swap), problems);
    let layout = layout?;
    let capacity = layout.capacity(&volumes.sizes);
    Some((Design { name: name.to_owned(), layout, stack }, capacity))
}
