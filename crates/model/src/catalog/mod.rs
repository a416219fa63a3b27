//! The catalogue: cloud volume types and instance types by name, with the figures that shapes and links are made
//! of, the period in which they held, and their sources.
//!
//! The built-in records are text files beside this module; users add files of the same form, which win over built-in
//! records of the same name.

mod date;
mod instances;
mod known;
mod list;
mod price;
mod resolve;
#[cfg(test)]
mod tests;
mod types;

pub use date::{Date, DateError};
pub use known::{Candidate, Granted};
pub use list::{AWS_REGIONS, ListedVolume, PriceList, PricedItem};
pub use resolve::{OrderError, Ordered, VolumeOrder};
pub use types::{
    CatalogFile, DiskSpeed, HourPrice, Instance, InstanceLimits, IopsRule, LatencyFigures, LocalDisks, Price,
    PriceStep, Range, Source, ThroughputLimit, ThroughputRule, Tier, VolumeType,
};

use crate::near;
use std::collections::BTreeMap;
use std::sync::OnceLock;

const VOLUME_TYPES: &str = include_str!("data/volume_types.toml");
const AWS_INSTANCES: &str = include_str!("data/aws_instances.csv");

/// What is wrong with a catalogue or with a question to it.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "the message of a variant says what its fields are")]
pub enum CatalogError {
    /// A file that is no catalogue.
    #[error("{file}: {what}")]
    File {
        file: String,
        /// What is wrong, with the line.
        what: String,
    },
    /// A line of the table of instances.
    #[error("line {line}: {what}")]
    Table {
        line: usize,
        /// What is wrong with the line.
        what: String,
    },
    /// Not what `aws ec2 describe-instance-types` prints.
    #[error("this is not the output of `aws ec2 describe-instance-types`: {what}")]
    Import { what: String },
    /// No record of that name.
    #[error("the catalogue has no {kind} `{name}`; {remedy}")]
    Unknown {
        /// `volume type` or `instance type`.
        kind: &'static str,
        name: String,
        remedy: String,
    },
    /// A name that several providers have.
    #[error("`{name}` is ambiguous; write one of {choices}")]
    Ambiguous { name: String, choices: String },
    /// Records of the name, but for other days.
    #[error("{name} has no figures for {as_of}: they are for {periods}")]
    Period {
        name: String,
        as_of: Date,
        /// Periods for which there are figures, in words.
        periods: String,
    },
}

/// Records of volume types and instance types.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Catalog {
    sources: BTreeMap<String, Source>,
    types: Vec<VolumeType>,
    instances: Vec<Instance>,
}

impl Catalog {
    /// The catalogue that is part of the program.
    pub fn builtin() -> &'static Catalog {
        static BUILTIN: OnceLock<Catalog> = OnceLock::new();
        BUILTIN.get_or_init(|| {
            let mut catalog = Catalog::default();
            // The data are part of the program; a test reads them.
            let read = catalog.add_file(VOLUME_TYPES, "volume_types.toml").and_then(|()| {
                catalog.instances = instances::read_table(AWS_INSTANCES)?;
                Ok(())
            });
            debug_assert_eq!(read, Ok(()));
            catalog
        })
    }

    /// Adds a user's records; they win over what is there of the same name.
    ///
    /// # Errors
    /// When the text is no catalogue file; nothing was added then.
    pub fn add_file(&mut self, text: &str, file: &str) -> Result<(), CatalogError> {
        let parsed: CatalogFile = toml::from_str(text)
            .map_err(|error| CatalogError::File { file: file.to_owned(), what: error.to_string() })?;
        if let Some(wrong) = parsed.volume_type.iter().find_map(unusable) {
            return Err(CatalogError::File { file: file.to_owned(), what: wrong });
        }
        let replaced = |provider: &str, id: &str| {
            parsed.volume_type.iter().any(|new| new.provider == provider && new.id == id)
        };
        self.types.retain(|old| !replaced(&old.provider, &old.id));
        let replaced = |provider: &str, id: &str| {
            parsed.instance.iter().any(|new| new.provider == provider && new.id == id)
        };
        self.instances.retain(|old| !replaced(&old.provider, &old.id));
        self.sources.extend(parsed.source);
        self.types.extend(parsed.volume_type);
        self.instances.extend(parsed.instance);
        Ok(())
    }

    /// Reads the output of `aws ec2 describe-instance-types` into a file for [`Catalog::add_file`].
    ///
    /// # Errors
    /// When it is not that.
    pub fn import(json: &str) -> Result<CatalogFile, CatalogError> {
        Ok(CatalogFile { instance: instances::import(json)?, ..CatalogFile::default() })
    }

    /// Volume types in the order of the files.
    pub fn types(&self) -> &[VolumeType] {
        &self.types
    }

    /// Instance types in the order of the files.
    pub fn instances(&self) -> &[Instance] {
        &self.instances
    }

    /// A source by its short name.
    pub fn source(&self, short: &str) -> Option<&Source> {
        self.sources.get(short)
    }

    /// All periods of the volume type `name`: `aws:gp3`, or `gp3` where one provider has it.
    ///
    /// # Errors
    /// When there is none or more than one; says what there is.
    pub fn periods(&self, name: &str) -> Result<Vec<&VolumeType>, CatalogError> {
        let found: Vec<&VolumeType> =
            self.types.iter().filter(|t| matches(name, &t.provider, &t.id)).collect();
        let mut names: Vec<String> = found.iter().map(|t| t.full_name()).collect();
        names.dedup();
        match names.len() {
            0 => {
                let mut all: Vec<String> = self.types.iter().map(|t| t.full_name()).collect();
                all.dedup();
                Err(unknown("volume type", name, &all))
            }
            1 => Ok(found),
            _ => Err(CatalogError::Ambiguous { name: name.to_owned(), choices: names.join(", ") }),
        }
    }

    /// The volume type `name` as it was on `as_of`; as it is when absent.
    ///
    /// # Errors
    /// See [`Catalog::periods`]; or none of the periods holds that day.
    pub fn volume_type(&self, name: &str, as_of: Option<Date>) -> Result<&VolumeType, CatalogError> {
        let periods = self.periods(name)?;
        let holds = |t: &&&VolumeType| match as_of {
            None => t.valid_until.is_none(),
            Some(day) => {
                t.valid_from.is_none_or(|from| from <= day) && t.valid_until.is_none_or(|until| day <= until)
            }
        };
        if let Some(found) = periods.iter().find(holds) {
            return Ok(found);
        }
        match (as_of, periods.last()) {
            // Nothing is valid now: the last known state.
            (None, Some(last)) => Ok(last),
            (Some(as_of), _) => {
                let periods: Vec<String> = periods.iter().map(|t| t.period()).collect();
                Err(CatalogError::Period { name: name.to_owned(), as_of, periods: periods.join("; ") })
            }
            (None, None) => Err(unknown("volume type", name, &[])),
        }
    }

    /// The instance type `name`: `m6i.2xlarge` or `aws:m6i.2xlarge`.
    ///
    /// # Errors
    /// When there is none; says which one is near.
    pub fn instance(&self, name: &str) -> Result<&Instance, CatalogError> {
        self.instances.iter().find(|i| matches(name, &i.provider, &i.id)).ok_or_else(|| {
            let all: Vec<String> = self.instances.iter().map(|i| i.id.clone()).collect();
            unknown("instance type", name, &all)
        })
    }
}

