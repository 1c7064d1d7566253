//! A chart version in an index.

use helm_template::data::{Data, Members};
use helm_template::profile::Profile;
use helm_template::value::Str;
use helm_template::{json, yaml};

use crate::metadata::{METADATA, Metadata, MetadataDraft, get_text, get_texts};
use crate::timestamp;
use crate::typed::{self, KeyMode, Package, Shape, Struct, structure};

/// Index entry of a chart version.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChartVersion {
    pub metadata: Metadata,
    /// `None` if the entry has no list; the list may be empty.
    pub urls: Option<Vec<Str>>,
    pub created: Str,
    pub removed: bool,
    /// SHA-256 of the archive in hexadecimal.
    pub digest: Str,
    /// Obsolete fields of older Helm versions, kept as they are: `checksum`, `engine`, `tillerVersion`, `url`.
    pub obsolete_fields: Members,
}

pub(super) static CHART_VERSION: Struct = structure! {Repo "ChartVersion" {
    "urls": Shape::List(&Shape::Text),
    "created": Shape::Time,
    "removed": Shape::Flag,
    "digest": Shape::Text,
    "checksum": Shape::Text,
    "engine": Shape::Text,
    "tillerVersion": Shape::Text,
    "url": Shape::Text,
} embeds &METADATA};

pub(super) static INDEX_FILE: Struct = Struct {
    package: Package::Repo,
    name: "IndexFile",
    fields: &[
        ("serverInfo", Shape::Map(&Shape::Any)),
        ("apiVersion", Shape::Text),
        ("generated", Shape::Time),
        (
            "entries",
            Shape::Map(&Shape::Named("repo.ChartVersions", &Shape::List(&Shape::Struct(&CHART_VERSION)))),
        ),
        ("publicKeys", Shape::List(&Shape::Text)),
        ("annotations", Shape::Map(&Shape::Text)),
    ],
    embedded: None,
    texts: yaml::Shape::Struct(&[
        ("apiVersion", yaml::Shape::Text),
        ("entries", yaml::Shape::Map(&VERSIONS)),
        ("publicKeys", yaml::Shape::List(&yaml::Shape::Text)),
        ("annotations", yaml::Shape::Map(&yaml::Shape::Text)),
    ]),
};

static VERSIONS: yaml::Shape = yaml::Shape::List(&CHART_VERSION.texts);

const OBSOLETE_FIELDS: [&str; 4] = ["checksum", "engine", "tillerVersion", "url"];

/// Parses an entry from YAML: a list with one item.
pub(super) fn parse(text: &[u8], profile: Profile) -> Result<Data, Str> {
    let one = match yaml::parse_strict(text, &VERSIONS)? {
        Data::List(items) => <[Data; 1]>::try_from(items).ok(),
        _ => None,
    };
    let [one] = one.ok_or_else(|| Str::from("an entry is not a list with one item"))?;
    typed::decode(one, Shape::Struct(&CHART_VERSION), profile, KeyMode::Strict)
}

/// Parses an entry stored as JSON.
pub(super) fn parse_json(text: &[u8], profile: Profile) -> Result<Data, Str> {
    typed::decode(json::parse(text)?, Shape::Struct(&CHART_VERSION), profile, KeyMode::Any)
}

impl ChartVersion {
    /// Converts decoded data. The error is the version and its problem.
    pub(super) fn from_data(data: Data, profile: Profile) -> Result<Self, (Str, String)> {
        let created = get_text(&data, "created");
        let members = data.as_map().into_iter().flatten();
        let old = members
            .filter(|(key, _)| OBSOLETE_FIELDS.contains(&&***key))
            .map(|(key, value)| (key.clone(), value.clone()));
        let mut version = Self {
            metadata: Metadata::default(),
            urls: data.get("urls").and_then(Data::as_list).map(|_| get_texts(&data, "urls")),
            created: if created.is_empty() { timestamp::ZERO.into() } else { created },
            removed: data.get("removed").and_then(Data::as_bool).unwrap_or_default(),
            digest: get_text(&data, "digest"),
            obsolete_fields: old.collect(),
        };
        let named = get_text(&data, "version");
        let mut draft = MetadataDraft::from_data(data);
        draft.default_api_version();
        version.metadata =
            draft.finish_index_entry(profile).map_err(|problem| (named, problem.to_string()))?;
        Ok(version)
    }

    /// Converts to data in the JSON form.
    pub fn to_data(&self) -> Data {
        let Data::Map(mut members) = self.metadata.to_data() else { return Data::Null };
        let list = |urls: &Vec<Str>| Data::List(urls.iter().cloned().map(Data::String).collect());
        members.insert("urls".into(), self.urls.as_ref().map_or(Data::Null, list));
        members.insert("created".into(), Data::String(self.created.clone()));
        if self.removed {
            members.insert("removed".into(), Data::Bool(true));
        }
        if !self.digest.is_empty() {
            members.insert("digest".into(), Data::String(self.digest.clone()));
        }
        let old = self
            .obsolete_fields
            .iter()
            .filter(|(_, value)| value.as_str().is_some_and(|text| !text.is_empty()));
        members.extend(old.map(|(key, value)| (key.clone(), value.clone())));
        Data::Map(members)
    }
}
