//! The `files` backend: real I/O on files and devices, the layout computed in user space.
//!
//! [`survey`] looks where new volumes would go and touches nothing. [`FilesBackend`] makes them (each
//! announced in the journal before it exists), fills them, opens what exists already, turns designs into
//! targets of the engine, and removes what it made.

mod direct;
mod fill;
mod made;
mod open;
mod place;
mod trial;
mod volume;

pub use direct::direct_unit;
pub use place::{Place, Survey, survey};

use crate::descriptors::make_room;
use crate::target::{Shaper, Target};
use ebbtide_door::{Access, Door, Draft, Lent, Published};
use ebbtide_model::backend::{
    Backend, BackendError, BackendKind, Control, DiskBelow, Inventory, PreparedVolume, TrialFailure,
    TrialRun, alone,
};
use ebbtide_model::experiment::{Design, Experiment, Volume, VolumeSource};
use ebbtide_model::journal::Journal;
use ebbtide_model::plan::build::named_after;
use ebbtide_model::samples::TrialSamples;
use ebbtide_model::schedule::Trial;
use ebbtide_model::shown::Shown;
use ebbtide_model::units::Bytes;
use ebbtide_model::workload::Workload;
use made::Made;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use volume::OpenVolume;

/// What a file or device rests on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Beneath {
    /// Type of the file system, for a file.
    pub filesystem: Option<String>,
    /// Every whole disk at the bottom.
    pub disks: Vec<DiskBelow>,
    /// What is between it and them, in words.
    pub through: Option<String>,
}

/// Sees what lies beneath a path; the host crate can, the engine does not look at /sys.
pub trait Topology: Send + Sync {
    /// What `path` rests on, as far as it can be seen.
    fn beneath(&self, path: &Path) -> Beneath;
}

/// What the backend needs from the program around it.
#[derive(Clone)]
pub struct Surroundings {
    /// What exists already is opened through it.
    pub door: Door,
    /// Sees the disks beneath.
    pub topology: Arc<dyn Topology>,
    /// Where changes are written down before they are made.
    pub journal: Arc<dyn Journal>,
}

/// Which volumes are filled with random data before the first trial.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Fill {
    /// New ones, and existing ones that may be overwritten.
    #[default]
    Destroyable,
    /// Of these only the ones at these indices into the experiment's volumes.
    Only(Vec<usize>),
}

impl Fill {
    fn includes(&self, index: usize) -> bool {
        match self {
            Fill::Destroyable => true,
            Fill::Only(volumes) => volumes.contains(&index),
        }
    }
}

/// What the user said about a run.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Names the run's own directory: `ebbtide-NAME`.
    pub name: String,
    /// Seed of the volumes' content and of their shapes.
    pub seed: u64,
    /// Existing volumes may be overwritten.
    pub destroy: bool,
    /// Where new volumes go when the experiment does not say, the best place first.
    pub places: Vec<PathBuf>,
    /// Content of new volumes.
    pub fill: Fill,
    /// Existing volumes, by their index, that are written; where it is absent, all are when any workload writes.
    pub written: Option<Vec<usize>>,
    /// Existing volumes, by their index, that are devices which take and give any number of bytes (/dev/null, /dev/zero).
    pub endless: Vec<usize>,
    /// Existing volumes were built by this very run: nobody needs to allow that they are written.
    pub built: bool,
    /// Volumes, by their index, whose files are made under a name of the user's and stay when they are kept
    /// ([`FilesBackend::keep_named`]).
    pub named: Vec<(usize, PathBuf)>,
}

impl Options {
    /// Whether the file of the volume at this index is made under a name of the user's.
    fn is_named(&self, index: usize) -> bool {
        self.named.iter().any(|(named, _)| *named == index)
    }

    /// Whether the existing volume at this index of `experiment` is written.
    fn writes_on(&self, index: usize, experiment: &Experiment) -> bool {
        let filled = self.destroy && self.fill.includes(index);
        filled || self.written.as_ref().map_or(writes(experiment), |list| list.contains(&index))
    }
}

/// Real I/O on files and devices; the layout is computed here, and a volume's model may hold its I/O back.
pub struct FilesBackend {
    surroundings: Surroundings,
    options: Options,
    made: Made,
    /// Files of [`Options::named`], under their names.
    published: Vec<Published>,
    /// By index of the experiment's volumes; `None` for those that no design uses.
    volumes: Vec<Option<OpenVolume>>,
    /// Targets that trials have used, so that a ring's set-up is found out once.
    targets: HashMap<trial::Key, Target>,
}

