//! What a volume costs a month.

use super::resolve::VolumeOrder;
use super::types::{IopsRule, Price, PriceStep, ThroughputRule, VolumeType};
use crate::units::Bytes;

impl Price {
    /// What makes it unusable, if anything.
    pub(super) fn unusable(&self) -> Option<&'static str> {
        let amount = |dollars: f64| dollars.is_finite() && dollars >= 0.0;
        let steps = || self.iops_month.iter().chain(&self.throughput_month);
        let rises = |steps: &[PriceStep]| steps.windows(2).all(|pair| pair[0].above < pair[1].above);
        if !amount(self.gib_month) || !steps().all(|step| amount(step.above) && amount(step.each)) {
            return Some("a price is a number of US dollars, 0 or more");
        }
        let ordered = rises(&self.iops_month) && rises(&self.throughput_month);
        (!ordered).then_some("the steps of a price begin with the lowest `above`")
    }
}

/// What `ordered` costs by `steps`.
fn stepped(ordered: f64, steps: &[PriceStep]) -> f64 {
    let ends = steps.iter().skip(1).map(|step| step.above).chain([f64::INFINITY]);
    steps.iter().zip(ends).map(|(step, end)| (ordered.min(end) - step.above).max(0.0) * step.each).sum()
}

impl VolumeType {
    /// US dollars a month for a volume that is ordered so, where the record has a price.
    pub fn price_of(&self, order: &VolumeOrder) -> Option<f64> {
        let price = self.price.as_ref()?;
        let iops = match self.iops {
            IopsRule::Provisioned { included, .. } => order.iops.or(included).unwrap_or(0.0),
            _ => 0.0,
        };
        let throughput = match self.throughput.rule {
            ThroughputRule::Provisioned { included, .. } => {
                order.throughput.map_or(included, |bytes| bytes / self.throughput_unit())
            }
            _ => 0.0,
        };
        Some(
            price.gib_month * order.size.0 as f64 / Bytes::GIB as f64
                + stepped(iops, &price.iops_month)
                + stepped(throughput, &price.throughput_month),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::Catalog;
    use super::*;

    fn dollars(name: &str, gib: u64, iops: Option<f64>, mib: Option<f64>) -> Option<f64> {
        let record = Catalog::builtin().volume_type(name, None).expect("is there");
        let throughput = mib.map(|mib| mib * 1_048_576.0);
        record.price_of(&VolumeOrder { size: Bytes(gib << 30), iops, throughput })
    }

    #[track_caller]
    fn costs(found: Option<f64>, expected: f64) {
        let found = found.expect("has a price");
        assert!((found - expected).abs() < 1e-9, "{found} is not {expected}");
    }

    #[test]
    fn a_volume_costs_its_size_and_what_is_ordered_beyond_what_is_included() {
        costs(dollars("gp2", 500, None, None), 50.0);
        costs(dollars("gp3", 500, None, None), 40.0);
        costs(dollars("gp3", 500, Some(3000.0), Some(125.0)), 40.0);
        costs(dollars("gp3", 500, Some(6000.0), Some(250.0)), 40.0 + 3000.0 * 0.005 + 125.0 * 0.04);
        costs(dollars("io1", 100, Some(1000.0), None), 12.5 + 65.0);
    }

    #[test]
    fn each_step_has_its_own_price() {
        costs(dollars("io2", 100, Some(32_000.0), None), 12.5 + 32_000.0 * 0.065);
        let first_two = 12.5 + 32_000.0 * 0.065 + 32_000.0 * 0.0455;
        costs(dollars("io2", 100, Some(64_000.0), None), first_two);
        costs(dollars("io2", 100, Some(100_000.0), None), first_two + 36_000.0 * 0.03185);
    }

    #[test]
    fn what_has_no_price_has_none() {
        // Magnetic volumes cost by use too.
        assert_eq!(dollars("aws:standard", 100, None, None), None);
        let record = Catalog::builtin().volume_type("gp2", "2016-01-31".parse().ok()).expect("is there");
        assert_eq!(record.price, None, "the source is of another time");
    }

    #[test]
    fn a_price_that_is_none_is_refused() {
        let of = |price: &str| {
            let text = format!(
                "[[volume_type]]\nprovider = \"own\"\nid = \"x\"\nname = \"x\"\nmedia = \"ssd\"\nsize_gib = {{ min = 1, max = 2 }}\n\
                 iops = {{ model = \"fixed\", value = 1 }}\nthroughput = {{ model = \"fixed\", value = 1, unit = \"MB/s\" }}\n\
                 latency = {{ read_median_us = 1, read_p99_us = 2, write_median_us = 1, write_p99_us = 2, basis = \"b\" }}\n\
                 sources = []\nprice = {{ {price}, region = \"here\", source = \"s\" }}\n"
            );
            Catalog::default().add_file(&text, "own.toml").map_err(|error| error.to_string())
        };
        assert_eq!(of("gib_month = 0.1"), Ok(()));
        assert!(of("gib_month = -0.1").unwrap_err().contains("own:x: a price is a number of US dollars"));
        let steps = "gib_month = 0, iops_month = [{ above = 9, each = 1 }, { above = 3, each = 1 }]";
        assert!(of(steps).unwrap_err().contains("the lowest `above`"));
    }
}
