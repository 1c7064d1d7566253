//! Content negotiation: the first acceptable representation of the `Accept` header.

use crate::error::{ApiError, Result};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    #[default]
    Json,
    Yaml,
}

/// The transformation of a returned object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum View {
    #[default]
    Object,
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

/// The media types that an endpoint offers, as its errors list them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OfferedTypes {
    Object,
    /// Objects, which can also be watched.
    List,
    /// JSON only.
    Json,
    /// Objects, of an endpoint that accepts unknown media types in the header.
    Lenient,
}

impl OfferedTypes {
    fn media_types(self) -> &'static str {
        match self {
            Self::Object | Self::Lenient => TYPES,
            Self::List => {
                "application/json, application/yaml, application/vnd.kubernetes.protobuf, \
                 application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"
            }
            Self::Json => "application/json",
        }
    }

    /// Whether the endpoint knows the media type of a clause.
    fn supports(self, media: &str) -> bool {
        match media {
            "*/*" | "application/json" => true,
            "application/yaml" | "application/vnd.kubernetes.protobuf" => self != Self::Json,
            _ => self == Self::Lenient,
        }
    }
}

const TYPES: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";

/// Media types of a watch.
pub const STREAM_TYPES: &str =
    "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";

/// One alternative of an `Accept` header.
struct AcceptClause<'a> {
    media: &'a str,
    quality: f32,
    kind: &'a str,
    group: &'a str,
    version: &'a str,
}

/// Parses the alternatives, best first; among equals those without a wildcard come first.
fn clauses(accept: &str) -> Vec<AcceptClause<'_>> {
    let clause = |text| {
        let mut parts = str::split(text, ';').map(str::trim);
        let media = parts.next().unwrap_or_default();
        let mut clause = AcceptClause { media, quality: 1.0, kind: "", group: "", version: "" };
        for (key, value) in parts.filter_map(|part| part.split_once('=')) {
            let value = value.trim();
            match key.trim() {
                "q" => clause.quality = value.parse().unwrap_or(1.0),
                "as" => clause.kind = value,
                "g" => clause.group = value,
                "v" => clause.version = value,
                _ => {}
            }
        }
        clause
    };
    let mut clauses: Vec<_> = accept.split(',').map(clause).collect();
    let wildcards = |clause: &AcceptClause<'_>| clause.media.matches('*').count();
    clauses.sort_by(|a, b| b.quality.total_cmp(&a.quality).then(wildcards(a).cmp(&wildcards(b))));
    clauses
}

/// Chooses the representation; `views` returns the transformations that the endpoint offers.
pub fn negotiate(
    accept: Option<&str>,
    offer: OfferedTypes,
    views: fn(&str, &str, &str) -> Option<View>,
) -> Result<Representation> {
    let accept = accept.unwrap_or_default();
    if accept.trim().is_empty() {
        return Ok(Representation::default());
    }
    let clauses = clauses(accept);
    if !clauses.iter().any(|clause| offer.supports(clause.media)) {
        let message = format!("406: Not Acceptable\n\nAvailable representations: {}", offer.media_types());
        return Err(ApiError::new(406, "NotAcceptable", message).with_details(&[]));
    }
    for AcceptClause { media, kind, group, version, .. } in clauses {
        let format = match media {
            "application/json" | "*/*" | "application/*" => Format::Json,
            "application/yaml" if offer != OfferedTypes::Json => Format::Yaml,
            _ => continue, // protobuf is known to Kubernetes and not offered here: the next type of the list is used
        };
        if kind.is_empty() || offer == OfferedTypes::Json {
            return Ok(Representation { format, view: View::Object });
        }
        if let Some(view) = views(kind, group, version) {
            return Ok(Representation { format, view });
        }
    }
    Err(ApiError::not_acceptable(TYPES))
}

/// Offers no transformations.
pub fn no_views(_: &str, _: &str, _: &str) -> Option<View> {
    None
}

/// Returns the format of error responses, even if the rest of the header is unacceptable.
pub fn error_format(accept: Option<&str>) -> Format {
    negotiate(accept, OfferedTypes::Lenient, no_views).map(|chosen| chosen.format).unwrap_or_default()
}

/// Offers the transformations of objects and lists.
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

/// Offers the transformations of `/api` and `/apis`.
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
    fn negotiation_selects_first_acceptable_type() {
        let ask = |accept: &str| {
            negotiate(Some(accept), OfferedTypes::Object, object_views)
                .map(|r| (r.format, r.view))
                .map_err(|e| e.code)
        };
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
        assert_eq!(ask(table), Ok((Format::Json, View::Table("v1"))));
        assert_eq!(
            ask("application/json;as=Table;v=v9;g=meta.k8s.io,application/json"),
            Ok((Format::Json, View::Object))
        );
        assert_eq!(ask("application/json;as=Nothing;v=v1;g=meta.k8s.io"), Err(406));
        assert_eq!(
            ask("application/vnd.kubernetes.protobuf,application/json"),
            Ok((Format::Json, View::Object))
        );
        assert_eq!(ask("application/yaml"), Ok((Format::Yaml, View::Object)));
        assert_eq!(ask("application/json;q=0.1, application/yaml"), Ok((Format::Yaml, View::Object)));
        assert_eq!(ask("*/*, application/yaml"), Ok((Format::Yaml, View::Object)));
        for refused in ["text/html", "application/*", "Application/JSON"] {
            assert_eq!(ask(refused), Err(406), "{refused}");
        }
        assert_eq!(error_format(Some("application/*")), Format::Json);
        assert_eq!(error_format(Some("application/yaml")), Format::Yaml);
        assert_eq!(ask(""), Ok((Format::Json, View::Object)));
    }
}
