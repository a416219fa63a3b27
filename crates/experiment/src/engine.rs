//! The keys of a workload that say how the engine runs on the host, in fio's words.

use super::error::Problem;
use super::names;
use super::read::valid;
use super::workloads::RawWorkload;
use crate::problems::Problems;
use ebbtide_model::workload::{EngineOptions, IoEngine, cpu_list};

/// Checks the engine's keys of a workload on `ioengine` with or without O_DIRECT.
pub(super) fn options(
    raw: &RawWorkload,
    ioengine: Option<IoEngine>,
    direct: bool,
    problems: &mut Problems,
) -> EngineOptions {
    for (key, given) in [("hipri", &raw.hipri), ("sqthread_poll", &raw.sqthread_poll)] {
        if let (Some((true, span)), Some(IoEngine::Psync)) = (valid(given), ioengine) {
            let (why, remedy) =
                ("psync has no ring".to_owned(), "write `ioengine = \"io_uring\"`, or remove it".to_owned());
            problems.report(span, Problem::Pointless { key, why, remedy });
        }
    }
    if let (Some((true, span)), false) = (valid(&raw.hipri), direct) {
        let why = "completions are polled with O_DIRECT only".to_owned();
        let remedy = "write `direct = true`, or remove it".to_owned();
        problems.report(span, Problem::Pointless { key: "hipri", why, remedy });
    }
    EngineOptions {
        cpus_allowed: cpus(raw, problems),
        nice: nice(raw, problems),
        huge_pages: huge_pages(raw, problems),
        hipri: valid(&raw.hipri).is_some_and(|(hipri, _)| *hipri),
        sqthread_poll: valid(&raw.sqthread_poll).is_some_and(|(poll, _)| *poll),
    }
}

fn cpus(raw: &RawWorkload, problems: &mut Problems) -> Vec<u32> {
    let Some((text, span)) = valid(&raw.cpus_allowed) else { return Vec::new() };
    cpu_list(text).unwrap_or_else(|_| {
        let (found, expected) = (text.clone(), "a list of CPUs");
        let remedy = "write numbers and ranges, for example \"0-3,6\"".to_owned();
        problems.report(span, Problem::WrongUnit { found, expected, remedy });
        Vec::new()
    })
}

fn nice(raw: &RawWorkload, problems: &mut Problems) -> Option<i32> {
    let (nice, span) = valid(&raw.nice)?;
    if !(-20..=19).contains(nice) {
        let (found, range) = (nice.to_string(), "from -20 (first) to 19 (last)".to_owned());
        let remedy = "write for example `nice = 10`".to_owned();
        problems.report(span, Problem::OutOfRange { key: "nice", found, range, remedy });
    }
    Some(*nice)
}

fn huge_pages(raw: &RawWorkload, problems: &mut Problems) -> bool {
    match valid(&raw.iomem).map(|(iomem, span)| (iomem.as_str(), span)) {
        None | Some(("malloc", _)) => false,
        Some(("mmaphuge", _)) => true,
        Some((other, span)) => {
            let (found, remedy) = (other.to_owned(), names::choose(other, &["malloc", "mmaphuge"]));
            problems.report(span, Problem::UnknownChoice { what: "iomem", found, remedy });
            false
        }
    }
}
