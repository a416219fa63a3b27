//! `[[effects]]`: what a level is said to do in a simulation, where there is no model of it.

use super::error::Mistake;
use super::read::{At, FromToml, Given, required, section, valid};
use super::sweep::{Combined, Condition, label_at};
use crate::problems::{Problems, Span};
use ebbtide_model::experiment::Environment;
use ebbtide_model::sweep::Planted;
use toml::de::{DeTable, DeValue};

/// Factors beyond which an effect is a slip of the pen.
const FACTORS: std::ops::RangeInclusive<f64> = 0.001..=1000.0;
const EXAMPLE: &str = "{ where = { filesystem = \"ext3\" }, rate = 0.5 }";

section! {
    /// What some designs are said to do in a simulation: planted by the author, neither measured nor modelled.
    #[schemars(rename = "Effect")]
    "an effect"
    struct RawEffect {
        /// Which designs: fields, each with the value or values that are meant.
        #[schemars(required)]
        r#where: Condition,
        /// Factor on operations and bytes in the same time [default: 1 / latency].
        rate: f64,
        /// Factor on latency [default: 1 / rate].
        latency: f64,
    }
}

impl FromToml for Vec<At<RawEffect>> {
    fn from_toml(value: &DeValue<'_>, span: &Span, problems: &mut Problems) -> Option<Self> {
        if let DeValue::Array(values) = value {
            return Some(values.iter().map(|value| At::read(value, problems)).collect());
        }
        problems.wrong_type(
            span,
            "a list of effects",
            value,
            format!("write for example `effects = [{EXAMPLE}]`"),
        );
        None
    }
}

/// The designs of an experiment, by what is written in them.
pub(super) struct Written<'a> {
    /// The experiment file as parsed TOML.
    pub file: &'a DeTable<'a>,
    /// Names of the designs, those of the sweep last.
    pub designs: Vec<&'a str>,
    /// The sweep, where there is one.
    pub sweep: Option<&'a Combined<'a>>,
    /// How many designs come before those of the sweep.
    pub plain: usize,
}

impl Written<'_> {
    /// What the design at `index` has in `field`, as names of designs have it.
    fn value(&self, index: usize, field: &str) -> Option<String> {
        let name = match (index.checked_sub(self.plain), self.sweep) {
            (Some(number), Some(sweep)) => {
                let varied = sweep.labels(number).into_iter().find(|(factor, _)| *factor == field);
                if let Some((_, level)) = varied {
                    return level.map(str::to_owned);
                }
                sweep.template()
            }
            _ => self.designs[index],
        };
        let design = self.file.get("designs")?.get_ref().get(name)?.get_ref().as_table()?;
        label_at(design, field)
    }

    /// Whether the design at `index` is one of those that `condition` means.
    fn meets(&self, index: usize, condition: &Condition) -> bool {
        condition.holds(|field| self.value(index, field))
    }
}

/// Adds `[[effect]]` tables to the simulated environment.
pub(super) fn plant(
    raw: &Given<Vec<At<RawEffect>>>,
    written: &Written<'_>,
    environment: &mut Environment,
    problems: &mut Problems,
) {
    // Where something else is wrong, designs may be missing that effects mean.
    let complete = problems.is_empty();
    for at in valid(raw).map_or(&[][..], |(effects, _)| effects) {
        let Some(effect) = &at.value else { continue };
        let section = ("an effect", &at.span);
        let condition =
            required(&effect.r#where, "where", "where = { filesystem = \"ext3\" }", section, problems);
        let planted = factors(effect, &at.span, problems);
        let (Some((condition, _)), Some(planted)) = (condition, planted) else { continue };
        let designs: Vec<usize> =
            (0..written.designs.len()).filter(|index| written.meets(*index, condition)).collect();
        if designs.is_empty() && complete {
            nobody(condition, written, &at.span, problems);
        }
        environment.planted_fields.extend(condition.0.iter().map(|field| field.name.clone()));
        for design in designs {
            let all = environment.planted.entry(written.designs[design].to_owned()).or_default();
            *all = all.and(planted);
        }
    }
}

/// Both factors; one that is not given is the inverse of the other, as where the operations in flight stay the same.
fn factors(effect: &RawEffect, span: &Span, problems: &mut Problems) -> Option<Planted> {
    let before = problems.count();
    let mut factor = |key: &'static str, given: &Given<f64>| {
        let (factor, at) = valid(given)?;
        if !FACTORS.contains(factor) {
            let range = format!("from {} to {}", FACTORS.start(), FACTORS.end());
            problems.out_of_range(at, key, factor, range, format!("write for example `{key} = 1.47`"));
        }
        Some(*factor)
    };
    let (rate, latency) = (factor("rate", &effect.rate), factor("latency", &effect.latency));
    if effect.rate.is_none() && effect.latency.is_none() {
        problems.missing(span, "rate", "an effect", EXAMPLE);
    }
    let both = match (rate, latency) {
        (Some(rate), Some(latency)) => Some(Planted { rate, latency }),
        (Some(rate), None) => Some(Planted { rate, latency: 1.0 / rate }),
        (None, Some(latency)) => Some(Planted { rate: 1.0 / latency, latency }),
        (None, None) => None,
    };
    both.filter(|_| problems.count() == before)
}

/// Reports an effect that no design has: the first value that none has, or all of them together.
fn nobody(condition: &Condition, written: &Written<'_>, span: &Span, problems: &mut Problems) {
    let all = 0..written.designs.len();
    for field in &condition.0 {
        let mut known: Vec<String> =
            all.clone().filter_map(|index| written.value(index, &field.name)).collect();
        known.sort();
        known.dedup();
        let stranger = field.values.iter().find(|(value, _)| !known.contains(value));
        if let Some((value, at)) = stranger {
            let (at, remedy) = match known.as_slice() {
                [] => (&field.span, "name a field that designs have".to_owned()),
                known => (at, format!("its values are {}", known.join(", "))),
            };
            let what = format!("no design has `{} = {value}`", field.name);
            return problems.report(at, Mistake::Sweep(what), remedy);
        }
    }
    problems.report(
        span,
        Mistake::Sweep("no design has all of these together".to_owned()),
        "remove the effect",
    );
}
