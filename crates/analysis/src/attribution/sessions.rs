//! What sessions hold that tells volumes from hosts: the trials of designs of a single volume.

use super::gain::Array;
use super::observed::{Measured, Observed, Subject};
use crate::estimate::median;
use crate::{TrialSummary, primary};
use ebbtide_model::backend::BackendKind;
use ebbtide_model::catalog::Ordered;
use ebbtide_model::experiment::{Design, Volume, VolumeSource};
use ebbtide_model::layout::{Chunks, LayoutNode};
use ebbtide_model::metric::Metric;
use ebbtide_model::session::Session;
use ebbtide_model::stack::Stack;
use ebbtide_model::workload::Workload;
use serde::Serialize;
use std::collections::BTreeMap;

/// The host of a simulated volume that is behind no link.
const SIMULATED: &str = "simulated";
/// How udev names an EBS volume; its id follows without the dash.
const EBS: &str = "nvme-Amazon_Elastic_Block_Store_vol";
/// Where udev puts names that stay.
const BY_ID: &str = "/dev/disk/by-id/";

/// An array that was measured, or that could be built of what was.
#[derive(Debug, Clone, PartialEq)]
pub struct MeasuredArray {
    /// Its name and its members.
    pub array: Array,
    /// What it reached under each workload, in the last session that has it; empty where it was not measured.
    pub reached: Vec<ArrayResult>,
}

/// What an array reached under a workload.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ArrayResult {
    /// Name of the workload.
    pub workload: String,
    /// What decides under it.
    pub metric: Metric,
    /// Its median over trials, in the metric's unit.
    pub median: f64,
}

/// What [`read`] takes out of stored sessions.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SessionData {
    /// Trials of single volumes.
    pub observed: Observed,
    /// Arrays over these volumes that run at the pace of their slowest member.
    pub arrays: Vec<MeasuredArray>,
    /// Names of the workloads that count.
    pub workloads: Vec<String>,
}

/// A load under which volumes can be compared: the workload and what is built on the volume.
#[derive(PartialEq)]
struct Load<'a>(&'a Workload, &'a Stack, Metric);

/// What `sessions` hold, each with its trials by their figures; only under the workload `only`, where that is given.
///
/// A volume is the same in several sessions where it has the same stable id or, simulated or shaped, the same name; other files and
/// devices are those of their host. A host is the link that a volume is behind, else the host of the session.
pub fn read(sessions: &[(&Session, &[TrialSummary])], only: Option<&str>) -> SessionData {
    let mut read = SessionData::default();
    let mut loads: Vec<Load<'_>> = Vec::new();
    for (number, (session, trials)) in sessions.iter().enumerate() {
        let experiment = &session.experiment;
        for design in &experiment.designs {
            if let [volume] = design.volumes()[..]
                && let Some(volume) = experiment.volumes.get(volume)
            {
                read.observed.subject(volume, session);
                position(&mut read.observed.hosts, host(volume, session));
            }
        }
        for ran in trials.iter().filter(|ran| ran.is_candidate()) {
            let design = experiment.designs.get(ran.trial.design);
            let Some(design) = design else { continue };
            let Some(workload) = experiment.load(ran.trial.design, ran.trial.workload) else { continue };
            let [volume] = design.volumes()[..] else { continue };
            let Some(volume) = experiment.volumes.get(volume) else { continue };
            if only.is_some_and(|only| only != workload.name) {
                continue;
            }
            let metric = primary(&experiment.answer, workload);
            let Some(value) = ran.value(metric) else { continue };
            let load = Load(workload, &design.stack, metric);
            let observation = Measured {
                volume: read.observed.subject(volume, session),
                host: position(&mut read.observed.hosts, host(volume, session)),
                session: number,
                round: ran.trial.round,
                load: position(&mut loads, load),
                speed: if metric.lower_is_better() { 1.0 / value } else { value },
            };
            read.observed.rows.push(observation);
        }
    }
    for Load(workload, ..) in &loads {
        position(&mut read.workloads, workload.name.clone());
    }
    for (session, trials) in sessions {
        read.measured_arrays(session, trials, only);
    }
    if read.arrays.is_empty() {
        read.possible_arrays();
    }
    read
}

/// Where `one` is among `all`, at the end of which it is put if it is not there.
fn position<T: PartialEq>(all: &mut Vec<T>, one: T) -> usize {
    all.iter().position(|known| *known == one).unwrap_or_else(|| {
        all.push(one);
        all.len() - 1
    })
}

