//! The whole file: from text to an [`Experiment`], or to everything that is wrong with it.

use super::answer::{self, RawAnswer};
use super::array::RawArray;
use super::designs;
use super::error::{ExperimentErrors, Problem};
use super::profiles::{NoFiles, ProfileFiles};
use super::read::{FromToml, Named, required, section, valid};
use super::shapes::resolve_links;
use super::surroundings::{self, RawHost, RawResync};
use super::syntax;
use super::typed::{Day, Figures};
use super::volume_keys::{RawLink, RawVolume};
use super::volumes;
use super::workloads::{self, RawWorkload};
use crate::problems::Problems;
use ebbtide_model::catalog::Catalog;
use ebbtide_model::experiment::{Design, Experiment};
use ebbtide_model::units::Bytes;

section! {
    /// An experiment of Ebbtide: which arrays of which volumes are measured, how, and how sure the answer must be.
    #[schemars(rename = "Experiment")]
    "the experiment"
    struct RawExperiment {
        /// Name of the experiment.
        #[schemars(required)]
        name: String,
        /// What it is for.
        description: String,
        /// The volumes, by name.
        #[schemars(required)]
        volumes: Named<RawVolume>,
        /// Links that volumes share, by name.
        links: Named<RawLink>,
        /// The candidate arrays, by name.
        #[schemars(required)]
        designs: Named<RawArray>,
        /// What is asked of every design, by name.
        #[schemars(required)]
        workloads: Named<RawWorkload>,
        /// How sure the answer must be, and what it may cost.
        answer: RawAnswer,
        /// Type of the instance that the volumes are attached to, for example "m6i.2xlarge": gives them its link,
        /// and a simulated host its cores and memory.
        instance: String,
        /// The day whose figures `type` and `instance` stand for [default: today's].
        as_of: Day,
        /// The host of a simulation.
        host: RawHost,
        /// A resync during every trial of a simulation.
        resync: RawResync,
    }
}

/// Longest name and description, in characters.
const NAME_MAX: usize = 100;

/// Reads an experiment file. `file_name` is for messages only.
///
/// # Errors
/// Everything that is wrong with the text, each mistake with its place and what to write instead; mistakes
/// that only follow from another one are left out.
pub fn parse(text: &str, file_name: &str) -> Result<Experiment, ExperimentErrors> {
    parse_with(text, file_name, Catalog::builtin(), &NoFiles)
}

/// The same with a catalogue and profile files of the user's own.
///
/// # Errors
/// As [`parse`].
pub fn parse_with(
    text: &str,
    file_name: &str,
    catalog: &Catalog,
    profiles: &dyn ProfileFiles,
) -> Result<Experiment, ExperimentErrors> {
    let mut problems = Problems::default();
    let experiment = read(text, catalog, profiles, &mut problems);
    match experiment {
        Some(experiment) if problems.is_empty() => Ok(experiment),
        _ => Err(problems.into_errors(text, file_name)),
    }
}

fn read(
    text: &str,
    catalog: &Catalog,
    profiles: &dyn ProfileFiles,
    problems: &mut Problems,
) -> Option<Experiment> {
    let table = syntax::table(text, problems)?;
    let start = 0..0;
    let raw = RawExperiment::from_toml(&table, &start, problems)?;
    let name = required(&raw.name, "name", "name = \"first-run\"", ("the experiment", &start), problems);
    if let Some((name, span)) = name
        && (name.trim().is_empty() || name.chars().count() > NAME_MAX || name.contains(char::is_control))
    {
        let remedy = format!("write 1 to {NAME_MAX} characters on one line");
        problems.report(span, Problem::BadName { what: "an experiment", name: name.clone(), remedy });
    }
    let mut links = resolve_links(&raw.links, problems);
    let figures = Figures::new(catalog, &raw.instance, &raw.as_of, &mut links, problems);
    let volumes = volumes::resolve(&raw.volumes, &links, &figures, &start, problems);
    let (designs, capacities): (Vec<Design>, Vec<Option<Bytes>>) =
        designs::resolve(&raw.designs, &volumes, &start, problems).into_iter().unzip();
    let smallest = designs
        .iter()
        .zip(&capacities)
        .filter_map(|(design, capacity)| capacity.map(|capacity| (design.name.as_str(), capacity)))
        .min_by_key(|(_, capacity)| *capacity);
    let answer = answer::resolve(&raw.answer, problems);
    let all: Vec<&str> = valid(&raw.designs)
        .map_or(Vec::new(), |(Named(entries), _)| entries.iter().map(|entry| entry.name.as_str()).collect());
    let control = answer::control(&raw.answer, &designs, &all, problems);
    let mut environment = surroundings::resolve(&raw.host, &raw.resync, problems);
    environment.host = figures.host(environment.host, &raw.host);
    let around = workloads::Around { smallest, memory: environment.host.memory, profiles: Some(profiles) };
    let workloads = workloads::resolve(&raw.workloads, "the experiment", &around, &start, problems);
    Some(Experiment {
        name: name?.0.clone(),
        description: valid(&raw.description).map(|(description, _)| description.clone()),
        volumes: volumes.list,
        links,
        designs,
        control,
        workloads,
        answer,
        environment,
    })
}
