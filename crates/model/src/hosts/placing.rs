//! What runs where: volumes are placed on hosts, and each host runs a design's jobs on the members that it has.
//!
//! A design whose members are all on one host is run there as it is. One over several hosts is a job set for each of them, on its own
//! members: that is what a linear or striped array is to those who use it, each block being on one member alone. What keeps a block
//! on several members (copies, parity) has no host that could do it, and is refused.

use crate::experiment::{Design, Experiment, Volume, VolumeSource};
use crate::layout::{ArrayKind, LayoutNode};
use crate::near;
use crate::rbd::Image;
use crate::stack::Stack;
use crate::workload::Workload;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Where the user puts a volume: `VOLUME=HOST` or `VOLUME=HOST:PATH`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Name of the volume.
    pub volume: String,
    /// The host, and behind a colon the file or device there; which of the colons is the one is told by the names of hosts.
    pub at: String,
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Place, String> {
        match text.split_once('=') {
            Some((volume, at)) if !volume.is_empty() && !at.is_empty() => {
                Ok(Place { volume: volume.to_owned(), at: at.to_owned() })
            }
            _ => Err("write VOLUME=HOST or VOLUME=HOST:PATH".to_owned()),
        }
    }
}

/// Why an experiment cannot be placed on hosts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the message of a variant says what its fields are")]
pub enum PlaceError {
    #[error("--hosts names {0} twice; each host has one worker")]
    HostTwice(String),
    #[error("--place {volume}: the experiment has no such volume; {instead}")]
    NoVolume { volume: String, instead: String },
    #[error("--place {volume} is there twice; a volume is in one place")]
    PlacedTwice { volume: String },
    #[error("--place {volume}={at}: --hosts does not name that host; {instead}")]
    NoHost { volume: String, at: String, instead: String },
    #[error(
        "--place {volume}={host}:{path}: the path must begin with /, and be that of a file or device on {host}"
    )]
    Relative { volume: String, host: String, path: String },
    #[error(
        "design {design}: {layout} keeps blocks on several members, which are on {hosts}, and no host has them all; place them on \
         one (--place VOLUME={first}), or write `layout = \"stripe\"` or \"linear\" for a load from each host on its own members"
    )]
    Torn { design: String, layout: &'static str, hosts: String, first: String },
    #[error(
        "workload {workload} has `end_fsync`, which ends at another time on each host; write `sync = true`, or `fsync = 1`"
    )]
    EndFsync { workload: String },
    #[error(
        "workload {workload} uses a part of its target, and design {design} is linear over {hosts}: that part is on one host; \
         write `layout = \"stripe\"`, where each host has a share of it"
    )]
    PartOfLinear { workload: String, design: String, hosts: String },
    #[error(
        "host {0} has no volume of any design; leave it out of --hosts, or place one there: --place VOLUME={0}"
    )]
    Idle(String),
}

/// An experiment on hosts.
#[derive(Debug, Clone, PartialEq)]
pub struct Placement {
    /// As the user wrote them.
    pub hosts: Vec<String>,
    /// The experiment as it is measured: its volumes are what they are on their hosts, and no faster or slower.
    pub experiment: Experiment,
    /// The host of each volume, by its place in `hosts`.
    pub host_of: Vec<usize>,
    /// What the reader must know.
    pub notes: Vec<String>,
}

/// What one host runs of a design.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// The host, by its place in [`Placement::hosts`].
    pub host: usize,
    /// The layout of its members, over the experiment's volumes.
    pub layout: LayoutNode,
}

/// An experiment as one host gets it.
#[derive(Debug, Clone, PartialEq)]
pub struct OnHost {
    /// Its own volumes, the designs that it has a part of, and every workload.
    pub experiment: Experiment,
    /// For each of its volumes the one of the whole experiment.
    pub volumes: Vec<usize>,
    /// For each design of the whole experiment the one here.
    pub designs: Vec<Option<usize>>,
}

