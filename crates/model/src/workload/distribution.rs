//! How often random offsets come to each block of a region: fio's `random_distribution`.

use super::text::TextError;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Largest exponent of a Zipf distribution: beyond it, hardly any block but the first is used.
const THETA_MOST: f64 = 20.0;
/// fio's exponents where none is given.
const ZIPF_DEFAULT: f64 = 1.1;
const PARETO_DEFAULT: f64 = 0.2;
/// Most zones, as in fio.
pub(super) const PARTS_MOST: usize = 64;

/// How often random offsets come to each block of a region. Where some blocks are hotter than others, these lie scattered
/// over the region, in the same places for all jobs; zones lie in their order.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Distribution {
    /// To all blocks as often.
    #[default]
    Uniform,
    /// To the k-th hottest block in proportion to 1 / k^theta.
    Zipf {
        /// More than 0, at most 20.
        theta: f64,
    },
    /// A share of 1 - `h` of the operations to the hottest `h` of the blocks, and so on within these: the hottest x of the
    /// blocks have x^(log(1 - h) / log(h)) of the operations.
    Pareto {
        /// Between 0 and 1, both excluded.
        h: f64,
    },
    /// As fio has it: the mean of twelve uniform numbers (standard deviation: a twelfth of the region), moved up or down by
    /// a uniform one of `deviation`% of the region from end to end.
    Normal {
        /// Percent of the region, 0 to 100.
        deviation: f64,
    },
    /// Uniform within each of some zones, which follow one another.
    Zoned {
        /// Zones in the order of their offsets, at least one.
        zones: Vec<Zone>,
    },
}

/// Part of a region.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Zone {
    /// Percent of the operations.
    pub operations: f64,
    /// Percent of the region.
    pub region: f64,
}

/// Percentages that have to make 100; those that are not given share what the others leave.
///
/// # Errors
/// What is wrong, without what to write instead.
pub(super) fn percents(given: &[Option<f64>], of: &'static str) -> Result<Vec<f64>, TextError> {
    let sum: f64 = given.iter().flatten().sum();
    let open = given.iter().filter(|share| share.is_none()).count();
    // What was written out from thirds is a little more or less than all.
    let (more, less) = (sum > 100.0 + 1e-6, sum < 100.0 - 1e-6);
    if more || (open == 0 && less) {
        return Err(TextError::Shares { of, sum });
    }
    let each = (100.0 - sum).max(0.0) / open.max(1) as f64;
    Ok(given.iter().map(|share| share.unwrap_or(each)).collect())
}

/// A percentage, or nothing where none is written.
pub(super) fn percent(text: &str) -> Result<Option<f64>, TextError> {
    let text = text.trim();
    let text = text.strip_suffix('%').unwrap_or(text);
    if text.is_empty() {
        return Ok(None);
    }
    let percent = text.parse().ok().filter(|percent| (0.0..=100.0).contains(percent));
    percent.map(Some).ok_or_else(|| TextError::Percent(text.to_owned()))
}

impl Distribution {
    /// Whether no block is hotter than another.
    pub fn is_uniform(&self) -> bool {
        *self == Distribution::Uniform
    }

    /// What `text` says in fio's words: `zipf:1.2`.
    ///
    /// # Errors
    /// What is wrong, without what to write instead.
    pub fn parse(text: &str) -> Result<Distribution, TextError> {
        let (name, rest) = text.split_once(':').map_or((text, None), |(name, rest)| (name, Some(rest)));
        let number = |default: f64, most: f64, least_in: bool, range| {
            let Some(rest) = rest else { return Ok(default) };
            if rest.contains([':', ',']) {
                return Err(TextError::OneNumber(rest.to_owned()));
            }
            let number = rest.trim().trim_end_matches('%').parse::<f64>().ok();
            let inside = |n: &f64| n.is_finite() && *n <= most && (*n > 0.0 || (least_in && *n == 0.0));
            number.filter(inside).ok_or_else(|| TextError::OutOfRange { text: rest.to_owned(), range })
        };
        match name.trim() {
            "random" if rest.is_none() => Ok(Distribution::Uniform),
            "zipf" => {
                let theta = number(ZIPF_DEFAULT, THETA_MOST, false, "above 0 and up to 20")?;
                Ok(Distribution::Zipf { theta })
            }
            "pareto" => match number(PARETO_DEFAULT, 1.0, false, "between 0 and 1")? {
                h if h < 1.0 => Ok(Distribution::Pareto { h }),
                h => Err(TextError::OutOfRange { text: h.to_string(), range: "between 0 and 1" }),
            },
            "normal" | "gauss" => {
                let deviation = number(0.0, 100.0, true, "from 0 to 100")?;
                Ok(Distribution::Normal { deviation })
            }
            "zoned" => zones(rest.unwrap_or_default()),
            "zoned_abs" => Err(TextError::ZonesInBytes),
            other => Err(TextError::Unknown(other.to_owned())),
        }
    }
}

fn zones(text: &str) -> Result<Distribution, TextError> {
    if text.contains(',') {
        return Err(TextError::ZonesOfEach);
    }
    let parts: Vec<&str> = text.split(':').collect();
    if parts.len() > PARTS_MOST {
        return Err(TextError::TooMany { found: parts.len(), parts: "zones", most: PARTS_MOST });
    }
    let (mut operations, mut regions) = (Vec::new(), Vec::new());
    for part in parts {
        let (ops, region) = part.split_once('/').ok_or_else(|| TextError::Zone(part.to_owned()))?;
        operations.push(percent(ops)?);
        regions.push(percent(region)?);
    }
    let operations = percents(&operations, "operations")?;
    let zones = operations.into_iter().zip(percents(&regions, "region")?);
    let zones: Vec<Zone> = zones.map(|(operations, region)| Zone { operations, region }).collect();
    if zones.iter().any(|zone| zone.region == 0.0 && zone.operations > 0.0) {
        return Err(TextError::EmptyZone);
    }
    Ok(Distribution::Zoned { zones })
}

/// As fio's `random_distribution` writes it.
impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Distribution::Uniform => write!(f, "random"),
            Distribution::Zipf { theta } => write!(f, "zipf:{theta}"),
            Distribution::Pareto { h } => write!(f, "pareto:{h}"),
            Distribution::Normal { deviation } => write!(f, "normal:{deviation}"),
            Distribution::Zoned { zones } => {
                write!(f, "zoned")?;
                zones.iter().try_for_each(|zone| write!(f, ":{}/{}", zone.operations, zone.region))
            }
        }
    }
}