impl VolumeType {
    /// Its name with the provider, `aws:gp3`.
    pub fn full_name(&self) -> String {
        format!("{}:{}", self.provider, self.id)
    }

    /// Short names of the sources of all its figures.
    pub fn source_names(&self) -> impl Iterator<Item = &str> {
        self.sources.iter().chain(self.price.as_ref().map(|price| &price.source)).map(String::as_str)
    }

    /// The period in words.
    pub fn period(&self) -> String {
        match (self.valid_from, self.valid_until) {
            (None, None) => "any day".into(),
            (Some(from), None) => format!("{from} until now"),
            (None, Some(until)) => format!("the beginning to {until}"),
            (Some(from), Some(until)) => format!("{from} to {until}"),
        }
    }
}

fn matches(name: &str, provider: &str, id: &str) -> bool {
    match name.split_once(':') {
        Some((wanted, rest)) => wanted == provider && rest == id,
        None => name == id,
    }
}

/// What makes a record unusable, if anything.
fn unusable(record: &VolumeType) -> Option<String> {
    let name = record.full_name();
    if !matches!(record.throughput.unit.as_str(), "MiB/s" | "MB/s") {
        return Some(format!("{name}: the unit `{}` is neither MiB/s nor MB/s", record.throughput.unit));
    }
    if record.size_gib.min > record.size_gib.max {
        return Some(format!("{name}: size_gib begins above its end"));
    }
    if let Some(wrong) = record.price.as_ref().and_then(Price::unusable) {
        return Some(format!("{name}: {wrong}"));
    }
    let tiered = record.iops == IopsRule::Tier || record.throughput.rule == ThroughputRule::Tier;
    if tiered && record.tiers.last().is_none_or(|tier| tier.upto_gib < record.size_gib.max) {
        return Some(format!("{name}: the tiers end below the largest size"));
    }
    None
}

/// "There is no such record", with the nearest names.
fn unknown(kind: &'static str, name: &str, all: &[String]) -> CatalogError {
    fn id(name: &str) -> &str {
        name.rsplit(':').next().unwrap_or(name)
    }
    let mut near: Vec<(usize, &String)> = all
        .iter()
        .map(|candidate| (near::distance(id(name), id(candidate)), candidate))
        .filter(|(distance, candidate)| *distance <= 1 + candidate.len() / 5)
        .collect();
    near.sort();
    let command = "`ebb catalog list` shows all";
    let remedy = match near.as_slice() {
        [] => command.to_owned(),
        [(_, one), ..] if near.len() == 1 || near[0].0 < near[1].0 => format!("write `{one}` ({command})"),
        several => {
            let names: Vec<&str> = several.iter().take(4).map(|(_, name)| name.as_str()).collect();
            format!("near are {} ({command})", names.join(", "))
        }
    };
    CatalogError::Unknown { kind, name: name.to_owned(), remedy }
}
