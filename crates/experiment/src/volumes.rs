//! `[volumes.NAME]`: what the arrays are built from.

use super::error::Mistake;
use super::names;
use super::paths::Paths;
use super::read::{At, Entry, Given, Named, required, valid};
use super::shapes::resolve_shape;
use super::typed::Figures;
use super::volume_keys::RawVolume;
use crate::problems::{Problems, Span};
use ebbtide_model::experiment::{Volume, VolumeSource};
use ebbtide_model::rbd::Image;
use ebbtide_model::units::Bytes;
use ebbtide_model::volume::LinkShape;
use std::collections::HashMap;
use std::path::PathBuf;

/// O_DIRECT on disks of 4096-byte blocks needs sizes and chunks that are multiples of it.
pub(super) const BLOCK: u64 = 4096;

/// Most volumes of one `count`: far above what any instance attaches.
const COUNT_MAX: u32 = 1024;

/// Most volumes of one experiment.
const VOLUMES_MAX: usize = 4096;

/// Which volumes a heading stands for, known even when its content is wrong.
#[derive(Debug)]
pub(super) struct Group {
    /// Name in the heading: `data` of `[volumes.data]`.
    pub name: String,
    /// Names of its volumes; nothing when `count` is wrong, so that nobody complains about them.
    pub volumes: Option<Vec<String>>,
    /// Whether it has a `count`.
    pub counted: bool,
}

/// All volumes by name.
#[derive(Debug, Default)]
pub(super) struct Volumes {
    /// The volumes that are right.
    pub list: Vec<Volume>,
    /// The headings in the order of the file.
    pub groups: Vec<Group>,
    /// Index of every volume by its name.
    pub index: HashMap<String, usize>,
    /// Usable size of every volume, where the file says it.
    pub sizes: Vec<Option<Bytes>>,
}

/// Checks the volumes; `links` are the shared links by name.
pub(super) fn resolve(
    raw: &Given<Named<RawVolume>>,
    links: &[LinkShape],
    figures: &Figures<'_>,
    file_start: &Span,
    problems: &mut Problems,
) -> Volumes {
    let mut volumes = Volumes::default();
    let example = "[volumes.vol]";
    let Some((Named(entries), span)) =
        required(raw, "volumes", example, ("the experiment", file_start), problems)
    else {
        return volumes;
    };
    if entries.is_empty() {
        let remedy = format!("write a table `{example}`");
        problems.report(span, Mistake::Nothing("there are no volumes".to_owned()), remedy);
    }
    let mut paths = HashMap::new();
    for entry in entries {
        names::check(&entry.name, "a volume", &entry.span, problems);
        add(entry, links, figures, &mut paths, &mut volumes, problems);
    }
    volumes
}

