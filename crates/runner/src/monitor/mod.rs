//! What passes over volumes show, taken together: changes.

pub mod changes;
pub mod metrics;
