//! The keys of a design that say what the kernel builds beside the layout.

use super::array::{RawArray, RawEncryption};
use super::error::Mistake;
use super::members::resolve_names;
use super::read::{Choice, Given, Section, required, valid};
use super::volumes::{Volumes, multiple_of_block};
use crate::problems::{Problems, Span};
use ebbtide_model::layout::{Arrangement, ArrayKind, LayoutNode};
use ebbtide_model::stack::{
    ArrayBacking, Backing, Bitmap, Cache, ConsistencyPolicy, Encryption, EncryptionFormat, Metadata, Stack,
    Swap,
};
use ebbtide_model::units::Bytes;
use std::ops::RangeInclusive;
use std::path::PathBuf;

/// Largest readahead and request: far above what any kernel takes.
const TUNABLE_MAX: Bytes = Bytes(Bytes::GIB);
/// The kernel's least `nr_requests` (`BLKDEV_MIN_RQ`).
const QUEUE_DEPTH_MIN: u32 = 4;

/// The word that was given.
pub(super) fn chosen<T: Copy>(given: &Given<Choice<T>>) -> Option<T> {
    valid(given).map(|(choice, _)| choice.0)
}

/// Reports a key that is given and means nothing where it stands.
pub(super) fn pointless<T>(
    given: &Given<T>,
    key: &'static str,
    holds: bool,
    why: &str,
    remedy: &str,
    problems: &mut Problems,
) {
    if let Some(at) = given.as_ref().filter(|_| holds) {
        problems.pointless(&at.span, key, why, remedy);
    }
}

/// How the array `kind` over `members` is built.
pub(super) fn backing(
    raw: &RawArray,
    kind: ArrayKind,
    members: &[LayoutNode],
    volumes: &Volumes,
    problems: &mut Problems,
) -> ArrayBacking {
    let backing = chosen(&raw.backing);
    if backing == Some(Backing::Lvm)
        && let Some(at) = &raw.backing
    {
        lvm_builds(kind, members.len(), &at.span, problems);
    }
    let lvm = backing == Some(Backing::Lvm);
    let (why, remedy) = ("LVM does not have it", "remove it, or write `backing = \"md\"`");
    pointless(&raw.metadata, "metadata", lvm, why, remedy, problems);
    pointless(&raw.bitmap, "bitmap", lvm, why, remedy, problems);
    pointless(&raw.write_mostly, "write_mostly", lvm, why, remedy, problems);
    let why = format!("a {} array has nothing to resync", kind.name());
    pointless(&raw.bitmap, "bitmap", !lvm && !kind.facts().is_redundant(), &why, "remove it", problems);
    let mirror = kind == ArrayKind::Mirror;
    let why = "only a mirror can read from its other members";
    pointless(&raw.write_mostly, "write_mostly", !lvm && !mirror, why, "remove it", problems);
    let raid5 = matches!(kind, ArrayKind::Raid5 { .. });
    let policy = chosen(&raw.consistency_policy);
    if lvm || !raid5 {
        raid5_only(raw, problems);
    }
    let has_bitmap = chosen(&raw.bitmap) == Some(Bitmap::Internal);
    let why = "an array with a bitmap resyncs what that says";
    pointless(&raw.consistency_policy, "consistency_policy", has_bitmap, why, "remove one of them", problems);
    let old = policy == Some(ConsistencyPolicy::Ppl) && chosen(&raw.metadata) == Some(Metadata::V090);
    let why = "metadata 0.90 has no place for the log";
    pointless(&raw.consistency_policy, "consistency_policy", old, why, "remove `metadata`", problems);
    if lvm || kind.facts().parity() == 0 {
        parity_only(raw, problems);
    }
    ArrayBacking {
        backing,
        metadata: chosen(&raw.metadata),
        bitmap: chosen(&raw.bitmap),
        write_mostly: write_mostly(raw, members, volumes, problems),
        consistency_policy: policy,
        stripe_cache_size: within(
            &raw.stripe_cache_size,
            "stripe_cache_size",
            ArrayBacking::STRIPE_CACHE,
            "4096",
            problems,
        ),
        group_thread_cnt: within(
            &raw.group_thread_cnt,
            "group_thread_cnt",
            0..=ArrayBacking::THREADS_MAX,
            "4",
            problems,
        ),
        elsewhere: Vec::new(),
    }
}

