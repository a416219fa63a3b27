//! What AWS's command line prints and people save: types of instances, volumes, prices. Told apart by their keys.

mod prices;
#[cfg(test)]
mod tests;
mod volumes;

pub use volumes::OwnedVolumes;

use ebbtide_model::catalog::{Catalog, Instance, PriceList};
use serde_json::Value;

/// What a saved output holds.
#[derive(Debug, Clone, PartialEq)]
pub enum AwsOutput {
    /// Of `aws ec2 describe-instance-types`.
    Instances(Vec<Instance>),
    /// Of `aws ec2 describe-volumes`.
    Volumes(Vec<OwnedVolumes>),
    /// Of `aws pricing get-products`.
    Prices(PriceList),
}

/// Why a text is none of them.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum AwsError {
    /// The text is not JSON, and why.
    #[error("this is not JSON: {0}")]
    Json(String),
    /// JSON of something else.
    #[error(
        "this is JSON, but has no `InstanceTypes`, `Volumes` or `PriceList`; save what `aws ec2 describe-instance-types`, \
         `aws ec2 describe-volumes` or `aws pricing get-products` prints with `--output json`, without `--query` or with one that keeps \
         whole entries: --query 'Volumes[]'"
    )]
    Unknown,
    /// Not as AWS prints it.
    #[error("this is not what `{command}` prints: {what}")]
    Shape {
        /// The command whose output it resembles.
        command: &'static str,
        /// Where and how it differs.
        what: String,
    },
}

/// Whether `text` may be one of these: it is JSON as a whole, or begins as an object or a list of them, which no catalogue file does.
pub fn is_json(text: &str) -> bool {
    let text = text.trim_start_matches('\u{feff}').trim_start();
    let rest = text.strip_prefix('[').map_or(text, str::trim_start);
    rest.starts_with('{') || serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

/// What an output consists of, with the key that holds its entries where nothing is left out.
fn entries(value: Value) -> Result<(&'static str, Value), AwsError> {
    let list = match value {
        Value::Object(mut fields) => {
            for key in [INSTANCES, VOLUMES, PRICES] {
                if let Some(list) = fields.remove(key) {
                    return Ok((key, list));
                }
            }
            // One entry: --query 'Volumes[0]'
            vec![Value::Object(fields)]
        }
        // --query 'Volumes[]'
        Value::Array(list) => list,
        _ => return Err(AwsError::Unknown),
    };
    let has = |key: &str| list.first().is_some_and(|entry| entry.get(key).is_some());
    let key = if has("InstanceType") && has("VCpuInfo") {
        INSTANCES
    } else if has("VolumeType") {
        VOLUMES
    } else if has("product") || list.first().is_some_and(Value::is_string) {
        PRICES
    } else {
        return Err(AwsError::Unknown);
    };
    Ok((key, Value::Array(list)))
}

const INSTANCES: &str = "InstanceTypes";
const VOLUMES: &str = "Volumes";
const PRICES: &str = "PriceList";

/// Reads a saved output, whole or what `--query` left of it.
///
/// # Errors
/// A text that is none of those known, or not whole.
pub fn parse(text: &str) -> Result<AwsOutput, AwsError> {
    let text = text.trim_start_matches('\u{feff}');
    let value: Value = serde_json::from_str(text).map_err(|error| AwsError::Json(error.to_string()))?;
    match entries(value)? {
        (INSTANCES, list) => {
            const COMMAND: &str = "aws ec2 describe-instance-types";
            let whole = serde_json::json!({ INSTANCES: list }).to_string();
            Catalog::import(&whole)
                .map(|file| AwsOutput::Instances(file.instance))
                .map_err(|error| AwsError::Shape { command: COMMAND, what: error.to_string() })
        }
        (VOLUMES, list) => volumes::read(list).map(AwsOutput::Volumes),
        (_, Value::Array(list)) => prices::read(&list).map(AwsOutput::Prices),
        _ => Err(AwsError::Unknown),
    }
}
