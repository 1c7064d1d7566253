//! Chart metadata: `Chart.yaml`, `requirements.yaml` and their lock files.
//!
//! A text is decoded into a [`MetadataDraft`], to which a second text may add (`requirements.yaml` has more of the same
//! fields). A valid draft becomes [`Metadata`].

mod draft;
#[cfg(test)]
mod tests;
mod validate;

use std::collections::BTreeMap;

use helm_template::EncodeError;
use helm_template::data::{Data, Members};
use helm_template::profile::Profile;
use helm_template::value::Str;
use helm_template::yaml;

pub use draft::MetadataDraft;
pub use validate::InvalidMetadata;

use crate::timestamp;
use crate::typed::{self, KeyMode, Shape, Struct, structure};

/// `Chart.yaml`. Missing fields are empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metadata {
    pub name: Str,
    pub home: Str,
    pub sources: Vec<Str>,
    pub version: Str,
    pub description: Str,
    pub keywords: Vec<Str>,
    pub maintainers: Vec<Maintainer>,
    pub icon: Str,
    pub api_version: Str,
    pub condition: Str,
    pub tags: Str,
    pub app_version: Str,
    pub deprecated: bool,
    pub annotations: BTreeMap<Str, Str>,
    pub kube_version: Str,
    pub dependencies: Vec<Dependency>,
    /// `application`, `library` or empty.
    pub chart_type: Str,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Maintainer {
    pub name: Str,
    pub email: Str,
    pub url: Str,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Dependency {
    pub name: Str,
    pub version: Str,
    pub repository: Str,
    pub condition: Str,
    pub tags: Vec<Str>,
    pub enabled: bool,
    /// Strings, or maps with `child` and `parent`.
    pub import_values: Vec<Data>,
    pub alias: Str,
}

/// `Chart.lock`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lock {
    pub generated: Str,
    pub digest: Str,
    pub dependencies: Vec<Dependency>,
}

const TEXTS: Shape = Shape::List(&Shape::Text);

static MAINTAINER: Struct = structure! {Chart "Maintainer" {
    "name": Shape::Text,
    "email": Shape::Text,
    "url": Shape::Text,
}};

static DEPENDENCY: Struct = structure! {Chart "Dependency" {
    "name": Shape::Text,
    "version": Shape::Text,
    "repository": Shape::Text,
    "condition": Shape::Text,
    "tags": TEXTS,
    "enabled": Shape::Flag,
    "import-values": Shape::List(&Shape::Any),
    "alias": Shape::Text,
}};

pub(crate) static METADATA: Struct = structure! {Chart "Metadata" {
    "name": Shape::Text,
    "home": Shape::Text,
    "sources": TEXTS,
    "version": Shape::Text,
    "description": Shape::Text,
    "keywords": TEXTS,
    "maintainers": Shape::List(&Shape::Struct(&MAINTAINER)),
    "icon": Shape::Text,
    "apiVersion": Shape::Text,
    "condition": Shape::Text,
    "tags": Shape::Text,
    "appVersion": Shape::Text,
    "deprecated": Shape::Flag,
    "annotations": Shape::Map(&Shape::Text),
    "kubeVersion": Shape::Text,
    "dependencies": Shape::List(&Shape::Struct(&DEPENDENCY)),
    "type": Shape::Text,
}};

static LOCK: Struct = structure! {Chart "Lock" {
    "generated": Shape::Time,
    "digest": Shape::Text,
    "dependencies": Shape::List(&Shape::Struct(&DEPENDENCY)),
}};

/// The fields that Helm 4 reads first to determine the chart's `apiVersion`.
static CHART_BASE: Struct = structure! {Loader "chartBase" {
    "apiVersion": Shape::Text,
}};

/// The `apiVersion` of a `Chart.yaml`, ignoring its other fields.
pub(crate) fn api_version(text: &[u8], profile: Profile) -> Result<Str, Str> {
    Ok(get_text(&typed::read(text, &CHART_BASE, profile, KeyMode::Any)?, "apiVersion"))
}

impl Metadata {
    /// Converts to data in the JSON form; empty fields are omitted.
    pub fn to_data(&self) -> Data {
        let mut members = Members::new();
        put(&mut members, "name", &self.name);
        put(&mut members, "home", &self.home);
        put_list(&mut members, "sources", &self.sources);
        put(&mut members, "version", &self.version);
        put(&mut members, "description", &self.description);
        put_list(&mut members, "keywords", &self.keywords);
        if !self.maintainers.is_empty() {
            let maintainers = self.maintainers.iter().map(Maintainer::to_data).collect();
            members.insert("maintainers".into(), Data::List(maintainers));
        }
        put(&mut members, "icon", &self.icon);
        put(&mut members, "apiVersion", &self.api_version);
        put(&mut members, "condition", &self.condition);
        put(&mut members, "tags", &self.tags);
        put(&mut members, "appVersion", &self.app_version);
        if self.deprecated {
            members.insert("deprecated".into(), Data::Bool(true));
        }
        if !self.annotations.is_empty() {
            let annotations =
                self.annotations.iter().map(|(key, text)| (key.clone(), Data::String(text.clone())));
            members.insert("annotations".into(), Data::Map(annotations.collect()));
        }
        put(&mut members, "kubeVersion", &self.kube_version);
        if !self.dependencies.is_empty() {
            let dependencies = self.dependencies.iter().map(Dependency::to_data).collect();
            members.insert("dependencies".into(), Data::List(dependencies));
        }
        put(&mut members, "type", &self.chart_type);
        Data::Map(members)
    }