/// Reports keys that only md's arrays with parity have.
pub(super) fn parity_only(raw: &RawArray, problems: &mut Problems) {
    let why = "only md's raid5 and raid6 have it";
    pointless(&raw.stripe_cache_size, "stripe_cache_size", true, why, "remove it", problems);
    pointless(&raw.group_thread_cnt, "group_thread_cnt", true, why, "remove it", problems);
}

/// Reports the key that only md's RAID5 has.
pub(super) fn raid5_only(raw: &RawArray, problems: &mut Problems) {
    let why = "md has it for raid5 only";
    pointless(&raw.consistency_policy, "consistency_policy", true, why, "remove it", problems);
}

/// A number that the kernel takes.
fn within(
    given: &Given<u32>,
    key: &'static str,
    range: RangeInclusive<u32>,
    example: &str,
    problems: &mut Problems,
) -> Option<u32> {
    let (number, span) = valid(given).map(|(number, span)| (*number, span))?;
    if range.contains(&number) {
        return Some(number);
    }
    let remedy = format!("write for example `{key} = {example}`");
    problems.out_of_range(span, key, number, format!("from {} to {}", range.start(), range.end()), remedy);
    None
}

/// Reports an array that LVM cannot build.
pub(super) fn lvm_builds(kind: ArrayKind, members: usize, span: &Span, problems: &mut Problems) {
    let two_near = |chosen| chosen == (2, Arrangement::Near) && members.is_multiple_of(2);
    let why = match kind.copies() {
        Some(chosen) if !two_near(chosen) => "LVM's raid10 has 2 near copies on an even number of members",
        _ if kind.chunk().is_some_and(|chunk| !chunk.0.is_power_of_two()) => {
            "LVM's stripe size is a power of two"
        }
        // The default extent size, to which the plan keeps.
        _ if kind.chunk().is_some_and(|chunk| chunk.0 > 4 * Bytes::MIB) => {
            "LVM's stripe size is at most one extent, 4MiB"
        }
        _ => return,
    };
    problems.report(span, Mistake::Geometry(why.to_owned()), "change the array, or write `backing = \"md\"`");
}

pub(super) fn write_mostly(
    raw: &RawArray,
    members: &[LayoutNode],
    volumes: &Volumes,
    problems: &mut Problems,
) -> Vec<usize> {
    let Some((text, span)) = valid(&raw.write_mostly) else { return Vec::new() };
    let chosen = match resolve_names(text, volumes) {
        Ok(chosen) => chosen,
        Err(problem) => {
            problem.into_iter().for_each(|problem| problems.add(span, problem));
            return Vec::new();
        }
    };
    let stranger = chosen.iter().find(|volume| !members.contains(&LayoutNode::Volume(**volume)));
    let (what, remedy) = if let Some(volume) = stranger {
        let name = &volumes.list[*volume].name;
        (format!("volume `{name}` is no member of this array"), "name members of this very array")
    } else if chosen.len() >= members.len() {
        ("nobody is left to read from".to_owned(), "leave out the members that reads should go to")
    } else {
        return chosen;
    };
    problems.report(span, Mistake::Geometry(what), remedy);
    Vec::new()
}

/// Keys that only a whole design has.
const OF_DESIGNS: [&str; 9] = [
    "cache",
    "encryption",
    "filesystem",
    "mount_options",
    "readahead",
    "scheduler",
    "queue_depth",
    "max_sectors",
    "swap",
];

/// Reports those of a nested array.
pub(super) fn refuse_nested(raw: &RawArray, problems: &mut Problems) {
    for (key, span) in raw.given().filter(|(key, _)| OF_DESIGNS.contains(key)) {
        let remedy = "write it directly below `[designs.NAME]`";
        problems.pointless(span, key, "it belongs to a whole design", remedy);
    }
}

/// What a design has on top of and around its arrays, which are `arrays`, those of `swap` last.
pub(super) fn stack(
    raw: &RawArray,
    arrays: Vec<ArrayBacking>,
    (cache, swap): (Option<Cache>, Vec<Swap>),
    problems: &mut Problems,
) -> Stack {
    let why = "there is no file system to mount";
    let remedy = "write also for example `filesystem = \"xfs\"`";
    pointless(&raw.mount_options, "mount_options", raw.filesystem.is_none(), why, remedy, problems);
    Stack {
        directory: None,
        arrays,
        cache,
        encryption: encryption(raw, problems),
        filesystem: chosen(&raw.filesystem),
        mount_options: plain_word(&raw.mount_options, "mount_options", "\"noatime\"", problems),
        readahead: tunable(&raw.readahead, "readahead", problems),
        scheduler: plain_word(&raw.scheduler, "scheduler", "\"mq-deadline\"", problems),
        queue_depth: queue_depth(&raw.queue_depth, problems),
        max_sectors: tunable(&raw.max_sectors, "max_sectors", problems),
        swap,
    }
}

