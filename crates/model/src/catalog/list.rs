//! A provider's price list, and what it changes in a catalogue.

use super::types::HourPrice;
use super::{Catalog, Date, PriceStep};
use std::collections::BTreeSet;

/// Prices of one or several regions.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PriceList {
    /// Where they come from.
    pub source: String,
    /// Prices of volumes.
    pub volumes: Vec<ListedVolume>,
    /// Of instances on demand, by their ids.
    pub instances: Vec<(String, HourPrice)>,
}

/// What a price is taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PricedItem {
    /// A GiB of size for a month.
    Size,
    /// An IOPS for a month, in the step of this number, from 0.
    Iops(usize),
    /// A MiB/s for a month.
    Throughput,
}

/// One price of a volume type.
#[derive(Debug, Clone, PartialEq)]
pub struct ListedVolume {
    /// The type's id, for example `gp3`.
    pub id: String,
    /// What the price is for.
    pub what: PricedItem,
    /// US dollars.
    pub usd: f64,
    /// The region in which it holds.
    pub region: String,
    /// A day on which it held, where the list says.
    pub as_of: Option<Date>,
}

/// The region whose prices count where nobody says and there are several: that of the built-in prices.
const REGION: &str = "us-east-1";

/// Regions of AWS, of all its partitions, in 2026-01.
pub const AWS_REGIONS: &[&str] = &[
    "af-south-1",
    "ap-east-1",
    "ap-east-2",
    "ap-northeast-1",
    "ap-northeast-2",
    "ap-northeast-3",
    "ap-south-1",
    "ap-south-2",
    "ap-southeast-1",
    "ap-southeast-2",
    "ap-southeast-3",
    "ap-southeast-4",
    "ap-southeast-5",
    "ap-southeast-6",
    "ap-southeast-7",
    "ca-central-1",
    "ca-west-1",
    "cn-north-1",
    "cn-northwest-1",
    "eu-central-1",
    "eu-central-2",
    "eu-north-1",
    "eu-south-1",
    "eu-south-2",
    "eu-west-1",
    "eu-west-2",
    "eu-west-3",
    "eusc-de-east-1",
    "il-central-1",
    "me-central-1",
    "me-south-1",
    "mx-central-1",
    "sa-east-1",
    "us-east-1",
    "us-east-2",
    "us-gov-east-1",
    "us-gov-west-1",
    "us-west-1",
    "us-west-2",
];

impl PriceList {
    /// The regions that it has prices of, in order.
    pub fn regions(&self) -> BTreeSet<&str> {
        let volumes = self.volumes.iter().map(|price| price.region.as_str());
        volumes.chain(self.instances.iter().map(|(_, hour)| hour.region.as_str())).collect()
    }

    fn region<'a>(&'a self, wanted: Option<&'a str>) -> Option<&'a str> {
        let regions = self.regions();
        match wanted {
            Some(wanted) => regions.get(wanted).copied(),
            None => regions.get(REGION).or_else(|| regions.first()).copied(),
        }
    }
}

impl Catalog {
    /// Takes over the prices of `list` in `region`, or in the one it is most likely about, for the types that can be had today.
    /// Where a step of IOPS or throughput begins, the list does not say: the catalogue's steps stay, and types of which it has no
    /// price stay without.
    pub fn reprice(&mut self, list: &PriceList, region: Option<&str>) {
        let Some(region) = list.region(region).map(str::to_owned) else { return };
        let today = |valid_until: Option<Date>| valid_until.is_none();
        for record in self.types.iter_mut().filter(|t| t.provider == "aws" && today(t.valid_until)) {
            let listed: Vec<&ListedVolume> =
                list.volumes.iter().filter(|price| price.id == record.id && price.region == region).collect();
            let Some(price) = record.price.as_mut().filter(|_| !listed.is_empty()) else { continue };
            let of = |what: PricedItem| listed.iter().find(|price| price.what == what).map(|price| price.usd);
            // What the list leaves out would be another region's.
            let Some(gib_month) = of(PricedItem::Size) else { continue };
            let step = |number: usize, step: &PriceStep| {
                Some(PriceStep { above: step.above, each: of(PricedItem::Iops(number))? })
            };
            let iops: Option<Vec<PriceStep>> =
                price.iops_month.iter().enumerate().map(|(number, old)| step(number, old)).collect();
            let throughput: Option<Vec<PriceStep>> = price
                .throughput_month
                .iter()
                .map(|old| Some(PriceStep { above: old.above, each: of(PricedItem::Throughput)? }))
                .collect();
            let (Some(iops_month), Some(throughput_month)) = (iops, throughput) else { continue };
            price.gib_month = gib_month;
            price.iops_month = iops_month;
            price.throughput_month = throughput_month;
            price.region.clone_from(&region);
            price.as_of = listed.iter().filter_map(|price| price.as_of).max();
            price.source.clone_from(&list.source);
        }
        for (id, hour) in list.instances.iter().filter(|(_, hour)| hour.region == region) {
            if let Some(instance) =
                self.instances.iter_mut().find(|known| known.provider == "aws" && known.id == *id)
            {
                instance.hour = Some(hour.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(id: &str, what: PricedItem, usd: f64, region: &str) -> ListedVolume {
        ListedVolume { id: id.into(), what, usd, region: region.into(), as_of: "2026-01-31".parse().ok() }
    }

    #[test]
    fn a_list_replaces_what_it_has_whole_and_nothing_else() {
        let mut catalog = Catalog::builtin().clone();
        let list = PriceList {
            source: "list".into(),
            volumes: vec![
                listed("gp3", PricedItem::Size, 0.1, "eu-west-1"),
                listed("gp3", PricedItem::Iops(0), 0.006, "eu-west-1"),
                listed("gp3", PricedItem::Throughput, 0.05, "eu-west-1"),
                // Without its IOPS.
                listed("io2", PricedItem::Size, 0.2, "eu-west-1"),
                listed("gp2", PricedItem::Size, 0.3, "ap-south-1"),
            ],
            instances: vec![],
        };
        catalog.reprice(&list, Some("eu-west-1"));
        let price =
            |name: &str| catalog.volume_type(name, None).expect("is there").price.clone().expect("has one");
        let gp3 = price("gp3");
        assert_eq!((gp3.gib_month, gp3.iops_month[0].above, gp3.iops_month[0].each), (0.1, 3000.0, 0.006));
        assert_eq!((gp3.throughput_month[0].each, gp3.region.as_str()), (0.05, "eu-west-1"));
        assert_eq!(gp3.as_of.map(|day| day.to_string()).as_deref(), Some("2026-01-31"));
        for other in ["io2", "gp2"] {
            assert_eq!(price(other).region, "us-east-1", "{other}");
        }
        let old = catalog.volume_type("gp3", "2024-01-01".parse().ok()).expect("is there");
        assert_eq!(old.price.as_ref().map(|price| price.gib_month), Some(0.08), "of another day");
        let mut other = Catalog::builtin().clone();
        other.reprice(&list, Some("mars-1"));
        assert_eq!(&other, Catalog::builtin());
    }
}