impl Placement {
    /// `experiment` on `hosts`: volumes are where `places` says, the others on the hosts in turn; new files go below `directory`, where it is given.
    ///
    /// # Errors
    /// What cannot be placed, with what to write.
    pub fn new(
        experiment: &Experiment,
        hosts: &[String],
        places: &[Place],
        directory: Option<&Path>,
    ) -> Result<Placement, PlaceError> {
        let mut seen = BTreeSet::new();
        if let Some(twice) = hosts.iter().find(|host| !seen.insert(*host)) {
            return Err(PlaceError::HostTwice(twice.clone()));
        }
        let mut measured = experiment.clone();
        let mut host_of: Vec<usize> =
            (0..experiment.volumes.len()).map(|index| index % hosts.len()).collect();
        let mut placed = BTreeSet::new();
        for place in places {
            let (volume, host, path) = resolve(place, experiment, hosts)?;
            if !placed.insert(volume) {
                return Err(PlaceError::PlacedTwice { volume: place.volume.clone() });
            }
            host_of[volume] = host;
            if let Some(path) = path {
                put_at(&mut measured.volumes[volume], path);
            }
        }
        let mut notes = Vec::new();
        let shaped = measured.volumes.iter().filter(|volume| volume.shape.is_some()).count();
        for volume in &mut measured.volumes {
            volume.shape = None;
            if let (VolumeSource::NewFile { directory: own }, Some(directory)) =
                (&mut volume.source, directory)
            {
                *own = Some(directory.to_owned());
            }
        }
        measured.links.clear();
        if shaped > 0 {
            notes.push(
                "the limits that the experiment gives its volumes and links are left out: what is on hosts is as fast as it is"
                    .to_owned(),
            );
        }
        let placement = Placement { hosts: hosts.to_vec(), experiment: measured, host_of, notes };
        placement.check()?;
        Ok(placement)
    }

    fn check(&self) -> Result<(), PlaceError> {
        let mut used = BTreeSet::new();
        for design in &self.experiment.designs {
            let parts = self.parts(design)?;
            used.extend(parts.iter().map(|part| part.host));
            if parts.len() < 2 {
                continue;
            }
            for workload in self.experiment.loads() {
                self.check_shared(design, workload, &parts)?;
            }
        }
        match (0..self.hosts.len()).find(|host| !used.contains(host)) {
            Some(idle) => Err(PlaceError::Idle(self.hosts[idle].clone())),
            None => Ok(()),
        }
    }

    /// Whether `workload` can be shared out among the hosts of `parts`.
    fn check_shared(&self, design: &Design, workload: &Workload, parts: &[Part]) -> Result<(), PlaceError> {
        if workload.end_fsync {
            return Err(PlaceError::EndFsync { workload: workload.name.clone() });
        }
        let in_part = workload.span.is_some() || workload.details.offset.0 > 0;
        let linear = matches!(design.layout, LayoutNode::Array { kind: ArrayKind::Linear, .. });
        if in_part && linear {
            return Err(PlaceError::PartOfLinear {
                workload: workload.name.clone(),
                design: design.name.clone(),
                hosts: self.named(parts.iter().map(|part| part.host)),
            });
        }
        Ok(())
    }

    /// What each host runs of `design`: those that have members of it, in the order of the members.
    ///
    /// # Errors
    /// When a level that keeps blocks on several members is on several hosts.
    pub fn parts(&self, design: &Design) -> Result<Vec<Part>, PlaceError> {
        let mut hosts = Vec::new();
        for volume in design.layout.volumes() {
            let host = self.host(volume);
            if !hosts.contains(&host) {
                hosts.push(host);
            }
        }
        let part = |host: usize| {
            let layout = self.on(&design.layout, host).map_err(|layout| PlaceError::Torn {
                design: design.name.clone(),
                layout,
                hosts: self.named(hosts.iter().copied()),
                first: self.hosts[hosts[0]].clone(),
            })?;
            Ok(layout.map(|layout| Part { host, layout }))
        };
        hosts.iter().filter_map(|host| part(*host).transpose()).collect()
    }

