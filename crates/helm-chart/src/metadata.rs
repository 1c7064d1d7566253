//! `Chart.yaml`, `requirements.yaml` and their locks.
//!
//! A text becomes a [`Draft`], which a second text may add to (`requirements.yaml` says more of the same), and a draft
//! becomes [`Metadata`] once it is found valid.

use std::collections::{BTreeMap, BTreeSet};

use helm_template::Unwritable;
use helm_template::data::{Data, Members};
use helm_template::go::{is_printable, quote};
use helm_template::profile::Profile;
use helm_template::semver::Version;
use helm_template::value::Str;
use helm_template::yaml;

use crate::moment;
use crate::typed::{self, Keys, Shape, Struct, structure};

/// `Chart.yaml`. What it does not say is empty.
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
    /// Texts, or maps of `child` and `parent`.
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

/// What Helm 4 reads first, to see which kind of chart it has before it.
static CHART_BASE: Struct = structure! {Loader "chartBase" {
    "apiVersion": Shape::Text,
}};

/// The `apiVersion` of a `Chart.yaml`, whatever else it says.
pub(crate) fn api_version(text: &[u8], profile: Profile) -> Result<Str, Str> {
    Ok(text_of(&typed::read(text, &CHART_BASE, profile, Keys::Any)?, "apiVersion"))
}

/// What is known of a chart before it has been checked.
#[derive(Clone, Debug)]
pub struct Draft(Data);

impl Draft {
    /// Nothing yet.
    pub fn empty() -> Self {
        Self(Data::Map(Members::new()))
    }

    /// Adds what a text says, as Go decodes into a struct that already holds something.
    pub fn add(&mut self, text: &[u8], profile: Profile) -> Result<(), Str> {
        match typed::read(text, &METADATA, profile, Keys::Any)? {
            // It says nothing.
            Data::Null => {}
            said => overlay(&mut self.0, said),
        }
        Ok(())
    }

    pub(crate) fn of(data: Data) -> Self {
        Self(data)
    }

    pub fn api_version(&self) -> Str {
        text_of(&self.0, "apiVersion")
    }

    /// Charts that do not say otherwise are of the first kind, as those of Helm 2.
    pub fn default_api_version(&mut self) {
        if self.api_version().is_empty()
            && let Some(members) = self.0.as_map_mut()
        {
            members.insert("apiVersion".into(), Data::string("v1"));
        }
    }

    /// Checks it.
    pub fn finish(self, profile: Profile) -> Result<Metadata, Invalid> {
        self.check(profile, Twins::Refused)
    }

    /// Checks it as a part of a repository's index. Some repositories drop the aliases of dependencies, so that two of
    /// one name are no error there.
    pub(crate) fn finish_listed(self, profile: Profile) -> Result<Metadata, Invalid> {
        self.check(profile, Twins::Allowed)
    }

    fn check(self, profile: Profile, twins: Twins) -> Result<Metadata, Invalid> {
        let data = self.0;
        let mut metadata = Metadata {
            name: text_of(&data, "name"),
            home: text_of(&data, "home"),
            sources: texts_of(&data, "sources"),
            version: text_of(&data, "version"),
            description: text_of(&data, "description"),
            keywords: texts_of(&data, "keywords"),
            maintainers: Vec::new(),
            icon: text_of(&data, "icon"),
            api_version: text_of(&data, "apiVersion"),
            condition: text_of(&data, "condition"),
            tags: text_of(&data, "tags"),
            app_version: text_of(&data, "appVersion"),
            deprecated: data.get("deprecated").and_then(Data::as_bool).unwrap_or_default(),
            annotations: annotations_of(&data),
            kube_version: text_of(&data, "kubeVersion"),
            dependencies: Vec::new(),
            chart_type: text_of(&data, "type"),
        };
        metadata.check_self(profile)?;
        for maintainer in items_of(&data, "maintainers") {
            if *maintainer == Data::Null {
                return Err(Invalid("maintainers must not contain empty or null nodes".into()));
            }
            metadata.maintainers.push(Maintainer {
                name: text_of(maintainer, "name"),
                email: text_of(maintainer, "email"),
                url: text_of(maintainer, "url"),
            });
        }
        metadata.clean_maintainers();
        for dependency in items_of(&data, "dependencies") {
            if *dependency == Data::Null {
                // Those before it are checked first.
                metadata.check_dependencies(twins)?;
                return Err(Invalid("dependencies must not contain empty or null nodes".into()));
            }
            metadata.dependencies.push(Dependency::from_data(dependency));
        }
        metadata.check_dependencies(twins)?;
        Ok(metadata)
    }
}

/// What to do with two dependencies of one name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Twins {
    Refused,
    Allowed,
}

/// Why metadata are not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("validation: {0}")]
pub struct Invalid(pub String);

impl Metadata {
    /// Cleans what is printed of it, and says what is wrong with it.
    pub fn validate(&mut self, profile: Profile) -> Result<(), Invalid> {
        self.check_self(profile)?;
        self.clean_maintainers();
        self.check_dependencies(Twins::Refused)
    }

