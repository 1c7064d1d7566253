//! Which representation a client gets: the first acceptable one of its `Accept` header.

use crate::error::{ApiError, Result};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    #[default]
    Json,
    Yaml,
}

/// What an object is shown as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum View {
    #[default]
    Whole,
    /// `meta.k8s.io` Table of this version.
    Table(&'static str),
    Metadata(&'static str),
    MetadataList(&'static str),
    /// Aggregated discovery of this version.
    Discovery(&'static str),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Representation {
    pub format: Format,
    pub view: View,
}

impl Representation {
    pub fn content_type(self) -> &'static str {
        match self.format {
            Format::Json => "application/json",
            Format::Yaml => "application/yaml",
        }
    }
}

const TYPES: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";

/// Chooses; `views` says which transformations the endpoint offers.
pub fn choose(accept: Option<&str>, views: fn(&str, &str, &str) -> Option<View>) -> Result<Representation> {
    let accept = accept.unwrap_or_default();
    if accept.trim().is_empty() {
        return Ok(Representation::default());
    }
    let mut known_type = false;
    for offer in accept.split(',') {
        let mut parts = offer.split(';').map(str::trim);
        let format = match parts.next().unwrap_or_default() {
            "application/json" | "*/*" | "application/*" => Format::Json,
            "application/yaml" => Format::Yaml,
            "application/vnd.kubernetes.protobuf" => {
                known_type = true; // known to Kubernetes; we answer in another type of the list
                continue;
            }
            _ => continue,
        };
        known_type = true;
        let (mut kind, mut group, mut version) = ("", "", "");
        for (key, value) in parts.filter_map(|part| part.split_once('=')) {
            match key.trim() {
                "as" => kind = value.trim(),
                "g" => group = value.trim(),
                "v" => version = value.trim(),
                _ => {}
            }
        }
        if kind.is_empty() {
            return Ok(Representation { format, view: View::Whole });
        }
        if let Some(view) = views(kind, group, version) {
            return Ok(Representation { format, view });
        }
    }
    if known_type {
        return Err(ApiError::not_acceptable(TYPES));
    }
    let message = format!("406: Not Acceptable\n\nAvailable representations: {TYPES}");
    Err(ApiError::new(406, "NotAcceptable", message).with_details(&[]))
}

/// The transformations of objects and lists.
pub fn object_views(kind: &str, group: &str, version: &str) -> Option<View> {
    if group != "meta.k8s.io" {
        return None;
    }
    let version = match version {
        "v1" => "v1",
        "v1beta1" => "v1beta1",
        _ => return None,
    };
    match kind {
        "Table" => Some(View::Table(version)),
        "PartialObjectMetadata" => Some(View::Metadata(version)),
        "PartialObjectMetadataList" => Some(View::MetadataList(version)),
        _ => None,
    }
}

/// The transformations of `/api` and `/apis`.
pub fn discovery_views(kind: &str, group: &str, version: &str) -> Option<View> {
    match (kind, group, version) {
        ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2") => Some(View::Discovery("v2")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_acceptable_offer_wins() {
        let ask =
            |accept: &str| choose(Some(accept), object_views).map(|r| (r.format, r.view)).map_err(|e| e.code);
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
        assert_eq!(ask(table), Ok((Format::Json, View::Table("v1"))));
        assert_eq!(
            ask("application/json;as=Table;v=v9;g=meta.k8s.io,application/json"),
            Ok((Format::Json, View::Whole))
        );
        assert_eq!(ask("application/json;as=Nothing;v=v1;g=meta.k8s.io"), Err(406));
        assert_eq!(
            ask("application/vnd.kubernetes.protobuf,application/json"),
            Ok((Format::Json, View::Whole))
        );
        assert_eq!(ask("application/yaml"), Ok((Format::Yaml, View::Whole)));
        assert_eq!(ask("text/html"), Err(406));
        assert_eq!(ask(""), Ok((Format::Json, View::Whole)));
    }
}