impl Observed {
    /// The number of `volume`.
    fn subject(&mut self, volume: &Volume, session: &Session) -> usize {
        let name = name(volume, session);
        let known = self.volumes.iter().position(|known| known.name == name);
        let number = known.unwrap_or_else(|| {
            self.volumes.push(Subject { name, kind: String::new() });
            self.volumes.len() - 1
        });
        if let Some(ordered) = volume.ordered.as_ref().filter(|_| self.volumes[number].kind.is_empty()) {
            self.volumes[number].kind = kind(ordered);
        }
        number
    }
}

impl SessionData {
    /// Arrays of `session` all of whose volumes were measured alone, and what they reached.
    fn measured_arrays(&mut self, session: &Session, trials: &[TrialSummary], only: Option<&str>) {
        let experiment = &session.experiment;
        for (index, design) in experiment.designs.iter().enumerate().filter(|(_, d)| has_equal_shares(d)) {
            let number = |volume: &usize| {
                let name = name(experiment.volumes.get(*volume)?, session);
                self.observed.volumes.iter().position(|known| known.name == name)
            };
            let Some(volumes) = design.volumes().iter().map(number).collect::<Option<Vec<usize>>>() else {
                continue;
            };
            let of_workload = |workload: usize| {
                let load = experiment.load(index, workload)?;
                let metric = primary(&experiment.answer, load);
                let own = trials.iter().filter(|ran| ran.trial.design == index && ran.measures(workload));
                let median = median(own.filter_map(|ran| ran.value(metric)).collect::<Vec<f64>>())?;
                let reached = ArrayResult { workload: load.name.clone(), metric, median };
                only.is_none_or(|only| only == load.name).then_some(reached)
            };
            let reached: Vec<ArrayResult> = (0..experiment.workloads.len()).filter_map(of_workload).collect();
            let array = Array { name: design.name.clone(), volumes };
            match self.arrays.iter_mut().find(|known| known.array == array) {
                Some(known) => known.reached = reached,
                None => self.arrays.push(MeasuredArray { array, reached }),
            }
        }
    }

    /// A stripe over the volumes that each host had last.
    fn possible_arrays(&mut self) {
        let mut last: BTreeMap<usize, (usize, usize)> = BTreeMap::new();
        for row in &self.observed.rows {
            let place = last.entry(row.volume).or_insert((row.session, row.host));
            if row.session >= place.0 {
                *place = (row.session, row.host);
            }
        }
        for (host, name) in self.observed.hosts.iter().enumerate() {
            let own = last.iter().filter(|(_, (_, of))| *of == host).map(|(volume, _)| *volume);
            let array =
                Array { name: format!("a stripe over the volumes of {name}"), volumes: own.collect() };
            if array.volumes.len() > 1 {
                self.arrays.push(MeasuredArray { array, reached: Vec::new() });
            }
        }
    }
}

/// Whether all volumes of `design` carry as much as each other, whatever is asked: every level has chunks.
fn has_equal_shares(design: &Design) -> bool {
    fn chunked(node: &LayoutNode) -> bool {
        match node {
            LayoutNode::Volume(_) => true,
            LayoutNode::Array { kind, members } => {
                kind.facts().chunks != Chunks::None && members.iter().all(chunked)
            }
        }
    }
    design.layout.volumes().len() > 1 && chunked(&design.layout)
}

/// What tells a volume from all others.
fn name(volume: &Volume, session: &Session) -> String {
    let of_host = |what: &str| format!("{}:{what}", session.meta.host.hostname);
    match &volume.source {
        _ if session.meta.backend == BackendKind::Sim || volume.shape.is_some() => volume.name.clone(),
        VolumeSource::Device { id: Some(id), .. } => stable(id),
        VolumeSource::Device { path, id: None } => {
            let path = path.to_string_lossy();
            path.strip_prefix(BY_ID).map_or_else(|| of_host(&path), stable)
        }
        VolumeSource::NewFile { .. } | VolumeSource::ExistingFile { .. } => of_host(&volume.name),
    }
}

/// The id of an EBS volume as AWS writes it, `vol-0123456789abcdef0`; other names below /dev/disk/by-id as they are.
fn stable(id: &str) -> String {
    let id = id.strip_prefix(BY_ID).unwrap_or(id);
    let of_ebs = id.strip_prefix(EBS).map(|rest| rest.split(|c: char| !c.is_ascii_hexdigit()).next());
    of_ebs.flatten().filter(|hex| !hex.is_empty()).map_or_else(|| id.to_owned(), |hex| format!("vol-{hex}"))
}