    fn check_self(&mut self, profile: Profile) -> Result<(), Invalid> {
        for text in [
            &mut self.name,
            &mut self.description,
            &mut self.home,
            &mut self.icon,
            &mut self.condition,
            &mut self.tags,
            &mut self.app_version,
            &mut self.kube_version,
        ]
        .into_iter()
        .chain(&mut self.sources)
        .chain(&mut self.keywords)
        {
            clean(text);
        }
        let invalid = |text: String| Err(Invalid(text));
        if self.api_version.is_empty() {
            return invalid("chart.metadata.apiVersion is required".into());
        }
        if self.name.is_empty() {
            return invalid("chart.metadata.name is required".into());
        }
        // Helm 3 lets these pass; they name places outside of the chart all the same.
        if matches!(&*self.name, "." | "..") {
            return invalid(format!("chart.metadata.name {} is not allowed", quote(&self.name)));
        }
        if self.name.contains('/') {
            return invalid(format!("chart.metadata.name {} is invalid", quote(&self.name)));
        }
        if self.version.is_empty() {
            return invalid("chart.metadata.version is required".into());
        }
        if Version::parse(&self.version, profile).is_err() {
            return invalid(format!("chart.metadata.version {} is invalid", quote(&self.version)));
        }
        if !matches!(&*self.chart_type, "" | "application" | "library") {
            return invalid("chart.metadata.type must be application or library".into());
        }
        Ok(())
    }

    fn clean_maintainers(&mut self) {
        for maintainer in &mut self.maintainers {
            clean(&mut maintainer.name);
            clean(&mut maintainer.email);
            clean(&mut maintainer.url);
        }
    }

    fn check_dependencies(&mut self, twins: Twins) -> Result<(), Invalid> {
        let mut taken = BTreeSet::new();
        for dependency in &mut self.dependencies {
            dependency.validate()?;
            if !taken.insert(dependency.key()) && twins == Twins::Refused {
                return Err(Invalid(format!(
                    "more than one dependency with name or alias {}",
                    quote(dependency.key())
                )));
            }
        }
        Ok(())
    }

    /// As JSON has it: what is empty is left out.
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

    /// `Chart.yaml` as `helm show chart` and `helm package` write it. A chart of the first kind keeps its
    /// dependencies in `requirements.yaml`.
    pub fn to_yaml(&self) -> Result<String, Unwritable> {
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
            name: text_of(data, "name"),
            version: text_of(data, "version"),
            repository: text_of(data, "repository"),
            condition: text_of(data, "condition"),
            tags: texts_of(data, "tags"),
            enabled: data.get("enabled").and_then(Data::as_bool).unwrap_or_default(),
            import_values: items_of(data, "import-values").to_vec(),
            alias: text_of(data, "alias"),
        }
    }

    /// What the chart is called where it is used.
    pub fn key(&self) -> &str {
        if self.alias.is_empty() { &self.name } else { &self.alias }
    }

    fn validate(&mut self) -> Result<(), Invalid> {
        for text in [&mut self.name, &mut self.version, &mut self.repository, &mut self.condition]
            .into_iter()
            .chain(&mut self.tags)
        {
            clean(text);
        }
        if !self.alias.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-')) {
            return Err(Invalid(format!(
                "dependency {} has disallowed characters in the alias",
                quote(&self.name)
            )));
        }
        Ok(())
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
    /// Nothing where the text is null.
    pub fn parse(text: &[u8], profile: Profile) -> Result<Option<Self>, Str> {
        let data = typed::read(text, &LOCK, profile, Keys::Any)?;
        if data == Data::Null {
            return Ok(None);
        }
        let generated = text_of(&data, "generated");
        Ok(Some(Self {
            generated: if generated.is_empty() { moment::ZERO.into() } else { generated },
            digest: text_of(&data, "digest"),
            dependencies: items_of(&data, "dependencies").iter().map(Dependency::from_data).collect(),
        }))
    }

    /// As `helm package` writes it.
    pub fn to_yaml(&self) -> Result<String, Unwritable> {
        let dependencies = self.dependencies.iter().map(Dependency::to_data).collect();
        yaml::write(&Data::Map(Members::from([
            ("dependencies".into(), Data::List(dependencies)),
            ("digest".into(), Data::String(self.digest.clone())),
            ("generated".into(), Data::String(self.generated.clone())),
        ])))
    }
}

/// Puts decoded data over decoded data, as Go does when it decodes into a struct that is not empty.
fn overlay(under: &mut Data, over: Data) {
    match (under, over) {
        (Data::Map(under), Data::Map(over)) => {
            for (key, value) in over {
                overlay(under.entry(key).or_default(), value);
            }
        }
        (Data::List(under), Data::List(over)) => {
            under.truncate(over.len());
            for (index, value) in over.into_iter().enumerate() {
                match under.get_mut(index) {
                    Some(place) => overlay(place, value),
                    None => under.push(value),
                }
            }
        }
        (under, over) => *under = over,
    }
}

/// Makes every space a plain one and drops what cannot be printed.
fn clean(text: &mut Str) {
    if text.bytes().all(|b| matches!(b, b' '..=b'~')) {
        return;
    }
    let cleaned: String = text
        .chars()
        .filter_map(|c| if c.is_whitespace() { Some(' ') } else { is_printable(c).then_some(c) })
        .collect();
    *text = cleaned.into();
}

pub(crate) fn text_of(data: &Data, key: &str) -> Str {
    match data.get(key) {
        Some(Data::String(text)) => text.clone(),
        _ => Str::default(),
    }
}

pub(crate) fn items_of<'a>(data: &'a Data, key: &str) -> &'a [Data] {
    data.get(key).and_then(Data::as_list).unwrap_or_default()
}

pub(crate) fn texts_of(data: &Data, key: &str) -> Vec<Str> {
    items_of(data, key).iter().map(|item| item.as_str().unwrap_or_default().into()).collect()
}

fn annotations_of(data: &Data) -> BTreeMap<Str, Str> {
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
