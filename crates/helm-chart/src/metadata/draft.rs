//! Chart metadata before validation.

use helm_template::data::{Data, Members};
use helm_template::profile::Profile;
use helm_template::value::Str;

use super::validate::{DuplicatePolicy, InvalidMetadata};
use super::{Dependency, METADATA, Maintainer, Metadata, get_annotations, get_items, get_text, get_texts};
use crate::typed::{self, KeyMode};

/// Metadata that was decoded but not validated.
#[derive(Clone, Debug)]
pub struct MetadataDraft(Data);

impl MetadataDraft {
    /// An empty draft.
    pub fn empty() -> Self {
        Self(Data::Map(Members::new()))
    }

    /// Decodes a text without validation.
    pub(crate) fn decode(text: &[u8], profile: Profile) -> Result<Data, Str> {
        typed::read(text, &METADATA, profile, KeyMode::Any)
    }

    /// Merges a text into the draft, as Go decodes into a non-empty struct.
    pub fn add(&mut self, text: &[u8], profile: Profile) -> Result<(), Str> {
        let data = Self::decode(text, profile)?;
        // An empty text changes nothing.
        if data != Data::Null {
            overlay(&mut self.0, data);
        }
        Ok(())
    }

    pub(crate) fn from_data(data: Data) -> Self {
        Self(data)
    }

    pub fn api_version(&self) -> Str {
        get_text(&self.0, "apiVersion")
    }

    /// Sets `apiVersion` v1, Helm 2's format, if there is none.
    pub fn default_api_version(&mut self) {
        if self.api_version().is_empty()
            && let Some(members) = self.0.as_map_mut()
        {
            members.insert("apiVersion".into(), Data::string("v1"));
        }
    }

    /// Validates the draft.
    pub fn finish(self, profile: Profile) -> Result<Metadata, InvalidMetadata> {
        self.check(profile, DuplicatePolicy::Reject)
    }

    /// Validates the draft as an index entry. Some repositories drop the aliases of dependencies, so duplicate names
    /// are allowed there.
    pub(crate) fn finish_index_entry(self, profile: Profile) -> Result<Metadata, InvalidMetadata> {
        self.check(profile, DuplicatePolicy::Allow)
    }

    fn check(self, profile: Profile, twins: DuplicatePolicy) -> Result<Metadata, InvalidMetadata> {
        let data = self.0;
        let mut metadata = Metadata {
            name: get_text(&data, "name"),
            home: get_text(&data, "home"),
            sources: get_texts(&data, "sources"),
            version: get_text(&data, "version"),
            description: get_text(&data, "description"),
            keywords: get_texts(&data, "keywords"),
            maintainers: Vec::new(),
            icon: get_text(&data, "icon"),
            api_version: get_text(&data, "apiVersion"),
            condition: get_text(&data, "condition"),
            tags: get_text(&data, "tags"),
            app_version: get_text(&data, "appVersion"),
            deprecated: data.get("deprecated").and_then(Data::as_bool).unwrap_or_default(),
            annotations: get_annotations(&data),
            kube_version: get_text(&data, "kubeVersion"),
            dependencies: Vec::new(),
            chart_type: get_text(&data, "type"),
        };
        metadata.check_fields(profile)?;
        for maintainer in get_items(&data, "maintainers") {
            if *maintainer == Data::Null {
                return Err(InvalidMetadata("maintainers must not contain empty or null nodes".into()));
            }
            metadata.maintainers.push(Maintainer {
                name: get_text(maintainer, "name"),
                email: get_text(maintainer, "email"),
                url: get_text(maintainer, "url"),
            });
        }
        metadata.sanitize_maintainers();
        for dependency in get_items(&data, "dependencies") {
            if *dependency == Data::Null {
                // Preceding dependencies are validated first.
                metadata.check_dependencies(twins)?;
                return Err(InvalidMetadata("dependencies must not contain empty or null nodes".into()));
            }
            metadata.dependencies.push(Dependency::from_data(dependency));
        }
        metadata.check_dependencies(twins)?;
        Ok(metadata)
    }
}

/// Merges decoded data as Go does when it decodes into a non-empty struct.
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
