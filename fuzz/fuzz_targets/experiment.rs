//! Experiment files; what is understood is also summed up.
#![no_main]

use ebbtide_experiment::{Summary, parse};

libfuzzer_sys::fuzz_target!(|text: &str| {
    match parse(text, "fuzz.toml") {
        Ok(experiment) => drop(Summary::new(&experiment)),
        Err(errors) => drop((errors.to_string(), errors.records())),
    }
});
