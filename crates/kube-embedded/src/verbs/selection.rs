//! Selection of objects of a collection by namespace, name, labels and fields.
//!
//! Callers that compare many objects with a [`Selection`] add up [`Selection::cost_of`] and yield after [`MAX_COMPARISONS`].

use std::sync::Arc;

use super::ResourceRequest;
use crate::error::{ApiError, Result};
use crate::schema::resources::Resource;
use crate::selector::fields::{SelectorTarget, fields_of};
use crate::selector::{FieldSelector, LabelSelector};
use crate::store::Object;

/// Comparisons before a task yields: less than a millisecond.
pub const MAX_COMPARISONS: usize = 10_000;
/// Parsing this many bytes of an object takes as long as one comparison.
const BYTES_PER_COMPARISON: usize = 64;

/// The selectors of a `list`, `watch` or `deletecollection`.
pub struct Selection {
    resource: Arc<Resource>,
    /// `selectableFields` of a custom resource, without the leading dot.
    selectable_fields: Option<Vec<Box<str>>>,
    labels: LabelSelector,
    fields: FieldSelector,
    /// The name in the path of a watch of one object.
    name: Option<String>,
    pub namespace: Option<String>,
}

impl Selection {
    pub fn from_request(call: &ResourceRequest) -> Result<Self> {
        let labels = LabelSelector::parse(&call.query.label_selector).map_err(ApiError::bad_request)?;
        let resource = call.resource.clone();
        let custom = custom_paths(&resource);
        let paths: Vec<&str> = custom.iter().flatten().map(AsRef::as_ref).collect();
        let selected = match &custom {
            Some(_) => SelectorTarget::Custom { namespaced: resource.namespaced, fields: &paths },
            None => SelectorTarget::Builtin { group: &resource.group, kind: &resource.kind },
        };
        let fields =
            FieldSelector::parse(&call.query.field_selector, selected).map_err(ApiError::bad_request)?;
        let namespace = (!call.namespace.is_empty()).then(|| call.namespace.clone());
        let name = (!call.name.is_empty()).then(|| call.name.clone());
        Ok(Self { resource, selectable_fields: custom, labels, fields, name, namespace })
    }

    pub fn is_everything(&self) -> bool {
        self.labels.is_everything() && self.fields.is_everything()
    }

    /// Number of requirements of both selectors.
    pub fn requirement_count(&self) -> usize {
        self.labels.requirement_weight().saturating_add(self.fields.requirement_count())
    }

    /// Estimated number of comparisons of [`Self::matches`].
    pub fn cost_of(&self, object: &Object) -> usize {
        let parsed = if self.fields.reads_objects() { object.bytes.len() / BYTES_PER_COMPARISON } else { 0 };
        self.requirement_count().saturating_add(parsed).saturating_add(1)
    }

    pub fn matches(&self, object: &Object) -> bool {
        #[cfg(test)]
        tests::COMPARISONS.set(tests::COMPARISONS.get() + self.cost_of(object));
        self.namespace.as_ref().is_none_or(|ns| ns.as_str() == object.namespace.as_ref())
            && self.name.as_ref().is_none_or(|name| name.as_str() == object.name.as_ref())
            && self.labels.matches(|key| object.label(key))
            && self.matches_fields(object)
    }

    fn matches_fields(&self, object: &Object) -> bool {
        match &self.selectable_fields {
            Some(paths) => self.fields.matches_custom(object, paths),
            // Events of both API groups are stored as core Events.
            None => self.fields.matches_object(object, |value| {
                let group =
                    if self.resource.name.as_ref() == "events" { "" } else { self.resource.group.as_ref() };
                fields_of(group, &self.resource.kind, value)
            }),
        }
    }
}

fn custom_paths(resource: &Resource) -> Option<Vec<Box<str>>> {
    let custom = resource.custom.as_ref()?;
    Some(custom.selectable_fields().map(|path| path.trim_start_matches('.').into()).collect())
}

#[cfg(test)]
pub mod tests {
    use std::cell::Cell;

    thread_local! {
        /// Comparisons of this thread.
        pub static COMPARISONS: Cell<usize> = const { Cell::new(0) };
    }
}
