//! Names: which are possible, and what a name that nobody knows was probably meant to be.

use super::error::Problem;
use crate::problems::{Problems, Span};

/// Names that users choose: they appear in file names, tables, CSV and on command lines.
pub(super) const PATTERN: &str = "^[A-Za-z0-9][A-Za-z0-9._+-]{0,63}$";

/// Reports `name` unless it matches [`PATTERN`].
pub(super) fn check(name: &str, what: &'static str, span: &Span, problems: &mut Problems) {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._+-".contains(c);
    let possible =
        name.len() <= 64 && name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(plain);
    if !possible {
        let remedy = "write 1 to 64 letters, digits and . _ + -, beginning with a letter or digit".to_owned();
        problems.report(span, Problem::BadName { what, name: name.to_owned(), remedy });
    }
}

/// The candidate that `name` was probably meant to be.
pub(super) fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower = name.to_lowercase();
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&lower, &candidate.to_lowercase()), candidate))
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, candidate)| *distance <= 1 + candidate.chars().count() / 4)
        .map(|(_, candidate)| candidate)
}

/// "write `a`" when one of `choices` is near, otherwise "write one of a, b, c".
pub(super) fn choose(name: &str, choices: &[&str]) -> String {
    match nearest(name, choices.iter().copied()) {
        Some(choice) => format!("write `{choice}`"),
        None => format!("write one of {}", choices.join(", ")),
    }
}

/// An unknown key in a section that has `keys`.
pub(super) fn unknown_key(key: &str, section: &'static str, keys: &[&'static str]) -> Problem {
    let remedy = match meant(key, keys) {
        Some(meant) => {
            let remark = familiar(key)
                .filter(|familiar| familiar.here == meant)
                .map_or("", |familiar| familiar.remark);
            format!("write `{meant}`{remark}")
        }
        None => format!("remove it; the keys of {section} are {}", keys.join(", ")),
    };
    Problem::UnknownKey { key: key.to_owned(), section, remedy }
}

/// Which of `keys` the unknown `key` was probably meant to be.
pub(super) fn meant(key: &str, keys: &[&'static str]) -> Option<&'static str> {
    let familiar = familiar(key).map(|familiar| familiar.here).filter(|here| keys.contains(here));
    familiar.or_else(|| nearest(key, keys.iter().copied()))
}

/// A key of fio, mdadm or LVM, and what it is called here.
struct Familiar {
    here: &'static str,
    remark: &'static str,
}

fn familiar(key: &str) -> Option<Familiar> {
    let (here, remark) = match key {
        "readwrite" => ("rw", ""),
        "blocksize" => ("bs", ""),
        "io_size" => ("size", ""),
        "filesize" => ("span", ", the part of the array that is used"),
        "ramp" | "warm_up" | "warmup" => ("ramp_time", ""),
        "time_based" => ("runtime", " alone: it always bounds the trial"),
        "buffered" => ("direct", ": `buffered = true` is `direct = false`"),
        "rwmixwrite" => ("rwmixread", ", the share of reads in percent"),
        "arrival" => ("rate_process", ""),
        "level" | "raid" | "raid_level" | "type" => {
            ("layout", ", for example `layout = \"stripe\"` for RAID0")
        }
        "stripesize" | "stripe_size" | "chunk_size" | "chunksize" => ("chunk", ", the bytes on one member"),
        "devices" | "volumes" | "raid-devices" | "raid_devices" => ("members", ", a list of volume names"),
        "filename" | "path" => ("file", " for an existing file, `directory` for new ones"),
        "bandwidth" | "bw" => ("throughput", ", for example \"125MB/s\""),
        "trials" | "repeats" | "rounds" => ("trials_min", " and `trials_max`"),
        "confidence" => ("level", ""),
        _ => return None,
    };
    Some(Familiar { here, remark })
}
