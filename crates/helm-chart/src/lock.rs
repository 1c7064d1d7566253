//! What a lock is checked by: a digest over the dependencies that a chart names and those that were found for them.
//!
//! The digest is SHA-256 of a text, which is made here; hashing is for who has the means.

use helm_template::Unwritable;
use helm_template::data::Data;
use helm_template::json::{self, Style};

use crate::metadata::Dependency;

/// The members of a dependency, in the order of Go's struct.
const ORDER: [&str; 8] =
    ["name", "version", "repository", "condition", "tags", "enabled", "import-values", "alias"];

/// What is hashed since Helm 3: what `Chart.yaml` names, and what the lock holds.
pub fn digest_text(named: &[Dependency], locked: &[Dependency]) -> Result<String, Unwritable> {
    Ok(format!("[{},{}]", list(named)?, list(locked)?))
}

/// What Helm 2 hashed: what `requirements.yaml` names.
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
