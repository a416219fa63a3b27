//! A log-linear (HDR-style) histogram of nanoseconds.

use serde::{Deserialize, Serialize};

/// Histogram of nanosecond values.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Histogram {}
