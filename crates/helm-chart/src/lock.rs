//! Digest text of a lock file, over the declared and the resolved dependencies.
//!
//! The digest is the SHA-256 of this text; the caller hashes it.

use helm_template::EncodeError;
use helm_template::data::Data;
use helm_template::json::{self, JsonStyle};

use crate::metadata::Dependency;

/// Fields of a dependency in the order of Go's struct.
const FIELD_ORDER: [&str; 8] =
    ["name", "version", "repository", "condition", "tags", "enabled", "import-values", "alias"];

/// Digest text since Helm 3: declared dependencies and locked ones.
pub fn digest_text(named: &[Dependency], locked: &[Dependency]) -> Result<String, EncodeError> {
    Ok(format!("[{},{}]", encode_list(named)?, encode_list(locked)?))
}

/// Digest text of Helm 2: the dependencies of `requirements.yaml`.
pub fn helm2_digest_text(named: &[Dependency]) -> Result<String, EncodeError> {
    Ok(format!(r#"{{"dependencies":{}}}"#, encode_list(named)?))
}

fn encode_list(dependencies: &[Dependency]) -> Result<String, EncodeError> {
    if dependencies.is_empty() {
        return Ok("null".into());
    }
    let texts: Result<Vec<_>, _> = dependencies.iter().map(encode_dependency).collect();
    Ok(format!("[{}]", texts?.join(",")))
}

fn encode_dependency(dependency: &Dependency) -> Result<String, EncodeError> {
    let data = dependency.to_data();
    let mut members = Vec::new();
    for key in FIELD_ORDER {
        if let Some(value) = data.get(key) {
            let written = |data: &Data| json::write(data, JsonStyle::Plain);
            members.push(format!("{}:{}", written(&Data::string(key))?, written(value)?));
        }
    }
    Ok(format!("{{{}}}", members.join(",")))
}
