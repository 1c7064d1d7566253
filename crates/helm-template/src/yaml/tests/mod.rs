//! Decoding, compared with `sigs.k8s.io/yaml` 1.4.0 and 1.6.0.

mod accepted;
mod head;
mod limits;
mod properties;
mod rejected;
mod resolution;

use crate::json::{self, JsonStyle};
use crate::yaml;

/// The decoded text as JSON, or the error.
fn json(text: &str) -> Result<String, String> {
    let data = yaml::parse(text.as_bytes()).map_err(|error| error.to_string())?;
    Ok(json::write(&data, JsonStyle::Plain).unwrap())
}

/// An error as users see it.
fn problem(text: &str) -> String {
    format!("error converting YAML to JSON: {text}")
}
