//! What Helm reads of a manifest.

use helm_template::data::Data;
use helm_template::profile::Profile;
use helm_template::value::Str;
use helm_template::yaml;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    pub api_version: Str,
    pub kind: Str,
    pub name: Str,
    pub annotations: Vec<(Str, Str)>,
}

impl Head {
    pub fn annotation(&self, name: &str) -> Option<&str> {
        self.annotations.iter().find(|(key, _)| &**key == name).map(|(_, value)| &**value)
    }
}

/// Reads it; what is no YAML, or not of these types, is refused in Helm's words.
pub fn head(document: &[u8], _profile: Profile) -> Result<Head, Str> {
    let data = yaml::parse(document)?;
    let text = |data: Option<&Data>| data.and_then(Data::as_str).unwrap_or_default().into();
    let metadata = data.get("metadata");
    let annotations = metadata.and_then(|metadata| metadata.get("annotations")).and_then(Data::as_map);
    Ok(Head {
        api_version: text(data.get("apiVersion")),
        kind: text(data.get("kind")),
        name: text(metadata.and_then(|metadata| metadata.get("name"))),
        annotations: annotations
            .map(|all| all.iter().map(|(key, value)| (key.clone(), text(Some(value)))).collect())
            .unwrap_or_default(),
    })
}