/// The host on which `volume` was measured.
fn host(volume: &Volume, session: &Session) -> String {
    let link = volume.shape.as_ref().and_then(|shape| session.experiment.links.get(shape.link?));
    match link {
        Some(link) => link.name.clone(),
        None if session.meta.backend == BackendKind::Sim => SIMULATED.to_owned(),
        None => session.meta.host.hostname.clone(),
    }
}

/// What a volume was ordered as, without the day.
fn kind(ordered: &Ordered) -> String {
    let order = &ordered.order;
    format!("{} {} {:?} {:?}", ordered.volume_type, order.size, order.iops, order.throughput)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{session, trial};
    use ebbtide_experiment::parse;

    const TEXT: &str = r#"
name = "two instances"
[links.i-a]
throughput = "100MB/s"
[volumes.vol]
count = 2
size = "1GiB"
shape = { throughput = "50MB/s", link = "i-a" }
[volumes.own]
size = "1GiB"
[volumes.ebs]
device = "/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_vol0a1b2c3d_1"
[volumes.sdb]
device = "/dev/sdb"
[designs.vol0]
layout = "linear"
members = ["vol0"]
[designs.vol1]
layout = "linear"
members = ["vol1"]
[designs.own]
layout = "linear"
members = ["own"]
[designs.ebs]
layout = "linear"
members = ["ebs"]
[designs.sdb]
layout = "linear"
members = ["sdb"]
[designs.stripe]
layout = "stripe"
members = ["vol[0..1]"]
[designs.mirror]
layout = "mirror"
members = ["vol0", "own"]
[workloads.randread]
rw = "randread"
bs = "4k"
runtime = "2s"
"#;

    #[test]
    fn sessions_become_observations() {
        let experiment = parse(TEXT, "test.toml").expect("is right");
        let run = |run: &ebbtide_model::schedule::Trial| {
            Ok(trial(&[("m", 100 * (run.design as u64 + 1), 1_000_000)]))
        };
        let mut session = session(&experiment, 3, run);
        session.meta.host.hostname = "ip-10-0-0-1".to_owned();
        let ran: Vec<TrialSummary> =
            session.trials.iter().map(|record| TrialSummary::of(&experiment, record)).collect();
        let found = read(&[(&session, &ran), (&session, &ran)], None);
        let mut names: Vec<&str> = found.observed.volumes.iter().map(|v| v.name.as_str()).collect();
        names.sort_unstable();
        assert_eq!(names, ["ip-10-0-0-1:/dev/sdb", "ip-10-0-0-1:own", "vol-0a1b2c3d", "vol0", "vol1"]);
        let mut hosts = found.observed.hosts.clone();
        hosts.sort();
        assert_eq!(hosts, ["i-a", "ip-10-0-0-1"]);
        // Five volumes, three rounds, two sessions; the control's second trials and the arrays do not count.
        assert_eq!(found.observed.rows.len(), 30);
        let speed = |name: &str| {
            let volume = found.observed.volumes.iter().position(|v| v.name == name);
            found.observed.rows.iter().find(|row| Some(row.volume) == volume).map(|row| row.speed)
        };
        assert_eq!(speed("vol1"), Some(200.0));
        assert_eq!(found.workloads, ["randread"]);
        let [stripe] = &found.arrays[..] else { panic!("{:?}", found.arrays) };
        assert_eq!((stripe.array.name.as_str(), stripe.reached[0].median), ("stripe", 600.0));
        assert_eq!(read(&[(&session, &ran)], Some("other")).observed.rows, []);
    }

    #[test]
    fn volumes_of_ebs_have_the_ids_that_aws_writes() {
        for (given, id) in [
            ("nvme-Amazon_Elastic_Block_Store_vol0123456789abcdef0", "vol-0123456789abcdef0"),
            ("/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_vol0a-ns-1", "vol-0a"),
            ("nvme-Amazon_Elastic_Block_Store_vol", "nvme-Amazon_Elastic_Block_Store_vol"),
            ("scsi-0DO_Volume_volume-1", "scsi-0DO_Volume_volume-1"),
        ] {
            assert_eq!(stable(given), id);
        }
    }
}