    /// Members of `node` on `host`.
    ///
    /// # Errors
    /// The level that cannot be parted.
    fn on(&self, node: &LayoutNode, host: usize) -> Result<Option<LayoutNode>, &'static str> {
        let volumes = node.volumes();
        if volumes.iter().all(|volume| self.host(*volume) == host) {
            return Ok(Some(node.clone()));
        }
        let LayoutNode::Array { kind, members } = node else { return Ok(None) };
        if !volumes.iter().any(|volume| self.host(*volume) == host) {
            return Ok(None);
        }
        if !matches!(kind, ArrayKind::Linear | ArrayKind::Stripe { .. }) {
            return Err(kind.name());
        }
        let mut own = Vec::new();
        for member in members {
            own.extend(self.on(member, host)?);
        }
        Ok(match own.len() {
            0 | 1 => own.pop(),
            _ => Some(LayoutNode::Array { kind: *kind, members: own }),
        })
    }

    fn host(&self, volume: usize) -> usize {
        self.host_of.get(volume).copied().unwrap_or_default()
    }

    fn named(&self, hosts: impl Iterator<Item = usize>) -> String {
        hosts.map(|host| self.hosts[host].as_str()).collect::<Vec<_>>().join(" and ")
    }

    /// What the worker on `host` is told.
    ///
    /// # Errors
    /// As [`parts`](Self::parts).
    pub fn on_host(&self, host: usize) -> Result<OnHost, PlaceError> {
        let whole = &self.experiment;
        let volumes: Vec<usize> =
            (0..whole.volumes.len()).filter(|volume| self.host(*volume) == host).collect();
        let here = |volume: usize| volumes.iter().position(|own| *own == volume).unwrap_or_default();
        let (mut designs, mut numbers) = (Vec::new(), Vec::new());
        for design in &whole.designs {
            let part = self.parts(design)?.into_iter().find(|part| part.host == host);
            numbers.push(part.as_ref().map(|_| designs.len()));
            designs.extend(part.map(|part| Design {
                name: design.name.clone(),
                layout: part.layout.with_volumes(&here),
                stack: Stack::default(),
            }));
        }
        let varied = whole.loads().skip(whole.workloads.len()).cloned();
        let experiment = Experiment {
            volumes: volumes.iter().map(|volume| whole.volumes[*volume].clone()).collect(),
            designs,
            control: 0,
            // A worker is told with each trial what it runs; it has to know what all of them do.
            workloads: whole.workloads.iter().cloned().chain(varied).collect(),
            sweep: None,
            ..whole.clone()
        };
        Ok(OnHost { experiment, volumes, designs: numbers })
    }

    /// Volumes and hosts in words, a line for each host.
    pub fn in_words(&self) -> Vec<String> {
        let used = self.experiment.used_volumes();
        let line = |(host, name): (usize, &String)| {
            let volumes = used.iter().filter(|volume| self.host(**volume) == host);
            let volumes: Vec<String> =
                volumes.map(|volume| told(&self.experiment.volumes[*volume])).collect();
            format!("host {name}: {}", volumes.join(", "))
        };
        self.hosts.iter().enumerate().map(line).collect()
    }
}

fn told(volume: &Volume) -> String {
    match &volume.source {
        VolumeSource::NewFile { directory: Some(directory) } => {
            format!("{} (new, in {})", volume.name, directory.to_string_lossy())
        }
        VolumeSource::NewFile { directory: None } => format!("{} (new)", volume.name),
        VolumeSource::ExistingFile { path } | VolumeSource::Device { path, .. } => {
            format!("{} ({})", volume.name, path.to_string_lossy())
        }
    }
}

/// The volume and the host of `place`, and the path there.
fn resolve<'a>(
    place: &'a Place,
    experiment: &Experiment,
    hosts: &[String],
) -> Result<(usize, usize, Option<&'a Path>), PlaceError> {
    let Place { volume, at } = place;
    let names: Vec<&str> = experiment.volumes.iter().map(|volume| volume.name.as_str()).collect();
    let Some(index) = names.iter().position(|name| name == volume) else {
        return Err(PlaceError::NoVolume { volume: volume.clone(), instead: near::choose(volume, &names) });
    };
    // A host's name may have colons of its own: the longest that fits is meant.
    let fits = |host: &String| match at.strip_prefix(host.as_str()) {
        Some("") => Some(None),
        Some(rest) => rest.strip_prefix(':').map(Some),
        None => None,
    };
    let found = hosts.iter().enumerate().filter_map(|(place, host)| Some((host.len(), place, fits(host)?)));
    let Some((_, host, path)) = found.max() else {
        let names: Vec<&str> = hosts.iter().map(String::as_str).collect();
        let name = at.split(":/").next().unwrap_or(at);
        return Err(PlaceError::NoHost {
            volume: volume.clone(),
            at: at.clone(),
            instead: near::choose(name, &names),
        });
    };
    match path.map(Path::new) {
        Some(path) if !path.is_absolute() && !is_image(path) => Err(PlaceError::Relative {
            volume: volume.clone(),
            host: hosts[host].clone(),
            path: path.to_string_lossy().into_owned(),
        }),
        path => Ok((index, host, path)),
    }
}

/// Has `volume` be what is at `path`: a device where the path is that of one. Its own size counts.
fn put_at(volume: &mut Volume, path: &Path) {
    let path = PathBuf::from(path);
    volume.source = match path.starts_with("/dev") || is_image(&path) {
        true => VolumeSource::Device { id: stable_id(&path), path },
        false => VolumeSource::ExistingFile { path },
    };
    volume.size = None;
}

fn is_image(path: &Path) -> bool {
    matches!(Image::named_by(path), Ok(Some(_)))
}

/// The id that a path below /dev/disk/by-id, or the name of an image of Ceph, is made of: whoever writes it means that very device.
fn stable_id(path: &Path) -> Option<String> {
    if let Ok(Some(image)) = Image::named_by(path) {
        return Some(image.to_string());
    }
    let name = path.strip_prefix("/dev/disk/by-id").ok()?;
    Some(name.to_string_lossy().into_owned())
}

#[cfg(test)]
#[path = "placing_tests.rs"]
mod tests;