/// The priority of swap spaces.
pub(super) fn priority(given: &Given<u32>, problems: &mut Problems) -> Option<u32> {
    let (priority, span) = valid(given).map(|(priority, span)| (*priority, span))?;
    if priority > Swap::PRIORITY_MAX {
        let range = format!("at most {}", Swap::PRIORITY_MAX);
        problems.out_of_range(span, "priority", priority, range, "write for example `priority = 10`");
        return None;
    }
    Some(priority)
}

fn encryption(raw: &RawArray, problems: &mut Problems) -> Option<Encryption> {
    let (raw, span) = valid(&raw.encryption)?;
    let section = ("`encryption`", span);
    required(&raw.format, "format", "format = \"luks2\"", section, problems);
    let format = chosen(&raw.format);
    let example = "key_file = \"/root/ebb.key\"";
    if raw.key.is_some() {
        let (why, remedy) = ("the key is asked for", "remove it, or remove `key`");
        pointless(&raw.key_file, "key_file", true, why, remedy, problems);
        valid(&raw.key)?;
        return encrypted(raw, format?, None, problems);
    }
    let (key_file, at) = required(&raw.key_file, "key_file", example, section, problems)?;
    if key_file.is_empty() || key_file.starts_with('-') || key_file.contains(char::is_control) {
        let remedy = format!("write for example `{example}`");
        problems.report(at, Mistake::BadName { what: "a key file", name: key_file.clone() }, remedy);
        return None;
    }
    encrypted(raw, format?, Some(key_file.into()), problems)
}

fn encrypted(
    raw: &RawEncryption,
    format: EncryptionFormat,
    key_file: Option<PathBuf>,
    problems: &mut Problems,
) -> Option<Encryption> {
    let sector_size = valid(&raw.sector_size).map(|(size, span)| (*size, span));
    if let Some((size, span)) = sector_size.filter(|(size, _)| !Encryption::SECTOR_SIZES.contains(size)) {
        let range = format!("one of {}", Encryption::SECTOR_SIZES.map(|size| size.to_string()).join(", "));
        problems.out_of_range(span, "sector_size", size, range, "write for example `sector_size = 4096`");
        return None;
    }
    let given = |key: &Given<bool>| valid(key).is_some_and(|(given, _)| *given);
    Some(Encryption {
        format,
        key_file,
        no_read_workqueue: given(&raw.no_read_workqueue),
        no_write_workqueue: given(&raw.no_write_workqueue),
        sector_size: sector_size.map(|(size, _)| size),
    })
}

/// A text without blanks that no program takes for an option.
fn plain_word(
    given: &Given<String>,
    key: &'static str,
    example: &str,
    problems: &mut Problems,
) -> Option<String> {
    let (text, span) = valid(given)?;
    let plain = |c: char| c.is_ascii_graphic();
    if text.is_empty() || text.starts_with('-') || !text.chars().all(plain) {
        let remedy = format!("write for example `{key} = {example}`, without blanks");
        problems.report(span, Mistake::BadName { what: key, name: text.clone() }, remedy);
        return None;
    }
    Some(text.clone())
}

/// A size that the kernel takes in whole pages.
fn tunable(given: &Given<Bytes>, key: &'static str, problems: &mut Problems) -> Option<Bytes> {
    let (size, span) = valid(given).map(|(size, span)| (*size, span))?;
    if size > TUNABLE_MAX {
        let remedy = format!("write for example `{key} = \"4MiB\"`");
        problems.out_of_range(span, key, size, format!("at most {TUNABLE_MAX}"), remedy);
        return None;
    }
    // No readahead at all is possible, and not a multiple that the check below would take.
    (size.0 == 0 && key == "readahead" || multiple_of_block(key, size, span, problems)).then_some(size)
}

