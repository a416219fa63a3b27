//! fio's dialect: its JSON, so that tools that read fio's results read ours.

mod json;

pub use json::{Job, Usage, document};