/// The volumes that designs use, with their index.
fn used(experiment: &Experiment) -> impl Iterator<Item = (usize, &Volume)> {
    let used = experiment.used_volumes();
    experiment.volumes.iter().enumerate().filter(move |(index, _)| used.contains(index))
}

/// The volumes of designs that exist already and are opened through the door, with their index.
fn existing<'a>(experiment: &'a Experiment, options: &Options) -> Vec<(usize, &'a Volume)> {
    let exists = |(index, volume): &(usize, &Volume)| {
        !matches!(volume.source, VolumeSource::NewFile { .. })
            && !options.is_named(*index)
            && !options.endless.contains(index)
    };
    used(experiment).filter(exists).collect()
}

/// Whether a run of `experiment` would find a reason against its files and devices that exist, as they are now, beside that nobody has
/// said that they may be overwritten. Touches nothing.
///
/// # Errors
/// The first that is not there, is something else, is in use, or must not be written.
pub fn may_open(experiment: &Experiment, options: &Options, door: &Door) -> Result<(), BackendError> {
    let is_written = |index: usize| options.writes_on(index, experiment);
    open::may_open(&existing(experiment, options), &is_written, door)
}

/// Files that a session of `experiment` has open at the same time: each volume, which may have a directory, a lock and a
/// device's log page beside it; the members of each target; the rings of the jobs of one trial.
fn files_of(experiment: &Experiment) -> u64 {
    let keys: HashSet<Access> = experiment.loads().map(trial::access).collect();
    let members: usize = experiment.designs.iter().map(|design| design.layout.volumes().len()).sum();
    let rings = experiment.loads().map(|workload| workload.numjobs).max().unwrap_or(0);
    (4 * experiment.used_volumes().len() + members * keys.len()) as u64 + u64::from(rings)
}

/// Whether any workload of `experiment` writes.
fn writes(experiment: &Experiment) -> bool {
    experiment.loads().any(Workload::writes)
}

impl FilesBackend {
    /// A backend that has touched nothing yet.
    pub fn new(options: Options, surroundings: Surroundings) -> Self {
        let made = Made::new(surroundings.door.clone(), surroundings.journal.clone());
        let (volumes, targets) = (Vec::new(), HashMap::new());
        FilesBackend { surroundings, options, made, published: Vec::new(), volumes, targets }
    }

    /// The target that `design` is under `workload`, opened.
    ///
    /// # Errors
    /// When a volume is gone or cannot be opened.
    pub fn target(
        &mut self,
        design: &Design,
        workload: &Workload,
        trial: &Trial,
    ) -> Result<&Target, BackendError> {
        trial::open_target(&self.volumes, &mut self.targets, design, workload, trial)?;
        self.targets
            .get(&trial::Key::new(workload, trial))
            .ok_or_else(|| BackendError::Other(format!("design {} is not open", design.name)))
    }

    /// Closes the volumes, and leaves what was made until [`Backend::finish`]: for a backend that builds on them.
    pub fn close(&mut self) {
        self.targets.clear();
        self.volumes.clear();
    }

    /// Makes and opens the volumes, whoever is to compute the layouts on them; puts back what it made when it fails.
    ///
    /// # Errors
    /// When a volume may not be written, has no room, or cannot be opened.
    pub fn make_volumes(
        &mut self,
        experiment: &Experiment,
        control: &Control,
    ) -> Result<Inventory, BackendError> {
        self.make_and_open(experiment, control).map_err(|error| match self.put_back() {
            Ok(()) => error,
            Err(left) => BackendError::Other(format!("{error}; and then: {left}; `ebb cleanup` tries again")),
        })
    }

