//! What AWS's command line prints and people save: types of instances, volumes, prices. Told apart by their keys.

mod prices;
#[cfg(test)]
mod tests;
mod volumes;

pub use volumes::OwnedVolumes;

use ebbtide_model::catalog::{Catalog, Instance, PriceList};
use serde::Deserialize;
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
         `aws ec2 describe-volumes` or `aws pricing get-products` prints with `--output json`"
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

/// Whether `text` may be one of these: JSON begins with a brace, a catalogue file cannot.
pub fn is_json(text: &str) -> bool {
    text.trim_start_matches('\u{feff}').trim_start().starts_with('{')
}

/// Reads a saved output.
///
/// # Errors
/// A text that is none of those known, or not whole.
pub fn parse(text: &str) -> Result<AwsOutput, AwsError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Keys {
        instance_types: Option<serde::de::IgnoredAny>,
        volumes: Option<Value>,
        price_list: Option<Vec<Value>>,
    }
    let text = text.trim_start_matches('\u{feff}');
    let keys: Keys = serde_json::from_str(text).map_err(|error| AwsError::Json(error.to_string()))?;
    if keys.instance_types.is_some() {
        const COMMAND: &str = "aws ec2 describe-instance-types";
        let shape = |error: String| AwsError::Shape { command: COMMAND, what: error };
        return Catalog::import(text)
            .map(|file| AwsOutput::Instances(file.instance))
            .map_err(|e| shape(e.to_string()));
    }
    if let Some(listed) = keys.volumes {
        return volumes::read(listed).map(AwsOutput::Volumes);
    }
    let list = keys.price_list.ok_or(AwsError::Unknown)?;
    prices::read(&list).map(AwsOutput::Prices)
}
