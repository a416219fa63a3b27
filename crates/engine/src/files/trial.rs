//! One trial: a design and a workload become a target of the engine.

use super::volume::OpenVolume;
use crate::clock::Clock;
use crate::error::EngineError;
use crate::job::TICK;
use crate::target::{Target, TargetMember};
use ebbtide_door::Access;
use ebbtide_model::backend::{BackendError, Control, TrialFailure};
use ebbtide_model::experiment::Design;
use ebbtide_model::layout::{LayoutNode, Map};
use ebbtide_model::samples::TrialSamples;
use ebbtide_model::schedule::Trial;
use ebbtide_model::units::{Bytes, Instant, Nanos};
use ebbtide_model::workload::Workload;
use rustix::fs::Advice;
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A target: a design's members, opened for workloads of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Key {
    /// Index of the design.
    design: usize,
    access: Access,
}

impl Key {
    pub(super) fn new(workload: &Workload, trial: &Trial) -> Key {
        Key { design: trial.design, access: access(workload) }
    }
}

/// How `workload` has the members opened.
pub(super) fn access(workload: &Workload) -> Access {
    Access { write: workload.writes(), direct: workload.direct, sync: workload.sync }
}

/// Opens what `workload` needs of `design`, unless an earlier trial has.
pub(super) fn open_target(
    volumes: &[Option<OpenVolume>],
    targets: &mut HashMap<Key, Target>,
    design: &Design,
    workload: &Workload,
    trial: &Trial,
) -> Result<(), BackendError> {
    let members = members(design, volumes)?;
    for member in &members {
        member.check()?;
    }
    let key = Key::new(workload, trial);
    if let std::collections::hash_map::Entry::Vacant(unknown) = targets.entry(key) {
        unknown.insert(open(&members, &over_members(&design.layout), key)?);
    }
    Ok(())
}

/// Runs `workload` on `design`, whose target is open.
pub(super) fn run(
    volumes: &[Option<OpenVolume>],
    targets: &HashMap<Key, Target>,
    design: &Design,
    workload: &Workload,
    trial: &Trial,
    control: &Control,
) -> Result<TrialSamples, TrialFailure> {
    let members = members(design, volumes)?;
    let target = targets
        .get(&Key::new(workload, trial))
        .ok_or_else(|| BackendError::Other(format!("design {} is not open", design.name)))?;
    if !workload.direct && !workload.details.keep_cache {
        forget_cached(target);
    }
    let ran = crate::run(target, workload, trial.seed, control);
    settle(target, control);
    let samples = ran?;
    // A file that was removed meanwhile goes on answering through its open descriptor: such a trial is no result.
    for member in &members {
        member.check()?;
    }
    Ok(samples)
}

/// Longest wait for what shaped volumes still have, as long as for devices.
const SETTLE_MOST: Nanos = Nanos::from_secs(20);

/// Waits until the shaped members of `target` would have done what they were given, as a device has: what comes next does not
/// queue behind it.
fn settle(target: &Target, control: &Control) {
    let clock = Clock::get();
    let idle = target.members.iter().filter_map(|member| Some(member.shaper.as_ref()?.idle_from())).max();
    let until = idle.map_or(Instant::START, |idle| idle.min(clock.now() + SETTLE_MOST));
    while !control.stop.load(Ordering::Relaxed) {
        match until - clock.now() {
            Nanos(0) => return,
            left => std::thread::sleep(Duration::from_nanos(left.min(TICK).0)),
        }
    }
}

/// The volumes of the design's layout, in the order of its leaves.
fn members<'a>(
    design: &Design,
    volumes: &'a [Option<OpenVolume>],
) -> Result<Vec<&'a OpenVolume>, BackendError> {
    let open = |index: usize| {
        let volume = volumes.get(index).and_then(Option::as_ref);
        volume.ok_or_else(|| BackendError::Other(format!("volume number {index} is not prepared")))
    };
    design.layout.volumes().into_iter().map(open).collect()
}

/// The layout over its own members: each leaf has its number among them. No volume is in a design twice.
fn over_members(layout: &LayoutNode) -> LayoutNode {
    let leaves = layout.volumes();
    layout.with_volumes(&|volume| leaves.iter().position(|leaf| *leaf == volume).unwrap_or_default())
}

fn open(members: &[&OpenVolume], layout: &LayoutNode, key: Key) -> Result<Target, BackendError> {
    let sizes: Vec<Bytes> = members.iter().map(|member| member.size).collect();
    let map = Map::new(layout, &sizes).map_err(|error| BackendError::Other(error.to_string()))?;
    let opened = members
        .iter()
        .map(|member| {
            Ok(TargetMember {
                name: member.name.clone(),
                file: member.open(key.access)?,
                size: member.size,
                shaper: member.shaper.clone(),
            })
        })
        .collect::<Result<Vec<TargetMember>, BackendError>>()?;
    Ok(Target::new(opened, map))
}

/// Unless it is asked for, every buffered trial begins without what earlier ones left in the page cache (fio's `invalidate`).
fn forget_cached(target: &Target) {
    for member in &target.members {
        // Best effort, as in fio: pages that stay only make the cache verdict more likely.
        let _ = member.file.sync_data();
        let _ = rustix::fs::fadvise(&member.file, 0, None, Advice::DontNeed);
    }
}

impl From<EngineError> for TrialFailure {
    fn from(error: EngineError) -> Self {
        let (text, errno) = (error.to_string(), error.errno());
        let (error, seen) = match error {
            EngineError::CutShort { cause, seen } => (*cause, Some(seen)),
            EngineError::Stopped { seen } => {
                return TrialFailure { error: BackendError::Stopped, errno, seen };
            }
            error => (error, None),
        };
        let error = match error {
            EngineError::Member { member, .. } | EngineError::Hung { member, .. } => {
                let what = text.strip_prefix(&format!("{member}: ")).unwrap_or(&text).to_owned();
                BackendError::Volume { volume: member, what }
            }
            _ => BackendError::Other(text),
        };
        TrialFailure { error, errno, seen }
    }
}
