//! Passes over volumes that are monitored: which volumes, what is read of each, and when it is left alone.

pub mod busy;
pub mod canary;
pub mod found;
pub mod kept;
pub mod subject;