/// Adds the volumes of one heading.
fn add(
    entry: &Entry<RawVolume>,
    links: &[LinkShape],
    figures: &Figures<'_>,
    paths: &mut HashMap<String, String>,
    volumes: &mut Volumes,
    problems: &mut Problems,
) {
    let Some(raw) = &entry.value else {
        volumes.groups.push(Group { name: entry.name.clone(), volumes: None, counted: false });
        return;
    };
    let several = match valid(&raw.device) {
        Some((Paths::Several(paths), _)) => Some(paths.len() as u32),
        _ => None,
    };
    let count = several.or_else(|| count(raw, problems));
    let counted = raw.count.is_some() || several.is_some();
    let names: Option<Vec<String>> = count.map(|count| match counted {
        true => (0..count).map(|number| format!("{}{number}", entry.name)).collect(),
        false => vec![entry.name.clone()],
    });
    let sources = sources(raw, entry, paths, problems);
    let size = size(raw, entry, problems);
    let host = valid(&raw.host).map(|(host, span)| {
        names::check(host, "a host", span, problems);
        host.clone()
    });
    let own = valid(&raw.shape).and_then(|(shape, span)| resolve_shape(shape, span, links, size, problems));
    let (shape, ordered) = figures.shape(raw, size, own, problems);
    if names.as_ref().is_some_and(|names| names.len() + volumes.list.len() > VOLUMES_MAX) {
        let what = format!("the experiment has more than {VOLUMES_MAX} volumes");
        problems.report(&entry.span, Mistake::Geometry(what), "write fewer");
        volumes.groups.push(Group { name: entry.name.clone(), volumes: None, counted });
        return;
    }
    for (name, source) in names.iter().flatten().zip(sources.iter().cycle()) {
        if volumes.index.contains_key(name) {
            let remedy =
                format!("`{}` has it already; choose another name for one of them", owner(volumes, name));
            problems.report(&entry.span, Mistake::Duplicate { what: "volume", name: name.clone() }, remedy);
            continue;
        }
        volumes.index.insert(name.clone(), volumes.list.len());
        volumes.sizes.push(size);
        let (shape, ordered, host) = (shape.clone(), ordered.clone(), host.clone());
        volumes.list.push(Volume { name: name.clone(), source: source.clone(), size, shape, ordered, host });
    }
    volumes.groups.push(Group { name: entry.name.clone(), volumes: names, counted });
}

/// The heading that has made the volume `name`.
fn owner(volumes: &Volumes, name: &str) -> String {
    let made = |group: &&Group| group.volumes.iter().flatten().any(|volume| volume == name);
    volumes.groups.iter().find(made).map_or(String::new(), |group| format!("[volumes.{}]", group.name))
}

fn count(raw: &RawVolume, problems: &mut Problems) -> Option<u32> {
    let Some(given) = &raw.count else { return Some(1) };
    let count = given.value?;
    if !(1..=COUNT_MAX).contains(&count) {
        let remedy = "write how many volumes to make, for example `count = 8`";
        problems.out_of_range(&given.span, "count", count, format!("from 1 to {COUNT_MAX}"), remedy);
        return None;
    }
    Some(count)
}

fn size(raw: &RawVolume, entry: &Entry<RawVolume>, problems: &mut Problems) -> Option<Bytes> {
    if raw.size.is_none() {
        if raw.file.is_none() && raw.device.is_none() {
            let section = format!("volume `{}`, a new file,", entry.name);
            problems.missing(&entry.span, "size", section, "size = \"256MiB\"");
        }
        return None;
    }
    let (size, span) = valid(&raw.size)?;
    // Decimal sizes are no whole blocks: what is beyond the last one is not used, as on a disk that ends within a block.
    let whole = Bytes(size.0 / BLOCK * BLOCK);
    let enough = if whole.0 == 0 { *size } else { whole };
    multiple_of_block("size", enough, span, problems).then_some(whole)
}

/// Reports a size that is zero or not a multiple of [`BLOCK`]; whether it is right.
pub(super) fn multiple_of_block(
    key: &'static str,
    size: Bytes,
    span: &Span,
    problems: &mut Problems,
) -> bool {
    if size.0 != 0 && size.0.is_multiple_of(BLOCK) {
        return true;
    }
    let lower = Bytes((size.0 / BLOCK * BLOCK).max(BLOCK));
    let remedy = match size.0 {
        0 => "write more than nothing".to_owned(),
        below if below < BLOCK => format!("write \"{lower}\" or a multiple of it"),
        _ => format!("write \"{lower}\", the nearest below"),
    };
    problems.out_of_range(span, key, size, "a multiple of 4KiB, at least one", remedy);
    false
}

