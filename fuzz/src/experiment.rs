//! Experiment files; what is understood is also summed up.
use ebbtide_experiment::{Summary, parse};

pub(crate) fn target(text: &str) {
    match parse(text, "fuzz.toml") {
        Ok(experiment) => drop(Summary::new(&experiment)),
        Err(errors) => drop((errors.to_string(), errors.records())),
    }
}
