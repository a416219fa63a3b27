//! The whole file: from text to an [`Experiment`], or to everything that is wrong with it.

use super::answer::{self, RawAnswer};
use super::array::RawArray;
use super::designs;
use super::effects::{self, RawEffect};
use super::error::{ExperimentErrors, Mistake};
use super::profiles::{self, NoFiles, ProfileContext, ProfileFiles};
use super::program::RawSetup;
use super::read::{At, Entry, FromToml, Named, entries, required, section, valid};
use super::shapes::resolve_links;
use super::surroundings::{self, RawHost, RawResync};
use super::sweep::{self, RawSweep};
use super::syntax;
use super::typed::{Day, Figures};
use super::volume_keys::{RawLink, RawVolume};
use super::volumes::{self, Volumes};
use super::workloads::{self, RawWorkload};
use crate::problems::{Problems, Span};
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
        /// Free text, shown in reports.
        description: String,
        /// The volumes, by name; needed unless all designs are directories.
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
        /// Designs that differ in what varies, and what counts.
        sweep: RawSweep,
        /// What levels are said to do in a simulation, where there is no model of them: refused by every other backend.
        effects: Vec<At<RawEffect>>,
        /// What is set up for programs that are the load.
        setup: RawSetup,
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
    let experiment = read(text, file_name, catalog, profiles, &mut problems);
    match experiment {
        Some(experiment) if problems.is_empty() => Ok(experiment),
        _ => Err(problems.into_errors(text, file_name)),
    }
}

fn read(
    text: &str,
    file_name: &str,
    catalog: &Catalog,
    files: &dyn ProfileFiles,
    problems: &mut Problems,
) -> Option<Experiment> {
    let table = syntax::table(text, problems)?;
    // Every other message would be about a file of another kind.
    if let Some(place) = syntax::is_other(&table, syntax::EXPERIMENT, syntax::NEED) {
        let what = Mistake::Nothing("this is a need, not an experiment".to_owned());
        let remedy = format!("`ebb plan {file_name} -o DIR` answers it, and writes experiments");
        problems.report(&place, what, remedy);
        return None;
    }
    let start = 0..0;
    let raw = RawExperiment::from_toml(&table, &start, problems)?;
    let name = required(&raw.name, "name", "name = \"first-run\"", ("the experiment", &start), problems);
    if let Some((name, span)) = name
        && (name.trim().is_empty() || name.chars().count() > NAME_MAX || name.contains(char::is_control))
    {
        let remedy = format!("write 1 to {NAME_MAX} characters on one line");
        problems.report(span, Mistake::BadName { what: "an experiment", name: name.clone() }, remedy);
    }
    let mut links = resolve_links(&raw.links, problems);
    let figures = Figures::new(catalog, &raw.instance, &raw.as_of, &mut links, problems);
    let mut volumes = match raw.volumes.is_none() && designs::any_directory(&raw.designs) {
        true => Volumes::default(),
        false => volumes::resolve(&raw.volumes, &links, &figures, &start, problems),
    };
    designs::add_directories(&raw.designs, &raw.workloads, &mut volumes, problems);
    let names: Vec<&str> = entries(&raw.designs).iter().map(|entry| entry.name.as_str()).collect();
    let pinned = answer::named_control(&raw.answer).map(|(name, _)| name.as_str());
    let template = sweep::template(&raw.sweep).filter(|template| pinned != Some(*template));
    let mut made = designs::resolve(&raw.designs, template, &volumes, &start, problems);
    let sweep = sweep::combine(&raw.sweep, &names, problems);
    let plain = made.len();
    if let (Some(sweep), Some(file)) = (&sweep, table.as_table()) {
        made.extend(sweep.designs(file, &volumes, problems));
    }
    let (designs, capacities): (Vec<Design>, Vec<Option<Bytes>>) = made.iter().cloned().unzip();
    let smallest = designs
        .iter()
        .zip(&capacities)
        .filter_map(|(design, capacity)| capacity.map(|capacity| (design.name.as_str(), capacity)))
        .min_by_key(|(_, capacity)| *capacity);
    let combined = sweep.as_ref().map(|sweep| sweep.names()).unwrap_or_default();
    let all: Vec<&str> = names.into_iter().chain(combined.iter().map(String::as_str)).collect();
    // A sweep with a mistake has made none of the names that may be meant.
    let control = match &raw.sweep {
        Some(_) if sweep.is_none() => 0,
        swept => {
            answer::control(&raw.answer, &designs, (&all, swept.as_ref().map_or(0, |_| plain)), problems)
        }
    };
    let mut environment = surroundings::resolve(&raw.host, &raw.resync, problems);
    environment.host = figures.host(environment.host, &raw.host);
    if let Some(file) = table.as_table() {
        let designs = designs.iter().map(|design| design.name.as_str()).collect();
        let written = effects::Written { file, designs, sweep: sweep.as_ref(), plain };
        effects::plant(&raw.effects, &written, &mut environment, problems);
    }
    let around = ProfileContext { smallest, memory: environment.host.memory, files };
    let expand = |entry: &Entry<RawWorkload>, named: (&str, &Span), problems: &mut Problems| {
        profiles::expand(entry, named, &around, problems)
    };
    let section = ("the experiment", &start);
    let workloads = workloads::resolve(&raw.workloads, section, smallest, (&expand, &raw.setup), problems);
    // Designs that a sweep made race with each other.
    let compared = if sweep.is_some() { plain } else { designs.len() };
    let comparisons = compared.saturating_sub(1) * workloads.len();
    let answer = answer::resolve(&raw.answer, comparisons, &workloads, problems);
    let sweep = sweep.zip(table.as_table()).and_then(|(sweep, file)| {
        let arms = (plain, &made[plain..]);
        sweep.finish(arms, file, (&raw.workloads, &workloads), &answer, &volumes, problems)
    });
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
        sweep,
    })
}
