//! fio's dialect: its job files, and its JSON, so that tools that read fio's results read ours.

pub mod jobfile;
mod json_output;

pub use json_output::{Job, document, with_percentiles};
