//! How values become columns: JSON text, and for the samples of a trial JSON and bytes, deflated.

use ebbtide_model::samples::{Parted, TrialSamples};
use rusqlite::types::Type;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Deflate level: 6 packs a trial to about the size that 9 does in a fraction of its time.
const LEVEL: u8 = 6;
/// Most bytes that one trial's samples may unpack to; a blob that claims more is damaged.
const LARGEST: usize = 1 << 30;
/// Bytes that say how long the JSON is.
const LENGTH: usize = 4;

fn unwritable(error: impl std::error::Error + Send + Sync + 'static) -> rusqlite::Error {
    rusqlite::Error::ToSqlConversionFailure(Box::new(error))
}

fn unreadable(
    kind: Type,
    error: impl Into<Box<dyn std::error::Error + Send + Sync + 'static>>,
) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(0, kind, error.into())
}

/// That what is stored cannot have been written so.
pub fn damaged(what: String) -> rusqlite::Error {
    unreadable(Type::Null, what)
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

/// What the samples of a trial begin with: not 0x78, with which those begin that were stored as JSON alone, deflated.
const PARTED: u8 = 1;

/// Samples as they are stored: [`PARTED`]; deflated, the length of the JSON in four bytes (little-endian), the JSON of all but
/// the bulk, and the bulk.
pub fn pack(samples: &TrialSamples) -> rusqlite::Result<Vec<u8>> {
    let Parted { rest, bulk } = samples.part();
    let mut plain = vec![0; LENGTH];
    serde_json::to_writer(&mut plain, &rest).map_err(unwritable)?;
    let length = u32::try_from(plain.len() - LENGTH).map_err(unwritable)?;
    plain[..LENGTH].copy_from_slice(&length.to_le_bytes());
    plain.extend(bulk);
    let mut packed = vec![PARTED];
    packed.extend(miniz_oxide::deflate::compress_to_vec_zlib(&plain, LEVEL));
    Ok(packed)
}

pub fn unpack(packed: &[u8]) -> rusqlite::Result<TrialSamples> {
    let (parted, deflated) = match packed.split_first() {
        Some((&PARTED, deflated)) => (true, deflated),
        _ => (false, packed),
    };
    let plain = miniz_oxide::inflate::decompress_to_vec_zlib_with_limit(deflated, LARGEST)
        .map_err(|error| unreadable(Type::Blob, error.to_string()))?;
    if !parted {
        return serde_json::from_slice(&plain).map_err(|error| unreadable(Type::Blob, error));
    }
    let early = || unreadable(Type::Blob, "the samples of a trial end early");
    let (length, plain) = plain.split_first_chunk().ok_or_else(early)?;
    let (json, bulk) = plain.split_at_checked(u32::from_le_bytes(*length) as usize).ok_or_else(early)?;
    let rest = serde_json::from_slice(json).map_err(|error| unreadable(Type::Blob, error))?;
    Parted { rest, bulk: bulk.to_vec() }.join().map_err(|error| unreadable(Type::Blob, error))
}