/// Where the bytes of the volumes of `entry` are: one place for each, or one that is as good for all.
fn sources(
    raw: &RawVolume,
    entry: &Entry<RawVolume>,
    known: &mut HashMap<String, String>,
    problems: &mut Problems,
) -> Vec<VolumeSource> {
    let of_text = |at: &At<String>| (at.span.clone(), at.value.clone().map(|path| vec![path]));
    let of_paths = |at: &At<Paths>| (at.span.clone(), at.value.as_ref().map(|paths| paths.all().to_vec()));
    let given = [
        ("directory", raw.directory.as_ref().map(of_text)),
        ("file", raw.file.as_ref().map(of_text)),
        ("device", raw.device.as_ref().map(of_paths)),
    ];
    let mut chosen: Option<(&'static str, Vec<String>, Span)> = None;
    let mut first: Option<&'static str> = None;
    for (key, value) in given {
        let Some((span, value)) = value else { continue };
        if let Some(first) = first {
            let remedy = "keep one of `directory` (new files), `file` (an existing one) and `device`";
            problems.report(&span, Mistake::Conflict { first, second: key }, remedy);
            continue;
        }
        first = Some(key);
        chosen = value.map(|paths| (key, paths, span));
    }
    if let (Some((_, span)), None) = (valid(&raw.id), &raw.device) {
        let remedy = "write `device = \"/dev/disk/by-id/...\"` with it, or remove it";
        problems.pointless(span, "id", "only a block device has a stable id", remedy);
    }
    let Some((key, paths, span)) = chosen else { return vec![VolumeSource::NewFile { directory: None }] };
    if let (Some((id, at)), [_, _, ..]) = (valid(&raw.id), paths.as_slice()) {
        let why = format!("`{id}` is the id of one device, and there are several");
        let remedy = "name the devices by their paths below /dev/disk/by-id, which are their ids";
        problems.pointless(at, "id", why, remedy);
    }
    paths.iter().map(|path| source(raw, entry, (key, path, &span), known, problems)).collect()
}

/// The volume at `path`, which `key` gives.
fn source(
    raw: &RawVolume,
    entry: &Entry<RawVolume>,
    (key, path, span): (&'static str, &String, &Span),
    known: &mut HashMap<String, String>,
    problems: &mut Problems,
) -> VolumeSource {
    let device = || {
        match Image::named(path) {
        Ok(None) if !path.starts_with("/dev/") => Some((
            "the path of a device",
            "write its path below /dev, for example \"/dev/disk/by-id/nvme-...\", or \"rbd:POOL/IMAGE\" for an image of Ceph; a regular file is given \
             by `file = `"
                .to_owned(),
        )),
        Ok(_) => None,
        Err(error) => Some(("an image of Ceph", error.remedy)),
    }
    };
    let wrong = match key {
        _ if path.is_empty() => Some(("a path", "write a path".to_owned())),
        "device" => device(),
        _ => None,
    };
    if let Some((expected, remedy)) = wrong {
        problems.report(span, Mistake::WrongUnit { expected, found: path.clone() }, remedy);
    }
    if key != "directory" {
        if let Some(count) = &raw.count {
            let several = matches!(valid(&raw.device), Some((Paths::Several(_), _)));
            let (why, remedy) = match (several, key) {
                (true, _) => ("there are as many volumes as devices", "remove it"),
                (false, "device") => {
                    ("`device` is one volume", "write a list or a range: `device = \"/dev/nvme[1..24]n1\"`")
                }
                (false, _) => {
                    ("`file` is one volume", "write one table `[volumes.NAME]` for each, without `count`")
                }
            };
            problems.pointless(&count.span, "count", why, remedy);
        }
        if let Some(other) = known.insert(path.clone(), entry.name.clone()) {
            let what = if key == "file" { "file" } else { "device" };
            let remedy = format!("volume `{other}` has it already; give each volume a path of its own");
            problems.report(span, Mistake::Duplicate { what, name: path.clone() }, remedy);
        }
    }
    let path_buf = PathBuf::from(path);
    match key {
        "directory" => VolumeSource::NewFile { directory: Some(path_buf) },
        "file" => VolumeSource::ExistingFile { path: path_buf },
        _ => VolumeSource::Device { path: path_buf, id: valid(&raw.id).map(|(id, _)| id.clone()) },
    }
}
