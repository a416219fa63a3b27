//! How values become columns: JSON text, and JSON deflated for the samples of a trial.

use rusqlite::types::Type;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Deflate level: 6 packs a trial to about the size that 9 does in a fraction of its time.
const LEVEL: u8 = 6;
/// Most bytes that one trial's samples may unpack to; a blob that claims more is damaged.
const LARGEST: usize = 1 << 30;

fn unwritable(error: impl std::error::Error + Send + Sync + 'static) -> rusqlite::Error {
    rusqlite::Error::ToSqlConversionFailure(Box::new(error))
}

fn unreadable(
    kind: Type,
    error: impl Into<Box<dyn std::error::Error + Send + Sync + 'static>>,
) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(0, kind, error.into())
}

pub fn json(value: &impl Serialize) -> rusqlite::Result<String> {
    serde_json::to_string(value).map_err(unwritable)
}

pub fn parse<T: DeserializeOwned>(text: &str) -> rusqlite::Result<T> {
    serde_json::from_str(text).map_err(|error| unreadable(Type::Text, error))
}

/// The name of a unit variant, without JSON's quotes.
pub fn name(value: &impl Serialize) -> rusqlite::Result<String> {
    json(value).map(|text| text.trim_matches('"').to_owned())
}

pub fn from_name<T: DeserializeOwned>(name: &str) -> rusqlite::Result<T> {
    T::deserialize(serde::de::value::StrDeserializer::<serde::de::value::Error>::new(name))
        .map_err(|error| unreadable(Type::Text, error))
}

pub fn pack(value: &impl Serialize) -> rusqlite::Result<Vec<u8>> {
    let json = serde_json::to_vec(value).map_err(unwritable)?;
    Ok(miniz_oxide::deflate::compress_to_vec_zlib(&json, LEVEL))
}

pub fn unpack<T: DeserializeOwned>(packed: &[u8]) -> rusqlite::Result<T> {
    let json = miniz_oxide::inflate::decompress_to_vec_zlib_with_limit(packed, LARGEST)
        .map_err(|error| unreadable(Type::Blob, error.to_string()))?;
    serde_json::from_slice(&json).map_err(|error| unreadable(Type::Blob, error))
}
