//! fio's dialect: its job files, and its JSON, so that tools that read fio's results read ours.

pub mod jobfile;
mod json;
mod options;

pub use json::{Job, Usage, document, with_percentiles};
pub use options::options;