    fn make_and_open(
        &mut self,
        experiment: &Experiment,
        control: &Control,
    ) -> Result<Inventory, BackendError> {
        let survey = survey(experiment, &self.options)?;
        make_room(files_of(experiment))?;
        let directories: Vec<PathBuf> =
            survey.places.iter().map(|place| named_after(&place.directory, &self.options.name)).collect();
        // Everything that can be refused comes first, before anything is made.
        self.volumes = experiment.volumes.iter().map(|_| None).collect();
        let existing = existing(experiment, &self.options);
        let is_written = |index: usize| self.options.writes_on(index, experiment);
        for volume in open::existing(&existing, &is_written, &self.options, &self.surroundings)? {
            let index = volume.index;
            self.volumes[index] = Some(volume);
        }
        for (index, volume) in used(experiment).filter(|(index, _)| self.options.endless.contains(index)) {
            self.volumes[index] = Some(open::endless(index, volume)?);
        }
        let mut drafts: Vec<Draft> = Vec::new();
        for (index, path) in &self.options.named {
            if let Some(volume) = experiment.volumes.get(*index) {
                let (volume, draft) = open::draft(*index, volume, path, &self.surroundings)?;
                self.volumes[*index] = Some(volume);
                drafts.push(draft);
            }
        }
        let directories = directories
            .iter()
            .map(|directory| self.made.directory(directory))
            .collect::<Result<Vec<_>, _>>()?;
        for (index, volume) in used(experiment) {
            if let Some(place) = survey.place_of[index] {
                self.volumes[index] =
                    Some(open::new_file(index, volume, &directories[place], &mut self.made)?);
            }
        }
        self.shape(experiment);
        let fill: Vec<&OpenVolume> = self
            .volumes
            .iter()
            .flatten()
            .filter(|volume| {
                survey.place_of[volume.index].is_some()
                    || self.options.is_named(volume.index)
                    || self.options.destroy
            })
            .filter(|volume| self.options.fill.includes(volume.index))
            .collect();
        fill::fill(&fill, self.options.seed, control)?;
        // What is half filled would pass for a whole file the next time.
        for draft in drafts {
            let path = draft.path();
            let published = draft.publish();
            self.published.push(published.map_err(|error| {
                BackendError::Other(format!("cannot give {} its name: {error}", path.shown()))
            })?);
        }
        Ok(self.inventory(experiment, survey))
    }

    /// Closes everything and removes nothing: what stands on it could not be taken away. The journal says what is left.
    pub fn leave(&mut self) {
        self.close();
        self.published.clear();
        self.made.leave();
    }

    /// Leaves the files of [`Options::named`] to the user.
    pub fn keep_named(&mut self) {
        self.published.clear();
    }

    /// Lets go of the volumes so that the kernel can take them, but holds on to what they are. By their index.
    ///
    /// # Errors
    /// When one cannot be held on to.
    pub fn lend(&mut self) -> Result<Vec<(usize, Lent)>, BackendError> {
        self.targets.clear();
        self.volumes.drain(..).flatten().map(|volume| Ok((volume.index, volume.lend()?))).collect()
    }

    /// Gives volumes the speed that the experiment gives them, for the whole session.
    fn shape(&mut self, experiment: &Experiment) {
        let links: Vec<_> = experiment.links.iter().map(Shaper::link).collect();
        for volume in self.volumes.iter_mut().flatten() {
            let Some(shape) = &experiment.volumes[volume.index].shape else { continue };
            let link = shape.link.and_then(|link| links.get(link)).cloned();
            let seed = self.options.seed.wrapping_add(volume.index as u64);
            volume.shaper = Some(Arc::new(Shaper::new(shape, seed, link)));
        }
    }

    fn inventory(&self, experiment: &Experiment, survey: Survey) -> Inventory {
        let mut notes = survey.notes;
        let mut volumes = Vec::new();
        for (index, asked) in experiment.volumes.iter().enumerate() {
            let Some(volume) = self.volumes.get(index).and_then(Option::as_ref) else {
                notes.push(format!("volume {} is not used by any design and was not touched", asked.name));
                volumes.push(PreparedVolume {
                    name: asked.name.clone(),
                    size: asked.size.unwrap_or_default(),
                    ..PreparedVolume::default()
                });
                continue;
            };
            let beneath = self.surroundings.topology.beneath(volume.path());
            let endless = self.options.endless.contains(&index);
            let filesystem = || place::filesystem(volume.path()).map(str::to_owned);
            let (one, several) = match <[DiskBelow; 1]>::try_from(beneath.disks) {
                Ok([disk]) => (Some(disk), Vec::new()),
                Err(disks) => (None, disks),
            };
            volumes.push(PreparedVolume {
                name: volume.name.clone(),
                path: volume.path().to_string_lossy().into_owned(),
                size: volume.size,
                direct: volume.direct || endless,
                disk: one.as_ref().map(|disk| disk.number.clone()),
                disk_name: one.map(|disk| disk.name),
                disks: several,
                through: beneath.through,
                filesystem: match volume.is_device() || endless {
                    true => None,
                    false => beneath.filesystem.or_else(filesystem),
                },
                endless,
            });
            let named = self.options.is_named(index);
            let filled = self.options.destroy && self.options.fill.includes(index);
            let existing = survey.place_of[index].is_none() && !named && !filled;
            let read = experiment.loads().any(Workload::reads);
            let unwritten = if existing && read { volume.unwritten() } else { Bytes(0) };
            if unwritten > Bytes(0) {
                notes.push(format!(
                    "volume {}: {} of {} were never written, and read as zeros without touching the disk: fill it \
                     first, or let ebb fill it with --destroy",
                    volume.name,
                    unwritten.short(),
                    volume.size.short(),
                ));
            }
        }
        let refused: Vec<&str> =
            volumes.iter().filter(|v| !v.path.is_empty() && !v.direct).map(|v| v.name.as_str()).collect();
        if !refused.is_empty() && experiment.loads().any(|workload| workload.direct) {
            notes.push(format!(
                "O_DIRECT was refused for {}: I/O went through the page cache and may measure memory",
                refused.join(", ")
            ));
        }
        Inventory { volumes, notes }
    }

