//! Digest text of a lock file, over the declared and the resolved dependencies.
//!
//! The digest is the SHA-256 of this text; the caller hashes it.

use helm_template::Unwritable;
use helm_template::data::Data;
use helm_template::json::{self, Style};

use crate::metadata::Dependency;

/// Fields of a dependency in the order of Go's struct.
const ORDER: [&str; 8] =
    ["name", "version", "repository", "condition", "tags", "enabled", "import-values", "alias"];

/// Digest text since Helm 3: declared dependencies and locked ones.
pub fn digest_text(named: &[Dependency], locked: &[Dependency]) -> Result<String, Unwritable> {
    Ok(format!("[{},{}]", list(named)?, list(locked)?))
}

/// Digest text of Helm 2: the dependencies of `requirements.yaml`.
pub fn digest_text_of_helm2(named: &[Dependency]) -> Result<String, Unwritable> {
    Ok(format!(r#"{{"dependencies":{}}}"#, list(named)?))
}

fn list(dependencies: &[Dependency]) -> Result<String, Unwritable> {
    if dependencies.is_empty() {
        return Ok("null".into());
    }
    let texts: Result<Vec<_>, _> = dependencies.iter().map(one).collect();
    Ok(format!("[{}]", texts?.join(",")))
}

fn one(dependency: &Dependency) -> Result<String, Unwritable> {
    let data = dependency.to_data();
    let mut members = Vec::new();
    for key in ORDER {
        if let Some(value) = data.get(key) {
            let written = |data: &Data| json::write(data, Style::Plain);
            members.push(format!("{}:{}", written(&Data::string(key))?, written(value)?));
        }
    }
    Ok(format!("{{{}}}", members.join(",")))
}
