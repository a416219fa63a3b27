//! The JSON Schema of the experiment file, for editors.

use super::parse::RawExperiment;
use schemars::generate::SchemaSettings;
use schemars::transform::{Transform, transform_subschemas};
use schemars::{JsonSchema, Schema, SchemaGenerator};

/// The schema (draft 7, which TOML editors read), generated from the structs that the parser fills.
pub fn json_schema() -> serde_json::Value {
    of::<RawExperiment>("Ebbtide experiment")
}

/// The schema of a file that is read as a `T`.
pub(super) fn of<T: JsonSchema>(title: &str) -> serde_json::Value {
    let settings = SchemaSettings::draft07().with_transform(NoNull);
    let mut schema = SchemaGenerator::new(settings).into_root_schema_for::<T>();
    schema.insert("title".to_owned(), title.into());
    schema.to_value()
}

/// TOML has no null: a key that is not required is left out, never null.
#[derive(Debug, Clone)]
struct NoNull;

impl Transform for NoNull {
    fn transform(&mut self, schema: &mut Schema) {
        transform_subschemas(self, schema);
        let Some(object) = schema.as_object_mut() else { return };
        if let Some(serde_json::Value::Array(types)) = object.get_mut("type") {
            types.retain(|kind| kind != "null");
            if let [only] = types.as_slice() {
                let only = only.clone();
                object.insert("type".to_owned(), only);
            }
        }
        if let Some(serde_json::Value::Array(words)) = object.get_mut("enum") {
            words.retain(|word| !word.is_null());
        }
        if let Some(serde_json::Value::Array(variants)) = object.get_mut("anyOf") {
            variants.retain(|variant| variant.get("type").is_none_or(|kind| kind != "null"));
            if let [serde_json::Value::Object(only)] = variants.as_slice() {
                let only = only.clone();
                object.remove("anyOf");
                for (key, value) in only {
                    object.entry(key).or_insert(value);
                }
            }
        }
    }
}
