//! An experiment as a guest can have it: disks for the volumes, limits as large as emulation carries, nothing that
//! QEMU does not do.
//!
//! Disks cost nothing, so each design gets its own for its volumes as long as they are few enough: then it is built
//! once. Otherwise designs share them and are built again and again. Designs of a sweep that can stand on one build have one, and its disks.

use super::scale::{RUNTIME_ENOUGH, Scale, scaled};
use crate::LabError;
use crate::disks::{Bus, DISKS_MAX, Disk, Throttle, beyond_qemu, within_qemu};
use crate::machine::Accelerator;
use ebbtide_model::experiment::{Experiment, Volume, VolumeSource};
use ebbtide_model::units::Bytes;
use ebbtide_model::volume::Shape;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;

/// An experiment with the guest that can carry it out.
#[derive(Debug, Clone)]
pub struct Adapted {
    /// The experiment as it is measured: limits scaled, and no other traits.
    pub experiment: Experiment,
    /// The same as the guest gets it: volumes are its disks, and have no shapes.
    pub inside: Experiment,
    /// The guest's disks, in the order of the volumes inside.
    pub disks: Vec<Disk>,
    /// For each disk the index of the volume that it stands for; of several, any is as good.
    pub stands_for: Vec<usize>,
    /// The links that they share.
    pub links: Vec<Throttle>,
    /// The factor on all limits.
    pub scale: Scale,
    /// Why there is one, in words; absent where there is none.
    pub scaling: Option<String>,
    /// Whether each build has disks of its own, and so is made once; otherwise it is made again in its turn.
    pub own_disks: bool,
    /// What the reader must know.
    pub notes: Vec<String>,
}

impl Adapted {
    /// The disks, the factor and the notes as JSON.
    pub fn json(&self) -> serde_json::Value {
        let disks: Vec<_> = self
            .shapes()
            .map(|(disk, volume, shape)| {
                serde_json::json!({ "volume": volume, "device": disk.device(), "bytes": disk.size, "shape": shape })
            })
            .collect();
        serde_json::json!({ "scale": self.scale.factor(), "disks": disks, "scaling": self.scaling, "notes": self.notes })
    }

    /// The disks with their volumes' names and shapes.
    fn shapes(&self) -> impl Iterator<Item = (&Disk, &str, Option<&Shape>)> {
        self.disks.iter().zip(&self.stands_for).filter_map(|(disk, volume)| {
            let volume = self.experiment.volumes.get(*volume)?;
            Some((disk, volume.name.as_str(), volume.shape.as_ref()))
        })
    }
}

impl fmt::Display for Adapted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (disk, volume, shape) in self.shapes() {
            let limits = shape.map_or_else(|| "no limits".to_owned(), Shape::to_string);
            let link = disk.link.and_then(|link| self.experiment.links.get(link));
            let link = link.map_or_else(String::new, |link| format!(", on link {}", link.name));
            writeln!(
                f,
                "disk {} is volume {volume}: {}, {limits}{link}",
                disk.device(),
                Bytes(disk.size).short()
            )?;
        }
        self.scaling.iter().chain(&self.notes).try_for_each(|note| writeln!(f, "note: {note}"))
    }
}

/// Why no guest can have an experiment's disks.
#[derive(Debug, thiserror::Error)]
pub enum AdaptError {
    /// More volumes than a guest has disks.
    #[error("the designs use {used} volumes, and a guest has at most {DISKS_MAX} disks; use fewer")]
    TooMany {
        /// Volumes that the designs use.
        used: usize,
    },
    /// A volume that is there already.
    #[error(
        "volume {volume} exists on this host, and a guest has only disks of its own: remove `file` or `device` and \
         write a `size`, or say `--on files`"
    )]
    OfThisHost {
        /// Its name in the experiment.
        volume: String,
    },
    /// A disk that QEMU cannot have.
    #[error(transparent)]
    Disk(#[from] LabError),
}

