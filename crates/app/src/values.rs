//! Values as people write them, on the command line and in the addresses of `ebb serve`.

use ebbtide_model::metric::Metric;
use ebbtide_model::units::{RateError, UnitError};

/// Why a text is no such value: what to write instead.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ValueError {
    #[error("write a share in percent, such as 5%")]
    NoShare,
    #[error("write a share from 0% to less than 100%")]
    ShareOutOfRange,
    #[error("write one of {}", Metric::ALL.map(Metric::name).join(", "))]
    NoMetric,
    #[error("write NAME=PATH")]
    NoPair,
    #[error("a limit of 0 would stop the program for good; write at least 1B")]
    NoRate,
    #[error("the limit must be more than 0")]
    NoLimit,
    #[error(transparent)]
    Rate(#[from] RateError),
    #[error(transparent)]
    Unit(#[from] UnitError),
}

/// What is worse by more than this is a regression, where nobody says.
pub const THRESHOLD: &str = "5%";

/// `5%`, `0.5%`: as a share of 1.
pub fn share(text: &str) -> Result<f64, ValueError> {
    let number = text.strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    match number {
        Some(percent) if (0.0..100.0).contains(&percent) => Ok(percent / 100.0),
        Some(_) => Err(ValueError::ShareOutOfRange),
        None => Err(ValueError::NoShare),
    }
}

/// A metric by its name.
pub fn metric(text: &str) -> Result<Metric, ValueError> {
    Metric::ALL.into_iter().find(|metric| metric.name() == text.trim()).ok_or(ValueError::NoMetric)
}
