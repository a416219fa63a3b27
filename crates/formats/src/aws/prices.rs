//! `aws pricing get-products --service-code AmazonEC2`: each product is JSON inside of a text. Of volumes the families `Storage`,
//! `System Operation` and `Provisioned Throughput` are read, of instances Linux on shared hosts on demand.
//!
//! Usage types are `EBS:VolumeUsage.gp3` in us-east-1 and have a prefix elsewhere (`APN1-EBS:VolumeUsage.gp3`). Throughput of gp3
//! is priced for a GiB/s.

use super::AwsError;
use ebbtide_model::catalog::{Date, HourPrice, ListedVolume, PriceList, PricedItem};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

const COMMAND: &str = "aws pricing get-products";

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    product: Product,
    #[serde(default)]
    terms: BTreeMap<String, BTreeMap<String, Term>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Product {
    #[serde(default)]
    product_family: String,
    attributes: BTreeMap<String, Value>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Term {
    price_dimensions: BTreeMap<String, Dimension>,
    effective_date: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Dimension {
    unit: String,
    price_per_unit: BTreeMap<String, String>,
}

/// Why a product has no price that could be used.
#[derive(Debug, thiserror::Error)]
enum PriceError {
    #[error("the unit `{0}` is not one that is known for it")]
    Unit(String),
    #[error("it has no price in USD; ask for a region that has")]
    NoDollars,
    #[error("`{0}` is no price")]
    NoPrice(String),
}

pub(super) fn read(list: &[Value]) -> Result<PriceList, AwsError> {
    let mut prices = PriceList { source: COMMAND.to_owned(), ..PriceList::default() };
    for (number, value) in list.iter().enumerate() {
        let shape = |what: String| AwsError::Shape {
            command: COMMAND,
            what: format!("product {}: {what}", number + 1),
        };
        // As the command prints it, or as `jq` unpacked it.
        let entry: Entry = match value {
            Value::String(text) => serde_json::from_str(text),
            other => Entry::deserialize(other),
        }
        .map_err(|error| shape(error.to_string()))?;
        add(&entry, &mut prices).map_err(|error| shape(error.to_string()))?;
    }
    Ok(prices)
}

impl Product {
    fn attribute(&self, name: &str) -> &str {
        self.attributes.get(name).and_then(Value::as_str).unwrap_or_default()
    }
}

fn add(entry: &Entry, prices: &mut PriceList) -> Result<(), PriceError> {
    let product = &entry.product;
    let region = product.attribute("regionCode").to_owned();
    let Some(term) = entry.terms.get("OnDemand").and_then(|terms| terms.values().next()) else {
        return Ok(());
    };
    let as_of = term.effective_date.as_deref().and_then(day);
    let usage = product.attribute("usagetype");
    match product.product_family.as_str() {
        "Storage" | "System Operation" | "Provisioned Throughput" => {
            let Some((_, ebs)) = usage.split_once("EBS:") else { return Ok(()) };
            let Some((id, what)) = volume(ebs) else { return Ok(()) };
            for dimension in term.price_dimensions.values() {
                let Some(each) = unit(what, &dimension.unit)? else { continue };
                let usd = dollars(dimension)? * each;
                let region = region.clone();
                prices.volumes.push(ListedVolume { id: id.to_owned(), what, usd, region, as_of });
            }
        }
        "Compute Instance" | "Compute Instance (bare metal)" => {
            let is = |name: &str, wanted: &str| product.attribute(name) == wanted;
            let plain = is("operatingSystem", "Linux")
                && is("tenancy", "Shared")
                && is("preInstalledSw", "NA")
                && is("capacitystatus", "Used");
            let id = product.attribute("instanceType").to_owned();
            for dimension in term.price_dimensions.values().filter(|d| plain && d.unit == "Hrs") {
                let hour = HourPrice { usd: dollars(dimension)?, region: region.clone(), as_of };
                prices.instances.push((id.clone(), hour));
            }
        }
        _ => {}
    }
    Ok(())
}

/// `2026-10-01T00:00:00Z` as a day.
fn day(text: &str) -> Option<Date> {
    text.get(..10)?.parse().ok()
}

/// The type and what is paid, from what stands behind `EBS:` in a usage type.
fn volume(usage: &str) -> Option<(&str, PricedItem)> {
    let named = |id| if id == "piops" { "io1" } else { id };
    let (kind, id) = usage.split_once('.').unwrap_or((usage, "standard"));
    Some(match kind {
        "VolumeUsage" => (named(id), PricedItem::Size),
        "VolumeP-IOPS" => {
            // `io2`, `io2.tier2`, `io2.tier3`.
            let (id, tier) = id.split_once(".tier").unwrap_or((id, "1"));
            (named(id), PricedItem::Iops(tier.parse::<usize>().ok()?.checked_sub(1)?))
        }
        "VolumeP-Throughput" => (named(id), PricedItem::Throughput),
        _ => return None,
    })
}

/// By what a price for `unit` is multiplied for one GiB, IOPS or MiB/s and a month; nothing where it is for something else.
fn unit(what: PricedItem, unit: &str) -> Result<Option<f64>, PriceError> {
    let unit = unit.to_ascii_lowercase();
    Ok(match (what, unit.as_str()) {
        (PricedItem::Size, "gb-mo" | "gb-month") | (PricedItem::Iops(_), "iops-mo") => Some(1.0),
        (PricedItem::Throughput, "gibps-mo") => Some(1.0 / 1024.0),
        (PricedItem::Throughput, "mibps-mo") => Some(1.0),
        // Magnetic volumes' operations.
        (_, "ios") => None,
        _ => return Err(PriceError::Unit(unit)),
    })
}

fn dollars(dimension: &Dimension) -> Result<f64, PriceError> {
    let text = dimension.price_per_unit.get("USD").ok_or(PriceError::NoDollars)?;
    text.parse()
        .ok()
        .filter(|usd: &f64| usd.is_finite() && *usd >= 0.0)
        .ok_or_else(|| PriceError::NoPrice(text.clone()))
}
