//! Rates that somebody set, as people say them: the round figure, and what a cloud grants just so much of.

use super::case::Case;
use super::usage::Counted;
use ebbtide_model::catalog::{Catalog, Granted};
use ebbtide_model::units::{Bytes, format_iops, format_throughput};

/// How far a rate may be from a round one, or from a catalogue's, to be told as that.
const ROUND: f64 = 0.015;
/// Types of the catalogue that are named.
const NAMED: usize = 2;

/// The round figure that `rate` is about, or itself: of one digit, of a quarter of that (125), or of two; of operations, of MiB/s or
/// of MB/s.
pub fn round(counted: Counted, rate: f64) -> f64 {
    const QUARTER: f64 = 0.25;
    let units: &[f64] = match counted {
        Counted::Operations => &[1.0],
        Counted::Bytes => &[Bytes::MIB as f64, 1e6],
    };
    for (part, within) in [(1.0, ROUND), (QUARTER, ROUND / 2.0), (0.1, ROUND)] {
        for unit in units {
            let step = (10f64.powf((rate / unit).log10().floor()) * part).max(part.min(1.0));
            let round = (rate / unit / step).round() * step;
            let told = part >= QUARTER || (round - round.round()).abs() < 1e-9;
            if told && (rate / unit / round - 1.0).abs() <= within {
                return round * unit;
            }
        }
    }
    rate
}

/// The round figure of `rate` in words: `1,000 operations a second`, `40 MiB/s`.
pub fn shown(counted: Counted, rate: f64) -> String {
    let round = round(counted, rate);
    match counted {
        Counted::Operations if round < 1e5 => format!("{} operations a second", grouped(round)),
        Counted::Operations => format!("{} operations a second", format_iops(round)),
        Counted::Bytes => {
            let mib = round / Bytes::MIB as f64;
            if (mib - mib.round()).abs() < 1e-6 && mib >= 1.0 {
                format!("{mib:.0} MiB/s")
            } else {
                format_throughput(round)
            }
        }
    }
}

/// A number with its thousands apart: `1,000`.
pub fn grouped(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Types of the cloud that the host is in which grant a volume of this size just that. What is ordered beyond the least may be anything.
pub fn fitting(case: &Case<'_>, counted: Counted, rate: f64) -> Vec<String> {
    let meta = &case.meta;
    let machine = meta.host.machine.as_deref().unwrap_or_default();
    let clouds = [("Amazon", "aws"), ("Google", "gcp"), ("Microsoft", "azure")];
    let cloud = clouds.into_iter().find(|(name, _)| machine.contains(name));
    let works = |name: &str| case.working().any(|member| member.name == name);
    let size = meta.inventory.volumes.iter().find(|volume| works(&volume.name)).map(|volume| volume.size);
    let Some(((_, provider), size)) = cloud.zip(size) else { return Vec::new() };
    let fits = |Granted { least, .. }: &Granted| {
        let limits = [Some(least.rate), least.burst_rate];
        limits.into_iter().flatten().any(|limit| (rate / limit - 1.0).abs() <= ROUND)
    };
    let candidates = Catalog::builtin().candidates(provider, size).into_iter();
    let fitting = candidates.filter(|candidate| match counted {
        Counted::Operations => fits(&candidate.iops),
        Counted::Bytes => fits(&candidate.throughput),
    });
    fitting.map(|candidate| candidate.volume_type).take(NAMED).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_told_as_people_set_them() {
        let ops = |rate| shown(Counted::Operations, rate);
        assert_eq!(ops(1003.0), "1,000 operations a second");
        assert_eq!(ops(2993.0), "3,000 operations a second");
        assert_eq!(ops(1234.0), "1,234 operations a second");
        assert_eq!(ops(99.6), "100 operations a second");
        assert_eq!(ops(16_010.0), "16,000 operations a second");
        let bytes = |rate| shown(Counted::Bytes, rate);
        assert_eq!(bytes(40.1 * 1_048_576.0), "40 MiB/s");
        assert_eq!(bytes(100.2e6), "100 MB/s");
        assert_eq!(bytes(123.4e6), "123 MB/s");
    }
}