/// Adapts `experiment` to a guest on `accelerator`; `scale` where the user says it.
///
/// # Errors
/// What a guest cannot have, and what to write instead.
pub fn adapt(
    experiment: &Experiment,
    accelerator: Accelerator,
    scale: Option<Scale>,
) -> Result<Adapted, AdaptError> {
    let used = experiment.used_volumes();
    refuse(experiment, &used)?;
    let (scale, why) = match scale {
        Some(scale) => (scale, scale.as_asked_for()),
        None => Scale::carried(experiment, accelerator),
    };
    let scaling = (scale != Scale::ONE).then_some(why);
    let mut measured = scaled(experiment, scale);
    let mut notes = Vec::new();
    if measured.loads().zip(experiment.loads()).any(|(now, was)| now.stop != was.stop) {
        notes.push(format!(
            "trials last longer than the experiment says, up to {RUNTIME_ENOUGH}: slower disks need the time for as many \
             operations"
        ));
    }
    notes.extend(leave_out(&mut measured, &used));
    notes.push(
        "disks are files of this host behind QEMU's throttle, and begin empty: a read of a block that was never written is as \
         slow as any other"
            .to_owned(),
    );
    let sets: Vec<BTreeSet<usize>> =
        measured.designs.iter().map(|design| design.volumes().into_iter().collect()).collect();
    let shared_builds = measured.shared_builds();
    let builds = shared_builds.clone().unwrap_or_else(|| (0..sets.len()).collect());
    let firsts =
        || (0..sets.len()).filter(|design| builds[..*design].iter().all(|of| *of != builds[*design]));
    let own_disks = firsts().map(|design| sets[design].len()).sum::<usize>() <= DISKS_MAX;
    notes.push(match (own_disks, &shared_builds) {
        (true, None) => "each design has disks of its own for its volumes, and is built once".to_owned(),
        (true, Some(_)) => format!(
            "designs that can stand on one build share its disks; each of the {} builds has its own, and is made once",
            firsts().count()
        ),
        (false, None) => format!(
            "the designs share their disks, because each its own would be more than {DISKS_MAX}: one is built again \
             when another was there in between"
        ),
        (false, Some(_)) => format!(
            "the designs share their disks, because each of the {} builds its own would be more than {DISKS_MAX}: a round makes each \
             once, for all designs that can stand on it",
            firsts().count()
        ),
    });
    if own_disks {
        // All builds stand side by side: any trial may be the next.
        measured.builds_nothing_in_turn();
    }
    let mut disks = Disks::default();
    let shared = if own_disks { None } else { Some(disks.of(&measured, &used, "")?) };
    let mut designs = Vec::new();
    let mut places: BTreeMap<usize, BTreeMap<usize, usize>> = BTreeMap::new();
    for (number, (design, set)) in measured.designs.iter().zip(&sets).enumerate() {
        let place = match (&shared, places.get(&builds[number])) {
            (Some(place), _) | (None, Some(place)) => place.clone(),
            (None, None) => disks.of(&measured, set, &format!("design{number}-"))?,
        };
        places.insert(builds[number], place.clone());
        designs.push(design.with_volumes(&|volume| place.get(&volume).copied().unwrap_or(volume)));
    }
    let Disks { disks, volumes, stands_for } = disks;
    let inside = Experiment { volumes, links: Vec::new(), designs, ..measured.clone() };
    let links = measured.links.iter().map(Throttle::of_link).collect();
    Ok(Adapted { experiment: measured, inside, disks, stands_for, links, scale, scaling, own_disks, notes })
}

/// Refuses volumes that no guest can have: too many, or what is there already.
fn refuse(experiment: &Experiment, used: &BTreeSet<usize>) -> Result<(), AdaptError> {
    if used.len() > DISKS_MAX {
        return Err(AdaptError::TooMany { used: used.len() });
    }
    let mut volumes = used.iter().map(|index| &experiment.volumes[*index]);
    match volumes.find(|volume| !matches!(volume.source, VolumeSource::NewFile { .. })) {
        None => Ok(()),
        Some(Volume { name, .. }) => Err(AdaptError::OfThisHost { volume: name.clone() }),
    }
}

