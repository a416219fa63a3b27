//! The language in which experiments are written: TOML in, a validated [`Experiment`](ebbtide_model::experiment::Experiment) out;
//! errors point at the line and say what to write instead. The same list of keys gives the JSON Schema, and [`Summary`] says in
//! words what an experiment would do. What an experiment *is* belongs to `ebbtide-model`; what is not about the text of one does
//! not belong here, and nothing here reads a file: who calls passes in the text and, as [`ProfileFiles`], the files it names.

mod answer;
mod array;
mod designs;
mod effects;
mod error;
mod jobs;
mod layouts;
mod limits;
mod members;
mod names;
mod need;
mod parse;
mod paths;
mod problems;
mod profiles;
mod program;
mod read;
mod replicated;
mod schema;
mod shapes;
mod stack;
mod summary;
mod surroundings;
mod sweep;
mod syntax;
mod traits;
mod typed;
mod volume_keys;
mod volumes;
mod walk;
mod workloads;

pub use error::{ErrorRecord, ExperimentError, ExperimentErrors, Mistake, Problem};
pub use jobs::FileJob;
pub use need::{NoTrace, Traces, need_schema, parse_need};
pub use parse::{parse, parse_with};
pub use profiles::{NoFiles, ProfileFiles, is_file as is_profile_file, own as own_profile};
pub use schema::json_schema;
pub use summary::{DesignSummary, Summary, VolumeSummary, WorkloadSummary};
pub use sweep::{alone, is_sweep};

#[cfg(test)]
mod profile_tests;
#[cfg(test)]
mod program_tests;
#[cfg(test)]
mod tests;
