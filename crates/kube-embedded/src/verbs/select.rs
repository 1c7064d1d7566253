//! Which objects of a collection a request is about.

use std::sync::Arc;

use super::Call;
use crate::error::{ApiError, Result};
use crate::schema::resources::Resource;
use crate::selector::fields::{Selected, custom_fields_of, fields_of};
use crate::selector::{FieldSelector, Labels};
use crate::store::{Fields, Object};

/// The selectors of a list, a watch or the deletion of a collection.
pub struct Selection {
    resource: Arc<Resource>,
    labels: Labels,
    fields: FieldSelector,
    /// A watch of one object by its path.
    name: Option<String>,
    pub namespace: Option<String>,
}

impl Selection {
    pub fn of(call: &Call) -> Result<Self> {
        let labels = Labels::parse(&call.query.label_selector).map_err(ApiError::bad_request)?;
        let resource = call.resource.clone();
        let custom = custom_paths(&resource);
        let selected = match &custom {
            Some(fields) => Selected::Custom { namespaced: resource.namespaced, fields },
            None => Selected::Builtin { group: &resource.group, kind: &resource.kind },
        };
        let fields =
            FieldSelector::parse(&call.query.field_selector, selected).map_err(ApiError::bad_request)?;
        let namespace = (!call.namespace.is_empty()).then(|| call.namespace.clone());
        let name = (!call.name.is_empty()).then(|| call.name.clone());
        Ok(Self { resource, labels, fields, name, namespace })
    }

    pub fn is_everything(&self) -> bool {
        self.labels.is_everything() && self.fields.is_everything()
    }

    pub fn matches(&self, object: &Object) -> bool {
        self.namespace.as_ref().is_none_or(|ns| ns.as_str() == object.namespace.as_ref())
            && self.labels.matches(|key| object.label(key))
            && self.name.as_ref().is_none_or(|name| name.as_str() == object.name.as_ref())
            && self.matches_fields(object)
    }

    fn matches_fields(&self, object: &Object) -> bool {
        if self.fields.is_everything() {
            return true;
        }
        match custom_paths(&self.resource) {
            // What a CRD makes selectable may change, so it is not kept with the object.
            Some(paths) => {
                let fields: Fields = if paths.is_empty() {
                    Fields::default()
                } else {
                    custom_fields_of(&paths, &object.value())
                };
                self.fields.matches(|field| match field {
                    "metadata.name" => &object.name,
                    "metadata.namespace" => &object.namespace,
                    other => fields
                        .iter()
                        .find(|(known, _)| known.as_ref() == other)
                        .map_or("", |(_, value)| value),
                })
            }
            // Both kinds of Events are kept as the core one.
            None => self.fields.matches_object(object, |value| {
                let group =
                    if self.resource.name.as_ref() == "events" { "" } else { self.resource.group.as_ref() };
                fields_of(group, &self.resource.kind, value)
            }),
        }
    }
}

/// `selectableFields` of a custom resource, without the first dot.
fn custom_paths(resource: &Resource) -> Option<Vec<&str>> {
    let custom = resource.custom.as_ref()?;
    Some(custom.selectable_fields().map(|path| path.trim_start_matches('.')).collect())
}