    /// `Chart.yaml` as `helm show chart` and `helm package` write it. A chart of `apiVersion` v1 has its dependencies
    /// in `requirements.yaml`.
    pub fn to_yaml(&self) -> Result<String, EncodeError> {
        let mut data = self.to_data();
        if &*self.api_version == "v1"
            && let Some(members) = data.as_map_mut()
        {
            members.remove("dependencies");
        }
        yaml::write(&data)
    }
}

impl Maintainer {
    fn to_data(&self) -> Data {
        let mut members = Members::new();
        put(&mut members, "name", &self.name);
        put(&mut members, "email", &self.email);
        put(&mut members, "url", &self.url);
        Data::Map(members)
    }
}

impl Dependency {
    fn from_data(data: &Data) -> Self {
        Self {
            name: get_text(data, "name"),
            version: get_text(data, "version"),
            repository: get_text(data, "repository"),
            condition: get_text(data, "condition"),
            tags: get_texts(data, "tags"),
            enabled: data.get("enabled").and_then(Data::as_bool).unwrap_or_default(),
            import_values: get_items(data, "import-values").to_vec(),
            alias: get_text(data, "alias"),
        }
    }

    /// Name of the chart in its parent: the alias, if set.
    pub fn key(&self) -> &str {
        if self.alias.is_empty() { &self.name } else { &self.alias }
    }

    pub fn to_data(&self) -> Data {
        let mut members = Members::new();
        members.insert("name".into(), Data::String(self.name.clone()));
        put(&mut members, "version", &self.version);
        members.insert("repository".into(), Data::String(self.repository.clone()));
        put(&mut members, "condition", &self.condition);
        put_list(&mut members, "tags", &self.tags);
        if self.enabled {
            members.insert("enabled".into(), Data::Bool(true));
        }
        if !self.import_values.is_empty() {
            members.insert("import-values".into(), Data::List(self.import_values.clone()));
        }
        put(&mut members, "alias", &self.alias);
        Data::Map(members)
    }
}

impl Lock {
    /// Parses a lock file; `None` for a null document.
    pub fn parse(text: &[u8], profile: Profile) -> Result<Option<Self>, Str> {
        let data = typed::read(text, &LOCK, profile, KeyMode::Any)?;
        if data == Data::Null {
            return Ok(None);
        }
        let generated = get_text(&data, "generated");
        Ok(Some(Self {
            generated: if generated.is_empty() { timestamp::ZERO.into() } else { generated },
            digest: get_text(&data, "digest"),
            dependencies: get_items(&data, "dependencies").iter().map(Dependency::from_data).collect(),
        }))
    }

    /// The lock file as `helm package` writes it.
    pub fn to_yaml(&self) -> Result<String, EncodeError> {
        let dependencies = self.dependencies.iter().map(Dependency::to_data).collect();
        yaml::write(&Data::Map(Members::from([
            ("dependencies".into(), Data::List(dependencies)),
            ("digest".into(), Data::String(self.digest.clone())),
            ("generated".into(), Data::String(self.generated.clone())),
        ])))
    }
}

pub(crate) fn get_text(data: &Data, key: &str) -> Str {
    match data.get(key) {
        Some(Data::String(text)) => text.clone(),
        _ => Str::default(),
    }
}

pub(crate) fn get_items<'a>(data: &'a Data, key: &str) -> &'a [Data] {
    data.get(key).and_then(Data::as_list).unwrap_or_default()
}

pub(crate) fn get_texts(data: &Data, key: &str) -> Vec<Str> {
    get_items(data, key).iter().map(|item| item.as_str().unwrap_or_default().into()).collect()
}

fn get_annotations(data: &Data) -> BTreeMap<Str, Str> {
    let members = data.get("annotations").and_then(Data::as_map).into_iter().flatten();
    members.map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().into())).collect()
}

fn put(members: &mut Members, key: &str, text: &Str) {
    if !text.is_empty() {
        members.insert(key.into(), Data::String(text.clone()));
    }
}

fn put_list(members: &mut Members, key: &str, texts: &[Str]) {
    if !texts.is_empty() {
        members.insert(key.into(), Data::List(texts.iter().cloned().map(Data::String).collect()));
    }
}
