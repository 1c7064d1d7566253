//! Chart metadata before validation.

use helm_template::data::{Data, Members};
use helm_template::profile::Profile;
use helm_template::value::Str;

use super::validate::{Invalid, Twins};
use super::{Dependency, METADATA, Maintainer, Metadata, annotations_of, items_of, text_of, texts_of};
use crate::typed::{self, Keys};

/// Metadata that was decoded but not validated.
#[derive(Clone, Debug)]
pub struct Draft(Data);

impl Draft {
    /// An empty draft.
    pub fn empty() -> Self {
        Self(Data::Map(Members::new()))
    }

    /// Decodes a text without validation.
    pub(crate) fn read(text: &[u8], profile: Profile) -> Result<Data, Str> {
        typed::read(text, &METADATA, profile, Keys::Any)
    }

    /// Merges a text into the draft, as Go decodes into a non-empty struct.
    pub fn add(&mut self, text: &[u8], profile: Profile) -> Result<(), Str> {
        let data = Self::read(text, profile)?;
        // An empty text changes nothing.
        if data != Data::Null {
            overlay(&mut self.0, data);
        }
        Ok(())
    }

    pub(crate) fn of(data: Data) -> Self {
        Self(data)
    }

    pub fn api_version(&self) -> Str {
        text_of(&self.0, "apiVersion")
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
    pub fn finish(self, profile: Profile) -> Result<Metadata, Invalid> {
        self.check(profile, Twins::Refused)
    }

    /// Validates the draft as an index entry. Some repositories drop the aliases of dependencies, so duplicate names
    /// are allowed there.
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
                // Preceding dependencies are validated first.
                metadata.check_dependencies(twins)?;
                return Err(Invalid("dependencies must not contain empty or null nodes".into()));
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
