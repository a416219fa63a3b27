//! What an array would gain with typical volumes in the place of the accused.

use super::outcome::Attribution;
use serde::Serialize;

/// An array whose members carry equal shares, so that it is as fast as its slowest member allows: stripes and what is made of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Array {
    /// Name of the array, as in its experiment.
    pub name: String,
    /// Indices of its volumes in [`Attribution::volumes`].
    pub volumes: Vec<usize>,
}

/// What replacing volumes does.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Gain {
    /// The array whose slow volumes are replaced.
    pub array: String,
    /// Number of its volumes.
    pub members: usize,
    /// Names of the volumes to replace.
    pub replaced: Vec<String>,
    /// Speed of the array afterwards by that of now, as long as nothing but its volumes limits it.
    pub ratio: f64,
    /// Lower end of the interval.
    pub ci_low: f64,
    /// Upper end of the interval.
    pub ci_high: f64,
}

/// What `array` gains; nothing where its slowest volume is not accused.
///
/// An array of n members with equal shares runs at n times its slowest one: `ratio = min(effects, the accused at 1) / min(effects)`.
pub fn gain(attribution: &Attribution, array: &Array) -> Option<Gain> {
    let effects = || array.volumes.iter().filter_map(|volume| attribution.volumes.get(*volume));
    let speed = |accused_at_1: bool| {
        let of =
            |effect: &super::Effect| if accused_at_1 && effect.accused { Some(1.0) } else { effect.effect };
        effects().filter_map(of).min_by(f64::total_cmp)
    };
    let (before, after) = (speed(false)?, speed(true)?);
    let slowest = effects().find(|effect| effect.effect == Some(before) && effect.accused)?;
    let replaced: Vec<String> =
        effects().filter(|effect| effect.accused).map(|effect| effect.name.clone()).collect();
    Some(Gain {
        array: array.name.clone(),
        members: array.volumes.len(),
        replaced,
        ratio: after / before,
        ci_low: after / slowest.ci_high?,
        ci_high: after / slowest.ci_low?,
    })
}