    /// Closes everything and removes what was made.
    fn put_back(&mut self) -> Result<(), BackendError> {
        self.close();
        let door = &self.surroundings.door;
        let discarded: Vec<String> = self
            .published
            .drain(..)
            .filter_map(|published| {
                let error = published.discard(door).err()?;
                Some(format!("cannot remove {}: {error}; it is yours now", published.path().shown()))
            })
            .collect();
        let removed = self.made.remove();
        // What is left the journal knows.
        self.made.leave();
        let left = removed.err().map(|error| error.to_string());
        match discarded.into_iter().chain(left).reduce(|all, error| format!("{all}; {error}")) {
            Some(errors) => Err(BackendError::Other(errors)),
            None => Ok(()),
        }
    }
}

impl Backend for FilesBackend {
    fn kind(&self) -> BackendKind {
        BackendKind::Files
    }

    fn prepare(&mut self, experiment: &Experiment, control: &Control) -> Result<Inventory, BackendError> {
        match experiment.refused_in_user_space() {
            Some(refusal) => Err(BackendError::Other(refusal)),
            None => self.make_volumes(experiment, control),
        }
    }

    fn run_trial(
        &mut self,
        design: &Design,
        workload: &Workload,
        trial: &Trial,
        control: &Control,
    ) -> Result<TrialSamples, BackendError> {
        alone(self.run_together(&[TrialRun { design, workload, trial }], control))
    }

    fn run_together(
        &mut self,
        runs: &[TrialRun<'_>],
        control: &Control,
    ) -> Vec<Result<TrialSamples, TrialFailure>> {
        // Trials of a session are one at a time, and there is room for each of them.
        let rings = runs.iter().map(|run| u64::from(run.workload.numjobs)).sum();
        if runs.len() > 1
            && let Err(error) = make_room(rings)
        {
            return runs.iter().map(|_| Err(BackendError::Other(error.to_string()).into())).collect();
        }
        let opened: Vec<Result<(), BackendError>> = runs
            .iter()
            .map(|run| {
                trial::open_target(&self.volumes, &mut self.targets, run.design, run.workload, run.trial)
            })
            .collect();
        let (volumes, targets) = (&self.volumes, &self.targets);
        let one =
            |run: &TrialRun<'_>| trial::run(volumes, targets, run.design, run.workload, run.trial, control);
        let unexpected = |_| BackendError::Other("a job ended unexpectedly".to_owned());
        std::thread::scope(|scope| {
            let running: Vec<_> = runs
                .iter()
                .zip(opened)
                .map(|(run, opened)| opened.map(|()| scope.spawn(move || one(run))))
                .collect();
            running.into_iter().map(|running| running?.join().map_err(unexpected)?).collect()
        })
    }

    fn finish(&mut self, keep: bool) -> Result<(), BackendError> {
        if keep {
            self.made.keep()?;
        }
        self.put_back()
    }
}

impl Drop for FilesBackend {
    /// For a panic in between: after [`Backend::finish`] there is nothing left to do.
    fn drop(&mut self) {
        if let Err(error) = self.put_back() {
            tracing::error!("{error}; `ebb cleanup` tries again");
        }
    }
}