/// Takes from the shapes of the `used` volumes what QEMU does not do; says what, and from whose.
fn leave_out(experiment: &mut Experiment, used: &BTreeSet<usize>) -> Vec<String> {
    let mut beyond: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for index in used {
        let Volume { name, shape, .. } = &experiment.volumes[*index];
        for what in shape.iter().flat_map(beyond_qemu) {
            beyond.entry(what).or_default().push(name);
        }
    }
    let left_out = |(what, volumes): (&str, Vec<&str>)| {
        let whose = match volumes.as_slice() {
            [first, _, .., last] => format!("{} volumes, {first} to {last}", volumes.len()),
            few => few.join(" and "),
        };
        format!("a guest's disks have no {what}: left out of {whose}")
    };
    let notes = beyond.into_iter().map(left_out).collect();
    for index in used {
        let shape = &mut experiment.volumes[*index].shape;
        *shape = shape.as_ref().map(within_qemu);
    }
    notes
}

/// The guest's disks in the making.
#[derive(Default)]
struct Disks {
    disks: Vec<Disk>,
    /// Each as a volume of the experiment inside.
    volumes: Vec<Volume>,
    /// Each disk's volume of the experiment as it is measured.
    stands_for: Vec<usize>,
}

impl Disks {
    /// Adds a disk for each volume of `set`, its name beginning with `prefix`; the volume inside by the one it stands for.
    fn of(
        &mut self,
        measured: &Experiment,
        set: &BTreeSet<usize>,
        prefix: &str,
    ) -> Result<BTreeMap<usize, usize>, AdaptError> {
        let mut found = BTreeMap::new();
        for index in set {
            let volume = &measured.volumes[*index];
            let disk = Disk {
                bus: Bus::Virtio,
                // A serial has 20 bytes, and not every name of a volume can be one.
                name: format!("{prefix}volume{index}"),
                size: volume.size.map_or(0, |size| size.0),
                throttle: volume.shape.as_ref().map(Throttle::of).unwrap_or_default(),
                link: volume.shape.as_ref().and_then(|shape| shape.link),
            };
            disk.check()?;
            found.insert(*index, self.volumes.len());
            let source = VolumeSource::Device {
                path: PathBuf::from(disk.device()),
                id: Some(format!("virtio-{}", disk.name)),
            };
            self.volumes.push(Volume::new(volume.name.clone(), source, None));
            self.disks.push(disk);
            self.stands_for.push(*index);
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebbtide_model::units::Nanos;
    use ebbtide_model::workload::Stop;

    const TEXT: &str = r#"
name = "eight"
[links.wire]
throughput = "1GB/s"
[volumes.ssd]
count = 8
size = "4GiB"
[volumes.ssd.shape]
throughput = "500MB/s"
latency = "0.1ms"
link = "wire"
[volumes.unused]
size = "1GiB"
[designs.linear]
layout = "linear"
members = ["ssd*"]
[designs.striped]
layout = "stripe"
chunk = "256KiB"
members = ["ssd*"]
[workloads.read]
rw = "read"
bs = "128KiB"
runtime = "1s"
"#;

    fn parsed(text: &str) -> Experiment {
        ebbtide_experiment::parse(text, "e.toml").expect("parses")
    }

    #[test]
    fn limits_become_as_small_as_the_guest_needs_them_and_stay_in_proportion() {
        let adapted = adapt(&parsed(TEXT), Accelerator::Tcg, None).expect("fits");
        // 8 x 500 MB/s are 40 times 100 MB/s; 50 is the next step.
        assert_eq!(adapted.scale.to_string(), "1/50");
        assert_eq!(
            (adapted.disks.len(), &adapted.stands_for[..10]),
            (16, &[0, 1, 2, 3, 4, 5, 6, 7, 0, 1][..])
        );
        assert_eq!(adapted.inside.designs[1].layout.volumes(), [8, 9, 10, 11, 12, 13, 14, 15]);
        for disk in &adapted.disks {
            assert_eq!(disk.throttle.throughput.map(|limit| limit.rate), Some(10e6));
            assert_eq!((disk.size, disk.link), (4 << 30, Some(0)));
        }
        assert_eq!(adapted.links[0].throughput.map(|limit| limit.rate), Some(20e6));
        let shape = adapted.experiment.volumes[3].shape.as_ref().expect("a shape");
        assert_eq!(shape.throughput.map(|limit| limit.rate), Some(10e6));
        assert_eq!(shape.read_latency, Shape::default().read_latency);
        assert!(
            adapted.notes.iter().any(|note| note.contains("no latency: left out of 8 volumes, ssd0 to ssd7"))
        );
        let workload = &adapted.inside.workloads[0];
        assert_eq!((workload.stop, workload.warm_up), (Stop::Runtime(Nanos::from_secs(5)), Nanos(0)));
        let inner = &adapted.inside.volumes[11];
        assert!(inner.shape.is_none() && inner.size.is_none() && inner.name == "ssd3");
        assert!(
            matches!(&inner.source, VolumeSource::Device { path, id: Some(id) }
                if path.ends_with("virtio-design1-volume3") && id == "virtio-design1-volume3"),
            "{inner:?}"
        );
    }

    #[test]
    fn designs_share_disks_when_there_are_too_many() {
        let text = TEXT.replace("count = 8", "count = 13");
        let adapted = adapt(&parsed(&text), Accelerator::Tcg, None).expect("fits");
        assert_eq!(adapted.disks.len(), 13);
        assert_eq!(adapted.inside.designs[0].layout.volumes(), adapted.inside.designs[1].layout.volumes());
        assert!(adapted.notes.iter().any(|note| note.contains("share their disks")));
        let text = TEXT.replace("count = 8", "count = 25");
        let refused = adapt(&parsed(&text), Accelerator::Tcg, None).expect_err("too many");
        assert!(refused.to_string().contains("use 25 volumes"), "{refused}");
    }

    /// Two chunks, on each two readaheads and two schedulers: two builds.
    #[test]
    fn designs_of_a_sweep_that_can_stand_on_one_build_share_its_disks() {
        let sweep = "[sweep]\ndesign = \"striped\"\n[sweep.vary]\nchunk = [\"64KiB\", \"1MiB\"]\n\
                     readahead = [\"128KiB\", \"2MiB\"]\nscheduler = [\"none\", \"bfq\"]\n";
        let linear = "[designs.linear]\nlayout = \"linear\"\nmembers = [\"ssd*\"]\n";
        let text = TEXT.replace(linear, "") + sweep;
        let adapted = adapt(&parsed(&text), Accelerator::Tcg, None).expect("fits");
        assert!(adapted.own_disks && adapted.disks.len() == 16, "{:?}", adapted.notes);
        let volumes: Vec<usize> =
            adapted.inside.designs.iter().map(|design| design.layout.volumes()[0]).collect();
        assert_eq!(volumes, [0, 0, 0, 0, 8, 8, 8, 8]);
        assert!(adapted.notes.iter().any(|note| note.contains("each of the 2 builds has its own")));
        assert_eq!(adapted.experiment.shared_builds(), None, "they stand side by side, in free order");
        // Where they do not fit, a round makes each build once.
        let text = text.replace("count = 8", "count = 13");
        let adapted = adapt(&parsed(&text), Accelerator::Tcg, None).expect("fits");
        assert_eq!((adapted.own_disks, adapted.disks.len()), (false, 13));
        assert_eq!(adapted.inside.shared_builds(), Some(vec![0, 0, 0, 0, 1, 1, 1, 1]));
        let text = text.replace("design = \"striped\"", "design = \"striped\"\nbuilds = \"per-trial\"");
        let adapted = adapt(&parsed(&text), Accelerator::Tcg, None).expect("fits");
        assert_eq!(adapted.inside.shared_builds(), None);
    }

    #[test]
    fn small_operations_are_scaled_by_their_number() {
        let text = TEXT.replace("throughput = \"500MB/s\"", "iops = 3000").replace("128KiB", "4KiB");
        assert_eq!(adapt(&parsed(&text), Accelerator::Tcg, None).expect("fits").scale.to_string(), "1/20");
        let asked = adapt(&parsed(&text), Accelerator::Tcg, Some(Scale::ONE)).expect("fits");
        assert_eq!(asked.disks[0].throttle.iops.map(|limit| limit.rate), Some(3000.0));
    }

    #[test]
    fn what_is_of_this_host_is_refused() {
        let text = TEXT.replace("[volumes.unused]", "[volumes.mine]\nfile = \"/var/tmp/x\"").replace(
            "members = [\"ssd*\"]\n[designs.striped]",
            "members = [\"ssd*\", \"mine\"]\n[designs.striped]",
        );
        let refused = adapt(&parsed(&text), Accelerator::Tcg, None).expect_err("has a file");
        assert!(refused.to_string().contains("volume mine exists on this host"), "{refused}");
    }
}