fn queue_depth(given: &Given<u32>, problems: &mut Problems) -> Option<u32> {
    let (depth, span) = valid(given).map(|(depth, span)| (*depth, span))?;
    if depth < QUEUE_DEPTH_MIN {
        let range = format!("at least {QUEUE_DEPTH_MIN}, the kernel's least");
        problems.out_of_range(span, "queue_depth", depth, range, "write for example `queue_depth = 256`");
        return None;
    }
    Some(depth)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebbtide_model::stack::{CacheKind, CacheMode, Filesystem};

    const EVERY_KEY: &str = include_str!("testdata/every-key.toml");

    #[test]
    fn every_key_reaches_the_stack() {
        let experiment = crate::parse(EVERY_KEY, "test").unwrap_or_else(|errors| panic!("{errors}"));
        let stack = |name| experiment.designs.iter().find(|d| d.name == name).map(|d| d.stack.clone());
        let array = ArrayBacking {
            backing: None,
            metadata: Some(Metadata::V10),
            bitmap: Some(Bitmap::Internal),
            write_mostly: vec![1],
            ..ArrayBacking::default()
        };
        let members = [5, 6].map(LayoutNode::Volume).to_vec();
        let mirror = LayoutNode::Array { kind: ArrayKind::Mirror, members };
        let expected = Stack {
            directory: None,
            // The second is that of the swap space.
            arrays: vec![array, ArrayBacking::default()],
            encryption: Some(Encryption {
                format: EncryptionFormat::Luks2,
                key_file: Some("/root/ebb.key".into()),
                no_read_workqueue: true,
                no_write_workqueue: true,
                sector_size: Some(4096),
            }),
            filesystem: Some(Filesystem::Xfs),
            mount_options: Some("noatime,logbsize=256k".into()),
            readahead: Some(Bytes(4 * Bytes::MIB)),
            scheduler: Some("mq-deadline".into()),
            queue_depth: Some(512),
            max_sectors: Some(Bytes(Bytes::MIB)),
            cache: None,
            swap: vec![
                Swap { members: vec![LayoutNode::Volume(2), LayoutNode::Volume(3)], priority: Some(10) },
                Swap { members: vec![mirror], priority: None },
            ],
        };
        assert_eq!(stack("kernel"), Some(expected.clone()));
        assert_eq!(expected.kernel_only().len(), 11);
        let lvm = stack("lvm").unwrap_or_default();
        assert_eq!(lvm.arrays[0].backing, Some(Backing::Lvm));
        let cache = Cache { members: vec![4], kind: CacheKind::Cache, mode: CacheMode::Writeback };
        assert_eq!((lvm.cache.as_ref(), lvm.kernel_only()), (Some(&cache), vec!["cache"]));
        // An array comes before the arrays among its members.
        assert_eq!(stack("mirrors").map(|stack| stack.arrays.len()), Some(3));
    }

    /// What is wrong with a design of these lines, with the remedies.
    fn wrong(lines: &str) -> String {
        let text = format!(
            "name = \"n\"\n[volumes.v]\ncount = 4\nsize = \"1GiB\"\n[designs.d]\n{lines}\n\
             [workloads.w]\nrw = \"read\"\nruntime = \"1s\"\n"
        );
        crate::parse(&text, "test").map_or_else(|errors| errors.to_string(), |_| "nothing".to_owned())
    }

    #[test]
    fn a_mistake_is_told_with_its_remedy() {
        let stripe = "layout = \"stripe\"\nmembers = [\"v*\"]\n";
        let mirror = "layout = \"mirror\"\nmembers = [\"v*\"]\n";
        let three = "layout = \"stripe\"\nmembers = [\"v[0..2]\"]\n";
        let raid5 = "layout = \"raid5\"\nmembers = [\"v*\"]\n";
        let lvm = format!("{three}backing = \"lvm\"\n");
        for (lines, told) in [
            (format!("{stripe}backing = \"lvm2\""), "write `lvm`"),
            (format!("{stripe}filesystem = \"ntfs\""), "write one of ext4, xfs"),
            (format!("{stripe}mount_options = \"noatime\""), "no file system to mount"),
            (format!("{stripe}filesystem = \"xfs\"\nmount_options = \"-o x\""), "without blanks"),
            (format!("{stripe}readahead = \"3k\""), "multiple of 4KiB"),
            (format!("{stripe}readahead = \"8GiB\""), "at most 1GiB"),
            (format!("{stripe}queue_depth = 1"), "at least 4"),
            (format!("{stripe}bitmap = \"internal\""), "nothing to resync"),
            (format!("{stripe}write_mostly = \"v0\""), "only a mirror"),
            (format!("{mirror}write_mostly = \"v*\""), "nobody is left to read from"),
            (format!("{mirror}backing = \"lvm\"\nmetadata = \"1.2\""), "LVM does not have it"),
            (format!("{stripe}chunk = \"96k\"\nbacking = \"lvm\""), "power of two"),
            (format!("{three}cache = {{ members = [\"v3\"], kind = \"cache\" }}"), "write also `backing = \"lvm\"`"),
            (
                format!("{three}backing = \"md\"\ncache = {{ members = [\"v3\"], kind = \"cache\" }}"),
                "write also `backing = \"lvm\"`",
            ),
            (format!("{lvm}cache = {{ members = [\"v3\"] }}"), "has no `kind`"),
            (format!("{lvm}cache = {{ kind = \"cache\" }}"), "has no `members`"),
            (format!("{lvm}cache = {{ members = [], kind = \"cache\" }}"), "no members"),
            (format!("{lvm}cache = {{ members = [\"v2\"], kind = \"cache\" }}"), "used twice"),
            (format!("{lvm}cache = {{ members = [\"v3\"], kind = \"cache\", mode = \"fast\" }}"), "writethrough"),
            (
                format!("{lvm}cache = {{ members = [\"v3\"], kind = \"writecache\", mode = \"writethrough\" }}"),
                "writecache always writes back",
            ),
            (
                format!("{lvm}cache = {{ members = [{{ layout = \"linear\", members = [\"v3\"] }}], kind = \"cache\" }}"),
                "the members of a cache are volumes",
            ),
            (format!("{stripe}encryption = {{ format = \"luks2\" }}"), "has no `key_file`"),
            (format!("{stripe}encryption = {{ format = \"luks2\", key_file = \"-\" }}"), "key_file = "),
            (format!("{stripe}encryption = {{ format = \"luks2\", key = \"secret\" }}"), "write one of prompt"),
            (
                format!("{stripe}encryption = {{ format = \"luks2\", key = \"prompt\", key_file = \"/k\" }}"),
                "the key is asked for",
            ),
            (
                format!("{stripe}encryption = {{ format = \"luks2\", key_file = \"/k\", sector_size = 8192 }}"),
                "one of 512, 1024, 2048, 4096",
            ),
            (format!("{stripe}stripe_cache_size = 4096"), "only md's raid5 and raid6"),
            (format!("{raid5}backing = \"lvm\"\ngroup_thread_cnt = 4"), "only md's raid5 and raid6"),
            (format!("{raid5}stripe_cache_size = 16"), "from 17 to 32768"),
            (format!("{raid5}group_thread_cnt = 8193"), "from 0 to 8192"),
            (format!("{raid5}consistency_policy = \"journal\""), "write one of resync, ppl"),
            (format!("{raid5}consistency_policy = \"ppl\"\nbitmap = \"internal\""), "with a bitmap"),
            (format!("{raid5}consistency_policy = \"ppl\"\nmetadata = \"0.90\""), "no place for the log"),
            (format!("{mirror}consistency_policy = \"resync\""), "for raid5 only"),
            (format!("{three}swap = {{ members = [\"v3\"] }}"), "a list of swap spaces"),
            (format!("{three}swap = [{{ members = [\"v2\"] }}]"), "used twice"),
            (format!("{three}swap = [{{ members = [\"v3\"], priority = 32768 }}]"), "at most 32767"),
            (format!("{three}swap = [{{ priority = 1 }}]"), "has no `members`"),
            (format!("{three}swap = [{{ members = [] }}]"), "no members"),
            (
                "layout = \"linear\"\nmembers = [{ layout = \"linear\", members = [\"v0\"], swap = [] }]".to_owned(),
                "directly below `[designs.NAME]`",
            ),
            (
                "layout = \"raid10\"\nbacking = \"lvm\"\narrangement = \"far\"\nmembers = [\"v*\"]".to_owned(),
                "2 near copies",
            ),
            (
                "layout = \"linear\"\nmembers = [{ layout = \"stripe\", members = [\"v*\"], filesystem = \"xfs\" }]"
                    .to_owned(),
                "directly below `[designs.NAME]`",
            ),
        ] {
            let said = wrong(&lines);
            assert!(said.contains(told), "{lines}\n{told}: {said}");
        }
        assert_eq!(wrong(&format!("{stripe}readahead = 0")), "nothing");
    }
}
